"""The export of an emitted program: as a ``.pt2`` package, a library, or a folder of source.

Exports are atomic: files are made in a directory beside their target and renamed at the end. An
export that fails leaves previous files untouched.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.build.library import CONSTANTS_ENDING, build
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.aot.errors import ExportPathError
from wrapper_ir.aot.package.archive import MODEL_NAME
from wrapper_ir.aot.package.sharing import arranged as arranged
from wrapper_ir.aot.package.writer import DEBUG, PACKAGE, put, shippable, write_package
from wrapper_ir.aot.source.folder import index_of_folder, loss, write_sources
from wrapper_ir.emitters.cpp.renderer import CppSources
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.options.schema import made_with, options_of
from wrapper_ir.outputs import Kind, contains, ending, forced, is_read, why
from wrapper_ir.outputs import check as check_output
from wrapper_ir.toolchain.native import TRAILER_MAGIC

if TYPE_CHECKING:
    import os

    from wrapper_ir.emitters.artifact import Artifact


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


#: The kinds of files that we export, by bytes that each contains whatever the program.
_LIBRARY: Final = Kind("a library that we exported", contains(b"WrapperIR"))
_BESIDE: Final = Kind("a library's constants", contains(TRAILER_MAGIC), made_up=True)

#: Options of an export that also apply to folders where nothing is built.
_NOT_OF_BUILDING: Final = ("constants", "progress")

_ENDINGS: Final = (".pt2", ".so", "")


def export(
    artifact: Artifact,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - BuildOptions checks each
) -> Path:
    """Write a program that is rendered, with the values in ``artifact.program.data``.

    The options are the fields of ``BuildOptions``; see :func:`write`.
    """
    checked = check(path, metadata, **options)
    return write({MODEL_NAME: [artifact]}, path, checked, metadata)


def write(
    models: Mapping[str, Sequence[Artifact]],
    path: str | os.PathLike[str],
    options: BuildOptions,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write programs by name, each in variants, to a file or folder, as the path's ending says.

    ``.pt2`` is a package that ``torch._inductor.aoti_load_package`` and
    ``torch::inductor::AOTIModelPackageLoader`` take. ``.so`` is the library alone, for
    ``AOTIModelContainerRunnerCpu``. A path without an ending, or with a trailing slash, is a folder
    of source that runs; a folder of C++ can also be built with CMake. A library may have its
    constants beside it as ``NAME.constants``, and a library or package its debug information as
    ``PATH.debug``. Variants' constants have the same layout, and the path was checked.

    Raises:
        UnsupportedError: An artifact is not in C++, or a program has probes that need Python.
        ExportPathError: The path cannot be written.
        WrapperIRError: As for :func:`wrapper_ir.aot.build.library.build`.
    """
    target, kind = Path(path), ending(path)
    for each in itertools.chain.from_iterable(models.values()):
        if kind or isinstance(each, CppSources):
            shippable(each)
    with _scratch(target) as scratch:
        if kind == ".pt2":
            write_package(models, target, scratch, options, metadata or {})
        elif kind == ".so":
            ((single,),) = models.values()
            _library(shippable(single), target, scratch, options)
        else:
            _folder(models, target, scratch, options)
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
    """Check the arguments of an export that do not depend on the program; return the build options.

    ``target`` is the emitter that is to render the program; None if it is rendered.

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
        check_output(target, _LIBRARY if kind == ".so" else PACKAGE)
        check_output(target.with_name(f"{target.name}.debug"), DEBUG)
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


def _library(artifact: CppSources, target: Path, scratch: Path, options: BuildOptions) -> None:
    library = build(artifact, scratch, options, name=target.stem)
    # The library comes last, so that the files it needs exist when it appears.
    files = (library.constants_file, library.debug_file, library.file)
    for file, kind in zip(files, (_BESIDE, DEBUG, _LIBRARY), strict=True):
        if file is not None:
            put(file, target.with_name(file.name), kind)


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
