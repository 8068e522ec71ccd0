"""The index of a package's model: its inputs and results, its requirements and its files.

It lies beside the library as ``wrapper_ir.json``. Our loader uses it, ``wrapper-ir inspect`` shows
it, and its hashes detect files that have changed. Torch's loaders ignore it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.package.archive import CONSTANTS, MODEL_NAME, MODELS, VARIANTS, Archive
from wrapper_ir.outputs import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


#: Version of the index; readers reject any other.
FORMAT: Final = 1


def torch_version() -> str:
    """Return the installed release of PyTorch, such as ``2.15.0``, without importing it."""
    return version("torch").partition("+")[0]


def row_of(file: Path) -> dict[str, Any]:
    """Return a file's entry in an index: its size and its hash."""
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


# Reading the index.


@dataclass(frozen=True)
class Model:
    """A model of a package, or a variant of one, with its index."""

    archive: Archive
    folder: str  #: the model's folder in the package
    about: Mapping[str, Any]  #: its index

    @property
    def library(self) -> str:
        """The path of the library in the archive."""
        return f"{self.folder}/{self.about['library']}"

    @property
    def weights(self) -> str | None:
        """The path of the constants; None if they are in the library, or given by callers."""
        row = self.about["weights"]
        if row is None or row["file"] is None:
            return None
        own = f"{self.folder}/{row['file']}"
        return own if own in self.archive.members else f"{CONSTANTS}/{row['file']}"

    @property
    def takes_weights(self) -> bool:
        """True if the package has no weights, so that callers must pass them."""
        return self.about["weights"] is not None and self.about["weights"]["file"] is None

    @property
    def weights_are_mapped(self) -> bool:
        """True if constants are used in place; objects, in contrast, are read from a file."""
        return self.weights is not None and not self.about["objects"]

    def damages(self) -> Iterator[str]:
        """Read every byte, and yield the files that are missing or do not match their hash."""
        parts = {f"{self.folder}/{name}": row for name, row in self.about["files"].items()}
        if self.weights is not None:
            parts[self.weights] = self.about["weights"]
        for path, row in parts.items():
            if path not in self.archive.members:
                yield f"{path} is missing"
                continue
            content = self.archive.bytes_of(path)[: row["bytes"]]
            if hashlib.sha256(content).hexdigest() != row["sha256"]:
                yield f"{path} is not as it was written: its hash differs"


def models_of(archive: Archive) -> dict[str, list[Model]]:
    """Return the models of a package by name, each with its variants, the preferred one first.

    Raises:
        PackageError: A model was made by another tool, or by another version of wrapper_ir.
    """
    models = {}
    for name in archive.below(MODELS):
        folders = [f"{MODELS}/{name}"]
        folders += [f"{VARIANTS}/{name}/{each}" for each in archive.below(f"{VARIANTS}/{name}")]
        models[name] = [_model(archive, folder) for folder in folders]
    if not models:
        archive.refuse("it contains no model")
    return models


def _model(archive: Archive, folder: str) -> Model:
    path = f"{folder}/{INDEX}"
    if path not in archive.members:
        archive.refuse(
            f"its model in {folder} was not made by wrapper_ir",
            "torch._inductor.aoti_load_package loads the packages of AOTInductor",
        )
    try:
        about = json.loads(bytes(archive.bytes_of(path)))
        version_found = about["format"]
        if version_found == FORMAT:
            _ = about["needs"]["device"], about["library"], about["weights"], about["files"]
    except (ValueError, TypeError, KeyError):
        archive.refuse(f"{path} is damaged")
    if version_found != FORMAT:
        archive.refuse(
            f"{path} has format {version_found}, and this wrapper_ir reads {FORMAT}",
            "load it with the version of wrapper_ir that made it, or export it again",
        )
    return Model(archive, folder, about)


def chosen(archive: Archive, name: str | None) -> list[Model]:
    """Return the variants of a model; by default of the only one, or of ``model``.

    Raises:
        PackageError: There is no such model.
    """
    models = models_of(archive)
    if name is None:
        name = next(iter(models)) if len(models) == 1 else MODEL_NAME
    if name not in models:
        archive.refuse(f"it has no model {name!r}", f"it has {', '.join(map(repr, models))}")
    return models[name]
