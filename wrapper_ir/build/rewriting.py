"""What rewrites of finished programs add to them: buffers, and calls of library ops."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.lines.args import Access, Arg, BufferArg
from wrapper_ir.lines.kernels import ExternKernel, KernelDefinition, TorchOp
from wrapper_ir.lines.program import AnyLine, FrozenMap, Program
from wrapper_ir.lines.traits import takes_memory, works
from wrapper_ir.lines.walk import map_regions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrapper_ir.lines.control import Region
    from wrapper_ir.lines.layout import Layout

_COPY: Final = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"


class Draft:
    """The buffers and declarations of a program that is being rewritten."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._buffers = dict(program.buffers)
        self._declared: dict[str, KernelDefinition] = {}

    def buffer(self, wanted: str, layout: Layout) -> str:
        """Add a buffer under a name that is free, and return the name."""
        name, number = wanted, 0
        while name in self._buffers or name in self.program.objects:
            number += 1
            name = f"{wanted}_{number}"
        self._buffers[name] = layout
        return name

    def remove(self, name: str) -> None:
        """Remove a buffer that no line defines any more."""
        del self._buffers[name]

    def layout(self, name: str) -> Layout:
        """Return the layout of a buffer."""
        return self._buffers[name]

    def own(self, name: str) -> Layout:
        """Return the layout of a buffer in memory of its own."""
        return dataclasses.replace(self._buffers[name], offset=0)

    def call(
        self, schema: str, args: tuple[Arg, ...], **fields: Any  # noqa: ANN401 - the line's others
    ) -> ExternKernel:
        """Return a call of a library op, which is declared if the program does not do so."""
        op = schema.partition("(")[0]
        self._declared[op] = KernelDefinition(op, (), TorchOp(schema))
        return ExternKernel(op, args, **fields)

    def copy(self, line: AnyLine, to: str, source: str) -> ExternKernel:
        """Return the line that copies one buffer to another, on the stream of a line."""
        return self.call(
            _COPY,
            (BufferArg(to, Access.READ_WRITE), BufferArg(source)),
            device=self._buffers[to].device,
            stream=line.stream if works(line) else 0,
            mempool=line.mempool if takes_memory(line) else 0,
            origin=line.origin,
        )

    def rewritten(self, rewrite: Callable[[Region], Iterable[AnyLine]]) -> Program:
        """Return the program with the lines of each region replaced, inner regions first."""
        program = self.program

        def inside(region: Region) -> Region:
            body = tuple(map_regions(line, inside) for line in region.body)
            body = tuple(rewrite(dataclasses.replace(region, body=body)))
            return region if body == region.body else dataclasses.replace(region, body=body)

        body = inside(program.region).body
        if body == program.body:
            return program
        new = [each for op, each in self._declared.items() if op not in program.kernels]
        return program.replace(body=(*new, *body), buffers=FrozenMap(self._buffers))
