"""The index of a package's model: what goes in and out, what it needs, and what its parts are.

It lies beside the library as ``wrapper_ir.json``. Our loader goes by it, ``wrapper-ir inspect``
shows it, and the hashes in it tell whether the parts are those that were written. Torch's loaders
do not look at it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.archive import CONSTANTS, MODEL_NAME, MODELS, VARIANTS, Archive
from wrapper_ir.emitters.cpp.constants import constant_table
from wrapper_ir.lines.args import BufferValue, ScalarValue
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.program import ConstantKind
from wrapper_ir.outputs import INDEX
from wrapper_ir.text.expressions import TextExprPrinter
from wrapper_ir.toolchain.native import read_trailer
from wrapper_ir.verify.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wrapper_ir.emitters.cpp.artifact import CppArtifact
    from wrapper_ir.emitters.cpp.constants import ConstantEntry
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program

#: Version of the index; a reader refuses what is newer.
FORMAT: Final = 1


def torch_version() -> str:
    """Return the release of PyTorch that is installed, as ``2.15.0``; torch is not imported."""
    return version("torch").partition("+")[0]


def index_of(
    artifact: CppArtifact,
    files: Sequence[Path],
    constants: Path | str | None,
    *,
    isa: str,
    features: Sequence[str],
    archs: Sequence[int],
) -> dict[str, Any]:
    """Returns the index of a program that was built.

    Args:
        artifact: The program.
        files: The library, and what else lies beside the index.
        constants: The file of its constants; the name of one that others are to give; or None
            where they are in the library.
        isa: What it was built for.
        features: What a processor must have.
        archs: The compute capabilities that its kernels were compiled for.
    """
    program = artifact.program
    library = next(file for file in files if file.suffix == ".so")
    return {
        "format": FORMAT,
        "program": program.name,
        "made by": {"wrapper_ir": version("wrapper-ir"), "torch": torch_version()},
        "needs": {
            "torch": torch_version(),
            "platform": sys.platform,
            "machine": platform.machine(),
            "device": artifact.manifest.device.type,
            "isa": isa,
            "features": list(features),
            "architectures": list(archs),
        },
        "checked": {
            "verifier": f"{len(RULES)} rules",
            "calls": "inputs, ranges of symbols, assertions",
            "probes": [level.value for level in artifact.manifest.levels],
        },
        "library": library.name,
        "weights": _weights(program, constants),
        "files": {file.name: row_of(file) for file in files},
        **_interface(program),
        "constants": _constants(program),
        "objects": [item.class_name for item in program.objects.values()],
    }


def _weights(program: Program, constants: Path | str | None) -> dict[str, Any] | None:
    """Return where the values of constants are; None where there are none, or in the library."""
    if constants is None:
        return None
    if isinstance(constants, str):
        return {"file": None, "bytes": constant_table(program).size, "sha256": None}
    size, digest = read_trailer(constants)
    return {"file": constants.name, "bytes": size, "sha256": digest.hex()}


def _interface(program: Program) -> dict[str, Any]:
    """Return what goes in and out, and the ranges of symbols."""
    printer = TextExprPrinter(program.symbols, strict=False)

    def tensor(layout: Layout) -> dict[str, Any]:
        size, stride = (
            [each if isinstance(each, int) else printer.print(each) for each in row]
            for row in (layout.size, layout.stride)
        )
        dtype, device = layout.dtype.torch_name, str(layout.device)
        return {"dtype": dtype, "size": size, "stride": stride, "device": device}

    inputs: list[dict[str, Any]] = []
    for item in program.inputs:
        match item:
            case BufferInput():
                inputs.append({"name": item.name, **tensor(program.buffers[item.name])})
            case ScalarInput():
                kind = program.symbols[item.symbol].kind.value
                inputs.append({"name": item.symbol, "number": kind})
            case _:
                inputs.append({"name": item.object, "class": item.class_name})
    results: list[dict[str, Any]] = []
    for value in program.results:
        match value:
            case BufferValue():
                results.append(tensor(program.buffers[value.buffer]))
            case ScalarValue():
                results.append({"number": printer.print(value.value)})
            case _:
                results.append({"number": "none"})
    symbols = {
        name: {"kind": each.kind.value, "lower": each.lower, "upper": each.upper}
        for name, each in program.symbols.items()
    }
    return {"inputs": inputs, "results": results, "symbols": symbols}


def _constants(program: Program) -> list[dict[str, Any]]:
    """Return each constant with its place; without those that are packed where it is loaded."""
    table = constant_table(program)
    written = {_root(*row) for row in enumerate(table.entries) if row[1].written}
    return [
        {
            "name": entry.name,
            "model_name": entry.qualified_name,
            "kind": program.constants[entry.name].kind.value,
            "dtype": program.buffers[entry.name].dtype.torch_name,
            "device": str(program.buffers[entry.name].device),
            "size": list(entry.size),
            "stride": list(entry.stride),
            "storage_offset": entry.storage_offset,
            "offset": entry.data_offset,
            "bytes": entry.data_bytes,
            "written": _root(index, entry) in written,
        }
        for index, entry in enumerate(table.entries)
        if program.constants[entry.name].kind is not ConstantKind.PACKED
    ]


def _root(index: int, entry: ConstantEntry) -> int:
    return index if entry.tied_to < 0 else entry.tied_to


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
