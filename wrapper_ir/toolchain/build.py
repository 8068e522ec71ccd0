"""C++ kernels built into one shared library: compiled in parallel, linked, failures explained."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.devices import CppSide
from wrapper_ir.toolchain import bindings
from wrapper_ir.toolchain.compiler import (
    Compiler,
    CompilerRunError,
    compile_flags,
    include_flags,
    run,
    run_linker,
)
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.isa import Isa
from wrapper_ir.toolchain.processes import pool
from wrapper_ir.toolchain.source import Kernel, partition, unit_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.toolchain.errors import CompileError


@dataclass(frozen=True, slots=True)
class Recipe:
    """The compiler and flags for a set of kernels, and stand-ins for the libraries they need."""

    compiler: Compiler
    isa: Isa
    extra_flags: tuple[str, ...]
    headers: HeaderStore
    jobs: int
    side: CppSide
    beside: tuple[Path, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """Every compiler flag except include paths."""
        return compile_flags(self.compiler, self.isa) + self.extra_flags


def default_jobs() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build_library(
    kernels: Sequence[Kernel],
    recipe: Recipe,
    module: str,
    scratch: Path,
    advance: Callable[[int], None],
) -> Path:
    """Compile kernels and link them into one extension module.

    Args:
        kernels: The kernels; the module numbers them in this order.
        recipe: The tools and flags.
        module: Name of the extension module.
        scratch: An empty directory to work in.
        advance: Called with the number of kernels each time some have been compiled.

    Returns:
        The shared library, in ``scratch``.

    Raises:
        CompileError: A kernel does not compile; the error names the kernel.
        LinkError: The objects do not fit together.
    """
    table = bindings.module_table(module, [(kernel.symbol, kernel.doc) for kernel in kernels])
    reads_prefix = any(kernel.includes_prefix for kernel in kernels)
    header = recipe.headers.get(recipe.compiler, recipe.flags) if reads_prefix else None
    units = partition(kernels, recipe.jobs, precompiled=header is not None)
    for name, text in recipe.side.headers.items():
        (scratch / name).write_text(text, encoding="utf-8")
    objects = _Work(recipe, scratch, header, table, advance).compile(units)
    library = scratch / f"{module}.so"
    # PyTorch's libraries are recorded by name, without a path. They are in the process already, the
    # OpenMP runtime among them, so the loader takes those: there is one OpenMP runtime, and the
    # library stays valid when PyTorch moves.
    beside = ["-Wl,--no-as-needed", *map(str, recipe.beside), "-Wl,-z,noexecstack"]
    inputs = [*map(str, objects), *beside]
    run_linker([*recipe.compiler.command, "-shared", *inputs, "-o", str(library)])
    return library


@dataclass(slots=True)
class _Work:
    """The compilation of one library's files."""

    recipe: Recipe
    scratch: Path
    header: Path | None
    table: str
    advance: Callable[[int], None]

    def compile(self, units: Sequence[Sequence[Kernel]]) -> list[Path]:
        """Return the objects of all files. The kernels of a file that fails are compiled singly."""
        objects: dict[int, list[Path]] = {}
        with pool(self.recipe.jobs) as threads:
            futures = {
                threads.submit(self._compile_unit, unit, f"u{index}", with_table=index == 0): index
                for index, unit in enumerate(units)
            }
            for future in as_completed(futures):
                index = futures[future]
                try:
                    objects[index] = [future.result()]
                    self.advance(len(units[index]))
                except CompilerRunError:
                    objects[index] = self._compile_apart(units[index], with_table=index == 0)
        return [path for index in range(len(units)) for path in objects[index]]

    def _compile_apart(self, kernels: Sequence[Kernel], *, with_table: bool) -> list[Path]:
        """Compile each kernel of a failed file alone, without a precompiled header.

        The error then names the right kernel, and kernels that only conflict with each other or
        with a damaged header do compile.
        """
        if self.header is not None:
            self.recipe.headers.discard(self.recipe.compiler, self.recipe.flags)
            self.header = None
        objects = []
        for position, kernel in enumerate(kernels):
            name = f"a{'t' if with_table else 'u'}{position}_{kernel.symbol}"
            first = with_table and position == 0
            try:
                objects.append(self._compile_unit([kernel], name, with_table=first))
            except CompilerRunError as error:
                raise _explain(kernel, error) from error
            self.advance(1)
        return objects

    def _compile_unit(self, kernels: Sequence[Kernel], name: str, *, with_table: bool) -> Path:
        source = self.scratch / f"{name}.cpp"
        target = self.scratch / f"{name}.o"
        text = unit_text(kernels, self.recipe.side, self.table if with_table else "")
        source.write_text(text, encoding="utf-8")
        reads_prefix = any(kernel.includes_prefix for kernel in kernels)
        command = [
            *self.recipe.compiler.command,
            *self.recipe.flags,
            *include_flags(),
            *(("-include", str(self.header)) if reads_prefix and self.header is not None else ()),
            *("-c", str(source), "-o", str(target)),
        ]
        run(command)
        return target


def _explain(kernel: Kernel, error: CompilerRunError) -> CompileError:
    source = kernel.source
    hint = None
    if f"call of {source.name}:" in error.output:
        types = ", ".join(source.arg_types)
        hint = f"its argument types ({types}) disagree with its parameters"
    return error.explained(f"kernel {source.name!r}", f"{source.name}.cpp", source.code, hint)
