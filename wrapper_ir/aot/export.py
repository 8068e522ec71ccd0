"""From an emitted program to what is shipped: a ``.pt2`` package, a library, or a folder.

Whatever is written appears whole or not at all: it is made in a directory beside its place and
renamed at the end. An export that fails leaves what was there as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
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
from wrapper_ir.emitters.cpp.artifact import CppArtifact
from wrapper_ir.emitters.cpp.emitter import CppEmitter
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
    from collections.abc import Callable, Iterator

    from wrapper_ir.aot.build import Library
    from wrapper_ir.emitters.base import Artifact
    from wrapper_ir.toolchain.manifest import Manifest


_OWN_KEYS: Final = "AOTI_"


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Checks what a user wants a package to say of itself.

    Raises:
        OptionValueError: It is no mapping from text to text, or says what is ours to say.
    """
    given: object = metadata
    if not isinstance(given, Mapping):
        raise OptionValueError(option="metadata", value=given, expected="a dict of text")
    pairs: list[tuple[object, object]] = list(metadata.items())
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, str) or key.startswith(_OWN_KEYS):
            expected = f"text for names that do not begin with {_OWN_KEYS!r}"
            raise OptionValueError(option="metadata", value={key: value}, expected=expected)


def write_parts(
    folder: Path,
    artifact: Artifact,
    options: BuildOptions,
    metadata: Mapping[str, str],
    *,
    packaged: bool = True,
) -> tuple[list[Path], Path | None]:
    """Writes what a package holds of a program, which torch's own packager takes as it is.

    Args:
        folder: An existing directory; the files go there.
        artifact: The program; its text is among the files, for readers.
        options: How to build.
        metadata: What the package is to say of itself besides.
        packaged: Whether the files stay together: then ``auto`` leaves constants out of the
            library, to be mapped.

    Returns:
        The files: text, metadata, library, index, and the constants where they are beside it. And
        the file of its debug information, where that was asked for.

    Raises:
        UnsupportedError: The artifact is no C++, or the program has probes that need Python.
        WrapperIRError: As :func:`wrapper_ir.aot.build.build` says.
    """
    artifact = _shippable(artifact)
    if packaged and options.constants == "auto" and not artifact.program.objects:
        options = dataclasses.replace(options, constants="beside")
    library = build(artifact, folder, options, name=MODEL_NAME)
    stem = f"{MODEL_NAME}.wrapper"
    text, about = folder / f"{stem}.cpp", folder / f"{stem}_metadata.json"
    text.write_text(artifact.source, "utf-8")
    said = {**_about(artifact.manifest, library, options.isa), **metadata}
    about.write_text(json.dumps(said, indent=1), "utf-8")
    # Loaders find the metadata by the name of the one .cpp file.
    files = [text, about, library.file.rename(folder / f"{stem}.so")]
    index = index_of(
        artifact,
        files,
        library.constants_file or library.constants_wanted,
        isa=options.isa,
        features=library.features,
        archs=DeviceCode.of(artifact, options).archs,
    )
    files.append(folder / INDEX)
    files[-1].write_text(json.dumps(index, indent=1), "utf-8")
    if library.constants_file is not None:
        files.append(library.constants_file)
    return files, library.debug_file


def _about(manifest: Manifest, library: Library, isa: str) -> dict[str, str]:
    about = {
        "AOTI_DEVICE_KEY": manifest.device.type,
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "WRAPPER_IR_ISA": isa,
        "WRAPPER_IR_CPU_FEATURES": " ".join(library.features),
    }
    if isa == NATIVE:
        # Loaders warn where this differs from what is best there; for a level that says nothing.
        about["AOTI_CPU_ISA"] = isas.detect().name.upper()
    return about


#: What probes can do in a library that runs alone.
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

#: What stands in what we export, whatever the program.
_PACKAGE: Final = Kind("a package that we exported", contains(b"WRAPPER_IR_ISA"))
_LIBRARY: Final = Kind("a library that we exported", contains(b"WrapperIR"))
_DEBUG: Final = Kind("debug information of ours", contains(b"WrapperIR"), made_up=True)
_BESIDE: Final = Kind("a library's constants", contains(TRAILER_MAGIC), made_up=True)

#: Options of an export by which nothing is built.
_NOT_OF_BUILDING: Final = ("constants", "progress")

_ENDINGS: Final = (".pt2", ".so", "")


def export(
    artifact: Artifact | Mapping[str, Sequence[Artifact]],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - BuildOptions checks each
) -> Path:
    """Writes a program to a file or folder; the ending of the path says which.

    ``.pt2`` is a package that ``torch._inductor.aoti_load_package`` and
    ``torch::inductor::AOTIModelPackageLoader`` take. ``.so`` is the library alone, for
    ``AOTIModelContainerRunnerCpu``. A path without an ending, or with a slash, is a folder of
    source that runs; one of C++ is built with CMake, too. Beside a library may be its constants,
    ``NAME.constants``, and beside library or package its debug information, ``PATH.debug``.

    Args:
        artifact: The emitted program; ``artifact.program.data`` holds the constants' values. Or
            several by name, each in variants, whose constants are laid out alike.
        path: The file or folder to write.
        metadata: What a package is to say of itself besides; for ``.pt2`` only.
        **options: How to build: the fields of ``BuildOptions``.

    Returns:
        The path that was written.

    Raises:
        OptionError: There is no such option.
        UnsupportedError: The artifact is no C++, or the program has probes that need Python.
        ExportPathError: The path has another ending, or cannot be written.
        WrapperIRError: As :func:`wrapper_ir.aot.build.build` says.
    """
    given = check(path, metadata, **options)
    several = artifact if isinstance(artifact, Mapping) else {MODEL_NAME: [artifact]}
    target, kind = Path(path), ending(path)
    if kind:
        several = {name: [*map(_shippable, variants)] for name, variants in several.items()}
    writers: dict[str, Callable[[Path], None]] = {
        ".pt2": lambda room: _package(several, target, room, given, metadata or {}),
        ".so": lambda room: _library(_alone(several), target, room, given),
        "": lambda room: _folder(several, target, room, given),
    }
    with _room(target) as room:
        writers[kind](room)
    return target


def split(
    options: Mapping[str, object], target: str = CppEmitter.name
) -> tuple[dict[str, object], dict[str, object]]:
    """Divide options into those that say how to build, and the emitter's.

    Raises:
        OptionError: There is no such option, here or there.
        UnknownEmitterError: There is no such emitter.
    """
    emitter = emitter_class(target)
    ways = [option.name for option in options_of(BuildOptions)]
    if emitter is not CppEmitter:
        ways = [name for name in ways if name in _NOT_OF_BUILDING]
    legal = [*ways, *(option.name for option in options_of(emitter))]
    for name in options:
        if name not in legal:
            raise OptionError(option=name, legal=legal, owner="wir.export")
    build = {name: value for name, value in options.items() if name in ways}
    return build, {name: value for name, value in options.items() if name not in ways}


def check(
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    target: str = CppEmitter.name,
    **options: Any,  # noqa: ANN401 - BuildOptions checks each
) -> BuildOptions:
    """Checks what can be known before there is a program.

    Returns:
        How to build.

    Raises:
        OptionError: There is no such option.
        OptionValueError: There is, but not with that value.
        ExportPathError: The path cannot be written.
    """
    given = made_with(BuildOptions, options, owner="export")
    check_metadata(metadata or {})
    if ending(path) and target != CppEmitter.name:
        expected = "'cpp', of which libraries are built; a folder may be of others"
        raise OptionValueError(option="target", value=target, expected=expected)
    _check_path(Path(path), ending(path))
    return given


def _alone(models: Mapping[str, Sequence[Artifact]]) -> CppArtifact:
    ((artifact,),) = models.values()
    return _shippable(artifact)


def _shippable(artifact: Artifact) -> CppArtifact:
    """Refuses what a library cannot do where it runs alone, and all that is no C++."""
    if not isinstance(artifact, CppArtifact):
        raise UnsupportedError(what=f"a {type(artifact).__name__}", where="export")
    for wanted in artifact.manifest.levels:
        if wanted not in _LEVELS:
            raise UnsupportedError(
                what=f"a probe of level '{wanted}'",
                where="a library that runs without Python",
                hint="it can do " + ", ".join(_LEVELS),
            )
    return artifact


def _check_path(target: Path, kind: str) -> None:
    reason = None
    if kind not in _ENDINGS or not target.name:
        reason = "the path must end in .pt2 or .so, or have no ending for a folder"
    elif not target.parent.is_dir():
        reason = "there is no such directory to put it in"
    elif kind and target.is_dir():
        reason = "it is a directory"
    elif not kind and target.exists():
        reason = _folder_reason(target)
    if reason is not None:
        hint = None if kind else "choose another name; commands replace an export with --force"
        raise ExportPathError(target=str(target), reason=reason, hint=hint)
    if kind:
        check_output(target, _LIBRARY if kind == ".so" else _PACKAGE)
        check_output(target.with_name(f"{target.name}.debug"), _DEBUG)
    if kind == ".so":
        check_output(target.with_suffix(CONSTANTS_ENDING), _BESIDE)


def _folder_reason(folder: Path) -> str | None:
    """Return why a folder that exists may not be replaced: what was exported may, as it was."""
    if is_read(folder):
        return "this command reads what is in it"
    return None if forced() and index_of_folder(folder) is not None else loss(folder)


@contextlib.contextmanager
def _room(target: Path) -> Iterator[Path]:
    """A directory on the target's file system, which is gone in the end."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
            yield Path(name)
    except OSError as error:
        raise ExportPathError(target=str(target), reason=why(error)) from error


def _package(
    models: Mapping[str, Sequence[Artifact]],
    target: Path,
    room: Path,
    options: BuildOptions,
    metadata: Mapping[str, str],
) -> None:
    """Writes a package of models, each in one or several variants."""
    members: dict[str, Path] = {}
    made, symbols = room / "made", None
    several = sum(map(len, models.values())) > 1
    for name, variants in models.items():
        for number, artifact in enumerate(variants):
            folder = f"{VARIANTS}/{name}/{number}" if number else f"{MODELS}/{name}"
            place = room / folder
            place.mkdir(parents=True)
            parts, symbols = write_parts(place, artifact, options, metadata)
            for part in parts:
                if several and part.suffix == CONSTANTS_ENDING:
                    first = members.setdefault(f"{CONSTANTS}/{part.name}", part)
                    if first is not part:
                        part.unlink()  # it is the same
                else:
                    members[f"{folder}/{part.name}"] = part
    write_archive(made, members, mapped=[m for m in members if m.endswith(CONSTANTS_ENDING)])
    if symbols is not None:
        _put(symbols, target.with_name(f"{target.name}.debug"), _DEBUG)
    _put(made, target, _PACKAGE)


def _library(artifact: CppArtifact, target: Path, room: Path, options: BuildOptions) -> None:
    library = build(artifact, room, options, name=target.stem)
    # The library comes last: what it needs is there when it appears.
    files = (library.constants_file, library.debug_file, library.file)
    for file, kind in zip(files, (_BESIDE, _DEBUG, _LIBRARY), strict=True):
        if file is not None:
            _put(file, target.with_name(file.name), kind)


def _put(file: Path, target: Path, kind: Kind) -> None:
    """Gives a finished file its name; it may be read by whoever the umask lets."""
    with replacing(target, kind) as temporary:
        mode = temporary.stat().st_mode
        if file.suffix == ".so":
            mode |= (mode & 0o444) >> 2
        file.chmod(mode)
        file.replace(temporary)


def _folder(
    models: Mapping[str, Sequence[Artifact]], target: Path, room: Path, options: BuildOptions
) -> None:
    made = room / "made"
    made.mkdir()
    programs = {name: variants[0] for name, variants in models.items()}
    for artifact in programs.values():
        if isinstance(artifact, CppArtifact):
            _shippable(artifact)
    write_sources(made, programs, options, name=target.name)
    old = room / "old"
    if target.exists():
        target.rename(old)
    try:
        made.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
