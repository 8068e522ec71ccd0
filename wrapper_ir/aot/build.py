"""From an emitted program to a shared library: compile in parallel, link, nothing left behind.

A library consists of the runtime part, which was compiled once and for all; a function that knows
which processors it runs on; the generated files; the kernels; and the constants' bytes. Everything
but the constants is kept in the disk cache as object files, by content, so a second build of the
same program only links. The same program gives the same bytes in any directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.aot.data import (
    EMBED_LIMIT,
    beside_text,
    embedded_text,
    object_archives,
    places_of,
    places_text,
    write_blob,
)
from wrapper_ir.aot.errors import TooLargeError
from wrapper_ir.aot.gpu_kernels import DeviceCode, check_archs
from wrapper_ir.aot.kernels import (
    NATIVE,
    check_text,
    checked_level,
    isa_of,
    kernel_translations,
    required_features,
)
from wrapper_ir.aot.work import Steps, Work
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import ARCHITECTURES
from wrapper_ir.options.schema import check_options
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.native import EXPORTS
from wrapper_ir.toolchain.objects import (
    assemble,
    link,
    split_debug_information,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.emitters.cpp.artifact import CppArtifact
    from wrapper_ir.emitters.cpp.constants import ConstantTable
    from wrapper_ir.lines.program import Program
    from wrapper_ir.toolchain.isa import Isa
    from wrapper_ir.toolchain.manifest import Sources
    from wrapper_ir.toolchain.objects import Translation
    from wrapper_ir.toolchain.source import CppUnit


AUTO_EMBED_LIMIT: Final = 512 << 20
"""Bytes up to which ``auto`` embeds. Beyond, building would copy them twice more."""

CONSTANTS_ENDING: Final = ".constants"
"""That of a file of constants beside a library."""

#: What a library shows that only our own loader opens.
LOADABLE_EXPORTS: Final = "{ global: wir_program_info; wir_graph_status; local: *; };\n"


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was built.

    Attributes:
        file: The shared library.
        constants_file: The constants, where they are beside it; must stay in the same directory.
        debug_file: Its symbols and debug information, where that was asked for.
        features: What a processor must have to run it.
        constants_wanted: The name of the file of constants that it was built without.
    """

    file: Path
    constants_file: Path | None
    debug_file: Path | None
    features: tuple[str, ...]
    constants_wanted: str | None = None


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The ways in which a library can be built.

    Attributes:
        isa: ``native``: each kernel for the instruction set that it was captured for, on this
            processor. Or ``x86-64-v2`` to ``x86-64-v4``: for any processor of that level.
        debug_info: Whether to compile with debug information, kept in a file of its own.
        constants: ``embedded`` in the library, ``beside`` it in a file that is mapped into memory,
            ``none`` for a library without them, or ``auto``: embedded up to 512 MiB, and beside in
            a package.
        jobs: How many compilers to run at once; by default one a processor.
        progress: Called with the number of steps done and the number of all steps.
        cache: Where objects are kept; the default cache when absent.
        extra_flags: For the compiler and the linker, such as ``("-fsanitize=address",)``.
        kernel_flags: For the compiler, kernels only.
        gpu_arch: What Triton kernels are compiled for: ``"sm_90"``, or several, of which the one
            that fits is taken when the library is loaded; by default what this machine's GPU is.
    """

    isa: str = take.ISA.field()
    debug_info: bool = take.DEBUG_INFO.field()
    constants: str = take.CONSTANTS.field()
    jobs: int | None = take.JOBS.field()
    progress: Callable[[int, int], None] | None = None
    cache: DiskCache | None = None
    extra_flags: tuple[str, ...] = ()
    kernel_flags: tuple[str, ...] = ()
    gpu_arch: str | tuple[str, ...] = ARCHITECTURES.field()

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionValueError: One of them is not legal.
        """
        check_options(self)
        check_archs(self)


def build(
    artifact: CppArtifact,
    folder: Path,
    options: BuildOptions | None = None,
    *,
    name: str = "model",
) -> Library:
    """Builds the library of a program, which AOTInductor's loaders take.

    Args:
        artifact: The emitted program; ``artifact.program.data`` holds the constants' values.
        folder: An existing directory; the files go there.
        options: How to build.
        name: Stem of the files' names, of letters, digits and ``-_.``.

    Raises:
        WrapperIRError: As :func:`prepared` says.
        ConstantValueError: The value of a constant is missing, or does not fit.
        CompileError: Generated code or a kernel does not compile.
        LinkError: The objects do not fit together.
        CacheDirError: The cache's directory cannot be used.
    """
    given = options or BuildOptions()
    table, where, chosen, archives = prepared(artifact, given)
    flags = (*(("-g",) if given.debug_info else ()), *given.extra_flags)
    work = Work.of(given.cache, given.jobs, flags)
    features = _features(work, chosen, given.isa)
    code = DeviceCode.of(artifact, given)
    files = _files(work, artifact, chosen, given.kernel_flags)
    files.append(work.plain("cpu.cpp", check_text(features, given.isa)))
    steps = Steps(len(files) + 3, given.progress)
    with work.running(folder) as (pool, scratch):
        coming = work.compile(files, pool, steps)
        making = pool.submit(
            _make_constants, work, artifact.program, table, archives, scratch / name, where
        )
        launched = pool.submit(code.objects, work, scratch)
        runtime = work.runtime(artifact.manifest, alone=True)
        steps.advance()
        data = making.result()
        steps.advance()
        library = scratch / f"{name}.so"
        objects = [*runtime, *(one.result() for one in coming), *launched.result()]
        objects += [*data.objects, *work.torch(artifact.manifest)]
        symbols = _linked(work, objects, library, debug_info=given.debug_info)
        steps.advance()
        beside, symbols = (each and _moved(each, folder) for each in (data.beside, symbols))
        return Library(_moved(library, folder), beside, symbols, features, data.wanted)


def _files(
    work: Work,
    artifact: Sources,
    chosen: Sequence[tuple[CppUnit, Isa]],
    kernel_flags: tuple[str, ...] = (),
    *,
    apart: bool = False,
) -> list[Translation]:
    """Returns the generated files and the kernels."""
    flags = (*work.flags, *kernel_flags)
    kernels = kernel_translations(chosen, work.compiler, flags, apart=apart)
    return [*work.generated(artifact.sources), *kernels]


def _linked(
    work: Work,
    objects: Sequence[Path],
    library: Path,
    *,
    exports: str = EXPORTS,
    debug_info: bool = False,
) -> Path | None:
    """Links a library; returns the file with its debug information, if there is to be one."""
    flags = work.flags
    link(
        work.compiler,
        objects,
        library,
        exports=exports,
        keep_symbols=bool(flags),
        extra_flags=flags,
    )
    if not debug_info:
        return None
    symbols = library.with_name(f"{library.name}.debug")
    split_debug_information(library, symbols)
    return symbols


def build_loadable(
    artifact: Sources,
    options: BuildOptions | None = None,
    *,
    exports: str = LOADABLE_EXPORTS,
    kernels_apart: bool = False,
) -> Path:
    """Builds a library that only our own loader opens: the program, without container or values.

    Args:
        artifact: What it is built from.
        options: How to build: ``jobs``, ``progress``, ``cache``, ``extra_flags`` and ``gpu_arch``.
            The others are for libraries that are shipped.
        exports: The linker's version script: what the library shows.
        kernels_apart: Whether each kernel is compiled alone, so that no other is when it changes.

    Returns:
        The library, which lies in the cache and must not be changed.

    Raises:
        WrapperIRError: As :func:`build` says.
    """
    given = options or BuildOptions()
    work = Work.of(given.cache, given.jobs, given.extra_flags)
    chosen = [(kernel, isa_of(kernel.source, NATIVE)) for kernel in artifact.kernels]
    files = _files(work, artifact, chosen, apart=kernels_apart)
    runtime = work.runtime(artifact.manifest, alone=False)
    code = DeviceCode.of(artifact, given)
    keys = [
        "loadable",
        exports,
        *(file.key(work.compiler) for file in files),
        *map(str, runtime),
        *code.keys,
    ]
    key = hashlib.sha256("\0".join(keys).encode()).hexdigest()
    steps = Steps(len(files) + 1, given.progress)

    def make(folder: Path) -> Path:
        library = folder / "program.so"
        with work.running(folder) as (pool, scratch):
            coming = work.compile(files, pool, steps)
            launched = pool.submit(code.objects, work, scratch, tuned=True)
            objects = [*runtime, *(one.result() for one in coming), *launched.result()]
            objects += work.torch(artifact.manifest)
            _linked(work, objects, library, exports=exports)
            steps.advance()
        return library

    return work.cache.made(key, "so", make)


def prepared(
    artifact: CppArtifact, options: BuildOptions
) -> tuple[ConstantTable, str, list[tuple[CppUnit, Isa]], tuple[bytes, ...]]:
    """Returns what is settled before anything is compiled.

    Returns:
        Where each constant lies; ``embedded``, ``beside`` or ``none``; what each kernel is compiled
        for; and the bytes of the program's objects.

    Raises:
        UnsupportedError: The program takes objects as inputs.
        ConstantValueError: An object cannot be stored.
        TooLargeError: The constants are to be embedded and do not fit.
        KernelIsaError: A kernel was written for wider vectors than ``isa`` has.
        IsaError: This processor lacks what a kernel was written for.
    """
    from wrapper_ir.emitters.cpp.constants import constant_table  # noqa: PLC0415 - only to ship

    _refuse_objects(artifact.program)
    table, archives = constant_table(artifact.program), object_archives(artifact.program)
    chosen = [(kernel, isa_of(kernel.source, options.isa)) for kernel in artifact.kernels]
    size = places_of(archives, table.size)[-1].end if archives else table.size
    return table, _place_of(options.constants, size), chosen, archives


def _refuse_objects(program: Program) -> None:
    """Refuses objects that callers are to give: those of the program travel with it."""
    from wrapper_ir.lines.control import ObjectInput  # noqa: PLC0415 - only to ship

    for item in program.inputs:
        if isinstance(item, ObjectInput):
            raise UnsupportedError(
                what=f"the object '{item.object}' of class {item.class_name} as an input",
                where="exported libraries",
                hint="their loaders pass tensors only: make the object an attribute of the model, "
                "or call the program from here, wir.compile(program, 'cpp')",
            )


def linked_constants(
    program: Program,
    table: ConstantTable,
    archives: Sequence[bytes],
    stem: Path,
    where: str,
) -> str | None:
    """Writes the values of constants, and ``constants.s`` by which a library knows them.

    Args:
        program: Holds the values.
        table: Where they go.
        archives: The bytes of its objects.
        stem: The library's path without its ending; the files go beside it.
        where: ``embedded`` in the library, ``beside`` it, or ``none`` for no values.

    Returns:
        The name of the file of values, None where there are neither constants nor objects.

    Raises:
        ConstantValueError: A value is missing or does not fit its layout.
    """
    if not table.entries and not archives:
        return None
    embed = where == "embedded"
    blob = stem.with_name("constants.bin" if embed else f"{stem.name}{CONSTANTS_ENDING}")
    digest = ""  # of no file: a library without values takes none from beside it
    if where != "none":
        digest = write_blob(program, table, blob, archives=archives, trailer=not embed)
    text = embedded_text(blob.name, digest) if embed else beside_text(blob.name, digest)
    text += places_text(places_of(archives, table.size))
    stem.with_name("constants.s").write_text(text, "ascii")
    return blob.name


def _place_of(constants: str, size: int) -> str:
    """Return where the constants go: ``embedded``, ``beside`` or ``none``.

    Raises:
        TooLargeError: They are to be embedded and do not fit.
    """
    if constants == "embedded" and size > EMBED_LIMIT:
        raise TooLargeError(size=size, limit=EMBED_LIMIT)
    if constants == "auto":
        return "embedded" if size <= AUTO_EMBED_LIMIT else "beside"
    return constants


def _features(work: Work, chosen: Iterable[tuple[CppUnit, Isa]], isa: str) -> tuple[str, ...]:
    """Return what a processor must have: what kernels may use, or all that the level has."""
    level = checked_level(isa)
    used = {one for _, one in chosen} | ({level} if level is not None else set())
    return required_features(work.compiler, used)


@dataclass(frozen=True, slots=True)
class _Data:
    """The constants of a library: what is linked into it, and the file that goes beside it."""

    objects: tuple[Path, ...] = ()
    beside: Path | None = None
    wanted: str | None = None


def _make_constants(
    work: Work,
    program: Program,
    table: ConstantTable,
    archives: Sequence[bytes],
    stem: Path,
    where: str,
) -> _Data:
    blob = linked_constants(program, table, archives, stem, where)
    if blob is None:
        return _Data()
    made = assemble(work.compiler, stem.with_name("constants.s"))
    beside = stem.with_name(blob) if where == "beside" else None
    return _Data((made,), beside, blob if where == "none" else None)


def _moved(file: Path, folder: Path) -> Path:
    return file.replace(folder / file.name)
