"""C++ kernels built into one shared library: compiled in parallel, linked, failures explained.

The text that makes kernels callable from Python is here as far as it depends on the kernels. The
rest is in ``wrapper_ir/native/python``: how arguments are converted (``kernel.h``), and the
extension module of a library (``kernel_module.h``).
"""

from __future__ import annotations

import functools
import os
import sysconfig
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import CppSide
from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain import kernel_files
from wrapper_ir.toolchain.errors import CompileError
from wrapper_ir.toolchain.headers import INSTANCES, PREFIX, HeaderStore
from wrapper_ir.toolchain.isa import Isa
from wrapper_ir.toolchain.objects import Tools, Translation, compile_file
from wrapper_ir.toolchain.processes import pool
from wrapper_ir.toolchain.source import CppSource, CppUnit, Parameter, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache


PLAIN: Final = CppSide()
"""The side of a device whose kernels are called as on the host, beside PyTorch alone."""

#: Raise it when older cache entries must no longer be found.
_FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Target:
    """What kernels are compiled for; those of one target can share a library."""

    isa: Isa
    extra_flags: tuple[str, ...] = ()
    side: CppSide = PLAIN  #: the device's

    def flags(self, compiler: cxx.Compiler) -> tuple[str, ...]:
        """Return every compiler flag except include paths."""
        return (*cxx.compile_flags(compiler, self.isa), *self.extra_flags, INSTANCES)


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def header_environment() -> str:
    """Return the versions that every kernel and its precompiled header depend on, joined."""
    soabi = str(sysconfig.get_config_var("SOABI"))
    return "\0".join((str(_FORMAT), soabi, *cxx.versions()))


def kernel_tools(cache: DiskCache) -> Tools:
    """Return what kernels are compiled with."""
    headers = {PREFIX: HeaderStore(cache, header_environment(), PREFIX)}
    return Tools(cxx.find_compiler(cache), cache, headers)


def build_library(
    kernels: Sequence[CppUnit],
    target: Target,
    tools: Tools,
    library: Path,
    jobs: int,
    advance: Callable[[int], None],
) -> None:
    """Compile kernels and link them into one extension module, in an empty directory.

    The module numbers kernels in this order. ``advance`` is called with the number of kernels each
    time some have been compiled. The kernels of a file that fails are compiled alone: the error
    then names the right kernel, and kernels that only conflict with each other do compile.

    Raises:
        CompileError: A kernel does not compile; the error names the kernel.
        LinkError: The objects do not fit together.
    """
    flags, side = target.flags(tools.compiler), target.side
    reads_prefix = any(map(kernel_files.includes_prefix, kernels))
    precompiled = reads_prefix and tools.headers[PREFIX].get(tools.compiler, flags) is not None
    units = kernel_files.partition(kernels, jobs, precompiled=precompiled)

    def compiled(some: Sequence[CppUnit], name: str) -> Path:
        table = module_table(library.stem, kernels) if some[0] is units[0][0] else ""
        file = _file(some, target, flags, table)
        file = replace(file, name=f"{name}.cpp", header=file.header if precompiled else "")
        return compile_file(file, tools, library.parent)

    objects: dict[int, list[Path]] = {}
    with pool(jobs) as threads:
        futures = {threads.submit(compiled, unit, f"u{n}"): n for n, unit in enumerate(units)}
        for future in as_completed(futures):
            index = futures[future]
            try:
                objects[index] = [future.result()]
                advance(len(units[index]))
            except CompileError:
                objects[index] = []
                for position, kernel in enumerate(units[index]):
                    objects[index].append(compiled([kernel], f"a{index}_{position}"))
                    advance(1)
    # PyTorch's libraries are recorded by name, without a path. They are in the process already, the
    # OpenMP runtime among them, so the loader takes those: there is one OpenMP runtime, and the
    # library stays valid when PyTorch moves.
    names = dict.fromkeys(("libtorch_cpu.so", side.library or "libtorch_cpu.so"))
    beside = [cxx.stand_in(tools.cache, tools.compiler, name) for name in names]
    inputs = [*(path for n in range(len(units)) for path in objects[n]), "-Wl,--no-as-needed"]
    command = [*tools.compiler.command, "-shared", *inputs, *beside, "-Wl,-z,noexecstack"]
    cxx.run_linker([*map(str, command), "-o", str(library)])


def _file(
    kernels: Sequence[CppUnit], target: Target, flags: tuple[str, ...], table: str
) -> Translation:
    """Return the file of some kernels: with their bindings, and perhaps the module's table."""
    side, alone = target.side, kernel_files.is_solitary(kernels[0])
    file = kernel_files.kernel_file(kernels, flags, target.isa, alone=alone, shown=_shown)
    includes = (*side.headers, "python/kernel.h")
    parts = ['#line 1 "bindings"\n', *(f'#include "{name}"\n' for name in includes)]
    names = (kernel_files.qualified(each, alone=alone) for each in kernels)
    parts += [binding(*pair, side.kernels) for pair in zip(kernels, names, strict=True)]
    return replace(
        file,
        text=file.text + "".join((*parts, table)),
        headers=tuple(side.headers.items()),
        reads=HEADERS,
        hints=dict(map(_hint, kernels)),
    )


def _shown(kernel: CppUnit) -> str:
    return f"{kernel.source.name}.cpp"


def _hint(kernel: CppUnit) -> tuple[str, str]:
    types = ", ".join(kernel.source.arg_types)
    hint = f"its argument types ({types}) disagree with its parameters"
    return f"{call_label(kernel.source)}:", hint


HEADERS: Final = (cxx.NATIVE / "python" / "kernel.h", cxx.NATIVE / "python" / "kernel_module.h")
"""The files that the text includes."""

_BINDING: Final = """\
WIR_BINDING {symbol}_py(PyObject* name, PyObject* const* args, Py_ssize_t count) {{
  if (count != {count}) [[unlikely]] return wir_py::wrong_count(name, {count}, count);
  try {{
{conversions}\
#line 1 "{label}"
    {callee}({arguments});
  }} WIR_RETURN
}}
"""


def call_label(source: CppSource) -> str:
    """Return the name in compiler messages of the line that calls a kernel."""
    return f"call of {source.name}"


def binding(kernel: CppUnit, callee: str, around: str = "") -> str:
    """Return the function that converts the arguments of one kernel and calls ``callee``.

    ``around`` is the type of an object that lives for the duration of the call; empty for none.
    """
    params = parameters(kernel.source)
    return _BINDING.format(
        symbol=kernel.symbol,
        callee=callee,
        label=call_label(kernel.source),
        count=len(params),
        conversions="".join(_conversion(index, each) for index, each in enumerate(params))
        + (f"    const {around} around{{}};\n" if around else ""),
        arguments=", ".join(_argument(index, each) for index, each in enumerate(params)),
    )


def _conversion(index: int, param: Parameter) -> str:
    type_ = "void*" if param.kind == "pointer" else param.spelling
    return (
        f"    {type_} a{index};\n"
        f"    if (!wir_py::{param.kind}(name, {index + 1}, args[{index}], &a{index})) "
        "[[unlikely]] return nullptr;\n"
    )


def _argument(index: int, param: Parameter) -> str:
    return f"static_cast<{param.spelling}>(a{index})" if param.kind == "pointer" else f"a{index}"


def module_table(module: str, kernels: Sequence[CppUnit]) -> str:
    """Return the extension module of a library; its ``bind`` takes the positions of kernels."""
    params = "PyObject*, PyObject* const*, Py_ssize_t"
    declarations = "".join(f"WIR_BINDING {each.symbol}_py({params});\n" for each in kernels)
    rows = "".join(f'    {{{each.symbol}_py, "{_doc(each)}"}},\n' for each in kernels)
    return (
        f'#line 1 "module"\n#include "python/kernel_module.h"\n{declarations}'
        f"static const wir_py::Kernel wir_kernels[] = {{\n{rows}}};\n"
        f"WIR_MODULE({module}, wir_kernels)\n"
    )


def _doc(kernel: CppUnit) -> str:
    """Return a one-line docstring: a kernel's parameter types."""
    return f"({', '.join(' '.join(text.split()) for text in kernel.source.arg_types)})"
