"""Calls for symbols, checks, probes and control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import wrapper_ir.lines as ir
from wrapper_ir.build.errors import ArgumentError, ResultError
from wrapper_ir.build.regions import (
    Handle,
    Operand,
    build_region,
    define_results,
    kind_of,
    names_at,
    operand_of,
    over_rounds,
    passed,
    returned,
)
from wrapper_ir.build.values import (
    Buffer,
    Number,
    Part,
    choice,
    here,
    located,
    new_symbol,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sympy


class Control(Part):
    """Symbols, checks, comments, probes and control flow."""

    # Symbols.

    @located
    def size(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to a size, in elements.

        Args:
            buffer: The buffer.
            dimension: The dimension, from 0.
            name: A declared symbol that is still unbound, or a new one. By default a fresh name.
        """
        return self._bind(name, ir.SizeOf(self._buffer(buffer).name, dimension))

    @located
    def stride(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to a stride, in elements.

        Args:
            buffer: The buffer.
            dimension: The dimension, from 0.
            name: A declared symbol that is still unbound, or a new one. By default a fresh name.
        """
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
            symbol = new_symbol(draft, name, info)
        draft.bound.add(symbol.name)
        return symbol

    @located
    def compute(self, value: Number, *, name: str | None = None) -> sympy.Symbol:
        """Bind a symbol to the value of an expression."""
        symbol = self._unbound(name, ir.SymbolInfo(kind_of(value)))
        self._emit(ir.ComputeSymbol(symbol.name, value))
        return symbol

    # Checks, comments, probes.

    @located
    def check(self, condition: Number, message: str = "") -> None:
        """Check a relation among symbols at run time.

        Args:
            condition: A relation such as ``n <= 64``, or ``sympy.Eq(n, m)`` for equality.
            message: The message of the error that a failure raises.
        """
        self._emit(ir.AssertSymbol(condition, message))

    @located
    def check_layout(self, buffer: Buffer, subject: str = "input", *, alignment: int = 0) -> None:
        """Check at run time that a buffer has the layout that the program states.

        Args:
            buffer: The buffer.
            subject: The noun to use for it in the error message.
            alignment: The required alignment of its address, in bytes. 0 allows any address.
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
        """Show buffers and numbers at run time.

        Args:
            label: The beginning of the line that is shown.
            *shown: Buffers and numbers.
            when: The side of a call that the probe is on.
            level: The action: ``"print"``, ``"save"``, ``"check"``, ...

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
        draft, origin, callee = self._draft, here(self._draft), line.mnemonic
        chosen_by = operand_of(draft, selector)
        built = [build_region(draft, operands, case) for case in cases]
        regions = tuple(region for region, _ in built)
        counts = list(dict.fromkeys(len(region.results) for region in regions))
        if len(counts) > 1:
            reason = f"the regions return {counts[0]} results and {counts[1]}"
            raise ResultError(callee=callee, reason=reason)
        found = [returned(draft, region) for region in regions] if may_alias else []
        aliases = [
            names_at(operands, set().union(*(each[position] for each in found)))
            for position in range(counts[0])
        ]
        args = passed(draft, operands, regions)
        results, handles = define_results(draft, callee, regions[0].results, aliases)
        if line is ir.Cond:
            draft.emit(ir.Cond(results, chosen_by, args, *regions, origin=origin))
        else:
            draft.emit(ir.Switch(results, chosen_by, args, regions, origin=origin))
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
        draft, origin, count = self._draft, here(self._draft), len(carried)
        operands = [*carried, *captured]
        test, _ = build_region(draft, operands, condition)
        step, _ = build_region(draft, operands, body)
        if len(step.results) != count:
            reason = f"the body returns {len(step.results)} values for {count} carried ones"
            raise ResultError(callee="while_loop", reason=reason)
        rounds = new_symbol(draft, None, ir.SymbolInfo(lower=0, unbacked=True)) if stacked else None
        lead = () if rounds is None else (rounds,)
        found = returned(draft, step)
        args = passed(draft, operands, (test, step), found)
        of = over_rounds(found) if may_alias and not stacked else [set[int]()] * count
        aliases = [names_at(operands, each) for each in of]
        results, handles = define_results(draft, "while_loop", carried, aliases, lead)
        draft.emit(
            ir.While(results, args[:count], args[count:], test, step, stacked, origin=origin)
        )
        if rounds is not None:
            stacks = [result.out for result in results if isinstance(result, ir.ResultBuffer)]
            if not stacks:
                raise ResultError(callee="while_loop", reason="numbers cannot be stacked")
            draft.bound.add(rounds.name)
            self._emit(ir.BindSymbol(rounds.name, ir.SizeOf(stacks[0], 0)))
        return handles
