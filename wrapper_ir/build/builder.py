"""The builder: programs written by hand.

Each call appends a line and gives a handle for what it defines. What lines must repeat (accesses,
declarations of ops, how results relate to arguments) is taken from the kernel's parameters and the
op's schema; what inputs must be bound and checked for is added when the program is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wrapper_ir.build.base import located
from wrapper_ir.build.control import Control
from wrapper_ir.build.declarations import Declarations
from wrapper_ir.build.errors import UnfinishedError
from wrapper_ir.build.kernel_calls import KernelCalls
from wrapper_ir.build.memory import Memory
from wrapper_ir.build.preamble import preamble
from wrapper_ir.build.regions import value_of
from wrapper_ir.build.streams import Streams
from wrapper_ir.build.values import choice
from wrapper_ir.lines import Device, FrozenMap, GraphRole, Program, Stage, Value

if TYPE_CHECKING:
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
        draft = self._draft
        head = preamble(draft, check_inputs=self._check_inputs)
        program = Program(
            name=self.name,
            inputs=tuple(draft.inputs),
            results=self._results,
            body=(*draft.definitions.values(), *head, *draft.bodies[0]),
            buffers=FrozenMap(draft.layouts),
            symbols=FrozenMap(draft.symbols),
            constants=FrozenMap(draft.constants),
            objects=FrozenMap(draft.objects),
            streams=tuple(draft.streams),
            events=tuple(draft.events),
            mempools=tuple(draft.mempools),
            role=self.role,
            stage=self.stage,
            origins=tuple(draft.origins),
            data=dict(draft.values),
        )
        if verify:
            from wrapper_ir.verify import verify as check  # noqa: PLC0415 - a layer above

            check(program)
        return program
