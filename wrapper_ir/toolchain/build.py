"""From C++ files to one shared library: compile side by side, link, explain what fails."""

from __future__ import annotations

import os
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
from wrapper_ir.toolchain.source import Kernel, Unit, partition, unit_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.toolchain.errors import CompileError


@dataclass(frozen=True, slots=True)
class Recipe:
    """Compiler and flags for a set of kernels, and stand-ins for libraries to load them beside."""

    compiler: Compiler
    isa: Isa
    extra_flags: tuple[str, ...]
    headers: HeaderStore
    jobs: int
    side: CppSide
    beside: tuple[Path, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """Every flag that reaches the compiler, include paths excepted."""
        return compile_flags(self.compiler, self.isa) + self.extra_flags


def default_jobs() -> int:
    """Return how many compilers to run at once: the processors this process may use."""
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
        kernels: What to build; the module numbers them in this order.
        recipe: With what and how.
        module: Name of the extension module.
        scratch: An empty directory to work in.
        advance: Told the number of kernels each time some are compiled.

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
    work = _Work(recipe, scratch, header, table, advance)
    objects = work.compile(units)
    library = scratch / f"{module}.so"
    _link(recipe, objects, library)
    return library


def _link(recipe: Recipe, objects: Sequence[Path], library: Path) -> None:
    """Link a library to be loaded beside PyTorch, which is recorded as needed, without any path.

    PyTorch has loaded its libraries before, its OpenMP runtime among them, and the loader takes
    those. So there is one OpenMP runtime in the process, and the library stays valid when PyTorch
    moves.
    """
    beside = ["-Wl,--no-as-needed", *map(str, recipe.beside), "-Wl,-z,noexecstack"]
    inputs = [*map(str, objects), *beside]
    run_linker([*recipe.compiler.command, "-shared", *inputs, "-o", str(library)])


class _Work:
    """Compiling the files of one library."""

    def __init__(
        self,
        recipe: Recipe,
        scratch: Path,
        header: Path | None,
        table: str,
        advance: Callable[[int], None],
    ) -> None:
        self._recipe = recipe
        self._scratch = scratch
        self._header = header
        self._table = table
        self._advance = advance
        for name, text in recipe.side.headers.items():
            (scratch / name).write_text(text, encoding="utf-8")

    def compile(self, units: Sequence[Unit]) -> list[Path]:
        """Return the objects of all files; files that fail are taken apart."""
        objects: dict[int, list[Path]] = {}
        with pool(self._recipe.jobs) as threads:
            futures = {
                threads.submit(self._compile_unit, unit, f"u{index}", with_table=index == 0): index
                for index, unit in enumerate(units)
            }
            for future in as_completed(futures):
                index = futures[future]
                try:
                    objects[index] = [future.result()]
                    self._advance(len(units[index].kernels))
                except CompilerRunError:
                    objects[index] = self._compile_apart(units[index], with_table=index == 0)
        return [path for index in range(len(units)) for path in objects[index]]

    def _compile_apart(self, unit: Unit, *, with_table: bool) -> list[Path]:
        """Compile each kernel of a failed file alone, without a precompiled header.

        So the error names the right kernel; and kernels that only disagree with each other, or
        with a damaged header, compile after all.
        """
        if self._header is not None:
            self._recipe.headers.discard(self._recipe.compiler, self._recipe.flags)
            self._header = None
        objects = []
        for position, kernel in enumerate(unit.kernels):
            name = f"a{'t' if with_table else 'u'}{position}_{kernel.symbol}"
            first = with_table and position == 0
            try:
                objects.append(self._compile_unit(Unit((kernel,)), name, with_table=first))
            except CompilerRunError as error:
                raise _explain(kernel, error) from error
            self._advance(1)
        return objects

    def _compile_unit(self, unit: Unit, name: str, *, with_table: bool) -> Path:
        source = self._scratch / f"{name}.cpp"
        target = self._scratch / f"{name}.o"
        text = unit_text(unit, self._recipe.side, self._table if with_table else "")
        source.write_text(text, encoding="utf-8")
        header = self._header if unit.includes_prefix else None
        command = [
            *self._recipe.compiler.command,
            *self._recipe.flags,
            *include_flags(),
            *(("-include", str(header)) if header is not None else ()),
            *("-c", str(source), "-o", str(target)),
        ]
        run(command)
        return target


def _explain(kernel: Kernel, error: CompilerRunError) -> CompileError:
    source = kernel.source
    hint = None
    if f"call of {source.name}:" in error.output:
        given = ", ".join(source.arg_types)
        hint = f"its argument types ({given}) disagree with its parameters"
    return error.explained(f"kernel {source.name!r}", f"{source.name}.cpp", source.code, hint)
