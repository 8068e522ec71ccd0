"""The builder, for programs written by hand.

Each call appends a line and returns a handle of the buffer or symbol that it defines. Accesses,
declarations of ops and alias relations are taken from the kernel's parameters and the op's schema.
Binding and checking the inputs is added when the program is built.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import wrapper_ir.lines as ir
from wrapper_ir.build.calls import KernelCalls
from wrapper_ir.build.control import Control
from wrapper_ir.build.declarations import Declarations
from wrapper_ir.build.draft import Equation, ProgramDraft, bind_given, metadata_of, range_checks
from wrapper_ir.build.memory import Memory, Streams
from wrapper_ir.build.values import Buffer, Number, UnfinishedError, choice, located
from wrapper_ir.lines.traits import binds, computes

if TYPE_CHECKING:
    from collections.abc import Mapping


class Builder(Declarations, KernelCalls, Memory, Streams, Control):
    """Builder of a program, line by line.

    What is given no name gets a fresh one. Sizes may be expressions over the symbols that
    :meth:`symbol` returns. A layout is given as a dtype (``"f32"``) and a size, as a
    :class:`Layout`, or as a buffer to imitate::

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
        role: The graph's role in a model.
        stage: ``"logical"``, which leaves ending storage to the planner, or ``"planned"``.
        device: The default device of buffers.
        check_inputs: Check layouts and ranges of the inputs at the start.
    """

    def __init__(
        self,
        name: str = "program",
        *,
        role: ir.GraphRole | Literal["inference", "forward", "backward"] = ir.GraphRole.INFERENCE,
        stage: ir.Stage | Literal["logical", "planned"] = ir.Stage.LOGICAL,
        device: ir.Device | str = "cpu",
        check_inputs: bool = True,
    ) -> None:
        super().__init__(device)
        self.name = name
        self.role: ir.GraphRole = choice(ir.GraphRole, role, "the program's role")
        self.stage: ir.Stage = choice(ir.Stage, stage, "the program's stage")
        self._check_inputs = check_inputs
        self._results: tuple[ir.Value, ...] | None = None

    @located
    def returns(self, *values: Buffer | Number | None) -> None:
        """Declare the program's results: buffers, numbers, ``None``.

        Raises:
            UnfinishedError: The results are already declared.
        """
        if self._results is not None:
            raise UnfinishedError(reason="the results are already declared")
        self._results = tuple(map(self._value, values))

    @located
    def build(self, *, verify: bool = True) -> ir.Program:
        """Return the program.

        Args:
            verify: Check every rule of the verifier.

        Raises:
            UnfinishedError: The results are not declared.
            VerificationError: The program breaks rules. Each fault names the builder call at fault.
        """
        if self._results is None:
            raise UnfinishedError(reason="the results are missing", hint="call returns(...) first")
        # What the preamble binds belongs to this program only, for more may be built.
        symbols, bound = dict(self._draft.symbols), set(self._draft.bound)
        draft = replace(self._draft, symbols=symbols, bound=bound)
        head = _preamble(draft, self._input_origins, check_inputs=self._check_inputs)
        program = draft.program(self.name, self._results, head=head)
        program = program.replace(role=self.role, stage=self.stage)
        if verify:
            from wrapper_ir.verify import verify as check  # noqa: PLC0415 - a layer above

            check(program)
        return program


# The preamble, which binds the sizes of the inputs and checks them.


def _preamble(
    draft: ProgramDraft, origins: Mapping[ir.Input, int], *, check_inputs: bool
) -> tuple[ir.AnyLine, ...]:
    """Return the lines that bind each symbol that nothing else binds, and that check inputs.

    A symbol is bound by the first size, or else stride, that is the bare symbol, in the order of
    the inputs, or else by the first one that gives it as an expression. Ranges are checked because
    the memory planner relies on them. Checking an input with a symbol that the user binds is up to
    the user.
    """
    equations = [
        Equation(value, source, origin)
        for item, origin in origins.items()
        if isinstance(item, ir.BufferInput)
        for value, source in metadata_of(item.name, draft.buffers[item.name])
    ]
    equations.sort(key=lambda each: isinstance(each.given, ir.StrideOf))  # all sizes before strides
    lines = list(bind_given(draft, equations, draft.bound.add))
    sizes = {line.symbol: line.origin for line in lines if binds(line)}
    others = {line.symbol: line.origin for line in lines if computes(line)}
    if not check_inputs:
        return tuple(lines)
    others |= {item.symbol: at for item, at in origins.items() if isinstance(item, ir.ScalarInput)}
    bound = sizes | others
    buffers = {each.name: at for each, at in origins.items() if isinstance(each, ir.BufferInput)}
    known = {name for name in buffers if draft.buffers[name].symbols <= bound.keys()}
    lines += (ir.AssertLayout(n, origin=at) for n, at in buffers.items() if n in known)
    for name, origin in bound.items():
        info = draft.symbols[name]
        # No size is negative.
        lower = info.lower if name in others or (info.lower or 0) > 0 else None
        lines += range_checks(draft.symbol(name), lower, info.upper, name, origin)
    return tuple(lines)
