"""The C++ compiler: finding it, knowing its version, giving it Inductor's flags, running it.

The flags are those that PyTorch Inductor uses for kernels (checked by a test against the installed
version), less what cannot change machine code: debug information and warnings. With the same
source this gives bitwise the same results.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.cache import disk_full
from wrapper_ir.toolchain.errors import (
    CompileError,
    CompilerNotFoundError,
    CompilerTooOldError,
    LinkError,
    excerpt,
    offending_lines,
    shortened,
)
from wrapper_ir.toolchain.isa import cpu_features
from wrapper_ir.toolchain.processes import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.errors import WrapperIRError
    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.isa import Isa


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler that answers."""

    command: tuple[str, ...]  #: how to start it; more than one word for ``ccache g++``
    executable: Path  #: the file behind the last word of ``command``
    version: str  #: what it says of itself, on one line, and the options in ``command``
    major: int  #: major version
    clang: bool

    @property
    def name(self) -> str:
        """Name of the kind of compiler."""
        return "clang++" if self.clang else "g++"

    @property
    def gcc_major(self) -> int:
        """Major version of g++ whose flags this compiler knows."""
        return 99 if self.clang else self.major


class CompilerRunError(Exception):
    """A compiler or linker run failed: internal, turned into an error with words by its caller."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(output)
        self.command = shlex.join(command)
        self.output = output

    def explained(
        self, unit: str, file: str = "", code: str = "", hint: str | None = None
    ) -> CompileError:
        """Return the error that a user sees when a file does not compile; ``code`` is its text."""
        return CompileError(
            unit=unit,
            command=self.command,
            excerpt=excerpt(code, offending_lines(file, self.output)[:3]),
            output=shortened(self.output),
            hint=hint,
        )


def compiler_command() -> tuple[tuple[str, ...], Path]:
    """Return the command words of the compiler and its executable, without starting it.

    Raises:
        CompilerNotFoundError: Neither ``CXX`` nor ``g++`` names an executable on the path.
    """
    default = "clang++" if sys.platform == "darwin" else "g++"
    words = tuple(shlex.split(os.environ.get("CXX", ""))) or (default,)
    found = shutil.which(_program(words))
    if found is None:
        raise CompilerNotFoundError(command=" ".join(words), reason="is not on the path")
    return words, Path(found).resolve()


def _program(words: tuple[str, ...]) -> str:
    """Return the compiler's own name: in ``ccache g++ -m64`` the last word before the options."""
    names = tuple(itertools.takewhile(lambda word: not word.startswith("-"), words))
    return (names or words)[-1]


def find_compiler(cache: DiskCache | None = None) -> Compiler:
    """Return the compiler named by ``CXX``, or else ``g++``.

    Args:
        cache: Where to remember the version under the executable's path, time and size, so that
            the next process need not start the compiler to know it.

    Raises:
        CompilerNotFoundError: There is none, or it does not run.
        CompilerTooOldError: It knows no C++20.
    """
    words, executable = compiler_command()
    stat = executable.stat()
    stamp = f"{words}\0{executable}\0{stat.st_mtime_ns}\0{stat.st_size}"
    if stamp not in _KNOWN:
        found = parse_version(words, executable, _version_text(words, stamp, cache))
        least = _LEAST_CLANG if found.clang else _LEAST_GCC
        if 0 < found.major < least:
            raise CompilerTooOldError(
                command=" ".join(words), version=found.version, name=found.name, least=least
            )
        _KNOWN[stamp] = found
    return _KNOWN[stamp]


_KNOWN: dict[str, Compiler] = {}

#: The first that take ``-std=c++20``, which PyTorch's headers want.
_LEAST_GCC, _LEAST_CLANG = 10, 10


def _version_text(words: tuple[str, ...], stamp: str, cache: DiskCache | None) -> str:
    key = hashlib.sha256(f"compiler version\0{stamp}".encode()).hexdigest()
    remembered = cache.get_bytes(key, "txt") if cache is not None else None
    if remembered is not None:
        return remembered.decode("utf-8", errors="replace")
    try:
        done = subprocess.run(
            [*words, "-v"], capture_output=True, text=True, check=True, env=_plain_environment()
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompilerNotFoundError(
            command=" ".join(words), reason=f"does not run: {error}"
        ) from error
    text = done.stderr or done.stdout
    if cache is not None:
        cache.put(key, "txt", text.encode())
    return text


def parse_version(words: tuple[str, ...], executable: Path, text: str) -> Compiler:
    """Return the compiler described by the output of ``-v``."""
    lines = [line.strip() for line in text.splitlines() if " version " in line]
    line = lines[-1] if lines else text.strip().replace("\n", " ")
    number = re.search(r"version (\d+)", line)
    options = words[words.index(_program(words)) + 1 :]
    return Compiler(
        command=words,
        executable=executable,
        version=" ".join((line, *options)),
        major=int(number.group(1)) if number else 0,
        clang="clang" in line,
    )


def _plain_environment() -> dict[str, str]:
    """Return the environment with untranslated compiler messages."""
    return {**os.environ, "LC_ALL": "C"}


@functools.cache
def _torch_dir() -> Path:
    import torch  # noqa: PLC0415 - the flags below are wanted without it, too

    return Path(torch.__file__).parent


def kernel_definitions(isa: Isa) -> tuple[str, ...]:
    """Return the preprocessor flags of a kernel for this instruction set."""
    names = (
        "TORCH_INDUCTOR_CPP_WRAPPER",
        "STANDALONE_TORCH_HEADER",
        "TORCH_INDUCTOR_PRECOMPILE_HEADERS",
        "C10_USING_CUSTOM_GENERATED_MACROS",
        *isa.macros,
    )
    return tuple(f"-D{name}" for name in names)


#: Floating-point rules of Inductor's kernels, in its order (later ones undo part of earlier ones).
#: ``-ffast-math`` itself is not used: g++ before 13 then links code that flushes denormals in the
#: whole process.
_MATH = (
    "-fno-trapping-math",
    "-funsafe-math-optimizations",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-fno-finite-math-only",
    "-fno-unsafe-math-optimizations",
    "-fmath-errno",
    "-ffp-contract=off",
)


def arch_cflags(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    """Return ``-march`` and the flags of the instruction set."""
    return _march(compiler, isa) + isa.arch_flags(compiler.gcc_major)


def _march(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    machine = platform.machine()
    if not isa.native:
        return (f"-march={isa.march}",)
    if sys.platform == "darwin":  # clang for Apple's processors knows no native
        return ()
    if machine == "ppc64le":
        return ("-mcpu=native",)
    if machine == "aarch64" and compiler.gcc_major < 13 and {"bf16", "sve"} <= cpu_features():
        return (f"-march=armv8.6-a+sve{'+sve2' if 'sve2' in cpu_features() else ''}+bf16",)
    return ("-march=native",)


def compile_flags(compiler: Compiler, isa: Isa, *, opt_level: str = "-O3") -> tuple[str, ...]:
    """Return the flags that turn a kernel's source into an object file, include paths excepted."""
    gcc_only = () if compiler.clang else ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
    return (
        *kernel_definitions(isa),
        opt_level,
        "-DNDEBUG",
        "-fno-omit-frame-pointer",
        *_MATH,
        *gcc_only,
        "-fPIC",
        "-std=c++20",
        # Generated code raises thousands of warnings in the vector headers; printing and even
        # finding them costs a fifth of the compile time.
        "-w",
        "-fopenmp",
        *arch_cflags(compiler, isa),
    )


def include_dirs() -> tuple[Path, ...]:
    """Return the header directories of Python and PyTorch."""
    torch = _torch_dir() / "include"
    return (
        Path(sysconfig.get_path("include")),
        torch,
        torch / "torch" / "csrc" / "api" / "include",
    )


def include_flags() -> tuple[str, ...]:
    """Return the flags that find those headers, and keep their whereabouts out of what is made.

    Their files are called ``torch/...`` in messages that end up in machine code, so that equal
    source gives equal bytes wherever PyTorch is installed. That is why these flags are part of no
    key.
    """
    dirs = include_dirs()
    names = ("python", "torch", "torch")
    return (
        *(f"-I{path}" for path in dirs),
        *(f"-ffile-prefix-map={path}={name}" for path, name in zip(dirs, names, strict=True)),
    )


def library_dirs() -> tuple[Path, ...]:
    """Return the directories with PyTorch's shared libraries."""
    return (_torch_dir() / "lib",)


def stand_in(cache: DiskCache, compiler: Compiler, name: str = "libtorch_cpu.so") -> Path:
    """Return an empty library that passes for another when something is linked.

    Linking with PyTorch's real ones takes five times as long, for nothing: all that ends up in the
    result is a name. Through it the loader finds everything else, OpenMP's runtime included.
    """
    key = hashlib.sha256(f"{name}\0{platform.machine()}".encode()).hexdigest()

    def make(scratch: Path) -> Path:
        empty, made = scratch / "empty.s", scratch / name
        empty.write_text('\t.section .note.GNU-stack,"",%progbits\n', encoding="ascii")
        options = ("-shared", "-nostdlib", f"-Wl,-soname,{name}")
        run_linker([*compiler.command, *options, str(empty), "-o", str(made)])
        return made

    return cache.made(key, "stub", make)


def link_flags() -> tuple[str, ...]:
    """Return the flags that link an extension module of ours to be loaded beside PyTorch.

    Only what is used is recorded as needed, by name and without any path: PyTorch has loaded its
    libraries before, and the loader takes those.
    """
    lib = library_dirs()[0]
    shipped = lib / "libgomp.so.1"
    gomp = "-l:libgomp.so.1" if shipped.exists() else "-lgomp"
    torch = ("-ltorch_cpu", "-lc10", "-ltorch", "-ltorch_python")
    return ("-shared", f"-L{lib}", "-Wl,--as-needed", *torch, gomp, "-Wl,-z,noexecstack")


def _disk_full(command: Sequence[str], cwd: Path | None) -> WrapperIRError:
    """Compilers write their output, and what is on the way to it among the temporary files."""
    output = command[command.index("-o") + 1] if "-o" in command[:-1] else "."
    return disk_full((cwd or Path()) / Path(output).parent, Path(tempfile.gettempdir()))


def run(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a compiler or linker.

    Raises:
        CompilerRunError: It ended with an error, or could not be started.
        DiskFullError: There is no room for what it makes.
    """
    try:
        status, said = current().run(command, cwd=cwd, env=_plain_environment())
    except OSError as error:
        raise CompilerRunError(command, str(error)) from error
    if status != 0:
        output = said.decode("utf-8", errors="replace").strip()
        if os.strerror(errno.ENOSPC) in output:
            raise _disk_full(command, cwd)
        raise CompilerRunError(command, output or f"ended with status {status}")


def run_linker(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run what works on object files: a linker, an assembler, ``objcopy``.

    Raises:
        LinkError: It ended with an error, or could not be started.
        DiskFullError: There is no room for what it makes.
    """
    try:
        run(command, cwd=cwd)
    except CompilerRunError as error:
        raise LinkError(command=error.command, output=error.output) from error


@functools.cache
def versions() -> tuple[str, ...]:
    """Return what every object file depends on: the kind of machine, and PyTorch's versions."""
    import torch  # noqa: PLC0415 - keeps `import wrapper_ir.toolchain` quick

    return (
        platform.machine(),
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
    )
