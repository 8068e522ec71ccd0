"""Control flow: what goes into regions and what comes out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from wrapper_ir.lines import (
    SELECTOR_TYPES,
    BufferArg,
    BufferInput,
    BufferValue,
    Cond,
    DType,
    NoneValue,
    ObjectInput,
    Relation,
    ResultBuffer,
    ScalarArg,
    ScalarInput,
    ScalarValue,
    Switch,
    While,
    passed_to_regions,
    regions_of,
)
from wrapper_ir.lines.expr import free_symbols, symbol
from wrapper_ir.lines.traits import loops
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import counted, described
from wrapper_ir.verify.externs import check_alias_source
from wrapper_ir.verify.layouts import difference
from wrapper_ir.verify.storage import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.lines import Arg, CallResult, Dim, Layout, Region, RegionLine, Value
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Frame, State
    from wrapper_ir.verify.storage import Storage
    from wrapper_ir.verify.symbols import Symbols


class Control:
    """The checks of lines that hold regions and of their regions' borders."""

    def __init__(self, state: State, symbols: Symbols, lifetimes: Lifetimes) -> None:
        self.state = state
        self.symbols = symbols
        self.lifetimes = lifetimes

    # Before the regions.

    def check_entry(self, line: RegionLine) -> None:
        """Checks what decides, the operands and the parameters of each region."""
        if isinstance(line, Cond):
            self._check_predicate(line.predicate)
        elif isinstance(line, Switch):
            self._check_selector(line)
        operands = passed_to_regions(line)
        for name, region in regions_of(line):
            self._check_params(name, region, operands)
        for result in line.results:
            if isinstance(result, ResultBuffer):
                check_alias_source(self.state, result, iter(operands))

    def _check_predicate(self, predicate: BufferArg | ScalarArg) -> None:
        if isinstance(predicate, ScalarArg):
            self.symbols.check_kinds(predicate.value, self.state.here())
            if not self.symbols.is_condition(predicate.value):
                kind = self.symbols.kind_of(predicate.value)
                self.state.report(rules.BAD_PREDICATE, given=f"{predicate.value} ({kind})")
            return
        layout = self.state.program.buffers.get(predicate.buffer)
        if layout is not None:
            given = _not_one_of(predicate.buffer, layout, (DType.BOOL,))
            if given:
                self.state.report(rules.BAD_PREDICATE, given=given)
        if predicate.access.writes:
            self.state.report(rules.BAD_PREDICATE, given=f"%{predicate.buffer}, passed for writing")

    def _check_selector(self, line: Switch) -> None:
        selector, given = line.selector, ""
        if isinstance(selector, ScalarArg):
            self.symbols.check_kinds(selector.value, self.state.here())
            kind = self.symbols.kind_of(selector.value)
            given = "" if kind == "int" else f"{selector.value} ({kind})"
        else:
            layout = self.state.program.buffers.get(selector.buffer)
            if layout is not None:
                given = _not_one_of(selector.buffer, layout, SELECTOR_TYPES)
            if selector.access.writes:
                given = f"%{selector.buffer}, passed for writing"
        if given:
            self.state.report(rules.BAD_SELECTOR, given=given)
        if not line.cases:
            self.state.report(rules.NO_CASES)

    def _check_params(self, name: str, region: Region, operands: tuple[Arg, ...]) -> None:
        if len(region.params) != len(operands):
            self.state.report(
                rules.PARAMS_DIFFER,
                region=name,
                expected=counted(len(region.params), "parameter"),
                given=f"{counted(len(operands), 'operand')} {_is_or_are(len(operands))} given",
                fix="give one parameter an operand, in order",
            )
            return
        values = _values_of_params(region, operands)
        for position, (param, arg) in enumerate(zip(region.params, operands, strict=True)):
            if isinstance(param, BufferInput):
                given = self._param_fault(param, arg, values)
                expected = f"buffer %{param.name} as parameter {position}"
            elif isinstance(param, ObjectInput):
                continue  # which no region may have
            else:
                given = "" if isinstance(arg, ScalarArg) else described(arg)
                expected = f"number {param.symbol} as parameter {position}"
                if isinstance(arg, ScalarArg):
                    self.symbols.check_value(param.symbol, arg.value, self.state.here())
            if given:
                self.state.report(
                    rules.PARAMS_DIFFER,
                    region=name,
                    expected=expected,
                    given=f"the operand is {given}",
                    fix="dtype, device, sizes and strides of parameter and operand are equal",
                )

    def _param_fault(self, param: BufferInput, arg: Arg, values: dict[str, Dim]) -> str:
        if not isinstance(arg, BufferArg):
            return described(arg)
        buffers = self.state.program.buffers
        given, expected = buffers.get(arg.buffer), buffers.get(param.name)
        if given is None or expected is None:
            return ""
        return difference(given, _with_values(expected, values), self._is_known)

    def _is_known(self, value: Dim) -> bool:
        """Return whether every symbol of ``value`` has a value here, so that it can be compared."""
        return all(self.symbols.is_visible(name) for name in free_symbols(value))

    # After the regions.

    def check_results(self, line: RegionLine, frame: Frame, leaving: list[Storage | None]) -> None:
        """Checks what one region gives, and what it did to its parameters.

        ``leaving`` has the storage of each of the region's results, in order.
        """
        name = frame.name
        self._check_writes(line, name, frame.region)
        values = [
            (value, storage)
            for value, storage in zip(frame.region.results, leaving, strict=True)
            if not isinstance(value, NoneValue)
        ]
        if loops(line) and name == "condition":
            self._check_condition(values)
            return
        if len(values) != len(line.results):
            self._report_count(name, len(values), len(line.results))
            return
        operands = passed_to_regions(line)
        bindings = _values_of_params(frame.region, operands)
        for position, ((value, _), result) in enumerate(zip(values, line.results, strict=True)):
            self._check_result(line, name, position, value, result, bindings)
        if not (loops(line) and line.stacked):
            self._check_sharing(line, name, frame.region, [s for _, s in values])

    def check_carried(self, line: While) -> None:
        """Checks that a loop has one result a carried value."""
        if len(line.results) != len(line.carried):
            self._report_count("body", len(line.carried), len(line.results))

    def _report_count(self, name: str, given: int, expected: int) -> None:
        self.state.report(
            rules.RESULT_COUNT,
            region=name,
            given=counted(given, "result"),
            expected=f"{expected} {_is_or_are(expected)}",
        )

    def _check_condition(self, values: Sequence[tuple[Value, Storage | None]]) -> None:
        if len(values) != 1:
            self._report_count("condition", len(values), 1)
            return
        value = values[0][0]
        given = ""
        if isinstance(value, BufferValue):
            layout = self.state.program.buffers.get(value.buffer)
            if layout is not None:
                given = _not_one_of(value.buffer, layout, (DType.BOOL,))
        elif isinstance(value, ScalarValue) and not self.symbols.is_condition(value.value):
            given = f"{value.value} ({self.symbols.kind_of(value.value)})"
        if given:
            self.state.report(rules.BAD_PREDICATE, given=given)

    def _check_result(
        self,
        line: RegionLine,
        name: str,
        position: int,
        value: Value,
        result: CallResult,
        bindings: dict[str, Dim],
    ) -> None:
        given, expected = "", ""
        if isinstance(result, ResultBuffer):
            expected = f"buffer %{result.out}"
            if isinstance(value, BufferValue):
                given = self._layout_fault(line, value.buffer, result.out, bindings)
            else:
                given = "a number"
        else:
            expected = f"number {result.symbol}"
            if isinstance(value, ScalarValue):
                self.symbols.check_value(result.symbol, value.value, self.state.here())
            else:
                given = "a buffer"
        if given:
            self.state.report(
                rules.RESULTS_DIFFER,
                position=position,
                region=name,
                given=given,
                expected=expected,
            )

    def _layout_fault(
        self, line: RegionLine, inner: str, outer: str, bindings: dict[str, Dim]
    ) -> str:
        buffers = self.state.program.buffers
        given, expected = buffers.get(inner), buffers.get(outer)
        if given is None or expected is None:
            return ""
        fault = difference(
            _with_values(given, bindings),
            _first_slice(expected) if loops(line) and line.stacked else expected,
            self._is_known,
        )
        return f"%{inner}, {fault}" if fault else ""

    def _check_sharing(
        self, line: RegionLine, name: str, region: Region, leaving: list[Storage | None]
    ) -> None:
        """Checks that what a result calls fresh is storage that nobody else holds."""
        operands = passed_to_regions(line)
        lent = {
            param.name: arg.buffer
            for param, arg in zip(region.params, operands, strict=False)
            if isinstance(param, BufferInput) and isinstance(arg, BufferArg)
        }
        seen: dict[Storage, int] = {}
        for position, (storage, result) in enumerate(zip(leaving, line.results, strict=True)):
            if storage is None or not isinstance(result, ResultBuffer):
                continue
            first = storage.first
            what = ""
            if first.kind is Kind.CONSTANT:
                what = f"constant %{first.owner}"
            elif first.kind is Kind.PARAM and lent.get(first.owner) not in result.of:
                what = f"parameter %{first.owner}, the caller's own"
            elif result.relation is Relation.FRESH and first in seen:
                what = f"the same storage as result {seen[first]}"
            seen.setdefault(first, position)
            if what:
                self.state.report(
                    rules.SHARED_RESULT,
                    position=position,
                    region=name,
                    what=what,
                    result=result.out,
                )

    def _check_writes(self, line: RegionLine, name: str, region: Region) -> None:
        """Checks that an operand whose parameter a region changes is passed for writing."""
        operands = passed_to_regions(line)
        for param, arg in zip(region.params, operands, strict=False):
            if not isinstance(param, BufferInput) or not isinstance(arg, BufferArg):
                continue
            inside = self.lifetimes.buffers.get(param.name)
            changed = inside is not None and any(s.first.written for s in inside.storages)
            if changed and not arg.access.writes:
                self.state.report(
                    rules.UNTOLD_WRITE,
                    region=name,
                    param=param.name,
                    operand=arg.buffer,
                    given=arg.access.value,
                )


def _not_one_of(name: str, layout: Layout, types: Sequence[DType]) -> str:
    """Describe a buffer that is not one element of one of these types; empty if it is."""
    if layout.dtype not in types:
        return f"%{name}, which holds {layout.dtype.short}"
    numel = layout.numel
    return f"%{name}, which has {numel} elements" if type(numel) is int and numel != 1 else ""


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def _values_of_params(region: Region, operands: tuple[Arg, ...]) -> dict[str, Dim]:
    """Return what the caller gives for each scalar parameter."""
    values: dict[str, Dim] = {}
    for param, arg in zip(region.params, operands, strict=False):
        if isinstance(param, ScalarInput) and isinstance(arg, ScalarArg):
            value = arg.value
            if type(value) is int or (isinstance(value, sympy.Expr) and value.is_integer):
                values[param.symbol] = value
    return values


def _with_values(layout: Layout, values: dict[str, Dim]) -> Layout:
    """The layout as the caller sees it: with the operands in place of the scalar parameters."""
    if not values or not layout.symbols & values.keys():
        return layout
    replace = {symbol(name): value for name, value in values.items()}

    def put(value: Dim) -> Dim:
        return value.xreplace(replace) if isinstance(value, sympy.Basic) else value

    return type(layout)(
        layout.dtype,
        layout.device,
        tuple(map(put, layout.size)),
        tuple(map(put, layout.stride)),
        put(layout.offset),
    )


def _first_slice(layout: Layout) -> Layout:
    """The layout without its first dimension, along which a loop stacks its rounds."""
    return type(layout)(
        layout.dtype, layout.device, layout.size[1:], layout.stride[1:], layout.offset
    )
