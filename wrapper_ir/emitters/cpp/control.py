"""Rendering of choices and loops: their regions are functions of their own.

A region's parameters are function parameters: handles borrowed for the duration of the call. Its
results go into variables of the caller. Symbols that it uses from outside are parameters, too.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import last_uses
from wrapper_ir.emitters.cpp.exprs import CType
from wrapper_ir.emitters.cpp.literals import UNIT, call, statement
from wrapper_ir.emitters.cpp.pieces import slot, write_piece
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.state import place_of
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.control import shared_results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.analysis.cuda_graphs import Piece


TENSOR = "wir::Tensor"


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that receives a value."""

    name: str
    type: str
    """``wir::Tensor``, or the type of a number."""


class ControlLines(RegionBase):
    """Renders choices and loops."""

    @abstractmethod
    def inner(self, region: ir.Region, writer: CodeWriter, last: Mapping[str, int]) -> ControlLines:
        """Return a renderer for a region inside this one."""

    @override
    def visit_cond(self, line: ir.Cond) -> None:
        self._choose(line, [self._truth(line, line.predicate)])

    @override
    def visit_switch(self, line: ir.Switch) -> None:
        piece = self.context.pieces.get(self.index) if len(self.path) == 1 else None
        if piece is not None:
            self._run_piece(line, piece)
            return
        position = self._position(line, line.selector)
        tests = [f"{position} <= 0", *(f"{position} == {n}" for n in range(1, len(line.cases)))]
        self._choose(line, tests[: len(line.cases) - 1])

    def _choose(self, line: ir.Cond | ir.Switch, tests: Sequence[str]) -> None:
        """Call the function of the first region whose test holds, or else of the last region."""
        regions = ir.regions_of(line)
        symbols = self.symbols_of(line)
        results = self._results(line, line.results, regions[0][1].results)
        types = [result.type for result in results]
        functions = [self._function(line, name, each, symbols, types) for name, each in regions]
        args = [
            *self._shared(),
            *(self._operand(line, arg) for arg in line.operands),
            *map(self.symbol_value, symbols),
            *(result.name for result in results),
        ]
        self.mark(line)
        heads = [*(f"if ({test}) {{" for test in tests), "{"]
        for position, (head, function) in enumerate(zip(heads, functions, strict=True)):
            self.put(f"}} else {head}" if position else head)
            with self.writer.indent():
                self.put(f"{call(function, *args)};")
        self.writer.line("}")

    def _run_piece(self, line: ir.Switch, piece: Piece) -> None:
        """Have the runtime run a piece, which it captures, and take the results."""
        symbols = self.symbols_of(line)
        results = self._results(line, line.results, piece.region.results)
        types = [result.type for result in results]
        function = self._function(line, "case0", piece.region, symbols, types)
        name = self.context.names.fresh("piece")
        write_piece(self.context, piece, symbols, name, function)
        self.context.state.piece(name)
        self._shared()
        self.mark(line)
        given = [self._slot(line, arg) for arg in line.operands]
        given += [slot(self.symbol_type(s), self.symbol_value(s)) for s in symbols]
        self.put("{")
        with self.writer.indent():
            if given:
                self.put(f"const wir::Slot given[] = {{{', '.join(given)}}};")
            if results:
                self.put(f"wir::Slot made[{len(results)}] = {{}};")
            args = ["&state", "call", "given" if given else "nullptr"]
            args.append("made" if results else "nullptr")
            self.put(f"{call(f'state.{name}->run', *args)};")
            for position, result in enumerate(results):
                self.put(f"{result.name} = wir::Tensor(made[{position}].tensor);")
        self.writer.line("}")

    def _slot(self, line: ir.Switch, arg: ir.Arg) -> str:
        value = self._operand(line, arg)
        if isinstance(arg, ir.ScalarArg):
            return slot(self.exprs.type_of(arg.value), value)
        return f"{{.tensor = {value}}}"

    @override
    def visit_while(self, line: ir.While) -> None:
        self.context.headers.add("control")
        symbols = self.symbols_of(line)
        types = [
            self.symbol_type(param.symbol).value if isinstance(param, ir.ScalarInput) else TENSOR
            for param in line.body.params[: len(line.carried)]
        ]
        truth = self._type_of(line.condition.results[0])
        condition = self._function(line, "condition", line.condition, symbols, [truth])
        body = self._function(line, "body", line.body, symbols, types)
        self.mark(line)
        given = [self._operand(line, arg) for arg in line.carried]
        captured = [self._operand(line, arg) for arg in line.captured]
        carried = [
            self._local("carried", type_, f"wir::share({value})" if type_ == TENSOR else value)
            for type_, value in zip(types, given, strict=True)
        ]
        rounds = [self._rounds(value) for value in given] if line.stacked else []
        rest = [*captured, *map(self.symbol_value, symbols)]
        self._loop(line, (condition, body), truth, carried, rest, rounds)
        values = [f"{name}.stacked()" for name in rounds]
        if not line.stacked:
            values_of = zip([*given, *captured], (*line.carried, *line.captured), strict=True)
            owners = f"{{{', '.join(v for v, arg in values_of if isinstance(arg, ir.BufferArg))}}}"
            shared = shared_results(line)
            values = [
                (
                    v.name
                    if v.type != TENSOR
                    else (
                        f"std::move({v.name})"
                        if position in shared
                        else f"wir::own(std::move({v.name}), {owners})"
                    )
                )
                for position, v in enumerate(carried)
            ]
        for result in line.results:
            position = int(result.path[0]) if result.path else 0
            if isinstance(result, ir.ResultBuffer):
                self.define_tensor(result.out, values[position], result.of)
            else:
                type_ = self.symbol_type(result.symbol)
                name = self.context.symbol(result.symbol)
                self.declare(name, f"const {type_.value}", values[position])

    def _loop(
        self,
        line: ir.While,
        functions: tuple[str, str],
        truth: str,
        carried: Sequence[_Variable],
        rest: Sequence[str],
        rounds: Sequence[str],
    ) -> None:
        condition, body = functions
        args = [*self._shared(), *(each.name for each in carried), *rest]
        self.writer.line("for (;;) {")
        with self.writer.indent():
            goes_on = self._local("goes_on", truth, "")
            self.put(f"{call(condition, *args, goes_on.name)};")
            test = f"wir::truth({goes_on.name})" if truth == TENSOR else f"{goes_on.name} != 0"
            if truth == CType.BOOL.value:
                test = goes_on.name
            self.put(f"if (!{test if test.isidentifier() or '(' in test else f'({test})'}) break;")
            after = [self._local("next", each.type, "") for each in carried]
            self.put(f"{call(body, *args, *(each.name for each in after))};")
            for old, new in zip(carried, after, strict=True):
                value = f"std::move({new.name})" if old.type == TENSOR else new.name
                self.put(f"{old.name} = {value};")
            for name, each in zip(rounds, carried, strict=False):
                self.put(f"{name}.add({each.name});")
            self.mark(line)
        self.writer.line("}")

    def _local(self, preferred: str, type_: str, value: str) -> _Variable:
        name = self.context.names.fresh(preferred)
        self.put(f"{type_} {name} = {value};" if value else f"{type_} {name}{{}};")
        return _Variable(name, type_)

    def _rounds(self, like: str) -> str:
        name = self.context.names.fresh("rounds")
        self.put(f"wir::Rounds {name}({like});")
        return name

    # Values that go in and out.

    def _truth(self, line: ir.AnyLine, predicate: ir.BufferArg | ir.ScalarArg) -> str:
        if isinstance(predicate, ir.BufferArg):
            self.context.headers.add("control")
            self.mark(line)
            return call("wir::truth", self.handle(predicate.buffer))
        return self.expr(predicate.value, CType.BOOL).text

    def _position(self, line: ir.Switch, selector: ir.BufferArg | ir.ScalarArg) -> str:
        """Return the variable with the number of the region that a switch runs."""
        if isinstance(selector, ir.ScalarArg):
            value = self.expr(selector.value, CType.INT).text
        else:
            self.context.headers.add("control")
            self.mark(line)
            value = call("wir::integer_item", self.handle(selector.buffer))
        name = self.context.names.fresh("position")
        self.put(f"const {CType.INT.value} {name} = {value};")
        return name

    def _operand(self, line: ir.AnyLine, arg: ir.Arg) -> str:
        match arg:
            case ir.BufferArg():
                return self.handle(arg.buffer)
            case ir.ScalarArg():
                found = self.expr(arg.value)
                return f"{found.type.value}({found.text})" if found.is_literal else found.text
            case _:
                self.unsupported(line, "in C++, a region takes only tensors and numbers")
                return ""

    def _results(
        self, line: ir.AnyLine, results: Sequence[ir.CallResult], values: Sequence[ir.Value]
    ) -> list[_Variable]:
        """Write the variables for all results of a region, including unused ones."""
        used = {int(r.path[0]) if r.path else 0: r for r in results}
        found = []
        for position, value in enumerate(values):
            result = used.get(position)
            if result is None:
                if isinstance(value, ir.NoneValue):
                    continue
                found.append(self._local("unused", self._type_of(value), ""))
            elif isinstance(result, ir.ResultBuffer):
                self.define_tensor(result.out, "", result.of)
                found.append(_Variable(self.places[result.out].handle, TENSOR))
            else:
                type_ = self.symbol_type(result.symbol).value
                name = self.declare(self.context.symbol(result.symbol), type_)
                found.append(_Variable(name, type_))
        return found

    def _type_of(self, value: ir.Value) -> str:
        match value:
            case ir.BufferValue():
                return TENSOR
            case ir.NoneValue():
                return CType.INT.value
            case _:
                return self.exprs.type_of(value.value).value

    # Functions.

    def _function(
        self,
        line: ir.RegionLine,
        step: str,
        region: ir.Region,
        symbols: Sequence[str],
        types: Sequence[str],
    ) -> str:
        """Render a region as a function and return its name."""
        name = self.context.names.fresh(self.function_name(line, step))
        writer = CodeWriter(UNIT)
        inner = self.inner(region, writer, last_uses(region, self.context.program))
        inner.show_origins = self.show_origins
        targets = [
            _Variable(self.context.names.fresh("result"), type_)
            for type_, value in zip(types, _given(region), strict=True)
        ]
        head = call(f"void {name}", *self._parameters(inner, region, symbols, targets))
        self.context.put(self.context.section("declarations"), f"{head};")
        with writer.at(self.path):
            writer.lines(*statement(f"{head} {{"))
        with writer.indent():
            for index in range(len(region.body)):
                inner.render(index, self.path.then(step, index))
            with writer.at(self.path):
                inner.give(_given(region), targets)
        writer.line("}")
        functions = self.context.section("functions")
        functions.blank()
        functions.extend(writer)
        return name

    def _shared(self) -> tuple[str, str]:
        """Return the first arguments of every region's function."""
        self.uses_state = True
        return "state", "call"

    def _parameters(
        self,
        inner: ControlLines,
        region: ir.Region,
        symbols: Sequence[str],
        targets: Sequence[_Variable],
    ) -> list[str]:
        found = ["State& state", "wir::Call& call"]
        for param in region.params:
            if isinstance(param, ir.BufferInput):
                name = self.context.buffer(param.name)
                place = place_of(name, self.layout(param.name), owned=False)
                inner.define(param.name, place)
                found.append(f"AtenTensorHandle {name}")
            elif isinstance(param, ir.ScalarInput):
                found.append(self._number_parameter(param.symbol))
        found += map(self._number_parameter, symbols)
        return [*found, *(f"{target.type}& {target.name}" for target in targets)]

    def _number_parameter(self, symbol: str) -> str:
        return f"{self.symbol_type(symbol).value} {self.context.symbol(symbol)}"

    def give(self, values: Sequence[ir.Value], targets: Sequence[_Variable]) -> None:
        """Write the results of a region into the caller's variables."""
        left = [value.buffer for value in values if isinstance(value, ir.BufferValue)]
        for value, target in zip(values, targets, strict=True):
            if isinstance(value, ir.BufferValue):
                left.remove(value.buffer)
                owned = self.base(value.buffer).owned and value.buffer not in left
                handle = self.handle(value.buffer)
                made = f"std::move({handle})" if owned else f"wir::share({handle})"
                self.put(f"{target.name} = {made};")
            elif not isinstance(value, ir.NoneValue):
                self.put(f"{target.name} = {self.expr(value.value, CType(target.type)).text};")


def _given(region: ir.Region) -> list[ir.Value]:
    """Return the results of a region other than None."""
    return [value for value in region.results if not isinstance(value, ir.NoneValue)]
