"""How the program's graph begins: its inputs, and checks of them.

What is known of inputs when the graph is made (type, device, fixed sizes and strides of all of
them) is compared by one node. What depends on symbols is compared once they are bound.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wrapper_ir.emitters.fx import checks
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.expr import Dim, free_symbols
from wrapper_ir.lines.kernels import KernelDefinition
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    ItemOf,
    SizeOf,
    StrideOf,
)
from wrapper_ir.lines.trace import Comment

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.lines import RegionRenderer
    from wrapper_ir.lines.program import AnyLine

__all__ = ["Entry"]


class Entry:
    """The beginning of the program's graph.

    Attributes:
        end: Index of the first line that is not part of the beginning: those before it declare,
            remark, and bind symbols to what the inputs' metadata says.
    """

    def __init__(self, renderer: RegionRenderer) -> None:
        self._renderer = renderer
        self._program = renderer.context.program
        self._inputs = {i.name for i in self._program.inputs if isinstance(i, BufferInput)}
        self._symbols = {i.symbol for i in self._program.inputs if isinstance(i, ScalarInput)}
        self._binds: dict[tuple[str, str, int], str] = {}
        self._bound: list[str] = []
        self.end = self._find_end()

    def _find_end(self) -> int:
        """The length of the beginning; also learns which symbols it binds."""
        for index, line in enumerate(self._program.body):
            if not self._is_beginning(line):
                return index
            if isinstance(line, BindSymbol):
                self._symbols.add(line.symbol)
                self._bound.append(line.symbol)
                if isinstance(line.source, (SizeOf, StrideOf)):
                    kind = type(line.source).__name__
                    self._binds[line.source.buffer, kind, line.source.dim] = line.symbol
            elif isinstance(line, ComputeSymbol):
                self._symbols.add(line.symbol)
        return len(self._program.body)

    def _is_beginning(self, line: AnyLine) -> bool:
        if isinstance(line, BindSymbol):
            return not isinstance(line.source, ItemOf) and line.source.buffer in self._inputs
        if isinstance(line, AssertLayout):
            return line.buffer in self._inputs
        return isinstance(line, (KernelDefinition, Comment, ComputeSymbol, AssertSymbol))

    def check_fixed(self) -> None:
        """Writes what comes first: the check of all that is fixed, and of numbers."""
        renderer, program = self._renderer, self._program
        if not renderer.context.checks:
            return
        touched = renderer.context.facts.touched_inputs
        if touched:
            specs = [checks.spec_of(name, program.layout(name)) for name in touched]
            nodes = [renderer.node(name) for name in touched]
            renderer.call(checks.CHECK_INPUTS, nodes, json.dumps(specs))
        renderer.checked.update(n for n in touched if program.layout(n).symbols <= self._symbols)
        for param in program.inputs:
            if isinstance(param, ScalarInput):
                self._check_number(param.symbol)

    def _check_number(self, symbol: str) -> None:
        info = self._program.symbols[symbol]
        node = self._renderer.symbols[symbol]
        args = (symbol, info.kind.value, info.lower, info.upper)
        self._renderer.call(checks.CHECK_NUMBER, node, *args)

    def check_symbolic(self) -> None:
        """Writes what comes when all symbols of inputs are bound: ranges and the other sizes."""
        renderer = self._renderer
        if not renderer.context.checks:
            return
        for symbol in dict.fromkeys(self._bound):
            info = self._program.symbols[symbol]
            # Sizes are not negative, so a lower bound of 0 says nothing.
            if (info.lower or 0) > 0 or info.upper is not None:
                self._check_number(symbol)
        for name in renderer.context.facts.touched_inputs:
            if name in renderer.checked and self._is_left(name):
                layout = self._program.layout(name)
                spec = json.dumps([checks.spec_of(name, layout)])
                renderer.check_sizes(renderer.node(name), spec, layout, is_input=True)

    def _is_left(self, name: str) -> bool:
        """Whether some size or stride of an input is neither fixed nor what binds a symbol."""
        layout = self._program.layout(name)
        pairs = (("SizeOf", layout.size), ("StrideOf", layout.stride))
        return any(
            free_symbols(value) and not self._is_bound_by(name, kind, position, value)
            for kind, values in pairs
            for position, value in enumerate(values)
        )

    def _is_bound_by(self, name: str, kind: str, position: int, value: Dim) -> bool:
        return self._binds.get((name, kind, position)) == str(value)
