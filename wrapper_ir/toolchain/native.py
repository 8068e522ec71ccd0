"""The runtime part of AOT libraries: C++ that is the same for every program, compiled once.

``wrapper_ir/native/src`` implements AOTInductor's C interface for programs that keep to
``wrapper_ir/native/include/wir/program.h``. Its objects depend on the compiler, the flags, the
version of PyTorch and their own text, on nothing else, so they are kept in the disk cache; a build
of a library links them. They need no instruction set beyond the machine's baseline.
"""

from __future__ import annotations

import hashlib
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import cache as cached
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.build import default_jobs
from wrapper_ir.toolchain.compiler import Compiler, CompilerRunError, include_dirs, run
from wrapper_ir.toolchain.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.toolchain.cache import DiskCache

__all__ = [
    "EXPORTS",
    "constants_trailer",
    "native_flags",
    "native_include_dirs",
    "runtime_objects",
    "runtime_sources",
]

_NATIVE = Path(__file__).resolve().parent.parent / "native"

#: Raise it when objects that were made otherwise must not be found any more.
_FORMAT = 1

#: A version script for the linker (``-Wl,--version-script=FILE``): what a library shows. Without
#: it the instances of templates of the standard library would be visible as well.
EXPORTS = "{ global: AOTInductor*; WrapperIR*; local: *; };\n"

#: The one source that is needed only by programs that call library ops through the dispatcher.
_OPS = "op.cpp"

_TRAILER_MAGIC = b"WIRDATA1"


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
    # A unique symbol would keep a library in the process for ever, once it was loaded.
    gcc_only = () if compiler.clang else ("-fno-gnu-unique",)
    return (
        "-std=c++20",
        "-O2",
        "-DNDEBUG",
        "-fPIC",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        "-ffunction-sections",
        "-fdata-sections",
        *gcc_only,
        "-Wall",
        "-Wextra",
    )


def runtime_sources(*, ops: bool = True) -> tuple[Path, ...]:
    """Return the C++ files of the runtime part, in a fixed order.

    Args:
        ops: Whether to include the one that calls library ops through the dispatcher.
    """
    files = sorted((_NATIVE / "src").glob("*.cpp"))
    return tuple(file for file in files if ops or file.name != _OPS)


def runtime_objects(
    cache: DiskCache,
    compiler: Compiler,
    *,
    ops: bool = True,
    extra_flags: Sequence[str] = (),
    jobs: int | None = None,
) -> tuple[Path, ...]:
    """Return the object files of the runtime part, compiled now if need be.

    Args:
        cache: Where they are kept.
        compiler: What compiles them.
        ops: Whether the library calls library ops through the dispatcher (``wir::Op``); the file
            for that takes several times as long to compile as all others.
        extra_flags: Further flags, such as ``("-fsanitize=address",)`` or ``("-g",)``.
        jobs: How many compilers to run at once; by default one a processor.

    Returns:
        Files for the linker, in a fixed order. They lie in the cache and must not be changed.

    Raises:
        CompileError: The runtime part does not compile, for instance with a version of PyTorch
            that it was not made for.
        CacheDirError: The cache's directory cannot be used.
    """
    flags = native_flags(compiler) + tuple(extra_flags)
    keys = {source: _key(source, compiler, extra_flags) for source in runtime_sources(ops=ops)}
    if any(cache.get(key, "o") is None for key in keys.values()):
        with cache.locked(keys.values()):
            missing = [source for source, key in keys.items() if cache.get(key, "o") is None]
            _compile(missing, keys, cache, compiler, flags, jobs or default_jobs())
    found = [cache.get(key, "o") for key in keys.values()]
    return tuple(file for file in found if file is not None)


def constants_trailer(size: int, sha256: bytes) -> bytes:
    """Return what must follow the bytes of the constants in a file beside a library.

    By it the library knows at once a file that was cut off, or that belongs to another build; the
    bytes themselves it compares with the digest only when told to.

    Args:
        size: Number of bytes before the trailer.
        sha256: Their digest, 32 bytes.
    """
    return struct.pack("<8sQ32s", _TRAILER_MAGIC, size, sha256)


def _compile(
    sources: Sequence[Path],
    keys: dict[Path, str],
    cache: DiskCache,
    compiler: Compiler,
    flags: Iterable[str],
    jobs: int,
) -> None:
    def compile_one(source: Path, target: Path) -> None:
        includes = [f"-I{path}" for path in native_include_dirs()]
        run([*compiler.command, *flags, *includes, "-c", str(source), "-o", str(target)])
        cache.put(keys[source], "o", target)

    with cache.scratch() as scratch, ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            source: pool.submit(compile_one, source, scratch / f"{source.stem}.o")
            for source in sources
        }
        for source, future in futures.items():
            try:
                future.result()
            except CompilerRunError as error:
                raise _explained(source, error) from error


def _explained(source: Path, error: CompilerRunError) -> CompileError:
    return CompileError(
        unit=f"the runtime part ({source.name})",
        command=error.command,
        excerpt="",
        output=error.output,
        hint="is this version of PyTorch, or of the compiler, one that wrapper_ir knows?",
    )


def _key(source: Path, compiler: Compiler, extra_flags: Iterable[str]) -> str:
    flags = (*_flags(compiler), *extra_flags)  # without those that say where things lie
    parts = (*_environment(), compiler.version, *flags, source.name, source.read_text("utf-8"))
    return hashlib.sha256("\0".join((*parts, *_headers())).encode()).hexdigest()


def _headers() -> tuple[str, ...]:
    """Return the text of every header of ours, each after its name."""
    files = [*(_NATIVE / "include").rglob("*.h"), *(_NATIVE / "src").glob("*.h")]
    return tuple(
        text
        for file in sorted(files)
        for text in (file.relative_to(_NATIVE).as_posix(), file.read_text("utf-8"))
    )


@cached
def _environment() -> tuple[str, ...]:
    import torch  # noqa: PLC0415 - keeps `import wrapper_ir.toolchain` quick

    return (
        str(_FORMAT),
        os.uname().machine,
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
    )
