"""The export of an emitted program: as a ``.pt2`` package, a library, or a folder of source.

Exports are atomic: files are made in a directory beside their target and renamed at the end. An
export that fails leaves previous files untouched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.archive import CONSTANTS, MODEL_NAME, MODELS, VARIANTS, write_archive
from wrapper_ir.aot.build import CONSTANTS_ENDING, BuildOptions, build
from wrapper_ir.aot.errors import ExportPathError
from wrapper_ir.aot.gpu_kernels import DeviceCode
from wrapper_ir.aot.index import index_of
from wrapper_ir.aot.kernels import NATIVE
from wrapper_ir.aot.sharing import arranged as arranged
from wrapper_ir.aot.sources import index_of_folder, loss, write_sources
from wrapper_ir.emitters.cpp.sources import CppSources
from wrapper_ir.emitters.facts import has_users_queues
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.errors import OptionError, OptionValueError, UnsupportedError
from wrapper_ir.lines.trace import ProbeLevel
from wrapper_ir.options.schema import made_with, options_of
from wrapper_ir.outputs import INDEX, Kind, contains, ending, forced, is_read, replacing, why
from wrapper_ir.outputs import check as check_output
from wrapper_ir.toolchain import isa as isas
from wrapper_ir.toolchain.native import TRAILER_MAGIC

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from wrapper_ir.aot.build import Library
    from wrapper_ir.emitters.artifact import Artifact
    from wrapper_ir.toolchain.manifest import Manifest


#: The prefix of metadata keys that are reserved for us.
_RESERVED: Final = "AOTI_"


def _check_metadata(metadata: Any) -> None:  # noqa: ANN401 - a user's value
    """Raise OptionValueError unless metadata map text to text, without reserved keys."""
    if not isinstance(metadata, Mapping):
        raise OptionValueError(option="metadata", value=metadata, expected="a dict of text")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str) or key.startswith(_RESERVED):
            expected = f"text for names that do not begin with {_RESERVED!r}"
            raise OptionValueError(option="metadata", value={key: value}, expected=expected)


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
        WrapperIRError: As for :func:`wrapper_ir.aot.build.build`.
    """
    sources = _shippable(artifact)
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
    if library.constants_file is not None:
        files.append(library.constants_file)
    return files, library.debug_file


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

#: The kinds of files that we export, by bytes that each contains whatever the program.
_PACKAGE: Final = Kind("a package that we exported", contains(b"WRAPPER_IR_ISA"))
_LIBRARY: Final = Kind("a library that we exported", contains(b"WrapperIR"))
_DEBUG: Final = Kind("debug information of ours", contains(b"WrapperIR"), made_up=True)
_BESIDE: Final = Kind("a library's constants", contains(TRAILER_MAGIC), made_up=True)

#: Options of an export that also apply to folders where nothing is built.
_NOT_OF_BUILDING: Final = ("constants", "progress")

_ENDINGS: Final = (".pt2", ".so", "")


def export(
    artifact: Artifact | Mapping[str, Sequence[Artifact]],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - BuildOptions checks each
) -> Path:
    """Write a program to a file or folder, depending on the ending of the path.

    ``.pt2`` is a package that ``torch._inductor.aoti_load_package`` and
    ``torch::inductor::AOTIModelPackageLoader`` take. ``.so`` is the library alone, for
    ``AOTIModelContainerRunnerCpu``. A path without an ending, or with a trailing slash, is a folder
    of source that runs; a folder of C++ can also be built with CMake. A library may have its
    constants beside it as ``NAME.constants``, and a library or package its debug information as
    ``PATH.debug``.

    Args:
        artifact: The emitted program; ``artifact.program.data`` holds the constants' values. Or
            several by name, each in variants, whose constants have the same layout.
        path: The file or folder to write.
        metadata: Further metadata for a ``.pt2`` package.
        **options: The fields of ``BuildOptions``.

    Returns:
        The path that was written.

    Raises:
        OptionError: There is no such option.
        UnsupportedError: The artifact is not in C++, or the program has probes that need Python.
        ExportPathError: The path has another ending, or cannot be written.
        WrapperIRError: As for :func:`wrapper_ir.aot.build.build`.
    """
    build_options = check(path, metadata, **options)
    models = artifact if isinstance(artifact, Mapping) else {MODEL_NAME: [artifact]}
    target, kind = Path(path), ending(path)
    for each in itertools.chain.from_iterable(models.values()):
        if kind or isinstance(each, CppSources):
            _shippable(each)
    with _scratch(target) as scratch:
        if kind == ".pt2":
            _package(models, target, scratch, build_options, metadata or {})
        elif kind == ".so":
            ((single,),) = models.values()
            _library(_shippable(single), target, scratch, build_options)
        else:
            _folder(models, target, scratch, build_options)
    return target


def split(
    options: Mapping[str, object], target: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Split options into build options and the emitter's options.

    Raises:
        OptionError: Neither has such an option.
        UnknownEmitterError: There is no such emitter.
    """
    emitter = emitter_class(target)
    names = [option.name for option in options_of(BuildOptions)]
    if not emitter.builds:
        names = [name for name in names if name in _NOT_OF_BUILDING]
    legal = [*names, *(option.name for option in options_of(emitter))]
    for name in options:
        if name not in legal:
            raise OptionError(option=name, legal=legal, owner="wir.export")
    build = {name: value for name, value in options.items() if name in names}
    return build, {name: value for name, value in options.items() if name not in names}


def check(
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    target: str | None = None,
    **options: Any,  # noqa: ANN401 - BuildOptions checks each
) -> BuildOptions:
    """Check the arguments of an export that do not depend on the program.

    Args:
        path: As for :func:`export`, like the others.
        metadata: As there.
        target: The emitter that is to render the program; None if it is rendered.
        **options: As there.

    Returns:
        The build options.

    Raises:
        OptionError: There is no such option.
        OptionValueError: An option has an illegal value.
        ExportPathError: The path cannot be written.
    """
    build_options = made_with(BuildOptions, options, owner="export")
    _check_metadata(metadata or {})
    if ending(path) and target is not None and not emitter_class(target).builds:
        expected = "'cpp' for a package or library; a folder may have any target"
        raise OptionValueError(option="target", value=target, expected=expected)
    _check_path(Path(path), ending(path))
    return build_options


def _shippable(artifact: Artifact) -> CppSources:
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


def _check_path(target: Path, kind: str) -> None:
    reason = None
    if kind not in _ENDINGS or not target.name:
        reason = "the path must end in .pt2 or .so, or have no ending for a folder"
    elif not target.parent.is_dir():
        reason = "its parent directory does not exist"
    elif kind and target.is_dir():
        reason = "it is a directory"
    elif not kind and target.exists():
        reason = _folder_reason(target)
    if reason is not None:
        force = "" if forced() else "; commands replace an export with --force"
        hint = None if kind else f"choose another name{force}"
        raise ExportPathError(target=str(target), reason=reason, hint=hint)
    if kind:
        check_output(target, _LIBRARY if kind == ".so" else _PACKAGE)
        check_output(target.with_name(f"{target.name}.debug"), _DEBUG)
    if kind == ".so":
        check_output(target.with_suffix(CONSTANTS_ENDING), _BESIDE)


def _folder_reason(folder: Path) -> str | None:
    """Return why a folder may not be replaced, or None for an export that was not changed."""
    if is_read(folder):
        return "this command reads files in it"
    return None if forced() and index_of_folder(folder) is not None else loss(folder)


@contextlib.contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Yield a temporary directory on the target's file system."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
            yield Path(name)
    except OSError as error:
        raise ExportPathError(target=str(target), reason=why(error)) from error


def _package(
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
        _put(symbols, target.with_name(f"{target.name}.debug"), _DEBUG)
    _put(archive, target, _PACKAGE)


def _library(artifact: CppSources, target: Path, scratch: Path, options: BuildOptions) -> None:
    library = build(artifact, scratch, options, name=target.stem)
    # The library comes last, so that the files it needs exist when it appears.
    files = (library.constants_file, library.debug_file, library.file)
    for file, kind in zip(files, (_BESIDE, _DEBUG, _LIBRARY), strict=True):
        if file is not None:
            _put(file, target.with_name(file.name), kind)


def _put(file: Path, target: Path, kind: Kind) -> None:
    """Move a finished file to its target, with permissions that follow the umask."""
    with replacing(target, kind) as temporary:
        mode = temporary.stat().st_mode
        if file.suffix == ".so":
            mode |= (mode & 0o444) >> 2
        file.chmod(mode)
        file.replace(temporary)


def _folder(
    models: Mapping[str, Sequence[Artifact]], target: Path, scratch: Path, options: BuildOptions
) -> None:
    new, old = scratch / "made", scratch / "old"
    new.mkdir()
    programs = {name: variants[0] for name, variants in models.items()}
    write_sources(new, programs, options, name=target.name)
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
