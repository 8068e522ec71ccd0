"""The writing of a package: a folder of files for each model, in one archive."""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.analysis.ordering import has_users_queues
from wrapper_ir.aot.build.gpu_kernels import DeviceCode
from wrapper_ir.aot.build.kernels import NATIVE
from wrapper_ir.aot.build.library import CONSTANTS_ENDING, build
from wrapper_ir.aot.package.archive import CONSTANTS, MODEL_NAME, MODELS, VARIANTS, write_archive
from wrapper_ir.aot.package.index import index_of
from wrapper_ir.emitters.cpp.renderer import CppSources
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.lines.trace import ProbeLevel
from wrapper_ir.outputs import INDEX, Kind, contains, replacing
from wrapper_ir.toolchain import isa as isas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.build.library import Library
    from wrapper_ir.aot.build.options import BuildOptions
    from wrapper_ir.emitters.artifact import Artifact
    from wrapper_ir.toolchain.manifest import Manifest


#: The kinds of files that we write, by bytes that each contains whatever the program.
PACKAGE: Final = Kind("a package that we exported", contains(b"WRAPPER_IR_ISA"))
DEBUG: Final = Kind("debug information of ours", contains(b"WrapperIR"), made_up=True)

#: The levels of probes that work in a library without Python.
_LEVELS: Final = tuple(
    level.value
    for level in (
        ProbeLevel.NAMES,
        ProbeLevel.PRINT,
        ProbeLevel.SAVE,
        ProbeLevel.CHECK,
        ProbeLevel.CHECK_NAN,
        ProbeLevel.STATS,
    )
)


def shippable(artifact: Artifact) -> CppSources:
    """Refuse artifacts that are not in C++, and what needs Python."""
    if not isinstance(artifact, CppSources):
        raise UnsupportedError(what=f"a {type(artifact).__name__}", where="export")
    for level in artifact.manifest.levels:
        if level not in _LEVELS:
            raise UnsupportedError(
                what=f"a probe of level '{level}'",
                where="a library that runs without Python",
                hint=f"its probes may have the levels {', '.join(_LEVELS)}",
            )
    if has_users_queues(artifact.program):  # Python looks them up in each call
        raise UnsupportedError(
            what="a stream or an event of the user's", where="a library that runs without Python"
        )
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

    Args:
        folder: An existing directory for the files.
        artifact: The program; its text is among the files, for readers.
        options: The build options.
        metadata: Further metadata for the package.
        packaged: Whether the files stay together: then ``auto`` leaves the constants out of the
            library, to be mapped into memory.
        name: The name that the files begin with; by default ``model``.

    Returns:
        The files: text, metadata, library, index, and the constants if they are beside the library.
        And the file of the debug information, if requested.

    Raises:
        UnsupportedError: The artifact is not in C++, or the program has probes that need Python.
        WrapperIRError: As for :func:`wrapper_ir.aot.build.library.build`.
    """
    sources = shippable(artifact)
    if packaged and options.constants == "auto" and not sources.program.objects:
        options = dataclasses.replace(options, constants="beside")
    name = name or MODEL_NAME
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
            folder = f"{VARIANTS}/{name}/{number}" if number else f"{MODELS}/{name}"
            (scratch / folder).mkdir(parents=True)
            parts, symbols = write_parts(scratch / folder, artifact, options, metadata)
            for part in parts:
                if several and part.suffix == CONSTANTS_ENDING:
                    first = members.setdefault(f"{CONSTANTS}/{part.name}", part)
                    if first is not part:
                        part.unlink()  # all models have the same file
                else:
                    members[f"{folder}/{part.name}"] = part
    write_archive(archive, members, mapped=[m for m in members if m.endswith(CONSTANTS_ENDING)])
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
