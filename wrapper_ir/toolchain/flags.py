"""The flags of compilers and linkers: those of Inductor's kernels, and those of our own files.

The flags of kernels are those that PyTorch Inductor uses (a test checks them against the installed
version), except those that cannot change machine code: debug information and warnings. The same
source thus gives bitwise the same results.
"""

from __future__ import annotations

import functools
import platform
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain.isa import cpu_features

if TYPE_CHECKING:
    from wrapper_ir.toolchain.compiler import Compiler
    from wrapper_ir.toolchain.isa import Isa

NATIVE: Final = Path(__file__).resolve().parent.parent / "native"
"""The folder of our own C++."""


@functools.cache
def _torch_dir() -> Path:
    import torch  # noqa: PLC0415 - the flags below are used without it, too

    return Path(torch.__file__).parent


def kernel_definitions(isa: Isa) -> tuple[str, ...]:
    """Return the preprocessor flags of a kernel for an instruction set."""
    names = (
        "TORCH_INDUCTOR_CPP_WRAPPER",
        "STANDALONE_TORCH_HEADER",
        "TORCH_INDUCTOR_PRECOMPILE_HEADERS",
        "C10_USING_CUSTOM_GENERATED_MACROS",
        *isa.macros,
    )
    return tuple(f"-D{name}" for name in names)


#: Floating-point flags of Inductor's kernels, in its order (later ones undo part of earlier ones).
#: ``-ffast-math`` itself is not used: with it, g++ before 13 links in code that flushes denormals
#: in the whole process.
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
    if sys.platform == "darwin":  # Apple's clang has no -march=native
        return ()
    if machine == "ppc64le":
        return ("-mcpu=native",)
    if machine == "aarch64" and compiler.gcc_major < 13 and {"bf16", "sve"} <= cpu_features():
        return (f"-march=armv8.6-a+sve{'+sve2' if 'sve2' in cpu_features() else ''}+bf16",)
    return ("-march=native",)


def compile_flags(compiler: Compiler, isa: Isa, *, opt_level: str = "-O3") -> tuple[str, ...]:
    """Return the flags that compile a kernel to an object file, without include paths."""
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
        # Generated code triggers thousands of warnings in the vector headers; finding and printing
        # them takes a fifth of the compile time.
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
