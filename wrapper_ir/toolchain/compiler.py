"""The C++ compiler: finding it, its version, running it, its flags and the linker's.

The flags of kernels are those that PyTorch Inductor uses (a test checks them against the installed
version), except those that cannot change machine code: debug information and warnings. The same
source thus gives bitwise the same results.
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
from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain import errors
from wrapper_ir.toolchain.cache import DiskCache, disk_full
from wrapper_ir.toolchain.isa import Isa, cpu_features
from wrapper_ir.toolchain.processes import current

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler that runs."""

    command: tuple[str, ...]  #: the command that starts it, such as ``ccache g++``
    executable: Path  #: the file of the compiler itself
    version: str  #: the version line it prints, and the options in ``command``
    major: int  #: major version
    clang: bool

    @property
    def name(self) -> str:
        """The kind of compiler."""
        return "clang++" if self.clang else "g++"

    @property
    def gcc_major(self) -> int:
        """The major version of g++ whose flags this compiler supports."""
        return 99 if self.clang else self.major


class CompilerRunError(Exception):
    """A compiler or linker run failed. Internal: callers turn it into an error for users."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(output)
        self.command: str = shlex.join(command)
        self.output = output

    def explained(
        self, unit: str, file: str = "", code: str = "", hint: str | None = None
    ) -> errors.CompileError:
        """Return the user-facing error for a file that does not compile; ``code`` is its text."""
        header = include_dirs()[0] / "Python.h"
        if header.name in self.output and not header.is_file():
            package = "python{0}.{1}-dev or python{0}.{1}-devel".format(*sys.version_info)
            hint = f"install the headers of Python: {header} is in {package}"
        return errors.CompileError(
            unit=unit,
            command=self.command,
            excerpt=errors.excerpt(code, errors.offending_lines(file, self.output)[:3]),
            output=errors.shortened(self.output),
            hint=hint,
        )


def compiler_command() -> tuple[tuple[str, ...], Path]:
    """Return the words of the compiler's command and its executable, without running it.

    Raises:
        CompilerNotFoundError: Neither ``CXX`` nor ``g++`` names an executable on the path.
    """
    default = "clang++" if sys.platform == "darwin" else "g++"
    words = tuple(shlex.split(os.environ.get("CXX", ""))) or (default,)
    file = shutil.which(_program(words))
    if file is None:
        raise errors.CompilerNotFoundError(command=" ".join(words), reason="is not on the path")
    return words, Path(file).resolve()


def _program(words: tuple[str, ...]) -> str:
    """Return the compiler's name: in ``ccache g++ -m64`` the last word before the options."""
    names = tuple(itertools.takewhile(lambda word: not word.startswith("-"), words))
    return (names or words)[-1]


def find_compiler(cache: DiskCache | None = None) -> Compiler:
    """Return the compiler named by ``CXX``, or else ``g++``.

    The cache remembers its version, so that later processes need not run it to learn that.

    Raises:
        CompilerNotFoundError: There is no compiler, or it does not run.
        CompilerTooOldError: The compiler does not support C++20.
    """
    words, executable = compiler_command()
    stat = executable.stat()
    stamp = f"{words}\0{executable}\0{stat.st_mtime_ns}\0{stat.st_size}"
    if stamp not in _KNOWN:
        compiler = parse_version(words, executable, _version_text(words, stamp, cache))
        if 0 < compiler.major < _LEAST:
            raise errors.CompilerTooOldError(
                command=" ".join(words), version=compiler.version, name=compiler.name, least=_LEAST
            )
        _KNOWN[stamp] = compiler
    return _KNOWN[stamp]


_KNOWN: dict[str, Compiler] = {}

#: First major version of g++, and of clang++, with ``-std=c++20``, which PyTorch's headers need.
_LEAST = 10


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
        command, reason = " ".join(words), f"does not run: {error}"
        raise errors.CompilerNotFoundError(command=command, reason=reason) from error
    text = done.stderr or done.stdout
    if cache is not None:
        cache.put(key, "txt", text.encode())
    return text


def parse_version(words: tuple[str, ...], executable: Path, text: str) -> Compiler:
    """Return the compiler that the output of ``-v`` describes."""
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
    """Return the environment for compilers, whose messages must not be translated."""
    return {**os.environ, "LC_ALL": "C"}


def stand_in(cache: DiskCache, compiler: Compiler, name: str = "libtorch_cpu.so") -> Path:
    """Return an empty library that stands in for another one at link time.

    Linking with PyTorch's real libraries takes five times as long and gives the same result: only
    the name is recorded. Through it the loader finds everything else, OpenMP's runtime included.
    """
    key = hashlib.sha256(f"{name}\0{platform.machine()}".encode()).hexdigest()

    def make(scratch: Path) -> Path:
        empty, library = scratch / "empty.s", scratch / name
        empty.write_text('\t.section .note.GNU-stack,"",%progbits\n', encoding="ascii")
        options = ("-shared", "-nostdlib", f"-Wl,-soname,{name}")
        run_linker([*compiler.command, *options, str(empty), "-o", str(library)])
        return library

    return cache.made(key, "stub", make)


def run(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a compiler or linker.

    Raises:
        CompilerRunError: It failed, or could not be started.
        DiskFullError: The disk is too full for its output.
    """
    try:
        status, said = current().run(command, cwd=cwd, env=_plain_environment())
    except OSError as error:
        raise CompilerRunError(command, str(error)) from error
    if status != 0:
        output = said.decode("utf-8", errors="replace").strip()
        if os.strerror(errno.ENOSPC) in output:
            # Compilers write intermediate files to the temporary directory.
            target = command[command.index("-o") + 1] if "-o" in command[:-1] else "."
            raise disk_full((cwd or Path()) / Path(target).parent, Path(tempfile.gettempdir()))
        raise CompilerRunError(command, output or f"ended with status {status}")


def run_linker(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a tool that works on object files: a linker, an assembler, ``objcopy``.

    Raises:
        LinkError: It failed, or could not be started.
    """
    try:
        run(command, cwd=cwd)
    except CompilerRunError as error:
        raise errors.LinkError(command=error.command, output=error.output) from error


NATIVE: Final = Path(__file__).resolve().parent.parent / "native"
"""The folder of our own C++."""


@functools.cache
def _torch_dir() -> Path:
    import torch  # noqa: PLC0415 - the flags below are used without it, too

    return Path(torch.__file__).parent


def kernel_definitions(isa: Isa) -> tuple[str, ...]:
    """Return the preprocessor flags of a kernel for an instruction set."""
    names = ["TORCH_INDUCTOR_CPP_WRAPPER", "STANDALONE_TORCH_HEADER"]
    names += ["TORCH_INDUCTOR_PRECOMPILE_HEADERS", "C10_USING_CUSTOM_GENERATED_MACROS"]
    return tuple(f"-D{name}" for name in (*names, *isa.macros))


#: Floating-point flags of Inductor's kernels, in its order (later ones undo part of earlier ones).
#: ``-ffast-math`` itself is not used: with it, g++ before 13 links in code that flushes denormals
#: in the whole process.
_MATH = (
    *("-fno-trapping-math", "-funsafe-math-optimizations", "-ffinite-math-only"),
    *("-fno-signed-zeros", "-fno-finite-math-only", "-fno-unsafe-math-optimizations"),
    *("-fmath-errno", "-ffp-contract=off"),
)


def arch_cflags(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    """Return ``-march`` and the flags of the instruction set."""
    return _march(compiler, isa) + isa.arch_flags(compiler.gcc_major)


def _march(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    machine = platform.machine()
    if not isa.native:
        return (f"-march={isa.march}",)
    if sys.platform == "darwin":  # Apple's clang has no -march=native
        return ()
    if machine == "ppc64le":
        return ("-mcpu=native",)
    if machine == "aarch64" and compiler.gcc_major < 13 and {"bf16", "sve"} <= cpu_features():
        return (f"-march=armv8.6-a+sve{'+sve2' if 'sve2' in cpu_features() else ''}+bf16",)
    return ("-march=native",)


def compile_flags(compiler: Compiler, isa: Isa) -> tuple[str, ...]:
    """Return the flags that compile a kernel to an object file, without include paths."""
    gcc_only = () if compiler.clang else ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
    return (
        *kernel_definitions(isa),
        *("-O3", "-DNDEBUG", "-fno-omit-frame-pointer"),
        *_MATH,
        *gcc_only,
        "-fPIC",
        "-std=c++20",
        # Generated code triggers thousands of warnings in the vector headers; finding and printing
        # them takes a fifth of the compile time.
        "-w",
        "-fopenmp",
        *arch_cflags(compiler, isa),
    )


def include_dirs() -> tuple[Path, ...]:
    """Return the header directories of Python and PyTorch."""
    torch = _torch_dir() / "include"
    return Path(sysconfig.get_path("include")), torch, torch / "torch/csrc/api/include"


def include_flags() -> tuple[str, ...]:
    """Return the flags that find headers, ours among them, and keep their location out of objects.

    Messages in machine code call the files ``torch/...``, so that equal source gives equal bytes
    wherever PyTorch is installed. That is why these flags are not part of any key.
    """
    dirs = (NATIVE, NATIVE / "include", *include_dirs())
    names = ("wrapper_ir/native", "wrapper_ir/native/include", "python", "torch", "torch")
    return (
        *(f"-I{path}" for path in dirs),
        *(f"-ffile-prefix-map={path}={name}" for path, name in zip(dirs, names, strict=True)),
    )


def native_include_dirs() -> tuple[Path, ...]:
    """Return the header directories of generated code: ours, then PyTorch's."""
    torch = include_dirs()[1:]  # without Python's: AOT libraries do not use it
    return (NATIVE / "include", *torch)


def plain_flags(compiler: Compiler, level: str) -> tuple[str, ...]:
    """Return the flags for files other than kernels, without those about warnings."""
    # A unique symbol would keep a library from ever being unloaded.
    gcc_only = () if compiler.clang else ("-fno-gnu-unique",)
    return (
        *("-std=c++20", level, "-DNDEBUG", "-fPIC", "-fvisibility=hidden"),
        *("-fvisibility-inlines-hidden", "-ffunction-sections", "-fdata-sections"),
        *gcc_only,
    )


def generated_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for generated files other than kernels, without include paths.

    These files are lists of calls, where a higher optimisation level is not worth its time.
    """
    return (*plain_flags(compiler, "-O1"), "-w")


def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for the C++ runtime, without include paths."""
    # A third smaller; the few functions that every call runs ask for more themselves.
    return (*plain_flags(compiler, "-Os"), "-Wall", "-Wextra")


def library_dirs() -> tuple[Path, ...]:
    """Return the directories of PyTorch's shared libraries."""
    return (_torch_dir() / "lib",)


def link_flags() -> tuple[str, ...]:
    """Return the flags that link one of our extension modules, to be loaded beside PyTorch.

    Only libraries that are used are recorded, by name and without a path: PyTorch has loaded them
    before, and the loader takes those.
    """
    lib = library_dirs()[0]
    shipped = lib / "libgomp.so.1"
    gomp = "-l:libgomp.so.1" if shipped.exists() else "-lgomp"
    torch = ("-ltorch_cpu", "-lc10", "-ltorch", "-ltorch_python")
    return ("-shared", f"-L{lib}", "-Wl,--as-needed", *torch, gomp, "-Wl,-z,noexecstack")


@functools.cache
def versions() -> tuple[str, ...]:
    """Return what every object file depends on: the machine type and PyTorch's versions."""
    import torch  # noqa: PLC0415 - keeps `import wrapper_ir.toolchain` quick

    return (
        platform.machine(),
        torch.__version__,
        str(torch.version.git_version),
        str(torch.compiled_with_cxx11_abi()),
    )
