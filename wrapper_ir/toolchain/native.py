"""The runtime part of AOT libraries: C++ that is the same for every program, compiled once.

``wrapper_ir/native/src`` implements AOTInductor's C interface for programs that keep to
``wrapper_ir/native/include/wir/program.h``. Its objects depend on the compiler, the flags, the
version of PyTorch and their own text, on nothing else, so they are kept in the disk cache; a build
of a library links them. They need no instruction set beyond the machine's baseline.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.toolchain.build import default_jobs
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import (
    Compiler,
    CompilerRunError,
    find_compiler,
    include_dirs,
    link_flags,
    run,
    run_linker,
    versions,
)
from wrapper_ir.toolchain.kernels import environment, load_module
from wrapper_ir.toolchain.parts import Part
from wrapper_ir.toolchain.processes import pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wrapper_ir.toolchain.cache import DiskCache


_NATIVE = Path(__file__).resolve().parent.parent / "native"

#: Raise it when objects that were made otherwise must not be found any more.
_FORMAT = 1

#: A version script for the linker (``-Wl,--version-script=FILE``): what a library shows. Without
#: it the instances of templates of the standard library would be visible as well.
EXPORTS = "{ global: AOTInductor*; WrapperIR*; local: *; };\n"

#: What is compiled as one for parts of several files.
_UNITS = {Part.PROBES: "probes", Part.GRAPHS: "graphs"}

#: Stands near the end of every file of constants beside a library.
TRAILER_MAGIC = b"WIRDATA1"
_TRAILER = struct.Struct("<8sQ32s")


def native_include_dirs() -> tuple[Path, ...]:
    """Return the header directories of generated code: ours, then PyTorch's."""
    torch = include_dirs()[1:]  # without Python's: an AOT library knows nothing of it
    return (_NATIVE / "include", *torch)


def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for the runtime part, include paths excepted.

    No path of this machine gets into an object, and equal text gives equal bytes. Generated code
    that is not a kernel may be compiled with them, too.
    """
    torch = native_include_dirs()[1:]
    maps = ((_NATIVE, "wrapper_ir/native"), *((path, "torch") for path in torch))
    return (*_flags(compiler), *(f"-ffile-prefix-map={path}={name}" for path, name in maps))


def _flags(compiler: Compiler) -> tuple[str, ...]:
    # A third smaller; the few functions that every call runs ask for more themselves.
    return (*plain_flags(compiler, "-Os"), "-Wall", "-Wextra")


def plain_flags(compiler: Compiler, level: str) -> tuple[str, ...]:
    """Return the flags of what is no kernel, at a level of optimisation; warnings excepted."""
    # A unique symbol would keep a library in the process for ever, once it was loaded.
    gcc_only = () if compiler.clang else ("-fno-gnu-unique",)
    return (
        "-std=c++20",
        level,
        "-DNDEBUG",
        "-fPIC",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        "-ffunction-sections",
        "-fdata-sections",
        *gcc_only,
    )


def runtime_objects(
    cache: DiskCache,
    compiler: Compiler,
    parts: Collection[Part] = (Part.OPS,),
    *,
    extra_flags: Sequence[str] = (),
    jobs: int | None = None,
) -> tuple[Path, ...]:
    """Return the object files of the runtime part, compiled now if need be.

    Args:
        cache: Where they are kept.
        compiler: What compiles them.
        parts: What the library needs besides what all do.
        extra_flags: Further flags, such as ``("-fsanitize=address",)`` or ``("-g",)``.
        jobs: How many compilers to run at once; by default one a processor.

    Returns:
        Files for the linker, in a fixed order. They lie in the cache and must not be changed.

    Raises:
        CompileError: The runtime part does not compile, for instance with a version of PyTorch
            that it was not made for.
        CacheDirError: The cache's directory cannot be used.
    """
    flags = (*native_flags(compiler), *extra_flags)
    units = tuple(_Unit(name, files) for name, files in native_units(parts).items())

    def object_of(unit: _Unit) -> Path:
        key = _key(unit, compiler, extra_flags)
        return cache.made(key, "o", lambda folder: _compile(unit, folder, compiler, flags))

    with pool(jobs or default_jobs()) as threads:
        return tuple(threads.map(object_of, units))


def constants_trailer(size: int, sha256: bytes) -> bytes:
    """Return what must follow the bytes of the constants in a file beside a library.

    By it the library knows at once a file that was cut off, or that belongs to another build; the
    bytes themselves it compares with the digest only when told to.

    Args:
        size: Number of bytes before the trailer.
        sha256: Their digest, 32 bytes.
    """
    return _TRAILER.pack(TRAILER_MAGIC, size, sha256)


def read_trailer(file: Path) -> tuple[int, bytes]:
    """Return how many bytes of constants a file holds, and their digest."""
    with file.open("rb") as source:
        source.seek(-_TRAILER.size, 2)
        _, size, sha256 = _TRAILER.unpack(source.read())
    return size, sha256


@dataclass(frozen=True, slots=True)
class _Unit:
    """Files that are compiled as one; one by one they take four times as long."""

    name: str
    files: tuple[Path, ...]

    @property
    def text(self) -> str:
        return "".join(f'#include "{file.name}"\n' for file in self.files)


def native_units(parts: Collection[Part]) -> dict[str, tuple[Path, ...]]:
    """Return the files of the runtime part that a library needs, by what is compiled as one."""
    units: dict[str, list[Path]] = {"runtime": []}
    for file in sorted((_NATIVE / "src").glob("*.cpp")):
        unit, wanted = _unit_of(file.stem)
        if wanted.issubset(parts):
            units.setdefault(unit, []).append(file)
    return {name: tuple(files) for name, files in units.items()}


def _unit_of(stem: str) -> tuple[str, frozenset[Part]]:
    """Return what a file is compiled with, and the parts that need it: its name begins with one.

    A file that is called after two parts is for libraries with both, and compiled by itself.
    """
    for part in Part:
        if stem == part or stem.startswith(f"{part}_"):
            rest = stem.removeprefix(f"{part}_")
            second = next((each for each, unit in _UNITS.items() if unit == rest), None)
            if second is not None:
                return stem, frozenset((part, second))
            return _UNITS.get(part, part.value), frozenset((part,))
    return "runtime", frozenset()


def _compile(unit: _Unit, scratch: Path, compiler: Compiler, flags: Sequence[str]) -> Path:
    includes = [f"-I{path}" for path in (_NATIVE / "src", *native_include_dirs())]
    target = scratch / f"{unit.name}.o"
    source = scratch / f"{unit.name}_unit.cpp"  # not the name of what it includes
    source.write_text(unit.text, encoding="utf-8")
    here = f"-ffile-prefix-map={scratch}=wrapper_ir/native"
    command = [*compiler.command, *flags, here, *includes, "-c", str(source)]
    try:
        run([*command, "-o", str(target)])
    except CompilerRunError as error:
        hint = "is this a version of PyTorch and of the compiler that wrapper_ir knows?"
        raise error.explained(f"the runtime part ({unit.name})", hint=hint) from error
    return target


def _key(unit: _Unit, compiler: Compiler, extra_flags: Sequence[str]) -> str:
    flags = (*_flags(compiler), *extra_flags)  # without those that say where things lie
    parts = (str(_FORMAT), *versions(), compiler.version, *flags, unit.name, *_texts(unit.files))
    return hashlib.sha256("\0".join((*parts, *_texts(_headers()))).encode()).hexdigest()


def _headers() -> tuple[Path, ...]:
    return tuple(
        sorted([*(_NATIVE / "include").rglob("*.h"), *(_NATIVE / "src").glob("*.h")]),
    )


def _texts(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the text of each file, after its name."""
    return tuple(
        text
        for file in files
        for text in (file.relative_to(_NATIVE).as_posix(), file.read_text("utf-8"))
    )


# Extension modules of our own, of one C++ file each: compiled once, then found in the cache.
#
# What such a file is compiled to depends on PyTorch, Python and the compiler, on no program.


#: Raise it when modules that were made otherwise must not be found any more.
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension module and the file that it is made of.

    Attributes:
        name: The module's.
        source: The file.
        texts: Files and folders of ours that it includes: with them it changes.
    """

    name: str
    source: Path
    texts: tuple[Path, ...] = ()

    def load(self) -> Any:  # noqa: ANN401 - a module without types
        """Return the module, compiled now if no process has done so before.

        Raises:
            CompileError: It does not compile.
            LinkError: It does not link.
            LibraryLoadError: It cannot be loaded.
            CacheDirError: The cache's directory cannot be used.
        """
        import torch  # noqa: F401, PLC0415 - its libraries must be in the process before

        return load_module(self.name, self.file(default_cache()))

    def file(self, cache: DiskCache) -> Path:
        """Return the module's file, compiled now if the cache has none.

        Raises:
            CompileError: It does not compile.
            LinkError: It does not link.
            CacheDirError: The cache's directory cannot be used.
        """
        compiler = find_compiler(cache)
        return cache.made(self._key(compiler), "so", lambda folder: self._build(folder, compiler))

    def _build(self, scratch: Path, compiler: Compiler) -> Path:
        includes = [f"-I{path}" for path in (*native_include_dirs(), include_dirs()[0])]
        unit, library = str(scratch / "unit.o"), scratch / f"{self.name}.so"
        # Headers of PyTorch's, which are not ours to keep free of warnings.
        flags = [*native_flags(compiler), "-w", *includes]
        try:
            run([*compiler.command, *flags, "-c", str(self.source), "-o", unit])
        except CompilerRunError as error:
            hint = "is this version of PyTorch, or of the compiler, one that we know?"
            what = f"a part of wrapper_ir ({self.source.name})"
            raise error.explained(what, hint=hint) from error
        run_linker([*compiler.command, unit, "-o", str(library), *link_flags(), "-ldl", "-s"])
        return library

    def _key(self, compiler: Compiler) -> str:
        parts = [str(_FORMAT), self.name, environment(), compiler.version]
        for file in (self.source, *_files(self.texts)):
            parts += (file.name, file.read_text("utf-8"))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and those in folders."""
    found: list[Path] = []
    for path in paths:
        found += path.rglob("*.h") if path.is_dir() else [path]
    return sorted(found)
