"""The C++ runtime of AOT libraries: the same for every program, so it is compiled once.

``wrapper_ir/native/src`` implements AOTInductor's C interface for programs that follow
``wrapper_ir/native/include/wir/program.h``. Its objects depend only on the compiler, the flags, the
version of PyTorch and their own text, so they are kept in the disk cache, and building a library
only links them. They need no instruction set beyond the machine's baseline.
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


_NATIVE = Path(__file__).resolve().parent.parent / "native"

#: Raise it when older cache entries must no longer be found.
_FORMAT = 1

#: A version script for the linker (``-Wl,--version-script=FILE``): the symbols that a library
#: exports. Without it, template instances of the standard library would be visible as well.
EXPORTS = "{ global: AOTInductor*; WrapperIR*; local: *; };\n"

#: Names of the translation units of parts that consist of several files.
_UNITS = {Part.PROBES: "probes", Part.GRAPHS: "graphs"}

#: The start of the trailer of every constants file beside a library.
TRAILER_MAGIC = b"WIRDATA1"
_TRAILER = struct.Struct("<8sQ32s")


def native_include_dirs() -> tuple[Path, ...]:
    """Return the header directories of generated code: ours, then PyTorch's."""
    torch = include_dirs()[1:]  # without Python's: AOT libraries do not use it
    return (_NATIVE / "include", *torch)


def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for the C++ runtime, without include paths.

    They keep the paths of this machine out of objects, so that equal text gives equal bytes.
    """
    torch = native_include_dirs()[1:]
    maps = ((_NATIVE, "wrapper_ir/native"), *((path, "torch") for path in torch))
    return (*_flags(compiler), *(f"-ffile-prefix-map={path}={name}" for path, name in maps))


def _flags(compiler: Compiler) -> tuple[str, ...]:
    # A third smaller; the few functions that every call runs ask for more themselves.
    return (*plain_flags(compiler, "-Os"), "-Wall", "-Wextra")


def plain_flags(compiler: Compiler, level: str) -> tuple[str, ...]:
    """Return the flags for files other than kernels, without those about warnings."""
    # A unique symbol would keep a library from ever being unloaded.
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
    """Return the object files of the C++ runtime, compiled now if need be.

    Args:
        cache: The cache that keeps them.
        compiler: The compiler.
        parts: The optional parts that the library needs.
        extra_flags: Further flags, such as ``("-fsanitize=address",)`` or ``("-g",)``.
        jobs: The number of compilers to run at once; by default one per processor.

    Returns:
        Files for the linker, in a fixed order. They lie in the cache and must not be changed.

    Raises:
        CompileError: The runtime does not compile, for instance with a version of PyTorch that it
            does not support.
        CacheDirError: The cache directory cannot be used.
    """
    flags = (*native_flags(compiler), *extra_flags)

    def object_of(unit: tuple[str, tuple[Path, ...]]) -> Path:
        key = _key(*unit, compiler, extra_flags)
        return cache.made(key, "o", lambda folder: _compile(*unit, folder, compiler, flags))

    with pool(jobs or default_jobs()) as threads:
        return tuple(threads.map(object_of, native_units(parts).items()))


def constants_trailer(size: int, sha256: bytes) -> bytes:
    """Return the trailer of a constants file beside a library.

    It tells the library at once that a file is truncated or belongs to another build. The bytes
    themselves are compared with the digest only on request.

    Args:
        size: Number of bytes before the trailer.
        sha256: Their digest, 32 bytes.
    """
    return _TRAILER.pack(TRAILER_MAGIC, size, sha256)


def read_trailer(file: Path) -> tuple[int, bytes]:
    """Return the number of bytes of constants in a file, and their digest."""
    with file.open("rb") as source:
        source.seek(-_TRAILER.size, 2)
        _, size, sha256 = _TRAILER.unpack(source.read())
    return size, sha256


def native_units(parts: Collection[Part]) -> dict[str, tuple[Path, ...]]:
    """Return the source files of the runtime that a library needs, by translation unit.

    The files of a unit are compiled as one; one by one they take four times as long.
    """
    units: dict[str, list[Path]] = {"runtime": []}
    for file in sorted((_NATIVE / "src").glob("*.cpp")):
        unit, required = _unit_of(file.stem)
        if required.issubset(parts):
            units.setdefault(unit, []).append(file)
    return {name: tuple(files) for name, files in units.items()}


def _unit_of(stem: str) -> tuple[str, frozenset[Part]]:
    """Return the unit of a source file, and the part that needs it: its name begins with one.

    A file named after two parts is for libraries with both, and a unit by itself.
    """
    for part in Part:
        if stem == part or stem.startswith(f"{part}_"):
            rest = stem.removeprefix(f"{part}_")
            second = next((each for each, unit in _UNITS.items() if unit == rest), None)
            if second is not None:
                return stem, frozenset((part, second))
            return _UNITS.get(part, part.value), frozenset((part,))
    return "runtime", frozenset()


def _compile(
    name: str, files: Sequence[Path], scratch: Path, compiler: Compiler, flags: Sequence[str]
) -> Path:
    includes = [f"-I{path}" for path in (_NATIVE / "src", *native_include_dirs())]
    target = scratch / f"{name}.o"
    source = scratch / f"{name}_unit.cpp"  # unlike the name of any file that it includes
    source.write_text("".join(f'#include "{file.name}"\n' for file in files), encoding="utf-8")
    mapping = f"-ffile-prefix-map={scratch}=wrapper_ir/native"
    command = [*compiler.command, *flags, mapping, *includes, "-c", str(source), "-o", str(target)]
    _run(command, f"the runtime part ({name})")
    return target


def _run(command: Sequence[str], what: str) -> None:
    try:
        run(command)
    except CompilerRunError as error:
        hint = "check that wrapper_ir supports this version of PyTorch and of the compiler"
        raise error.explained(what, hint=hint) from error


def _key(name: str, files: Sequence[Path], compiler: Compiler, extra_flags: Sequence[str]) -> str:
    flags = (*_flags(compiler), *extra_flags)  # without those that contain paths
    headers = sorted([*(_NATIVE / "include").rglob("*.h"), *(_NATIVE / "src").glob("*.h")])
    parts = [str(_FORMAT), *versions(), compiler.version, *flags, name]
    for file in (*files, *headers):
        parts += (file.relative_to(_NATIVE).as_posix(), file.read_text("utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# Extension modules of our own, of one C++ file each. They depend on PyTorch, Python and the
# compiler but on no program, so they are compiled once and then found in the cache.


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension module and the file that it is built from.

    Attributes:
        name: The module's name.
        source: The file.
        texts: Our files and folders that the file includes, whose text is part of the key.
    """

    name: str
    source: Path
    texts: tuple[Path, ...] = ()

    def load(self) -> Any:  # noqa: ANN401 - a module without types
        """Return the module, compiled now if no process has done so before.

        Raises:
            LibraryLoadError: It cannot be loaded.
            WrapperIRError: As for :meth:`file`.
        """
        import torch  # noqa: F401, PLC0415 - its libraries must be loaded first

        return load_module(self.name, self.file(default_cache()))

    def file(self, cache: DiskCache) -> Path:
        """Return the module's file, compiled now if the cache has none.

        Raises:
            CompileError: It does not compile.
            LinkError: It does not link.
            CacheDirError: The cache directory cannot be used.
        """
        compiler = find_compiler(cache)
        return cache.made(self._key(compiler), "so", lambda folder: self._build(folder, compiler))

    def _build(self, scratch: Path, compiler: Compiler) -> Path:
        includes = [f"-I{path}" for path in (*native_include_dirs(), include_dirs()[0])]
        unit, library = str(scratch / "unit.o"), scratch / f"{self.name}.so"
        # Without warnings, because it reads headers of PyTorch that have some.
        flags = [*native_flags(compiler), "-w", *includes, "-c", str(self.source), "-o", unit]
        _run([*compiler.command, *flags], f"a part of wrapper_ir ({self.source.name})")
        run_linker([*compiler.command, unit, "-o", str(library), *link_flags(), "-ldl", "-s"])
        return library

    def _key(self, compiler: Compiler) -> str:
        parts = [str(_FORMAT), self.name, environment(), compiler.version]
        for file in (self.source, *_files(self.texts)):
            parts += (file.name, file.read_text("utf-8"))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _files(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and the headers in the given folders, sorted."""
    files: list[Path] = []
    for path in paths:
        files += path.rglob("*.h") if path.is_dir() else [path]
    return sorted(files)
