"""Inductor's lines, one handler each; a line without a handler is an error that names it.

Lines are told apart by class name, so that one table serves releases that differ in which classes
they have. Text arrives only from IR nodes that print themselves; it is never read: the wrapper
notes which node was printing, and the node is converted instead (see ``strings``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.convert.calls import convert_kernel_call
from wrapper_ir.frontends.inductor.convert.control import ControlConverter
from wrapper_ir.frontends.inductor.convert.externs import ExternConverter
from wrapper_ir.frontends.inductor.convert.interface import assert_alignment, assert_layout
from wrapper_ir.frontends.inductor.convert.memory import allocate, make_whole, reinterpret, reuse
from wrapper_ir.frontends.inductor.convert.streams import host_waits
from wrapper_ir.frontends.inductor.convert.strings import StringConverter
from wrapper_ir.frontends.inductor.convert.unbacked import bind_item, bind_unbacked
from wrapper_ir.frontends.inductor.differences import checked_op
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.notes import AlternativesNote, CallNote, PartNote, TritonNote
from wrapper_ir.lines.symbols import ComputeSymbol

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope


@dataclass(frozen=True, slots=True)
class Entry:
    """A line and what the wrapper noted of it, or a node that is converted whole.

    Attributes:
        line: Inductor's line.
        writer: The IR node that was writing.
        call: The kernel that a line calls.
        control: A choice, a loop or a call of a subgraph, in place of its lines.
        part: The result that text makes of its parts.
    """

    line: Any = None
    writer: Any = None
    call: CallNote | None = None
    control: Any = None
    part: PartNote | None = None


def _entries(wrapper: Any) -> Iterator[Entry]:
    """Yield the lines of a wrapper; those of its partitions in the places of their calls."""
    end = 0
    for index, line in enumerate(wrapper.lines):
        note = wrapper.control_notes.get(index)
        if note is not None:
            end = note.end
            if note.partition is not None:
                yield from _entries(note.partition)
            else:
                yield Entry(control=note.node)
        if index >= end:
            writer, call = wrapper.writing_node.get(index), wrapper.call_notes.get(index)
            yield Entry(line, writer, call, part=wrapper.part_notes.get(index))


def _tuned(call: CallNote | None) -> Iterator[TritonNote]:
    """Yield the Triton kernels that have to be tuned for a call."""
    if isinstance(call, TritonNote):
        yield call
    elif isinstance(call, AlternativesNote) and call.shapes is None:
        yield from call.kernels


class LineConverter:
    """Converts the lines of one wrapper into a scope.

    Args:
        scope: Where the converted lines go.
        wrapper: Our wrapper, with its lines and what it noted while they were written.
    """

    def __init__(self, scope: Scope, wrapper: Any) -> None:
        self._scope = scope
        self._entries = list(_entries(wrapper))
        scope.shared.tuners.expect(kernel for e in self._entries for kernel in _tuned(e.call))
        self._externs = ExternConverter(scope, [entry.line for entry in self._entries])
        self._strings = StringConverter(scope, self._externs)
        self._control = ControlConverter(scope, self._externs, _convert_lines)

    def run(self) -> None:
        """Convert all lines, in Inductor's order.

        Raises:
            UnsupportedLineError: A line has no typed form.
        """
        for entry in self._entries:
            if entry.control is not None:
                self._refuse_on_stream(entry.control)
                self._control.convert(entry.control)
                continue
            if entry.part is not None:
                make_whole(self._scope, entry.part)
                continue
            if isinstance(entry.line, str):
                self._strings.convert(entry.line, entry.writer)
                continue
            handler = _HANDLERS.get(type(entry.line).__name__)
            if handler is None:
                raise UnsupportedLineError(
                    kind=type(entry.line).__name__, text=_shown(entry), why="no handler for it"
                )
            handler(self, entry)

    def _refuse_on_stream(self, node: Any) -> None:
        if self._scope.shared.queues.is_open:
            raise UnsupportedLineError(
                kind=type(node).__name__,
                text=str(node.get_name()),
                why="branches, loops and subgraphs run on the caller's stream, with usual memory",
            )

    def _nothing(self, entry: Entry) -> None:
        """Skip a line that says nothing to us.

        Ends of storage are derived from the program, comments from the origins, definitions from
        the calls, and devices from the buffers.
        """

    def _enter_device(self, entry: Entry) -> None:
        self._scope.shared.queues.enter_device(entry.line)

    def _enter_stream(self, entry: Entry) -> None:
        self._refuse_in_region(entry)
        self._scope.shared.queues.enter_stream(entry.line)

    def _exit_stream(self, entry: Entry) -> None:
        self._scope.draft.stream = 0

    def _enter_mempool(self, entry: Entry) -> None:
        self._refuse_in_region(entry)
        self._scope.shared.queues.enter_mempool(entry.line)

    def _exit_mempool(self, entry: Entry) -> None:
        self._scope.draft.mempool = 0

    def _refuse_in_region(self, entry: Entry) -> None:
        """Refuse a block in a branch, a loop's body or a subgraph, unless it is the caller's."""
        if self._scope.is_region and getattr(entry.line, "stream_idx", -1) != 0:
            raise UnsupportedLineError(
                kind=type(entry.line).__name__,
                text=_shown(entry),
                why="branches, loops and subgraphs run on one stream, with the usual memory",
            )

    def _allocate(self, entry: Entry) -> None:
        allocate(self._scope, entry.line)

    def _reuse(self, entry: Entry) -> None:
        reuse(self._scope, entry.line)

    def _reinterpret(self, entry: Entry) -> None:
        reinterpret(self._scope, entry.line)

    def _kernel_call(self, entry: Entry) -> None:
        convert_kernel_call(self._scope, entry.line, entry.call)
        passed = [name for name in entry.line.call_args if isinstance(name, str)]
        self._strings.called = (entry.line.kernel_name, passed)

    def _extern_out(self, entry: Entry) -> None:
        self._externs.out(entry.line.node)

    def _extern_alloc(self, entry: Entry) -> None:
        self._externs.alloc(entry.line.node)

    def _extern_multi_out(self, entry: Entry) -> None:
        self._externs.multi_out(entry.line.node)

    def _index_put(self, entry: Entry) -> None:
        self._externs.index_put(entry.line.node, entry.line.indices)

    def _scatter(self, entry: Entry) -> None:
        self._externs.scatter(entry.line.node)

    def _symbolic_argument(self, entry: Entry) -> None:
        arg = entry.line.arg
        value = self._scope.scalar(arg.inner_expr)
        self._scope.emit(ComputeSymbol(self._scope.bind(arg.inner), value))

    def _unbacked(self, entry: Entry) -> None:
        bind_unbacked(self._scope, self._externs.leaves, entry.line)

    def _item(self, entry: Entry) -> None:
        host_waits(self._scope.shared.queues)
        bind_item(self._scope, entry.line.node)

    def _assert_layout(self, entry: Entry) -> None:
        assert_layout(self._scope, entry.line.name, checked_op(entry.line), entry.writer)

    def _assert_layouts(self, entry: Entry) -> None:
        for name, _size, _stride in entry.line.asserts:
            assert_layout(self._scope, name, entry.line.op_name, entry.writer)

    def _assert_alignment(self, entry: Entry) -> None:
        line = entry.line
        assert_alignment(self._scope, line.name, line.alignment, line.op_name, entry.writer)


def _convert_lines(scope: Scope, wrapper: Any) -> None:
    """Convert the lines of a subgraph's wrapper."""
    LineConverter(scope, wrapper).run()


Handler = Callable[[LineConverter, Entry], None]

_HANDLERS: Final[Mapping[str, Handler]] = {
    "AllocateLine": LineConverter._allocate,
    "ReuseLine": LineConverter._reuse,
    "ReinterpretLine": LineConverter._reinterpret,
    "FreeIfNotReusedLine": LineConverter._nothing,
    "FreeLine": LineConverter._nothing,
    "NullLine": LineConverter._nothing,
    "EnterDeviceContextManagerLine": LineConverter._enter_device,
    "EnterDeviceContextManagerWithStreamInfoLine": LineConverter._enter_device,
    "ExitDeviceContextManagerWithStreamInfoLine": LineConverter._nothing,
    "EnterCudaStreamContextLine": LineConverter._enter_stream,
    "ExitCudaStreamContextLine": LineConverter._exit_stream,
    "EnterCudaMemPoolContextLine": LineConverter._enter_mempool,
    "ExitCudaMemPoolContextLine": LineConverter._exit_mempool,
    "ExitDeviceContextManagerLine": LineConverter._nothing,
    "CommentLine": LineConverter._nothing,
    "LineContext": LineConverter._nothing,
    "KernelDefinitionLine": LineConverter._nothing,
    "MultiOutputLine": LineConverter._nothing,
    "KernelCallLine": LineConverter._kernel_call,
    "ExternKernelOutLine": LineConverter._extern_out,
    "ExternKernelAllocLine": LineConverter._extern_alloc,
    "ExternKernelMultiOutLine": LineConverter._extern_multi_out,
    "IndexPutFallbackLine": LineConverter._index_put,
    "ScatterFallbackLine": LineConverter._scatter,
    "SymbolicCallArgLine": LineConverter._symbolic_argument,
    "UnbackedSymbolDefsLine": LineConverter._unbacked,
    "DynamicScalarLine": LineConverter._item,
    "AssertSizeStrideLine": LineConverter._assert_layout,
    "GroupedAssertSizeStrideLine": LineConverter._assert_layouts,
    "AssertAlignmentLine": LineConverter._assert_alignment,
}


def _shown(entry: Entry) -> str:
    """Return a short text that tells which line it is, without printing the whole graph."""
    fields = []
    for name in ("kernel_name", "name", "result_name", "output_name", "device_idx", "stream_idx"):
        value = getattr(entry.line, name, None)
        if isinstance(value, (str, int)):
            fields.append(f"{name}={value}")
    if entry.writer is not None:
        fields.append(f"written by {type(entry.writer).__name__} {entry.writer.get_name()}")
    return ", ".join(fields) or type(entry.line).__name__
