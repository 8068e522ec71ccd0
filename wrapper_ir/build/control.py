"""Calls that work on symbols, check, choose, loop, and show; and the regions that they build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import sympy

from wrapper_ir.build.draft import at_start
from wrapper_ir.build.errors import ArgumentError, ResultError
from wrapper_ir.build.values import (
    Buffer,
    Number,
    Part,
    choice,
    here,
    located,
    new_buffer,
    new_symbol,
    own,
)
from wrapper_ir.lines import (
    Access,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    BufferArg,
    BufferInput,
    BufferValue,
    CallResult,
    Comment,
    ComputeSymbol,
    Cond,
    Input,
    ItemOf,
    Layout,
    NoneValue,
    Probe,
    ProbeLevel,
    Region,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
    ScalarInput,
    ScalarValue,
    SizeOf,
    StorageOffsetOf,
    StrideOf,
    Switch,
    SymbolInfo,
    SymbolKind,
    SymbolSource,
    Value,
    When,
    While,
)
from wrapper_ir.lines.expr import is_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.build.draft import ProgramDraft


Operand: TypeAlias = Buffer | Number
"""What a region is given."""

Handle: TypeAlias = Buffer | sympy.Symbol
"""What a region's parameter or a line's result is known by."""


def operands_of(
    draft: ProgramDraft, operands: Sequence[Operand]
) -> tuple[BufferArg | ScalarArg, ...]:
    """Operands as lines say them: regions read them."""
    return tuple(operand_of(draft, operand) for operand in operands)


def operand_of(draft: ProgramDraft, operand: Operand) -> BufferArg | ScalarArg:
    """One operand."""
    if isinstance(operand, Buffer):
        return BufferArg(own(draft, operand, Buffer).name, Access.READ)
    return ScalarArg(operand)


def build_region(
    draft: ProgramDraft, operands: Sequence[Operand], body: Callable[..., Any]
) -> tuple[Region, bool]:
    """The region that ``body`` makes when it is called with handles of the region's parameters.

    What it returns, one value or a tuple of them, are the region's results; also gives whether it
    was a tuple.
    """
    builds: object = body
    if not callable(builds):
        raise ArgumentError(callee="a region", reason=f"{builds!r} is no function that builds it")
    params: list[Input] = []
    handles: list[Handle] = []
    for operand in operands:
        if isinstance(operand, Buffer):
            buffer = new_buffer(draft, None, at_start(operand.layout), "p")
            params.append(BufferInput(buffer.name))
            handles.append(buffer)
        else:
            found = new_symbol(draft, None, SymbolInfo(kind_of(operand)))
            draft.bound.add(found.name)
            params.append(ScalarInput(found.name))
            handles.append(found)
    with draft.region() as lines:
        given = body(*handles)
    is_many = isinstance(given, (tuple, list))
    results = tuple(value_of(draft, value) for value in (given if is_many else (given,)))
    return Region(tuple(params), tuple(lines), results), is_many


def value_of(draft: ProgramDraft, given: object) -> Value:
    """One result.

    Raises:
        ArgumentError: it is neither a buffer nor a number nor ``None``.
    """
    if given is None:
        return NoneValue()
    if isinstance(given, Buffer):
        return BufferValue(own(draft, given, Buffer).name)
    if isinstance(given, (bool, int, float, complex, sympy.Basic)):
        return ScalarValue(given)
    raise ArgumentError(callee="results", reason=f"{given!r} cannot be one")


def define_results(
    draft: ProgramDraft, callee: str, values: Sequence[Value | Operand], lead: tuple[Any, ...] = ()
) -> tuple[tuple[CallResult, ...], list[Handle]]:
    """Results like ``values``, in buffers and symbols of their own.

    Args:
        draft: The program.
        callee: What gives them, for errors.
        values: What they are like: results of a region, or what a loop carries.
        lead: Sizes before each one's own.

    Raises:
        ResultError: one is ``None``, which no name can be given to.
    """
    found: list[CallResult] = []
    handles: list[Handle] = []
    paths = [()] if len(values) == 1 else [(index,) for index in range(len(values))]
    for path, value in zip(paths, values, strict=True):
        if isinstance(value, (BufferValue, Buffer)):
            name = value.buffer if isinstance(value, BufferValue) else value.name
            like = draft.buffers[name]
            layout = at_start(like)
            if lead:
                layout = Layout.contiguous(like.dtype, (*lead, *like.size), like.device)
            buffer = new_buffer(draft, None, layout)
            found.append(ResultBuffer(buffer.name, path))
            handles.append(buffer)
        elif isinstance(value, NoneValue):
            raise ResultError(callee=callee, reason="a region gives none, which is no value")
        else:
            number = value.value if isinstance(value, ScalarValue) else value
            known = new_symbol(draft, None, SymbolInfo(kind_of(number), unbacked=True))
            draft.bound.add(known.name)
            found.append(ResultSymbol(known.name, path))
            handles.append(known)
    return tuple(found), handles


def kind_of(value: object) -> SymbolKind:
    """Return the kind of symbol that can hold a number."""
    if is_relation(value) and not isinstance(value, sympy.Symbol):
        return SymbolKind.BOOL
    if isinstance(value, (float, complex)):
        return SymbolKind.FLOAT
    is_real = isinstance(value, sympy.Expr) and value.is_integer is not True
    return SymbolKind.FLOAT if is_real else SymbolKind.INT


# Calls that work on symbols, check, choose, loop, and show.


class Control(Part):
    """Symbols, checks, regions, remarks."""

    # Symbols.

    @located
    def size(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """A symbol bound to a size, in elements.

        Args:
            buffer: Whose size.
            dimension: Which, from 0.
            name: Of a symbol that is declared and not bound yet, or of a new one.
        """
        return self._bind(name, SizeOf(own(self._draft, buffer, Buffer).name, dimension))

    @located
    def stride(self, buffer: Buffer, dimension: int, *, name: str | None = None) -> sympy.Symbol:
        """A symbol bound to a stride, in elements.

        Args:
            buffer: Whose stride.
            dimension: Which, from 0.
            name: Of a symbol that is declared and not bound yet, or of a new one.
        """
        return self._bind(name, StrideOf(own(self._draft, buffer, Buffer).name, dimension))

    @located
    def storage_offset(self, buffer: Buffer, *, name: str | None = None) -> sympy.Symbol:
        """A symbol bound to a storage offset, in elements."""
        return self._bind(name, StorageOffsetOf(own(self._draft, buffer, Buffer).name))

    @located
    def item(self, buffer: Buffer, *, name: str | None = None) -> sympy.Symbol:
        """A symbol bound to the only element of a buffer; waits for the device."""
        dtype = own(self._draft, buffer, Buffer).dtype
        kind = SymbolKind.INT if dtype.is_integral else SymbolKind.FLOAT
        kind = SymbolKind.BOOL if dtype.short == "bool" else kind
        return self._bind(name, ItemOf(buffer.name), SymbolInfo(kind, unbacked=True))

    def _bind(
        self, name: str | None, source: SymbolSource, info: SymbolInfo | None = None
    ) -> sympy.Symbol:
        found = self._binding(name, info or SymbolInfo(unbacked=True))
        self._draft.emit(BindSymbol(found.name, source, origin=here(self._draft)))
        return found

    def _binding(self, name: str | None, info: SymbolInfo) -> sympy.Symbol:
        """The symbol that a line binds: one that is declared and not bound, or a new one."""
        draft = self._draft
        if name is not None and name in draft.symbols and name not in draft.bound:
            found = draft.symbol(name)
        else:
            found = new_symbol(draft, name, info)
        draft.bound.add(found.name)
        return found

    @located
    def compute(self, value: Number, *, name: str | None = None) -> sympy.Symbol:
        """A symbol bound to the value of an expression."""
        found = self._binding(name, SymbolInfo(kind_of(value)))
        self._draft.emit(ComputeSymbol(found.name, value, origin=here(self._draft)))
        return found

    # Checks and remarks.

    @located
    def check(self, condition: Number, message: str = "") -> None:
        """Checks a relation among symbols when the program runs.

        Args:
            condition: Such as ``n <= 64``; for equality ``sympy.Eq(n, m)``.
            message: What the error says where it does not hold.
        """
        self._draft.emit(AssertSymbol(condition, message, origin=here(self._draft)))

    @located
    def check_layout(self, buffer: Buffer, subject: str = "input", *, alignment: int = 0) -> None:
        """Checks when the program runs that a buffer is as its layout says.

        Args:
            buffer: The buffer.
            subject: What it is, in the words of the error.
            alignment: What its address has to be a multiple of, in bytes; 0 for anything.
        """
        name = own(self._draft, buffer, Buffer).name
        self._draft.emit(AssertLayout(name, subject, alignment, origin=here(self._draft)))

    @located
    def comment(self, text: str) -> None:
        """A remark for the reader, kept in every target."""
        self._draft.emit(Comment(text, origin=here(self._draft)))

    @located
    def probe(
        self,
        label: str,
        *shown: Buffer | Number,
        when: When | Literal["before", "after"] = When.AFTER,
        level: ProbeLevel | str = ProbeLevel.PRINT,
    ) -> None:
        """Shows buffers and numbers when the program runs.

        Args:
            label: What the line that is shown begins with.
            *shown: Buffers and numbers.
            when: On which side of a call it stands.
            level: What to do with them: ``"print"``, ``"save"``, ``"check"``, ...

        Raises:
            ArgumentError: There is no such level or side.
        """
        buffers = tuple(own(self._draft, v, Buffer).name for v in shown if isinstance(v, Buffer))
        numbers = tuple(v for v in shown if not isinstance(v, Buffer))
        found = choice(ProbeLevel, level, "the level of a probe")
        side = choice(When, when, "the side of a probe")
        line = Probe(label, side, found, buffers, numbers, origin=here(self._draft))
        self._draft.emit(line)

    # Regions.

    @located
    def cond(
        self,
        predicate: Buffer | Number,
        operands: Sequence[Operand],
        then: Callable[..., Any],
        orelse: Callable[..., Any],
    ) -> Any:  # noqa: ANN401 - what comes back depends on what the regions give
        """Runs one of two regions on the operands.

        Args:
            predicate: A condition on symbols, or a buffer of one bool.
            operands: What the regions work on; they see no other buffers.
            then: Builds the region for true: called with handles of the operands inside the region,
                it makes lines and returns the region's results, one or a tuple.
            orelse: Builds the region for false; its results are like those of ``then``.

        Returns:
            The handle of the result, a list of them if the regions give a tuple, or ``None``.
        """
        draft = self._draft
        origin = here(draft)
        chosen_by = operand_of(draft, predicate)
        given = operands_of(draft, operands)
        regions, is_many = self._branches("cond", operands, (then, orelse))
        results, handles = define_results(draft, "cond", regions[0].results)
        draft.emit(Cond(results, chosen_by, given, *regions, origin=origin))
        return _handed(handles, is_many=is_many)

    @located
    def switch(
        self,
        selector: Buffer | Number,
        operands: Sequence[Operand],
        cases: Sequence[Callable[..., Any]],
    ) -> Any:  # noqa: ANN401 - what comes back depends on what the regions give
        """Runs one of many regions on the operands.

        Args:
            selector: The number of the region, from 0: an integer, or a buffer of one. A number
                below 0 runs the first region, one that is too large the last.
            operands: What the regions work on; they see no other buffers.
            cases: Build the regions, as in :meth:`cond`; what they give is alike.

        Returns:
            The handle of the result, a list of them if the regions give a tuple, or ``None``.

        Raises:
            ArgumentError: There are no cases.
        """
        if not cases:
            raise ArgumentError(callee="switch", reason="there are no cases")
        draft = self._draft
        origin = here(draft)
        chosen_by = operand_of(draft, selector)
        given = operands_of(draft, operands)
        regions, is_many = self._branches("switch", operands, cases)
        results, handles = define_results(draft, "switch", regions[0].results)
        draft.emit(Switch(results, chosen_by, given, regions, origin=origin))
        return _handed(handles, is_many=is_many)

    def _branches(
        self, callee: str, operands: Sequence[Operand], makers: Sequence[Callable[..., Any]]
    ) -> tuple[tuple[Region, ...], bool]:
        """Regions that give as many results each, and whether the first gives a tuple."""
        built = [build_region(self._draft, operands, make) for make in makers]
        regions = tuple(region for region, _ in built)
        numbers = list(dict.fromkeys(len(region.results) for region in regions))
        if len(numbers) > 1:
            counts = f"{numbers[0]} results and {numbers[1]}"
            raise ResultError(callee=callee, reason=f"the regions give {counts}")
        return regions, built[0][1]

    @located
    def while_loop(
        self,
        carried: Sequence[Operand],
        captured: Sequence[Operand],
        condition: Callable[..., Any],
        body: Callable[..., Any],
        *,
        stacked: bool = False,
    ) -> list[Handle]:
        """Runs ``body`` as long as ``condition`` gives true.

        Args:
            carried: The first values of what goes round.
            captured: What both regions see besides.
            condition: Builds the region that decides; called with handles of the carried and then
                the captured values, it returns a condition or a buffer of one bool.
            body: Builds the region of one round; returns the next carried values.
            stacked: Whether the results are the carried values of all rounds.

        Returns:
            Handles of the last carried values, or of all.
        """
        draft = self._draft
        origin = here(draft)
        operands = [*carried, *captured]
        args = operands_of(draft, operands)
        test, _ = build_region(draft, operands, condition)
        round_, _ = build_region(draft, operands, body)
        if len(round_.results) != len(carried):
            counts = f"{len(round_.results)} values for {len(carried)} carried"
            raise ResultError(callee="while_loop", reason=f"the body gives {counts}")
        rounds = new_symbol(draft, None, SymbolInfo(lower=0, unbacked=True)) if stacked else None
        lead = () if rounds is None else (rounds,)
        results, handles = define_results(draft, "while_loop", carried, lead)
        count = len(carried)
        line = While(results, args[:count], args[count:], test, round_, stacked, origin=origin)
        draft.emit(line)
        if rounds is not None:
            self._bind_rounds(rounds, results)
        return handles

    def _bind_rounds(
        self, rounds: sympy.Symbol, results: Sequence[ResultBuffer | ResultSymbol]
    ) -> None:
        """Binds the number of rounds to the first size of a stacked result."""
        for result in results:
            if isinstance(result, ResultBuffer):
                self._draft.bound.add(rounds.name)
                line = BindSymbol(rounds.name, SizeOf(result.out, 0), origin=here(self._draft))
                self._draft.emit(line)
                return
        raise ResultError(callee="while_loop", reason="numbers cannot be stacked")


def _handed(handles: list[Handle], *, is_many: bool) -> Handle | list[Handle] | None:
    if is_many:
        return handles
    return handles[0] if handles else None
