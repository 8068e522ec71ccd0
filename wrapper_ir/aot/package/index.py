"""The index of a program that was built; :mod:`wrapper_ir.aot.package.about` reads it.

The two are separate modules because loading a package must not import the IR.
"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from wrapper_ir.aot.package.about import FORMAT, row_of, torch_version
from wrapper_ir.emitters.cpp.constants import constant_table
from wrapper_ir.lines.args import BufferValue, ScalarValue
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.program import ConstantKind
from wrapper_ir.text.expressions import TextExprPrinter
from wrapper_ir.toolchain.native import read_trailer
from wrapper_ir.verify.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wrapper_ir.emitters.cpp.constants import ConstantEntry
    from wrapper_ir.emitters.cpp.renderer import CppSources
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program


def index_of(
    artifact: CppSources,
    files: Sequence[Path],
    constants: Path | str | None,
    *,
    isa: str,
    features: Sequence[str],
    archs: Sequence[int],
) -> dict[str, Any]:
    """Return the index of a program that was built.

    Args:
        artifact: The program.
        files: The library, and the other files beside the index.
        constants: The file of its constants; the name of one that callers must provide; or None if
            they are in the library.
        isa: The instruction set that it was built for.
        features: The features that a processor needs.
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
            "probes": list(artifact.manifest.levels),
        },
        "library": library.name,
        "weights": _weights(program, constants),
        "files": {file.name: row_of(file) for file in files},
        **_interface(program),
        "constants": _constants(program),
        "unread": list(program.unread),
        "objects": [item.class_name for item in program.objects.values()],
    }


def _weights(program: Program, constants: Path | str | None) -> dict[str, Any] | None:
    """Return the entry of the constants file, or None if there is no such file."""
    if constants is None:
        return None
    if isinstance(constants, str):
        return {"file": None, "bytes": constant_table(program).size, "sha256": None}
    size, digest = read_trailer(constants)
    return {"file": constants.name, "bytes": size, "sha256": digest.hex()}


def _interface(program: Program) -> dict[str, Any]:
    """Return the entries of inputs, results and symbols."""
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
    """Return the entries of constants, without those that are made when they are loaded."""
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
        if program.constants[entry.name].kind not in (ConstantKind.PACKED, ConstantKind.FOLDED)
    ]


def _root(index: int, entry: ConstantEntry) -> int:
    return index if entry.tied_to < 0 else entry.tied_to
