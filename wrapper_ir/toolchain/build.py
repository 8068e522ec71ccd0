"""C++ kernels built into one shared library: compiled in parallel, linked, failures explained.

The text that makes kernels callable from Python is here as far as it depends on the kernels. The
rest is in ``wrapper_ir/native/python``: how arguments are converted (``kernel.h``), and the
extension module of a library (``kernel_module.h``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from wrapper_ir.devices import CppSide
from wrapper_ir.toolchain import kernel_files
from wrapper_ir.toolchain.compiler import NATIVE, compile_flags, run_linker
from wrapper_ir.toolchain.errors import CompileError
from wrapper_ir.toolchain.headers import PREFIX
from wrapper_ir.toolchain.isa import Isa
from wrapper_ir.toolchain.objects import Tools, Translation, compile_file
from wrapper_ir.toolchain.processes import pool
from wrapper_ir.toolchain.source import CppSource, CppUnit, Parameter, parameters


@dataclass(frozen=True, slots=True)
class Recipe:
    """The tools and flags for a set of kernels, and stand-ins for the libraries they need."""

    tools: Tools
    isa: Isa
    extra_flags: tuple[str, ...]
    jobs: int
    side: CppSide
    beside: tuple[Path, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """Every compiler flag except include paths."""
        return compile_flags(self.tools.compiler, self.isa) + self.extra_flags

    def precompiled(self) -> Path | None:
        """Return the precompiled header of kernels, made now if need be; None without one."""
        return self.tools.headers[PREFIX].get(self.tools.compiler, self.flags)


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build_library(
    kernels: Sequence[CppUnit],
    recipe: Recipe,
    module: str,
    scratch: Path,
    advance: Callable[[int], None],
) -> Path:
    """Compile kernels and link them into one extension module, in ``scratch``, an empty directory.

    The module numbers kernels in this order. ``advance`` is called with the number of kernels each
    time some have been compiled.

    Raises:
        CompileError: A kernel does not compile; the error names the kernel.
        LinkError: The objects do not fit together.
    """
    precompiled = (
        any(map(kernel_files.includes_prefix, kernels)) and recipe.precompiled() is not None
    )
    work = _Work(recipe, scratch, precompiled, module_table(module, kernels), advance)
    objects = work.compile(kernel_files.partition(kernels, recipe.jobs, precompiled=precompiled))
    library = scratch / f"{module}.so"
    # PyTorch's libraries are recorded by name, without a path. They are in the process already, the
    # OpenMP runtime among them, so the loader takes those: there is one OpenMP runtime, and the
    # library stays valid when PyTorch moves.
    beside = ["-Wl,--no-as-needed", *map(str, recipe.beside), "-Wl,-z,noexecstack"]
    inputs = [*map(str, objects), *beside]
    run_linker([*recipe.tools.compiler.command, "-shared", *inputs, "-o", str(library)])
    return library


@dataclass(frozen=True, slots=True)
class _Work:
    """The compilation of one library's files."""

    recipe: Recipe
    scratch: Path
    precompiled: bool
    table: str
    advance: Callable[[int], None]

    def compile(self, units: Sequence[Sequence[CppUnit]]) -> list[Path]:
        """Return the objects of all files. The kernels of a file that fails are compiled singly."""
        objects: dict[int, list[Path]] = {}
        with pool(self.recipe.jobs) as threads:
            futures = {
                threads.submit(self._object, unit, f"u{index}", with_table=index == 0): index
                for index, unit in enumerate(units)
            }
            for future in as_completed(futures):
                index = futures[future]
                try:
                    objects[index] = [future.result()]
                    self.advance(len(units[index]))
                except CompileError:
                    objects[index] = self._apart(units[index], f"a{index}", with_table=index == 0)
        return [path for index in range(len(units)) for path in objects[index]]

    def _apart(self, kernels: Sequence[CppUnit], name: str, *, with_table: bool) -> list[Path]:
        """Compile each kernel of a failed file alone.

        The error then names the right kernel, and kernels that only conflict with each other do
        compile.
        """
        objects = []
        for position, kernel in enumerate(kernels):
            first = with_table and position == 0
            objects.append(self._object([kernel], f"{name}_{position}", with_table=first))
            self.advance(1)
        return objects

    def _object(self, kernels: Sequence[CppUnit], name: str, *, with_table: bool) -> Path:
        file = self._file(kernels, self.table if with_table else "")
        return compile_file(replace(file, name=f"{name}.cpp"), self.recipe.tools, self.scratch)

    def _file(self, kernels: Sequence[CppUnit], table: str) -> Translation:
        """Return the file of some kernels: with their bindings, and perhaps the module's table."""
        recipe, alone = self.recipe, kernel_files.is_solitary(kernels[0])
        file = kernel_files.kernel_file(
            kernels, recipe.flags, recipe.isa, alone=alone, shown=_shown
        )
        includes = (*recipe.side.headers, "python/kernel.h")
        around = recipe.side.kernels
        parts = ['#line 1 "bindings"\n', *(f'#include "{name}"\n' for name in includes)]
        parts += [
            binding(each, kernel_files.qualified(each, alone=alone), around) for each in kernels
        ]
        return replace(
            file,
            text=file.text + "".join((*parts, table)),
            headers=tuple(recipe.side.headers.items()),
            reads=HEADERS,
            hints=dict(map(_hint, kernels)),
            header=file.header if self.precompiled else "",
        )


def _shown(kernel: CppUnit) -> str:
    return f"{kernel.source.name}.cpp"


def _hint(kernel: CppUnit) -> tuple[str, str]:
    types = ", ".join(kernel.source.arg_types)
    hint = f"its argument types ({types}) disagree with its parameters"
    return f"{call_label(kernel.source)}:", hint


HEADERS: Final = (NATIVE / "python" / "kernel.h", NATIVE / "python" / "kernel_module.h")
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
