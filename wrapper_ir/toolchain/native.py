"""The C++ runtime of AOT libraries: the same for every program, so it is compiled once.

``wrapper_ir/native/src`` implements AOTInductor's C interface for programs that follow
``wrapper_ir/native/include/wir/program.h``. Its objects depend only on the compiler, the flags, the
version of PyTorch and their own text, so they are kept in the disk cache, and building a library
only links them. They need no instruction set beyond the machine's baseline.
"""

from __future__ import annotations

import hashlib
import struct
import sysconfig
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain import objects
from wrapper_ir.toolchain.build import default_jobs, header_environment
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.headers import PREFIX, HeaderStore
from wrapper_ir.toolchain.kernels import load_module
from wrapper_ir.toolchain.manifest import Part
from wrapper_ir.toolchain.processes import pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path


#: Names of the translation units of parts that consist of several files.
_UNITS: Final = {Part.PROBES: "probes", Part.GRAPHS: "graphs"}

_HINT: Final = "check that wrapper_ir supports this version of PyTorch and of the compiler"

#: The header that every generated file reads.
GENERATED: Final = "wir/generated.h"

#: The start of the trailer of every constants file beside a library.
TRAILER_MAGIC: Final = b"WIRDATA1"
_TRAILER: Final = struct.Struct("<8sQ32s")


def precompiled(cache: DiskCache) -> dict[str, HeaderStore]:
    """Return a cache's precompiled headers of kernels and of generated files, by header."""
    return {
        PREFIX: HeaderStore(cache, header_environment(), PREFIX),
        GENERATED: HeaderStore(cache, "\0".join(objects.environment()), GENERATED),
    }


def runtime_objects(
    cache: DiskCache,
    compiler: cxx.Compiler,
    parts: Collection[Part] = (Part.OPS,),
    *,
    extra_flags: Sequence[str] = (),
    jobs: int | None = None,
) -> tuple[Path, ...]:
    """Return the object files of the C++ runtime, compiled now if need be, in a fixed order.

    They lie in the cache and must not be changed. ``extra_flags`` are such as
    ``("-fsanitize=address",)``.

    Raises:
        CompileError: The runtime does not compile, for instance with a version of PyTorch that it
            does not support.
        CacheDirError: The cache directory cannot be used.
    """
    flags = (*cxx.native_flags(compiler), *extra_flags)
    headers = (cxx.NATIVE / "src").glob("*.h")
    files = [
        _unit(f"{name}_unit.cpp", members, flags, f"the runtime part ({name})", headers=headers)
        for name, members in native_units(parts).items()
    ]
    with pool(jobs or default_jobs()) as threads:
        compiling = objects.compile_files(files, objects.Tools(compiler, cache), threads)
        return tuple(each.result() for each in compiling)


def constants_trailer(size: int, sha256: bytes) -> bytes:
    """Return the trailer of a constants file beside a library: its size, and its digest.

    It tells the library at once that a file is truncated or belongs to another build. The bytes
    themselves are compared with the digest only on request.
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
    for file in sorted((cxx.NATIVE / "src").glob("*.cpp")):
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


def _unit(
    name: str, files: Sequence[Path], flags: tuple[str, ...], what: str, *, headers: Iterable[Path]
) -> objects.Translation:
    """Return the translation unit of some of our own files, which read headers beside them."""
    return objects.Translation(
        name=name,
        text="".join(f'#include "{file.relative_to(cxx.NATIVE)}"\n' for file in files),
        flags=flags,
        what=what,
        reads=(*files, *sorted(headers)),
        hints={"": _HINT},
    )


# Extension modules of our own, of one C++ file each. They depend on PyTorch, Python and the
# compiler but on no program, so they are compiled once and then found in the cache.


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension module and the file that it is built from."""

    name: str
    source: str  #: the file in ``wrapper_ir/native``
    more: tuple[str, ...] = ()  #: files and folders there that it reads: part of the key

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
        tools = objects.Tools(cxx.find_compiler(cache), cache)
        unit = self._unit(tools.compiler)
        key = self._key(unit, tools.compiler)

        def make(folder: Path) -> Path:
            library = folder / f"{self.name}.so"
            command = [*tools.compiler.command, str(objects.compile_file(unit, tools, folder))]
            cxx.run_linker([*command, "-o", str(library), *cxx.link_flags(), "-ldl", "-s"])
            return library

        return cache.made(key, "so", make)

    def is_made(self, cache: DiskCache) -> bool:
        """Return whether the cache has the module's file.

        Raises:
            CacheDirError: The cache directory cannot be used.
        """
        compiler = cxx.find_compiler(cache)
        return cache.get(self._key(self._unit(compiler), compiler), "so") is not None

    @staticmethod
    def _key(unit: objects.Translation, compiler: cxx.Compiler) -> str:
        # Unlike an object's key, it has only those headers that are read: each process looks here.
        parts = (*cxx.versions(), str(sysconfig.get_config_var("SOABI")), compiler.version)
        texts = (unit.name, *unit.flags, objects.digest_of(unit.reads))
        return hashlib.sha256("\0".join((*parts, *texts)).encode()).hexdigest()

    def _unit(self, compiler: cxx.Compiler) -> objects.Translation:
        source = cxx.NATIVE / self.source
        headers: list[Path] = []
        for path in (cxx.NATIVE / each for each in self.more):
            headers += path.rglob("*.h") if path.is_dir() else [path]
        return _unit(
            f"{self.name}_unit.cpp",
            (source,),
            # Without warnings, because it reads headers of PyTorch that have some.
            (*cxx.native_flags(compiler), "-w"),
            f"a part of wrapper_ir ({source.name})",
            headers=headers,
        )
