"""What the tensors that ranks send are made of.

Two collectives of one kind look alike from outside. Ranks that call them in different orders mix
up their tensors, and nothing hangs. So each tensor has a number that stands for how it was made:
from which inputs, by which lines. Ranks whose programs differ may well make alike what is to be
alike in different ways; only a different order of the same numbers says something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import worked_on
from wrapper_ir.lines.traits import calls_kernel, calls_op

if TYPE_CHECKING:
    from collections.abc import Sequence


class Values:
    """The numbers of a program's buffers while its lines are gone through."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._root: dict[str, str] = {}
        self._value: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        for position, item in enumerate(program.inputs):
            if isinstance(item, ir.BufferInput):
                self._value[item.name] = hash(("input", position))
        for name, constant in program.constants.items():
            self._value[name] = hash(("constant", constant.qualified_name))

    def of(self, name: str) -> int:
        """Return the number of what a buffer holds."""
        root = self._root.get(name, name)
        value = self._value.get(root, 0)
        if root == name:
            return value
        layout = self._program.buffers.get(name)
        return hash((value, layout))

    def step(self, line: ir.AnyLine) -> None:
        """Go on over a line."""
        found = ir.effects(line)
        made = hash((line.mnemonic, self._form(line), *map(self.of, (*found.uses, *found.reads))))
        sources = {alias.name: alias.source for alias in found.aliases if not alias.may}
        for position, name in enumerate(found.defines):
            if name in sources:
                self._root[name] = self._root.get(sources[name], sources[name])
            else:
                self._value[name] = hash((made, position))
        written = [name for name in worked_on(line, found) if name not in found.defines]
        for position, name in enumerate(written):
            self._value[self._root.get(name, name)] = hash((made, "written", position))

    def _form(self, line: ir.AnyLine) -> object:
        """Return what a line does, without names of buffers."""
        if calls_op(line):
            return line.op, self._args(line.args), self._args([arg for _, arg in line.kwargs])
        if calls_kernel(line):
            if line.kernel not in self._sources:
                self._sources[line.kernel] = hash(repr(self._program.kernels[line.kernel].source))
            return self._sources[line.kernel], self._args(line.args)
        return tuple(region for _, region in ir.regions_of(line))

    def _args(self, args: Sequence[ir.Arg]) -> tuple[object, ...]:
        return tuple(
            (
                self.of(arg.buffer)
                if isinstance(arg, ir.BufferArg)
                else self._args(arg.items) if isinstance(arg, ir.ListArg) else arg
            )
            for arg in args
        )
