"""The build of a shared library from an emitted program: compile in parallel, then link.

A library consists of the C++ runtime, which is compiled once for all programs; a function that
checks the processor; the generated files; the kernels; and the constants' bytes. All objects except
the constants are cached by content, so a second build of the same program only links. The same
program gives the same bytes in any directory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.build import constants as blobs
from wrapper_ir.aot.build.gpu_kernels import DeviceCode
from wrapper_ir.aot.build.kernels import (
    NATIVE,
    check_text,
    checked_level,
    isa_of,
    kernel_translations,
    required_features,
)
from wrapper_ir.aot.build.work import BuildOptions, Work
from wrapper_ir.aot.errors import TooLargeError
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.toolchain.objects import (
    EXPORTS,
    assemble,
    compile_files,
    link,
    split_debug_information,
)
from wrapper_ir.toolchain.processes import Steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.aot.build.constants import Blob
    from wrapper_ir.emitters.cpp.renderer import CppSources
    from wrapper_ir.lines.program import Program
    from wrapper_ir.toolchain.isa import Isa
    from wrapper_ir.toolchain.manifest import Sources
    from wrapper_ir.toolchain.objects import Translation
    from wrapper_ir.toolchain.source import CppUnit


AUTO_EMBED_LIMIT: Final = 512 << 20
"""Bytes up to which ``auto`` embeds; each embedded byte is copied twice more during a build."""

CONSTANTS_ENDING: Final = ".constants"
"""The ending of a constants file beside a library."""

#: The exports of a library for our own loader alone.
LOADABLE_EXPORTS: Final = "{ global: wir_program_info; wir_graph_status; local: *; };\n"


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was built."""

    file: Path
    constants_file: Path | None  #: the constants, if they are beside it; must stay there
    debug_file: Path | None  #: its symbols and debug information, if requested
    features: tuple[str, ...]  #: the features that a processor needs to run it
    constants_wanted: str | None = None  #: the file of constants, if it was built without values


def build(
    artifact: CppSources, folder: Path, options: BuildOptions | None = None, *, name: str = "model"
) -> Library:
    """Build the library of a program, for AOTInductor's loaders, in an existing ``folder``.

    ``name`` is the stem of the files' names, of letters, digits and ``-_.``.

    Raises:
        WrapperIRError: As for :func:`prepared`.
        ConstantValueError: The value of a constant is missing, or does not fit.
        CompileError: Generated code or a kernel does not compile.
        LinkError: The objects do not fit together.
        CacheDirError: The cache directory cannot be used.
    """
    options = options or BuildOptions()
    content, where, kernels = prepared(artifact, options)
    flags = (*(("-g",) if options.debug_info else ()), *options.extra_flags)
    work = Work.of(options.cache, options.jobs, flags)
    features = _features(work, kernels, options.isa)
    code = DeviceCode.of(artifact, options)
    files = _files(work, artifact, kernels, options.kernel_flags)
    files.append(work.plain("cpu.cpp", check_text(features, options.isa)))
    steps = Steps(len(files) + 3, options.progress)
    with work.running(folder) as (pool, scratch):
        compiling = compile_files(files, work.tools, pool, steps.advance)
        data = (artifact.program, content, scratch / name, where)
        storing = pool.submit(_constants, work, *data)
        launched = pool.submit(code.objects, work.tools, scratch)
        runtime = work.runtime(artifact.manifest, alone=True)
        steps.advance()
        blob, constants = storing.result()
        steps.advance()
        library = scratch / f"{name}.so"
        objects = [*runtime, *(each.result() for each in compiling), *launched.result()]
        objects += [*constants, *work.torch(artifact.manifest)]
        symbols = _link(work, objects, library, debug_info=options.debug_info)
        steps.advance()
        beside = _moved(scratch / blob, folder) if blob and where == "beside" else None
        symbols = symbols and _moved(symbols, folder)
        missing = blob if where == "none" else None
        return Library(_moved(library, folder), beside, symbols, features, missing)


def _features(work: Work, kernels: Sequence[tuple[CppUnit, Isa]], isa: str) -> tuple[str, ...]:
    """Return the features that a processor needs for the kernels and for a named level."""
    level = checked_level(isa)
    isas = [each for _, each in kernels] + ([level] if level is not None else [])
    return required_features(work.tools.compiler, isas)


def _link(
    work: Work,
    objects: Sequence[Path],
    library: Path,
    exports: str = EXPORTS,
    *,
    debug_info: bool = False,
) -> Path | None:
    """Link a library; return the file with its debug information, if that was requested."""
    how: Any = {"exports": exports, "keep_symbols": bool(work.flags), "extra_flags": work.flags}
    link(work.tools.compiler, objects, library, **how)
    if not debug_info:
        return None
    symbols = library.with_name(f"{library.name}.debug")
    split_debug_information(library, symbols)
    return symbols


def _files(
    work: Work,
    artifact: Sources,
    kernels: Sequence[tuple[CppUnit, Isa]],
    kernel_flags: tuple[str, ...] = (),
    *,
    apart: bool = False,
) -> list[Translation]:
    """Return the generated files and the kernels."""
    flags = (*work.flags, *kernel_flags)
    units = kernel_translations(kernels, work.tools.compiler, flags, apart=apart)
    return [*work.generated(artifact.sources), *units]


def build_loadable(
    artifact: Sources,
    options: BuildOptions | None = None,
    *,
    exports: str = LOADABLE_EXPORTS,
    kernels_apart: bool = False,
) -> Path:
    """Build a library for our own loader alone: the program, without container or values.

    It lies in the cache and must not be changed. Of the options, only ``jobs``, ``progress``,
    ``cache``, ``extra_flags`` and ``gpu_arch`` apply; others are for libraries that are shipped.
    Kernels that are compiled apart are recompiled one by one when they are edited. Errors are those
    of :func:`build`.
    """
    options = options or BuildOptions()
    work = Work.of(options.cache, options.jobs, options.extra_flags)
    kernels = [(kernel, isa_of(kernel.source, NATIVE)) for kernel in artifact.kernels]
    made = _files(work, artifact, kernels, apart=kernels_apart)
    files = [file.loaded_here() for file in made]
    runtime = work.runtime(artifact.manifest, alone=False)
    code = DeviceCode.of(artifact, options)
    parts = [*(file.key(work.tools.compiler) for file in files), *map(str, runtime), *code.keys]
    key = hashlib.sha256("\0".join(["loadable", exports, *parts]).encode()).hexdigest()
    steps = Steps(len(files) + 1, options.progress)

    def make(folder: Path) -> Path:
        library = folder / "program.so"
        with work.running(folder) as (pool, scratch):
            compiling = compile_files(files, work.tools, pool, steps.advance)
            launched = pool.submit(code.objects, work.tools, scratch, tuned=True)
            objects = [*runtime, *(each.result() for each in compiling), *launched.result()]
            objects += work.torch(artifact.manifest)
            _link(work, objects, library, exports)
            steps.advance()
        return library

    return work.tools.cache.made(key, "so", make)


def prepared(
    artifact: CppSources, options: BuildOptions
) -> tuple[Blob, str, list[tuple[CppUnit, Isa]]]:
    """Check a program, and return the decisions that precede compilation.

    These are the blob of constants and objects; its place, ``embedded``, ``beside`` or ``none``;
    and each kernel with its instruction set.

    Raises:
        UnsupportedError: The program takes objects as inputs.
        ConstantValueError: An object cannot be stored.
        TooLargeError: The constants are to be embedded and do not fit.
        KernelIsaError: A kernel was written for wider vectors than ``isa`` has.
        IsaError: This processor lacks what a kernel was written for.
    """
    _refuse_objects(artifact.program)
    content = blobs.blob_of(artifact.program)
    kernels = [(kernel, isa_of(kernel.source, options.isa)) for kernel in artifact.kernels]
    where = options.constants
    if where == "embedded" and content.size > blobs.EMBED_LIMIT:
        raise TooLargeError(size=content.size, limit=blobs.EMBED_LIMIT)
    if where == "auto":
        where = "embedded" if content.size <= AUTO_EMBED_LIMIT else "beside"
    return content, where, kernels


def _refuse_objects(program: Program) -> None:
    """Refuse objects among the inputs; a program's own objects are stored with it."""
    from wrapper_ir.lines.control import ObjectInput  # noqa: PLC0415 - only to ship

    for item in program.inputs:
        if isinstance(item, ObjectInput):
            raise UnsupportedError(
                what=f"the object '{item.object}' of class {item.class_name} as an input",
                where="exported libraries",
                hint="their loaders pass tensors only: make the object an attribute of the model,"
                " or run the program in this process with wir.compile(program, 'cpp')",
            )


def linked_constants(program: Program, content: Blob, stem: Path, where: str) -> str | None:
    """Write the values of constants, and ``constants.s``, which gives a library access to them.

    The files go beside ``stem``, the library's path without its ending. Return the name of the file
    of values, or None if there are neither constants nor objects.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    if not content.table.entries and not content.archives:
        return None
    embed = where == "embedded"
    blob = stem.with_name("constants.bin" if embed else f"{stem.name}{CONSTANTS_ENDING}")
    digest = ""  # matches no file: a library without values reads none beside it
    if where != "none":
        digest = blobs.write_blob(program, content, blob, trailer=not embed)
    text = blobs.embedded_text(blob.name, digest) if embed else blobs.beside_text(blob.name, digest)
    text += blobs.places_text(content.places)
    stem.with_name("constants.s").write_text(text, "ascii")
    return blob.name


def _constants(
    work: Work, program: Program, content: Blob, stem: Path, where: str
) -> tuple[str | None, tuple[Path, ...]]:
    """Write the constants; return the name of their file, and the object to link, if any."""
    blob = linked_constants(program, content, stem, where)
    made = () if blob is None else (assemble(work.tools.compiler, stem.with_name("constants.s")),)
    return blob, made


def _moved(file: Path, folder: Path) -> Path:
    return file.replace(folder / file.name)
