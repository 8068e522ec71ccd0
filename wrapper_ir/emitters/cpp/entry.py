"""The beginning and end of ``run``: unpacking inputs, checks that depend on symbols, results.

Fixed properties of inputs (kind, rank, dtype, device, fixed sizes and strides) are in tables, which
the runtime compares before it calls ``run``. Sizes that depend on symbols are compared here, once
the symbols are bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import realigned_inputs
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CType, slot_value
from wrapper_ir.emitters.cpp.literals import call
from wrapper_ir.emitters.cpp.state import place_of
from wrapper_ir.emitters.regions import find_beginning
from wrapper_ir.lines.expr import free_symbols

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.kernels import CppRun
    from wrapper_ir.emitters.cpp.lines import RegionRenderer


_LOWEST, _HIGHEST = "INT64_MIN", "INT64_MAX"


class Entry:
    """The beginning of ``run``, the lines before ``end``, and its end.

    The beginning declares, remarks, and binds symbols to the inputs' metadata.
    """

    def __init__(self, context: CppRun, renderer: RegionRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._program = program = context.program
        self._touched = frozenset(context.kept.storages.touched_inputs)
        self._beginning = find_beginning(program)
        self._symbols = set(self._beginning.symbols)
        self.end: int = self._beginning.end
        self._realigned = realigned_inputs(program)
        #: Inputs some of whose sizes are not known yet.
        self._pending = list(context.kept.storages.touched_inputs)
        self._known = self._take_known()

    def _take_known(self) -> list[str]:
        """Return the inputs whose sizes have all just become known."""
        layout = self._program.layout
        known = [name for name in self._pending if layout(name).symbols <= self._symbols]
        self._pending = [name for name in self._pending if name not in known]
        self._renderer.checked |= frozenset(known)
        return known

    # The beginning.

    def unpack(self) -> None:
        """Write the first lines: a variable for each input that some line touches."""
        ranges = []
        for position, param in enumerate(self._context.inputs):
            if isinstance(param, ir.BufferInput):
                self._unpack_tensor(position, param.name)
            elif isinstance(param, ir.ObjectInput):
                self._renderer.objects[param.object] = self._renderer.declare(
                    self._context.buffer(param.object),
                    "const wir::Object",
                    f"{{inputs[{position}].object}}",
                )
            elif param.symbol in self._context.symbols:
                type_ = self._renderer.symbol_type(param.symbol)
                self._renderer.define_symbol(param.symbol, slot_value(position, type_))
                info = self._program.symbols[param.symbol]
                if info.kind is ir.SymbolKind.INT and (info.lower, info.upper) != (None, None):
                    ranges.append(param.symbol)
        self._check_ranges(ranges)

    def _unpack_tensor(self, position: int, name: str) -> None:
        if name not in self._touched:
            return
        value = f"inputs[{position}].tensor"
        alignment = self._realigned.get(position)
        if alignment is not None:
            held = self._context.names.fresh(f"{self._context.buffer(name)}_copy")
            copy = self._renderer.declare(held, "wir::Tensor")
            self._context.headers.add("realigned")
            value = f"wir::realigned({value}, {alignment}, {copy})"
        variable = self._renderer.declare(
            self._context.buffer(name), "const AtenTensorHandle", value
        )
        place = place_of(variable, self._program.layout(name), owned=False)
        place.input = position
        self._renderer.define(name, place)

    def finish(self) -> None:
        """Write the checks that wait until all symbols of inputs are bound."""
        limits = self._beginning.limits
        bound = [s for s in sorted({*self._beginning.binds.values()}) if limits(s) != (None, None)]
        self._check_ranges(bound)
        for name in self._known:
            self._check_rest(name)

    def follow(self, line: ir.AnyLine) -> None:
        """Write the checks of inputs whose sizes become known with a line after the beginning."""
        if not self._pending:
            return
        symbols = ir.effects(line, self._program).defines_symbols
        if symbols:
            self._symbols.update(symbols)
            for name in self._take_known():
                if name in self._renderer.places:  # it has not ended yet
                    self._check_rest(name)

    def _check_ranges(self, symbols: list[str]) -> None:
        if not symbols:
            return
        self._begin_checks()
        with self._renderer.writer.indent():
            for symbol in symbols:
                self._renderer.put(f"{call('wir::check_range', *self._range(symbol))};")
        self._renderer.writer.line("}")

    def _range(self, symbol: str) -> list[str]:
        info = self._program.symbols[symbol]
        bound = self._beginning.places(symbol)
        lower = self._beginning.limits(symbol)[0] if bound else info.lower
        low = _LOWEST if lower is None else literals.integer(max(lower, -_INT64))
        high = _HIGHEST if info.upper is None else literals.integer(min(info.upper, _INT64 - 1))
        args = [literals.string(symbol), self._renderer.symbol_value(symbol), low, high]
        return [*args, *map(literals.string, bound[:1])]

    def _begin_checks(self) -> None:
        row = self._context.row("inputs", "inputs")
        self._renderer.put("if (call.check_inputs) {")
        with self._renderer.writer.indent():
            self._renderer.put(f"call.line = {row};")

    def _check_rest(self, name: str) -> None:
        """Write the check of an input's sizes and strides that depend on symbols."""
        if not self._beginning.leaves(name):
            return
        self._begin_checks()
        with self._renderer.writer.indent():
            spec = self._renderer.spec(name)
            args = (self._renderer.handle(name), literals.string(name), spec)
            self._renderer.put(f"{call('wir::check_input', *args)};")
        self._renderer.writer.line("}")

    # The end.

    def give(self) -> None:
        """Write the results: make them all, then hand them over once nothing can fail."""
        results = self._program.results
        self._renderer.go_on(0)
        left = [value.buffer for value in results if isinstance(value, ir.BufferValue)]
        if any(not isinstance(value, ir.NoneValue) for value in results):
            self._renderer.put(f"call.line = {self._context.row('results', 'results')};")
        handed = [self._handed(position, value, left) for position, value in enumerate(results)]
        for text in handed:
            self._renderer.put(text)

    def _handed(self, position: int, value: ir.Value, left: list[str]) -> str:
        """Write the code that makes a result; return the statement that hands it over."""
        renderer = self._renderer
        if isinstance(value, ir.BufferValue):
            left.remove(value.buffer)
            handle = renderer.handle(value.buffer)
            if not renderer.base(value.buffer).owned or value.buffer in left:
                name = self._context.names.fresh(f"result_{position}")
                renderer.put(f"wir::Tensor {name} = wir::share({handle});")
                handle = name
            if self._context.takes_out:
                renderer.put(f"wir::deliver(call, {position}, {handle});")
            return f"outputs[{position}].tensor = {handle}.release();"
        if isinstance(value, ir.NoneValue):
            return f"outputs[{position}].tensor = nullptr;"
        found = renderer.expr(value.value)
        text = found.text
        if free_symbols(value.value) and not isinstance(value.value, sympy.Symbol):
            name = self._context.names.fresh(f"result_{position}")
            renderer.put(f"const {found.type.value} {name} = {text};")
            text = name
        if found.type is CType.BOOL and not found.is_literal:
            text = f"{text} ? 1 : 0"
        return f"outputs[{position}].{found.type.member} = {text};"


_INT64 = 2**63
