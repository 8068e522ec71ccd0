"""Our wrapper code generator: Inductor's, with notes taken and a different last step.

Inductor drives the wrapper and the wrapper writes its lines as always; nothing is replaced before
the last step. Facts that the lines lose are recorded along the way, such as the parameters of
kernels and the IR node behind a line of text. Then ``_generate``, where Inductor would plan memory
and print, makes a program instead. The lines themselves are unchanged, so Inductor can still finish
its own way, which is the fallback of ``on_unsupported="stock"``.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from wrapper_ir.analysis.borders import realigned_inputs
from wrapper_ir.emitters.base import EmitError
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.frontends.common.alignment import is_misaligned
from wrapper_ir.frontends.inductor import compat, one_rank
from wrapper_ir.frontends.inductor import session as sessions
from wrapper_ir.frontends.inductor.compat import V, ir
from wrapper_ir.frontends.inductor.contract_check import check_contract
from wrapper_ir.frontends.inductor.convert.graph import Passing, convert_graph, passing_of
from wrapper_ir.frontends.inductor.devices import keep_whole
from wrapper_ir.frontends.inductor.errors import (
    UnsupportedLineError,
    UnsupportedTorchError,
)
from wrapper_ir.frontends.inductor.mismatches import GraphMismatchError
from wrapper_ir.frontends.inductor.notes import (
    AlternativesNote,
    CallNote,
    ControlNote,
    LineNote,
    PartNote,
)
from wrapper_ir.frontends.inductor.output_code import emit_module
from wrapper_ir.frontends.inductor.triton import note_of_users_kernel
from wrapper_ir.frontends.inductor.untried import check_overrides, named
from wrapper_ir.lines.expr import UnsupportedExprError
from wrapper_ir.verify import VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: Errors that mean "this graph has no typed form", as opposed to a bug of ours. A program that the
#: verifier rejects may be what the model asks for, such as an op that reads what it writes.
UNSUPPORTED = (
    *(EmitError, UnsupportedError, UnsupportedExprError),
    *(UnsupportedLineError, UnsupportedTorchError, VerificationError),
)


class _Notes(compat.Mixin):
    """Mixin that keeps what the lines lose; precedes Inductor's class in the MRO."""

    session: sessions.Session

    #: Whether to check the layouts of inputs.
    checks_inputs: bool = False

    #: Whether to check numbers that the graph took as constants, because no guard outside does and
    #: the examples did not fix them.
    checks_numbers: bool = False

    #: Whether to check the addresses of inputs, because nobody outside copies unaligned ones.
    checks_alignment: bool = False
    #: Whether programs copy inputs at odd addresses by themselves.
    realigns: bool = False

    def _open_notes(self, session: sessions.Session) -> None:
        self.session = session
        #: Index of a line -> what is known of it.
        self.line_notes: defaultdict[int, LineNote] = defaultdict(LineNote)
        self._next_call: CallNote | None = None
        #: Name of a kernel -> the last note of it.
        self._last_notes: dict[str, Any] = {}
        #: The result that the next text combines from partial results.
        self.writing_part: PartNote | None = None
        #: Name of a kernel -> how Inductor defines it.
        self.definitions: dict[str, str] = {}
        #: Index of the first line of a choice, loop or subgraph call -> its note.
        self.control_notes: dict[int, ControlNote] = {}
        #: Wrappers of the graph's partitions, by name.
        self.partitions: dict[str, Any] = {}

    def note_kernel(self, note: CallNote) -> None:
        """Record the kernel of the next call."""
        self._next_call = note
        self._last_notes[note.name] = note

    def note_wait(self) -> None:
        """Record that the next line waits for the GPU."""
        self.line_notes[len(self.lines)].waits = True

    def note_alternatives(self, name: str, kernels: Sequence[Any], shapes: Any) -> None:
        """Record the equivalent kernels of the next call, each of which has been recorded itself.

        ``shapes`` are those that each was tuned for if they are templates, else None.
        """
        notes = tuple(self._last_notes[kernel.kernel_name] for kernel in kernels)
        if shapes is None:
            self._next_call = AlternativesNote(name, notes, (0,) * len(notes))
            return
        extra = (kernel.additional_call_args_and_types()[0] for kernel in kernels)
        sizes = tuple(tuple(tuple(map(int, size)) for size in each) for each in shapes)
        self._next_call = AlternativesNote(name, notes, tuple(map(len, extra)), sizes)

    @override
    def define_kernel(self, kernel_name: str, kernel_body: str, *args: Any, **kwargs: Any) -> Any:
        """Define a kernel as Inductor does, keeping the text."""
        self.definitions[kernel_name] = kernel_body
        return super().define_kernel(kernel_name, kernel_body, *args, **kwargs)

    @override
    def define_user_defined_triton_kernel(
        self, kernel: Any, configs: Any, kwargs: Any, *args: Any
    ) -> Any:
        """Define a user's kernel as Inductor does, recording its arguments."""
        result = super().define_user_defined_triton_kernel(kernel, configs, kwargs, *args)
        name: str = result[0]
        self.note_kernel(note_of_users_kernel(name, self.definitions[name], kwargs))
        return result

    @override
    def codegen_inputs(self) -> None:
        """Write how Inductor binds the symbols of inputs, only if its own wrapper may serve.

        In subgraphs it wants to solve each size, though symbols from around them do for us.
        """
        if not sessions.may_refuse(self.session):
            super().codegen_inputs()

    @override
    def register_alignment_check_inputs(self) -> None:
        """Write no copies of unaligned inputs: our programs make them by themselves."""

    @override
    def writeline(self, line: Any) -> None:
        """Append a line, recording its writer."""
        known, call = self.line_notes[len(self.lines)], self._next_call
        known.writer = _writing_node()
        if isinstance(line, str):
            known.part = self.writing_part
        if call is not None and getattr(line, "arg_types", None) is not None:
            if line.kernel_name == call.name:
                known.call = call
            self._next_call = None
        super().writeline(line)

    @override
    def write_provenance_debug_handle(
        self, kernel_name: str, debug_handle: int | None = None
    ) -> None:
        """Write a call's provenance handle as Inductor does, recording it."""
        if debug_handle is not None:
            self.line_notes[len(self.lines)].handle = f"{kernel_name}:{debug_handle}"
        super().write_provenance_debug_handle(kernel_name, debug_handle)

    def codegen_conditional(self, conditional: Any) -> None:
        """Write a choice as Inductor does until torch 2.13, recording its lines."""
        with self._noted_control(conditional):
            super().codegen_conditional(conditional)

    @override
    def codegen_switch(self, node: Any) -> None:
        """Write a choice as Inductor does since torch 2.14, recording its lines."""
        with self._noted_control(node):
            super().codegen_switch(node)

    @override
    def codegen_while_loop(self, while_loop: Any, *args: Any, **kwargs: Any) -> None:
        """Write a loop as Inductor does, recording its lines."""
        with self._noted_control(while_loop):
            super().codegen_while_loop(while_loop, *args, **kwargs)

    @override
    def codegen_invoke_subgraph(self, invoke_subgraph: Any) -> None:
        """Write the call of a subgraph as Inductor does, recording its lines."""
        with self._noted_control(invoke_subgraph):
            super().codegen_invoke_subgraph(invoke_subgraph)

    @override
    def codegen_subgraph_with_flattened_outputs(self, subgraph: Any, *args: Any) -> None:
        """Write the call of a subgraph, recording its lines if tuning chose it for an op.

        Choices and loops, which are recorded as a whole, call their subgraphs in the same way.
        """
        node = _writing_node()
        is_chosen = isinstance(node, ir.SubgraphBuffer)
        with self._noted_control(node) if is_chosen else contextlib.nullcontext():
            super().codegen_subgraph_with_flattened_outputs(subgraph, *args)

    @override
    def codegen_partition_call(self, partition_id: int, *args: Any, **kwargs: Any) -> None:
        """Write the call of a partition, recording its lines."""
        start = len(self.lines)
        super().codegen_partition_call(partition_id, *args, **kwargs)
        called = self.partitions[f"partition_{partition_id}"]
        self.control_notes[start] = ControlNote(None, len(self.lines), called)

    @contextlib.contextmanager
    def _noted_control(self, node: Any) -> Iterator[None]:
        """Record the lines that a block writes for a node with subgraphs.

        Ahead of time Inductor inlines subgraphs into the lines around them; here they get wrappers
        of their own, as in other compilations.
        """
        start, aot_mode = len(self.lines), V.graph.aot_mode
        V.graph.aot_mode = False
        try:
            yield
        finally:
            V.graph.aot_mode = aot_mode
        self.control_notes[start] = ControlNote(node, len(self.lines))


class _NotingAlternatives(compat.MultiKernelState):
    """Inductor's state of equivalent kernels, which records them where they are defined."""

    def __init__(self, wrapper: _Notes) -> None:
        self._wrapper = wrapper
        stock: Any = super()
        stock.__init__()

    @override
    def define_kernel(self, kernels: Any, kernel_shape_keys: Any = None) -> str:
        """Define several kernels as one, as Inductor does, and record them for the call."""
        name = super().define_kernel(kernels, kernel_shape_keys)
        self._wrapper.note_alternatives(name, kernels, kernel_shape_keys)
        return name


def assume_no_alignment(graph: Any) -> None:
    """Let kernels not load 16 bytes at a time from constants that begin elsewhere.

    Inductor takes all constants for aligned: its own libraries copy them. Ours are used where they
    are, such as parameters that are slices of one tensor.
    """
    for name, tensor in graph.constants.items():
        if is_misaligned(tensor, compat.GPU_ALIGN_BYTES):
            graph.unaligned_buffers.add(name)


class NotingWrapper(_Notes, compat.PythonWrapperCodegen):
    """The wrapper of a graph that is compiled through us."""

    def __init__(self, session: sessions.Session) -> None:
        self._open_notes(session)
        self.checks_inputs: bool = bool(compat.inductor_config.size_asserts)
        self.checks_numbers: bool = session.capture or bool(V.graph.aot_mode)
        # The setting came with PyTorch 2.15.
        strict = getattr(compat.inductor_config, "alignment_asserts_inputs", False)
        self.checks_alignment: bool = session.capture or bool(strict)
        #: Whether programs copy inputs at odd addresses; else a function round the graph does.
        defers = hasattr(V.graph, "_defers_input_alignment") and not strict
        self.realigns: bool = session.capture or defers
        assume_no_alignment(V.graph)
        if session.capture:
            # With this flag on, Inductor leaves out the checks of symbolic numbers.
            V.graph.fx_wrapper = False
        stock: Any = super()
        stock.__init__()
        self.multi_kernel_state: _NotingAlternatives = _NotingAlternatives(self)

    @override
    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: Any,
        partition_signatures: Any = None,
    ) -> Any:
        """Make the wrapper of a subgraph, in its parent's session."""
        return create_wrapper(
            parent_wrapper.session, is_subgraph, subgraph_name, parent_wrapper, partition_signatures
        )

    @override
    def _generate(self, is_inference: bool) -> Any:
        """Make the program of the graph, and from it what the session asks for."""
        try:
            with (
                named(),
                compat.dynamo_timed("wrapper_ir.convert", log_pt2_compile_event=True),
            ):
                passing = self._passing()
                how: Any = {"names": self.session.input_names, "passing": passing}
                program = convert_graph(self, V.graph, is_inference=is_inference, **how)
                program = one_rank.on_its_device(program)
                check_contract(program, V.graph.module, passing, self.session)
            with compat.dynamo_timed("wrapper_ir.emit", log_pt2_compile_event=True):
                module = emit_module(program, self.session, V.graph, passing)
        except GraphMismatchError:  # Inductor's own wrapper may do the same
            raise
        except UNSUPPORTED as error:
            return self._stock(error, is_inference=is_inference)
        graph: Any = V.graph
        keep_whole(graph)
        if not self.session.capture:
            if self.realigns:
                graph._defers_input_alignment = bool(realigned_inputs(program))
            sessions.statistics.count_program()
            for recorder in sessions.open_recorders(self.session):
                recorder.add(program, graph.module)
        return module, None

    def _passing(self) -> Passing:
        """Return the values that bypass the program; a capture has nothing around it for them."""
        passing = passing_of(V.graph, self.get_graph_outputs())
        if self.session.capture and not passing.is_empty:
            names = [V.graph.graph_input_names[i] for i in passing.inputs]
            names += [name for name, _ in passing.constants.values()]
            why = "it is a Python object or a size without a value, from a tensor subclass"
            hint = "capture a function of the inner tensors"
            raise UnsupportedLineError("graph input or output", names[0], why, hint=hint)
        return passing

    def _stock(self, error: Exception, *, is_inference: bool) -> Any:
        sessions.refuse(self.session, error)
        stock: Any = super()
        text, declarations = stock._generate(is_inference)
        announcing = sessions.with_announcement(text.value, error)
        return compat.ValueWithLineMap(announcing, text.line_map), declarations


class NotingSubgraphWrapper(_Notes, compat.SubgraphPythonWrapperCodegen):
    """The wrapper of a subgraph: a branch, a loop body, a partition.

    Its lines are converted with those of the graph around it.
    """

    def __init__(self, session: sessions.Session, *args: Any) -> None:
        self._open_notes(session)
        super().__init__(*args)
        self.multi_kernel_state: _NotingAlternatives = _NotingAlternatives(self)
        parent: Any = self.parent_wrapper
        self.definitions: dict[str, str] = parent.definitions

    create: Any = NotingWrapper.create

    @override
    def _generate(self, is_inference: bool) -> Any:
        """Keep the lines; print them only for a graph that Inductor's own wrapper may serve."""
        if sessions.may_refuse(self.session):
            return compat.ValueWithLineMap("", []), compat.ValueWithLineMap("", [])
        lines = list(self.lines)  # memory planning replaces them
        stock: Any = super()
        printed = stock._generate(is_inference)
        self.lines = lines
        return printed


def create_wrapper(
    session: sessions.Session,
    is_subgraph: bool,  # noqa: FBT001 - Inductor's
    subgraph_name: str | None,
    parent_wrapper: Any,
    partition_signatures: Any = None,
) -> Any:
    """Make the wrapper of a graph or subgraph, from Inductor's arguments of ``create``."""
    check_overrides(NotingSubgraphWrapper if is_subgraph else NotingWrapper)
    if not is_subgraph:
        return NotingWrapper(session)
    wrapper = NotingSubgraphWrapper(session, subgraph_name, parent_wrapper, partition_signatures)
    if partition_signatures is not None:
        parent_wrapper.partitions[subgraph_name] = wrapper
    return wrapper


def _writing_node() -> Any:
    """Return the IR node that Inductor is generating code for, or None between nodes."""
    scheduler = getattr(V.graph, "scheduler", None)
    current = getattr(scheduler, "current_node", None)
    return getattr(current, "node", None)
