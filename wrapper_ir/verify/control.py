"""Control flow: arguments and results of regions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.traits import loops
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import are, counted, described
from wrapper_ir.verify.externs import check_alias_source
from wrapper_ir.verify.state import Frame, Kind, State, Storage, Storages
from wrapper_ir.verify.tables import difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.rules import Rule
    from wrapper_ir.verify.symbols import Symbols


Values: TypeAlias = dict[str, ir.Dim]
"""Values of the scalar parameters of a region."""


class Control:
    """Checks of lines with regions, and of the interfaces of regions."""

    def __init__(self, state: State, symbols: Symbols, lifetimes: Lifetimes) -> None:
        self.state = state
        self.symbols = symbols
        self.lifetimes = lifetimes

    # Before the regions.

    def check_entry(self, line: ir.RegionLine) -> None:
        """Check the predicate or selector, the operands and the parameters of each region."""
        if isinstance(line, ir.Cond):
            self._check_decider(rules.BAD_PREDICATE, line.predicate, "bool", (ir.DType.BOOL,))
        elif isinstance(line, ir.Switch):
            self._check_decider(rules.BAD_SELECTOR, line.selector, "int", ir.SELECTOR_TYPES)
            if not line.cases:
                self.state.report(rules.NO_CASES)
        operands = ir.passed_to_regions(line)
        for name, region in ir.regions_of(line):
            self._check_params(name, region, operands)
        for result in line.results:
            if isinstance(result, ir.ResultBuffer):
                check_alias_source(self.state, result, operands)

    def give_up(self, line: ir.RegionLine) -> None:
        """Record operands that are donated to a region, which may end their storage.

        A loop gives up only what its body carries: the rest is needed in the next round.
        """
        for name, region in ir.regions_of(line):
            lent = list(_lent(line, region))
            for at, (param, arg) in enumerate(lent):
                if not param.donated:
                    continue
                self._check_donated(name, arg, lent[:at] + lent[at + 1 :])
                if loops(line) and (name == "condition" or arg not in line.carried):
                    self.state.report(rules.PARAM_ENDED, name=param.name, verb="donated")
                self.lifetimes.give_up(arg.buffer)

    def _check_donated(
        self,
        region: str,
        donated: ir.BufferArg,
        others: Sequence[tuple[ir.BufferInput, ir.BufferArg]],
    ) -> None:
        """Check that a region gets a storage that is donated to it under no other name."""
        storages = set(self.lifetimes.storages(donated.buffer))
        for _, other in others:
            if not storages.isdisjoint(self.lifetimes.storages(other.buffer)):
                fault = partial(self.state.report, rules.DONATED_TWICE, region=region)
                fault(name=donated.buffer, other=other.buffer)
                return

    def _check_decider(
        self, rule: Rule, arg: ir.BufferArg | ir.ScalarArg, kind: str, types: Sequence[ir.DType]
    ) -> None:
        """Check a predicate or selector: a number of a kind, or a buffer with one element."""
        if isinstance(arg, ir.ScalarArg):
            self.symbols.check_kinds(arg.value, self.state.here())
            faults = [self._not_of(arg.value, kind)]
        else:
            is_written = f"%{arg.buffer}, passed for writing" if arg.access.writes else ""
            faults = [self._not_one(arg.buffer, types), is_written]
        for given in filter(None, faults):
            self.state.report(rule, given=given)

    def _not_of(self, value: ir.Scalar, kind: str) -> str:
        """Describe a number that does not have this kind; empty if it does."""
        found = self.symbols.kind_of(value)
        return "" if found == kind else f"{value} ({found})"

    def _not_one(self, name: str, types: Sequence[ir.DType]) -> str:
        """Describe a buffer that does not have one element of these types; empty if it does."""
        layout = self.state.program.buffers.get(name)
        if layout is None:
            return ""
        if layout.dtype not in types:
            return f"%{name}, which holds {layout.dtype.short}"
        numel = layout.numel
        return f"%{name}, which has {numel} elements" if type(numel) is int and numel != 1 else ""

    def _check_params(self, name: str, region: ir.Region, operands: tuple[ir.Arg, ...]) -> None:
        fault, params = partial(self.state.report, rules.PARAMS_DIFFER, region=name), region.params
        if len(params) != len(operands):
            expected = counted(len(params), "parameter")
            given = f"{counted(len(operands), 'operand')} {are(len(operands))} given"
            fault(expected=expected, given=given, fix="declare one parameter per operand, in order")
            return
        values = _values_of_params(region, operands)
        for position, (param, arg) in enumerate(zip(params, operands, strict=True)):
            given = expected = ""
            if isinstance(param, ir.BufferInput):
                given = self._param_fault(param, arg, values)
                expected = f"buffer %{param.name} as parameter {position}"
            elif isinstance(param, ir.ScalarInput):  # regions take no objects
                expected = f"number {param.symbol} as parameter {position}"
                if isinstance(arg, ir.ScalarArg):
                    self.symbols.check_value(param.symbol, arg.value, self.state.here())
                else:
                    given = described(arg)
            if given:
                fix = "dtype, device, sizes and strides of parameter and operand must be equal"
                fault(expected=expected, given=f"the operand is {given}", fix=fix)

    def _param_fault(self, param: ir.BufferInput, arg: ir.Arg, values: Values) -> str:
        if not isinstance(arg, ir.BufferArg):
            return described(arg)
        buffers = self.state.program.buffers
        given, expected = buffers.get(arg.buffer), buffers.get(param.name)
        if given is None or expected is None:
            return ""
        return difference(given, _with_values(expected, values), self._is_known)

    def _is_known(self, value: ir.Dim) -> bool:
        """Return whether all symbols in ``value`` are bound here, so that it can be compared."""
        return all(self.symbols.is_visible(name) for name in free_symbols(value))

    # After the regions.

    def check_results(self, line: ir.RegionLine, frame: Frame, leaving: list[Storages]) -> None:
        """Check the results of a region, given the storages they may be in, and its writes."""
        name = frame.name
        self._check_writes(line, name, frame.region)
        pairs = zip(frame.region.results, leaving, strict=True)
        values = [pair for pair in pairs if not isinstance(pair[0], ir.NoneValue)]
        if loops(line) and name == "condition":
            self._check_condition(values)
            return
        if len(values) != len(line.results):
            self._report_count(name, len(values), len(line.results))
            return
        operands = ir.passed_to_regions(line)
        bindings = _values_of_params(frame.region, operands)
        for position, ((value, _), result) in enumerate(zip(values, line.results, strict=True)):
            given, expected = self._result_fault(line, value, result, bindings)
            if given:
                fault = partial(self.state.report, rules.RESULTS_DIFFER, region=name)
                fault(position=position, given=given, expected=expected)
        if not (loops(line) and line.stacked):
            self._check_sharing(line, name, frame.region, values)

    def check_carried(self, line: ir.While) -> None:
        """Check that a loop has one result per carried value."""
        if len(line.results) != len(line.carried):
            self._report_count("body", len(line.carried), len(line.results))

    def _report_count(self, name: str, given: int, expected: int) -> None:
        fault = partial(self.state.report, rules.RESULT_COUNT, region=name)
        fault(given=counted(given, "result"), expected=f"{expected} {are(expected)}")

    def _check_condition(self, values: Sequence[tuple[ir.Value, Storages]]) -> None:
        if len(values) != 1:
            self._report_count("condition", len(values), 1)
            return
        value, given = values[0][0], ""
        if isinstance(value, ir.BufferValue):
            given = self._not_one(value.buffer, (ir.DType.BOOL,))
        elif isinstance(value, ir.ScalarValue):
            given = self._not_of(value.value, "bool")
        if given:
            self.state.report(rules.BAD_PREDICATE, given=given)

    def _result_fault(
        self,
        line: ir.RegionLine,
        value: ir.Value,
        result: ir.CallResult,
        bindings: Values,
    ) -> tuple[str, str]:
        """Describe a result of the wrong kind or layout, and what is needed; empty if it fits."""
        if isinstance(result, ir.ResultBuffer):
            given = "a number"
            if isinstance(value, ir.BufferValue):
                given = self._layout_fault(line, value.buffer, result.out, bindings)
            return given, f"buffer %{result.out}"
        if not isinstance(value, ir.ScalarValue):
            return "a buffer", f"number {result.symbol}"
        self.symbols.check_value(result.symbol, value.value, self.state.here())
        return "", ""

    def _layout_fault(self, line: ir.RegionLine, inner: str, outer: str, bindings: Values) -> str:
        buffers = self.state.program.buffers
        given, expected = buffers.get(inner), buffers.get(outer)
        if given is None or expected is None:
            return ""
        if loops(line) and line.stacked:
            # A loop stacks its rounds along a new first dimension.
            expected = replace(expected, size=expected.size[1:], stride=expected.stride[1:])
        fault = difference(_with_values(given, bindings), expected, self._is_known)
        return f"%{inner}, {fault}" if fault else ""

    def _check_sharing(
        self,
        line: ir.RegionLine,
        name: str,
        region: ir.Region,
        leaving: Sequence[tuple[ir.Value, Storages]],
    ) -> None:
        """Check that results share no storage but that of the operands that they declare."""
        lent = {param.name: arg.buffer for param, arg in _lent(line, region)}
        seen: dict[Storage, int] = {}
        pairs = zip(leaving, line.results, strict=True)
        for position, ((value, storages), result) in enumerate(pairs):
            if not (isinstance(result, ir.ResultBuffer) and isinstance(value, ir.BufferValue)):
                continue
            found = [self._new(value.buffer, result)]
            found += [_owner_of(storage.first, lent, result) for storage in storages]
            found += [self._shared(storage.first, line, seen, result) for storage in storages]
            if loops(line):
                owners = [storage.first.owner for storage in storages]
                found += _from_rounds(line, region, position, owners)
            for storage in storages:
                seen.setdefault(storage.first, position)
            for what in filter(None, dict.fromkeys(found)):
                fault = partial(self.state.report, rules.SHARED_RESULT, region=name, what=what)
                fault(position=position, result=result.out, relation=_relation_of(result))

    def _new(self, name: str, result: ir.ResultBuffer) -> str:
        """Say of a buffer that it is, or may be, no view of an operand, if the result is one."""
        buffer = self.lifetimes.buffers.get(name)
        if result.relation is not ir.Relation.ALIAS or buffer is None:
            return ""
        if any(storage.first.kind is Kind.OWNED for storage in buffer.storages):
            return "new memory"
        return "" if buffer.is_certain else "new memory, perhaps"

    def _shared(
        self,
        storage: Storage,
        line: ir.RegionLine,
        seen: dict[Storage, int],
        result: ir.ResultBuffer,
    ) -> str:
        """Describe an earlier result in new storage that a result is in; empty if it may be.

        Two results that may be views of one operand count as views of each other.
        """
        earlier = line.results[seen[storage]] if storage in seen else None
        if storage.kind is not Kind.OWNED or not isinstance(earlier, ir.ResultBuffer):
            return ""
        may_be = set(earlier.of) & set(result.of)
        return "" if may_be else f"the same storage as result {seen[storage]}"

    def _check_writes(self, line: ir.RegionLine, name: str, region: ir.Region) -> None:
        """Check that operands are passed for writing if the region writes their parameters."""
        changed = self._changed(line, region)
        if loops(line) and name == "body":
            early = self._changed(line, line.condition)
            pairs = zip(line.condition.params, region.params, strict=False)
            for other, param in pairs:
                if isinstance(other, ir.BufferInput) and isinstance(param, ir.BufferInput):
                    changed |= {param.name} if other.name in early else set()
            self._follow(changed, region)
        for param, arg in _lent(line, region):
            if param.name in changed and not arg.access.writes:
                fault = partial(self.state.report, rules.UNTOLD_WRITE, region=name)
                fault(param=param.name, operand=arg.buffer, given=arg.access.value)

    def _changed(self, line: ir.RegionLine, region: ir.Region) -> set[str]:
        """Return the buffer parameters that a region writes."""
        return {
            storage.first.owner
            for param, _ in _lent(line, region)
            for storage in self.lifetimes.storages(param.name)
            if storage.first.written
        }

    def _follow(self, changed: set[str], body: ir.Region) -> None:
        """Add the parameters of a loop's body whose memory a later round finds in a changed one."""
        pairs = [
            (param.name, storage.first.owner)
            for param, value in zip(body.params, body.results, strict=False)
            if isinstance(param, ir.BufferInput) and isinstance(value, ir.BufferValue)
            for storage in self.lifetimes.storages(value.buffer)
            if storage.first.kind is Kind.PARAM
        ]
        for _ in pairs:
            changed.update(owner for param, owner in pairs if param in changed)


def _owner_of(storage: Storage, lent: dict[str, str], result: ir.ResultBuffer) -> str:
    """Describe the owner of storage that a result does not declare; empty if it does."""
    if storage.kind is Kind.CONSTANT:
        return f"constant %{storage.owner}"
    if storage.kind is Kind.PARAM and lent.get(storage.owner) not in result.of:
        return f"parameter %{storage.owner}, the caller's own"
    return ""


def _from_rounds(line: ir.While, region: ir.Region, at: int, owners: list[str]) -> Iterator[str]:
    """Describe what a result of a loop is after fewer or more rounds, and does not declare.

    ``owners`` are those of the storages that the result of the body may be in. What is declared as
    fresh is copied if the loop never runs.
    """
    result = line.results[at]
    if not isinstance(result, ir.ResultBuffer) or not result.of:
        return
    for first in line.carried[at : at + 1]:
        if isinstance(first, ir.BufferArg) and first.buffer not in result.of:
            yield f"the initial value %{first.buffer} if the loop never runs"
    for param, other in zip(region.params, line.results, strict=False):
        if isinstance(param, ir.BufferInput) and param.name in owners:
            for name in other.of if isinstance(other, ir.ResultBuffer) else ():
                if name not in result.of:
                    yield f"parameter %{param.name}, which may be %{name} in a later round"


def _relation_of(result: ir.ResultBuffer) -> str:
    """Return the declared relation of a result, in words."""
    of = ", ".join(f"%{name}" for name in result.of)
    return f"{result.relation.value}({of})" if of else result.relation.value


def _lent(line: ir.RegionLine, region: ir.Region) -> Iterator[tuple[ir.BufferInput, ir.BufferArg]]:
    """Yield the buffer parameters of a region, each with its operand."""
    for param, arg in zip(region.params, ir.passed_to_regions(line), strict=False):
        if isinstance(param, ir.BufferInput) and isinstance(arg, ir.BufferArg):
            yield param, arg


def _values_of_params(region: ir.Region, operands: tuple[ir.Arg, ...]) -> Values:
    """Return the values of the scalar parameters."""
    values: Values = {}
    for param, arg in zip(region.params, operands, strict=False):
        if isinstance(param, ir.ScalarInput) and isinstance(arg, ir.ScalarArg):
            value = arg.value
            if type(value) is int or (isinstance(value, sympy.Expr) and value.is_integer):
                values[param.symbol] = value
    return values


def _with_values(layout: ir.Layout, values: Values) -> ir.Layout:
    """Return the layout with operands substituted for scalar parameters."""
    if not values or not layout.symbols & values.keys():
        return layout
    pairs = {ir.symbol(name): value for name, value in values.items()}

    def put(value: ir.Dim) -> ir.Dim:
        return value.xreplace(pairs) if isinstance(value, sympy.Basic) else value

    size, stride = tuple(map(put, layout.size)), tuple(map(put, layout.stride))
    return replace(layout, size=size, stride=stride, offset=put(layout.offset))
