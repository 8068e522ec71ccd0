"""The builder: programs written by hand.

Each call appends a line and gives a handle for what it defines. What lines must repeat (accesses,
declarations of ops, how results relate to arguments) is taken from the kernel's parameters and the
op's schema; what inputs must be bound and checked for is added when the program is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import sympy

from wrapper_ir.build.calls import KernelCalls
from wrapper_ir.build.control import Control, value_of
from wrapper_ir.build.declarations import Declarations
from wrapper_ir.build.draft import metadata_of, range_checks
from wrapper_ir.build.errors import UnfinishedError
from wrapper_ir.build.memory import Memory, Streams
from wrapper_ir.build.values import choice, located
from wrapper_ir.lines import (
    AnyLine,
    AssertLayout,
    BindSymbol,
    BufferInput,
    Device,
    GraphRole,
    Input,
    Program,
    ScalarInput,
    Stage,
    StrideOf,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.build.values import Buffer, Number


class Builder(Declarations, KernelCalls, Memory, Streams, Control):
    """Builds a program, line by line.

    Sizes may be expressions over the symbols that :meth:`symbol` gives. A layout is said by a dtype
    (``"f32"``) and a size, or by a :class:`Layout`, or by a buffer that it is to be like::

        b = wir.Builder("double")
        n = b.symbol("n", min=1, hint=8)
        x = b.input("x", "f32", (n,))
        k = b.cpp_kernel("twice", code, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"])
        y = b.allocate("f32", (n,))
        b.call(k, x, y, n)
        b.returns(y)
        program = b.build()

    Args:
        name: The program's name.
        role: Which graph of a model it is.
        stage: ``"logical"``, where the ends of storage are left to the planner, or ``"planned"``.
        device: Where buffers are unless said otherwise.
        check_inputs: Whether to check layouts and ranges of the inputs at the start.
    """

    def __init__(
        self,
        name: str = "program",
        *,
        role: GraphRole | Literal["inference", "forward", "backward"] = GraphRole.INFERENCE,
        stage: Stage | Literal["logical", "planned"] = Stage.LOGICAL,
        device: Device | str = "cpu",
        check_inputs: bool = True,
    ) -> None:
        super().__init__(device)
        self.name = name
        self.role = choice(GraphRole, role, "the program's role")
        self.stage = choice(Stage, stage, "the program's stage")
        self._check_inputs = check_inputs
        self._results: tuple[Value, ...] | None = None

    @located
    def returns(self, *values: Buffer | Number | None) -> None:
        """Says what the program gives: buffers, numbers, ``None``.

        Raises:
            UnfinishedError: that was said already.
        """
        if self._results is not None:
            raise UnfinishedError(reason="the results are given already")
        self._results = tuple(value_of(self._draft, value) for value in values)

    @located
    def build(self, *, verify: bool = True) -> Program:
        """The program.

        Args:
            verify: Whether to check every rule.

        Raises:
            UnfinishedError: its results were not given.
            VerificationError: it breaks rules; each fault names the call of the builder's.
        """
        if self._results is None:
            raise UnfinishedError(reason="the results are missing", hint="call returns(...) first")
        program = self._draft.program(
            self.name,
            self._results,
            head=_preamble(self._draft, self._input_origins, check_inputs=self._check_inputs),
            role=self.role,
            stage=self.stage,
        )
        if verify:
            from wrapper_ir.verify import verify as check  # noqa: PLC0415 - a layer above

            check(program)
        return program


# The preamble: bind the sizes of the inputs, and check them.


def _preamble(
    draft: ProgramDraft, origins: Mapping[Input, int], *, check_inputs: bool
) -> tuple[AnyLine, ...]:
    """Lines that bind each symbol which nothing else binds, and that check inputs.

    A symbol is bound by the first size, else stride, that it alone is; the order is that of the
    inputs. Ranges are checked too: what plans memory takes them for true. An input with a symbol
    that the user binds is the user's to check.
    """
    bound: dict[str, int | None] = {}
    lines: list[AnyLine] = []
    for line in _binds(draft, origins):
        if line.symbol not in bound and line.symbol not in draft.bound:
            bound[line.symbol] = line.origin
            lines.append(line)
    if not check_inputs:
        return tuple(lines)
    scalars = [item for item in draft.inputs if isinstance(item, ScalarInput)]
    bound.update((item.symbol, origins.get(item)) for item in scalars)
    lines.extend(
        AssertLayout(item.name, origin=origins.get(item))
        for item in draft.inputs
        if isinstance(item, BufferInput) and draft.buffers[item.name].symbols <= bound.keys()
    )
    for name, origin in bound.items():
        info = draft.symbols[name]
        is_scalar = ScalarInput(name) in origins
        lower = info.lower if is_scalar or (info.lower or 0) > 0 else None  # no size is negative
        lines += range_checks(draft.symbol(name), lower, info.upper, name, origin)
    return tuple(lines)


def _binds(draft: ProgramDraft, origins: Mapping[Input, int]) -> Iterator[BindSymbol]:
    where = {i.name: o for i, o in origins.items() if isinstance(i, BufferInput)}
    told = [
        (value, source, where[item.name])
        for item in draft.inputs
        if isinstance(item, BufferInput)
        for value, source in metadata_of(item.name, draft.buffers[item.name])
    ]
    told.sort(key=lambda each: isinstance(each[1], StrideOf))  # all sizes before all strides
    for value, source, origin in told:
        if isinstance(value, sympy.Symbol):
            yield BindSymbol(value.name, source, origin=origin)
