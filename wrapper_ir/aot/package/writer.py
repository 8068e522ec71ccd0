"""The writing of a package: a folder of files for each model, in one archive, and its index.

Reading the index is in :mod:`wrapper_ir.aot.package.archive`, since loading must not import the IR.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.analysis.ordering import has_users_queues
from wrapper_ir.aot.build.gpu_kernels import DeviceCode
from wrapper_ir.aot.build.kernels import NATIVE
from wrapper_ir.aot.build.library import CONSTANTS_ENDING, Library, build
from wrapper_ir.aot.package import archive as archives
from wrapper_ir.emitters.cpp.constants import ConstantEntry, constant_table
from wrapper_ir.emitters.cpp.renderer import CppSources
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.lines.args import BufferValue, ScalarValue
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.program import ConstantKind, Program
from wrapper_ir.lines.trace import ProbeLevel
from wrapper_ir.outputs import INDEX, Kind, contains, replacing
from wrapper_ir.text.expressions import TextExprPrinter
from wrapper_ir.toolchain import isa as isas
from wrapper_ir.toolchain.native import read_trailer
from wrapper_ir.verify.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.build.work import BuildOptions
    from wrapper_ir.emitters.artifact import Artifact
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.toolchain.manifest import Manifest

#: The kinds of files that we write, by bytes that each contains whatever the program.
PACKAGE: Final = Kind("a package that we exported", contains(b"WRAPPER_IR_ISA"))
DEBUG: Final = Kind("debug information of ours", contains(b"WrapperIR"), made_up=True)

#: The levels of probes that work in a library without Python.
_LEVELS: Final = tuple(
    ProbeLevel[name].value for name in ("NAMES", "PRINT", "SAVE", "CHECK", "CHECK_NAN", "STATS")
)


def shippable(artifact: Artifact) -> CppSources:
    """Refuse artifacts that are not in C++, and what needs Python."""
    if not isinstance(artifact, CppSources):
        raise UnsupportedError(what=f"a {type(artifact).__name__}", where="export")
    where = "a library that runs without Python"
    for level in artifact.manifest.levels:
        if level not in _LEVELS:
            hint = f"its probes may have the levels {', '.join(_LEVELS)}"
            raise UnsupportedError(what=f"a probe of level '{level}'", where=where, hint=hint)
    if has_users_queues(artifact.program):  # Python looks them up in each call
        raise UnsupportedError(what="a stream or an event of the user's", where=where)
    return artifact


def write_parts(
    folder: Path,
    artifact: Artifact,
    options: BuildOptions,
    metadata: Mapping[str, str],
    *,
    packaged: bool = True,
    name: str = "",
) -> tuple[list[Path], Path | None]:
    """Write a program's files for a package; torch's own packager takes them as they are.

    The files are text, metadata, library, index, and the constants if they are beside the library;
    and apart from these the file of the debug information, if requested. If they stay together
    (``packaged``), ``auto`` leaves the constants out of the library, to be mapped into memory.

    Raises:
        UnsupportedError: The artifact is not in C++, or the program has probes that need Python.
        WrapperIRError: As for :func:`wrapper_ir.aot.build.library.build`.
    """
    sources = shippable(artifact)
    if packaged and options.constants == "auto" and not sources.program.objects:
        options = dataclasses.replace(options, constants="beside")
    name = name or archives.MODEL_NAME
    library = build(sources, folder, options, name=name)
    stem = f"{name}.wrapper"
    text, about = folder / f"{stem}.cpp", folder / f"{stem}_metadata.json"
    text.write_text(sources.source, "utf-8")
    _write_json(about, {**_about(sources.manifest, library, options.isa), **metadata})
    # Loaders find the metadata by the name of the one .cpp file.
    files = [text, about, library.file.rename(folder / f"{stem}.so")]
    index = index_of(
        sources,
        files,
        library.constants_file or library.constants_wanted,
        isa=options.isa,
        features=library.features,
        archs=DeviceCode.of(sources, options).archs,
    )
    files.append(_write_json(folder / INDEX, index))
    beside = () if library.constants_file is None else (library.constants_file,)
    return [*files, *beside], library.debug_file


def _write_json(file: Path, content: Mapping[str, Any]) -> Path:
    file.write_text(json.dumps(content, indent=1), "utf-8")
    return file


def _about(manifest: Manifest, library: Library, isa: str) -> dict[str, str]:
    about = {
        "AOTI_DEVICE_KEY": manifest.device.type,
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "WRAPPER_IR_ISA": isa,
        "WRAPPER_IR_CPU_FEATURES": " ".join(library.features),
    }
    if isa == NATIVE:
        # Loaders warn if this differs from the best that their CPU has. For a level, a difference
        # means nothing.
        about["AOTI_CPU_ISA"] = isas.detect().name.upper()
    return about


def write_package(
    models: Mapping[str, Sequence[Artifact]],
    target: Path,
    scratch: Path,
    options: BuildOptions,
    metadata: Mapping[str, str],
) -> None:
    """Write a package of models, each in one or several variants."""
    members: dict[str, Path] = {}
    archive, symbols = scratch / "made", None
    several = sum(map(len, models.values())) > 1
    for name, variants in models.items():
        for number, artifact in enumerate(variants):
            folder = (
                f"{archives.VARIANTS}/{name}/{number}" if number else f"{archives.MODELS}/{name}"
            )
            (scratch / folder).mkdir(parents=True)
            parts, symbols = write_parts(scratch / folder, artifact, options, metadata)
            for part in parts:
                if several and part.suffix == CONSTANTS_ENDING:
                    first = members.setdefault(f"{archives.CONSTANTS}/{part.name}", part)
                    if first is not part:
                        part.unlink()  # all models have the same file
                else:
                    members[f"{folder}/{part.name}"] = part
    archives.write_archive(
        archive, members, mapped=[m for m in members if m.endswith(CONSTANTS_ENDING)]
    )
    if symbols is not None:
        put(symbols, target.with_name(f"{target.name}.debug"), DEBUG)
    put(archive, target, PACKAGE)


def put(file: Path, target: Path, kind: Kind) -> None:
    """Move a finished file to its target, with permissions that follow the umask."""
    with replacing(target, kind) as temporary:
        mode = temporary.stat().st_mode
        if file.suffix == ".so":
            mode |= (mode & 0o444) >> 2
        file.chmod(mode)
        file.replace(temporary)


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

    ``files`` are the library and the other files beside the index. ``constants`` is the file of its
    constants, the name of one that callers must provide, or None if they are in the library.
    """
    program = artifact.program
    library = next(file for file in files if file.suffix == ".so")
    return {
        "format": archives.FORMAT,
        "program": program.name,
        "made by": {"wrapper_ir": version("wrapper-ir"), "torch": archives.torch_version()},
        "needs": {
            "torch": archives.torch_version(),
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
        "files": {file.name: archives.row_of(file) for file in files},
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
