"""The index of a package's model: what goes in and out, what it needs, and what its parts are.

It lies beside the library as ``wrapper_ir.json``. Our loader goes by it, ``wrapper-ir inspect``
shows it, and the hashes in it tell whether the parts are those that were written. Torch's loaders
do not look at it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.archive import CONSTANTS, MODEL_NAME, MODELS, VARIANTS, Archive
from wrapper_ir.outputs import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


#: Version of the index; a reader refuses what is newer.
FORMAT: Final = 1


def torch_version() -> str:
    """Return the release of PyTorch that is installed, as ``2.15.0``; torch is not imported."""
    return version("torch").partition("+")[0]


def row_of(file: Path) -> dict[str, Any]:
    """Return what an index says of a file: its size and its hash."""
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


# The index, read.


@dataclass(frozen=True)
class Model:
    """A model of a package, or a variant of one, as its index describes it.

    Attributes:
        archive: The package.
        folder: Where its parts lie there.
        about: The index.
    """

    archive: Archive
    folder: str
    about: Mapping[str, Any]

    @property
    def library(self) -> str:
        """The path of the library in the archive."""
        return f"{self.folder}/{self.about['library']}"

    @property
    def weights(self) -> str | None:
        """The path of the constants; None where they are in the library, or given by callers."""
        about = self.about["weights"]
        if about is None or about["file"] is None:
            return None
        own = f"{self.folder}/{about['file']}"
        return own if own in self.archive.members else f"{CONSTANTS}/{about['file']}"

    @property
    def takes_weights(self) -> bool:
        """True if the package is without weights: whoever loads it has to give them."""
        return self.about["weights"] is not None and self.about["weights"]["file"] is None

    @property
    def weights_are_mapped(self) -> bool:
        """True if constants are used where they lie; a library reads objects from a file."""
        return self.weights is not None and not self.about["objects"]

    def damages(self) -> Iterator[str]:
        """Yield what is not as it was written: every byte is read, and compared with its hash."""
        parts = {f"{self.folder}/{name}": row for name, row in self.about["files"].items()}
        if self.weights is not None:
            parts[self.weights] = self.about["weights"]
        for path, row in parts.items():
            if path not in self.archive.members:
                yield f"{path} is missing"
                continue
            found = self.archive.bytes_of(path)[: row["bytes"]]
            if hashlib.sha256(found).hexdigest() != row["sha256"]:
                yield f"{path} is not as it was written: its hash differs"


def models_of(archive: Archive) -> dict[str, list[Model]]:
    """Returns the models of a package by name, each with its variants, the preferred one first.

    Raises:
        PackageError: Some of it was not made by us, or by a later version.
    """
    found = {}
    for name in archive.below(MODELS):
        folders = [f"{MODELS}/{name}"]
        folders += [f"{VARIANTS}/{name}/{each}" for each in archive.below(f"{VARIANTS}/{name}")]
        found[name] = [_model(archive, folder) for folder in folders]
    if not found:
        archive.refuse("it holds no model")
    return found


def _model(archive: Archive, folder: str) -> Model:
    path = f"{folder}/{INDEX}"
    if path not in archive.members:
        archive.refuse(
            f"its model in {folder} was not made by wrapper_ir",
            "torch._inductor.aoti_load_package loads the packages of AOTInductor",
        )
    try:
        about = json.loads(bytes(archive.bytes_of(path)))
        found = about["format"]
        if found == FORMAT:
            _ = about["needs"]["device"], about["library"], about["weights"], about["files"]
    except (ValueError, TypeError, KeyError):
        archive.refuse(f"{path} is damaged")
    if found != FORMAT:
        archive.refuse(
            f"{path} has format {found}, and this wrapper_ir reads {FORMAT}",
            "load it with the version of wrapper_ir that made it, or export it again",
        )
    return Model(archive, folder, about)


def chosen(archive: Archive, name: str | None) -> list[Model]:
    """Returns the variants of a model.

    Args:
        archive: The package.
        name: The model's; by default the only one, or that called ``model``.

    Raises:
        PackageError: There is no such model.
    """
    models = models_of(archive)
    if name is None:
        name = next(iter(models)) if len(models) == 1 else MODEL_NAME
    if name not in models:
        archive.refuse(f"it has no model {name!r}", f"it has {', '.join(map(repr, models))}")
    return models[name]
