"""Calls for symbols, checks, probes and control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.build.draft import at_start
from wrapper_ir.build.values import (
    ArgumentError,
    Buffer,
    Number,
    Part,
    ResultError,
    choice,
    located,
)
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Operand: TypeAlias = Buffer | Number
"""An operand of a region."""

Handle: TypeAlias = Buffer | sympy.Symbol
"""A handle of a region's parameter or of a line's result."""


class Control(Part):
    """Symbols, checks, comments, probes and control flow."""

    # Symbols.

    @located
    def size(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to the size of a dimension, counted from 0, in elements.

        ``name`` is a declared symbol that is still unbound, or a new one; by default a fresh name.
        """
        return self._bind(name, ir.SizeOf(self._buffer(buffer).name, dimension))

    @located
    def stride(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to the stride of a dimension, as :meth:`size` does to a size."""
        return self._bind(name, ir.StrideOf(self._buffer(buffer).name, dimension))

    @located
    def storage_offset(self, buffer: Buffer, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to a storage offset, in elements."""
        return self._bind(name, ir.StorageOffsetOf(self._buffer(buffer).name))

    @located
    def item(self, buffer: Buffer, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to the only element of a buffer. The host waits for the device."""
        dtype = self._buffer(buffer).dtype
        kind = ir.SymbolKind.INT if dtype.is_integral else ir.SymbolKind.FLOAT
        kind = ir.SymbolKind.BOOL if dtype.short == "bool" else kind
        return self._bind(name, ir.ItemOf(buffer.name), kind)

    def _bind(
        self, name: str | None, source: ir.SymbolSource, kind: ir.SymbolKind = ir.SymbolKind.INT
    ) -> sympy.Symbol:
        symbol = self._unbound(name, ir.SymbolInfo(kind, unbacked=True))
        self._emit(ir.BindSymbol(symbol.name, source))
        return symbol

    def _unbound(self, name: str | None, info: ir.SymbolInfo) -> sympy.Symbol:
        """Return the symbol for a line to bind: a declared but unbound one, or a new one."""
        draft = self._draft
        if name is not None and name in draft.symbols and name not in draft.bound:
            symbol = draft.symbol(name)
        else:
            symbol = self._new_symbol(name, info)
        draft.bound.add(symbol.name)
        return symbol

    @located
    def compute(self, value: Number, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to the value of an expression."""
        symbol = self._unbound(name, ir.SymbolInfo(_kind_of(value)))
        self._emit(ir.ComputeSymbol(symbol.name, value))
        return symbol

    # Checks, comments, probes.

    @located
    def check(self, condition: Number, message: str = "") -> None:
        """Check a relation among symbols at run time; if it fails, the error has the message.

        The relation is such as ``n <= 64``, or ``sympy.Eq(n, m)`` for equality.
        """
        self._emit(ir.AssertSymbol(condition, message))

    @located
    def check_layout(self, buffer: Buffer, subject: str = "input", *, alignment: int = 0) -> None:
        """Check at run time that a buffer has the layout that the program states.

        The error message calls the buffer ``subject``. ``alignment`` is that of its address, in
        bytes; 0 allows any address.
        """
        self._emit(ir.AssertLayout(self._buffer(buffer).name, subject, alignment))

    @located
    def comment(self, text: str) -> None:
        """Add a comment for the reader, which every target keeps."""
        self._emit(ir.Comment(text))

    @located
    def probe(
        self,
        label: str,
        *shown: Buffer | Number,
        when: ir.When | Literal["before", "after"] = ir.When.AFTER,
        level: ir.ProbeLevel | str = ir.ProbeLevel.PRINT,
    ) -> None:
        """Show buffers and numbers at run time, on a side of a call, under a label.

        The level is the action: ``"print"``, ``"save"``, ``"check"``, ...

        Raises:
            ArgumentError: There is no such level or side.
        """
        buffers = tuple(self._buffer(v).name for v in shown if isinstance(v, Buffer))
        numbers = tuple(v for v in shown if not isinstance(v, Buffer))
        action = choice(ir.ProbeLevel, level, "the level of a probe")
        side = choice(ir.When, when, "the side of a probe")
        self._emit(ir.Probe(label, side, action, buffers, numbers))

    # Regions.

    @located
    def cond(
        self,
        predicate: Buffer | Number,
        operands: Sequence[Operand],
        then: Callable[..., Any],
        orelse: Callable[..., Any],
        *,
        may_alias: bool = False,
    ) -> Any:  # noqa: ANN401 - the type depends on the regions' results
        """Run one of two regions on the operands.

        Args:
            predicate: A condition on symbols, or a buffer of one bool.
            operands: The operands of the regions, which see no other buffers.
            then: A function that builds the region for true. It is called with handles of the
                operands inside the region, adds lines, and returns one result or a tuple.
            orelse: A function that builds the region for false. Its results must be like those of
                ``then``.
            may_alias: Allow regions to return operands, or views of them. Such a result is declared
                as a possible alias of what it may be; by default it is an error, and every result
                has storage of its own.

        Returns:
            The handle of the result, a list of handles if the regions return a tuple, or ``None``.
        """
        return self._choose(ir.Cond, predicate, operands, (then, orelse), may_alias=may_alias)

    @located
    def switch(
        self,
        selector: Buffer | Number,
        operands: Sequence[Operand],
        cases: Sequence[Callable[..., Any]],
        *,
        may_alias: bool = False,
    ) -> Any:  # noqa: ANN401 - the type depends on the regions' results
        """Run one of many regions on the operands.

        Args:
            selector: The number of the region, from 0: an integer, or a buffer of one. It is
                clamped to the range of the cases.
            operands: The operands of the regions, which see no other buffers.
            cases: Functions that build the regions, as in :meth:`cond`.
            may_alias: As for :meth:`cond`.

        Returns:
            The handle of the result, a list of handles if the regions return a tuple, or ``None``.

        Raises:
            ArgumentError: There are no cases.
        """
        if not cases:
            raise ArgumentError(callee="switch", reason="there are no cases")
        return self._choose(ir.Switch, selector, operands, cases, may_alias=may_alias)

    def _choose(
        self,
        line: type[ir.Cond | ir.Switch],
        selector: Operand,
        operands: Sequence[Operand],
        cases: Sequence[Callable[..., Any]],
        *,
        may_alias: bool,
    ) -> Handle | list[Handle] | None:
        origin, callee = self._here(), line.mnemonic
        chosen_by = self._operand(selector)
        built = [self._region(operands, case) for case in cases]
        regions = tuple(region for region, _ in built)
        counts = list(dict.fromkeys(len(region.results) for region in regions))
        if len(counts) > 1:
            reason = f"the regions return {counts[0]} results and {counts[1]}"
            raise ResultError(callee=callee, reason=reason)
        found = [self._returned(region) for region in regions] if may_alias else []
        reached = [set().union(*(each[n] for each in found)) for n in range(counts[0])]
        aliases = [_names_at(operands, each) for each in reached]
        args = self._passed(operands, regions)
        results, handles = self._results_like(callee, regions[0].results, aliases)
        if line is ir.Cond:
            self._draft.emit(ir.Cond(results, chosen_by, args, *regions, origin=origin))
        else:
            self._draft.emit(ir.Switch(results, chosen_by, args, regions, origin=origin))
        _, is_many = built[0]
        return handles if is_many else next(iter(handles), None)

    @located
    def while_loop(
        self,
        carried: Sequence[Operand],
        captured: Sequence[Operand],
        condition: Callable[..., Any],
        body: Callable[..., Any],
        *,
        stacked: bool = False,
        may_alias: bool = False,
    ) -> list[Handle]:
        """Run ``body`` as long as ``condition`` returns true.

        Args:
            carried: The initial values of the variables that the loop carries.
            captured: Further values that both regions see.
            condition: A function that builds the condition's region. It is called with handles of
                the carried and then the captured values, and returns a condition or a buffer of one
                bool.
            body: A function that builds the body's region. It returns the next carried values.
            stacked: Return the carried values of all iterations, stacked.
            may_alias: Allow the body to return carried and captured values, or views of them, as in
                :meth:`cond`. What is stacked is copied in any case.

        Returns:
            Handles of the final carried values, or of the stacked ones.
        """
        origin, count = self._here(), len(carried)
        operands = [*carried, *captured]
        test, _ = self._region(operands, condition)
        step, _ = self._region(operands, body)
        if len(step.results) != count:
            reason = f"the body returns {len(step.results)} values for {count} carried ones"
            raise ResultError(callee="while_loop", reason=reason)
        info = ir.SymbolInfo(lower=0, unbacked=True)
        rounds = self._new_symbol(None, info) if stacked else None
        lead = () if rounds is None else (rounds,)
        found = self._returned(step)
        args = self._passed(operands, (test, step), found)
        of = _over_rounds(found) if may_alias and not stacked else [set[int]()] * count
        aliases = [_names_at(operands, each) for each in of]
        results, handles = self._results_like("while_loop", carried, aliases, lead)
        loop = ir.While(results, args[:count], args[count:], test, step, stacked, origin=origin)
        self._draft.emit(loop)
        if rounds is not None:
            stacks = [result.out for result in results if isinstance(result, ir.ResultBuffer)]
            if not stacks:
                raise ResultError(callee="while_loop", reason="numbers cannot be stacked")
            self._draft.bound.add(rounds.name)
            self._emit(ir.BindSymbol(rounds.name, ir.SizeOf(stacks[0], 0)))
        return handles

    def _operand(
        self, operand: Operand, access: ir.Access = ir.Access.READ
    ) -> ir.BufferArg | ir.ScalarArg:
        """Return an operand as an argument."""
        if isinstance(operand, Buffer):
            return ir.BufferArg(self._buffer(operand).name, access)
        return ir.ScalarArg(operand)

    def _region(self, given: Sequence[Operand], body: Callable[..., Any]) -> tuple[ir.Region, bool]:
        """Build a region; also return whether ``body`` gave a tuple of results."""
        builds: object = body
        if not callable(builds):
            reason = f"{builds!r} is not a function that builds a region"
            raise ArgumentError(callee="a region", reason=reason)
        draft = self._draft
        params: list[ir.Input] = []
        handles: list[Handle] = []
        for operand in given:
            if isinstance(operand, Buffer):
                buffer = self._new_buffer(None, at_start(operand.layout), "p")
                params.append(ir.BufferInput(buffer.name))
                handles.append(buffer)
            else:
                handles.append(self._unbound(None, ir.SymbolInfo(_kind_of(operand))))
                params.append(ir.ScalarInput(handles[-1].name))
        with draft.region() as lines:
            returned = body(*handles)
        is_many = isinstance(returned, (tuple, list))
        results = tuple(map(self._value, returned if is_many else (returned,)))
        return ir.Region(tuple(params), tuple(lines), results), is_many

    def _value(self, given: object) -> ir.Value:
        """Return a result of a program or region as a value."""
        if given is None:
            return ir.NoneValue()
        if isinstance(given, Buffer):
            return ir.BufferValue(self._buffer(given).name)
        if isinstance(given, Number):
            return ir.ScalarValue(given)
        raise ArgumentError(callee="results", reason=f"{given!r} cannot be a result")

    def _results_like(
        self,
        callee: str,
        values: Sequence[ir.Value | Operand],
        aliases: Sequence[Sequence[str]],
        lead: tuple[Any, ...] = (),
    ) -> tuple[tuple[ir.CallResult, ...], list[Handle]]:
        """Define results like ``values``, which are those of a region or carried by a loop.

        Args:
            callee: The name to use in error messages.
            values: The values.
            aliases: For each of them, the operands that the result may alias. Others are fresh.
            lead: Leading sizes to add to each result.
        """
        defined: list[ir.CallResult] = []
        handles: list[Handle] = []
        paths = [()] if len(values) == 1 else [(index,) for index in range(len(values))]
        for path, value, of in zip(paths, values, aliases, strict=True):
            if isinstance(value, (ir.BufferValue, Buffer)):
                name = value.buffer if isinstance(value, ir.BufferValue) else value.name
                layout = at_start(self._draft.buffers[name])
                if lead:
                    size = (*lead, *layout.size)
                    layout = ir.Layout.contiguous(layout.dtype, size, layout.device)
                buffer = self._new_buffer(None, layout)
                relation = ir.Relation.MAY_ALIAS if of else ir.Relation.FRESH
                defined.append(ir.ResultBuffer(buffer.name, path, relation, tuple(of)))
                handles.append(buffer)
            elif isinstance(value, ir.NoneValue):
                reason = "a region returns None, which is not a value"
                raise ResultError(callee=callee, reason=reason)
            else:
                number = value.value if isinstance(value, ir.ScalarValue) else value
                symbol = self._unbound(None, ir.SymbolInfo(_kind_of(number), unbacked=True))
                defined.append(ir.ResultSymbol(symbol.name, path))
                handles.append(symbol)
        return tuple(defined), handles

    # What regions do with their operands.

    def _passed(
        self,
        operands: Sequence[Operand],
        regions: Sequence[ir.Region],
        carried: Sequence[set[int]] = (),
    ) -> tuple[ir.BufferArg | ir.ScalarArg, ...]:
        """Return operands as arguments, passed for writing if a region writes their parameters.

        ``carried`` has, for each value that a loop carries, the positions of the operands that it
        may alias after a round, which the next one may write.
        """
        changed = {
            position
            for region in regions
            for position, param in enumerate(region.params)
            if isinstance(param, ir.BufferInput) and self._draft.is_written(param.name)
        }
        for _ in carried:
            changed.update(*(each for position, each in enumerate(carried) if position in changed))
        written = dict.fromkeys(changed, ir.Access.READ_WRITE)
        accesses = [written.get(n, ir.Access.READ) for n in range(len(operands))]
        return tuple(map(self._operand, operands, accesses))

    def _returned(self, region: ir.Region) -> list[set[int]]:
        """Return, for each result of a region, the positions of parameters that it may alias."""
        params = enumerate(region.params)
        positions = {p.name: at for at, p in params if isinstance(p, ir.BufferInput)}
        names = [v.buffer if isinstance(v, ir.BufferValue) else "" for v in region.results]
        roots = [self._draft.roots(name) if name else () for name in names]
        return [{positions[root] for root in each if root in positions} for each in roots]


def _over_rounds(found: Sequence[set[int]]) -> list[set[int]]:
    """Return what the results of a loop may alias after any number of rounds, even none.

    ``found`` has the positions of the operands that each result of the body may alias; the first
    operands are what the loop carries.
    """
    reached = [{position, *each} if each else set() for position, each in enumerate(found)]
    for _ in found:
        for each in reached:
            for position in [p for p in each if p < len(reached)]:
                each |= reached[position]
    return reached


def _names_at(operands: Sequence[Operand], positions: set[int]) -> list[str]:
    """Return the names of the buffers at these positions."""
    chosen = (operands[position] for position in sorted(positions))
    return list(dict.fromkeys(each.name for each in chosen if isinstance(each, Buffer)))


def _kind_of(value: object) -> ir.SymbolKind:
    """Return the kind of symbol that can hold a number."""
    if is_relation(value) and not isinstance(value, sympy.Symbol):
        return ir.SymbolKind.BOOL
    if isinstance(value, (float, complex)):
        return ir.SymbolKind.FLOAT
    is_real = isinstance(value, sympy.Expr) and value.is_integer is not True
    return ir.SymbolKind.FLOAT if is_real else ir.SymbolKind.INT
