"""Inductor's lines, one handler each; a line without a handler is an error that names it.

Lines are told apart by class name, so that one table serves releases that differ in which classes
they have. Text arrives only from IR nodes that print themselves; it is never read: the wrapper
notes which node was printing, and the node is converted instead (see ``strings``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.convert.calls import convert_kernel_call
from wrapper_ir.frontends.inductor.convert.externs import ExternConverter
from wrapper_ir.frontends.inductor.convert.memory import allocate, reinterpret, reuse
from wrapper_ir.frontends.inductor.convert.strings import StringConverter
from wrapper_ir.frontends.inductor.convert.unbacked import bind_item, bind_unbacked
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.symbols import AssertLayout, ComputeSymbol

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope

__all__ = ["LineConverter"]


class LineConverter:
    """Converts the lines of one wrapper into a scope.

    Args:
        scope: Where the converted lines go.
        wrapper: Our wrapper, with its lines and what it noted while they were written.
    """

    def __init__(self, scope: Scope, wrapper: Any) -> None:
        self._scope = scope
        self._wrapper = wrapper
        self._externs = ExternConverter(scope, wrapper.lines)
        self._strings = StringConverter(scope, self._externs)

    def run(self) -> None:
        """Convert all lines, in Inductor's order.

        Raises:
            UnsupportedLineError: A line has no typed form.
        """
        notes, end = self._wrapper.control_notes, 0
        for index, line in enumerate(self._wrapper.lines):
            if index in notes:
                self._control(notes[index].node)
                end = notes[index].end
            if index < end:
                continue
            node = self._wrapper.writing_node.get(index)
            if isinstance(line, str):
                self._strings.convert(line, node)
                continue
            handler = _HANDLERS.get(type(line).__name__)
            if handler is None:
                raise UnsupportedLineError(
                    kind=type(line).__name__, text=_shown(line, node), why="no handler for it"
                )
            handler(self, line, index)

    def _control(self, node: Any) -> None:
        # Its subgraphs are converted line by line, too.
        from wrapper_ir.frontends.inductor.convert.control import (  # noqa: PLC0415
            ControlConverter,
        )

        ControlConverter(self._scope, self._externs).convert(node)

    def _nothing(self, line: Any, index: int) -> None:
        """Skip a line that says nothing to us.

        Ends of storage are derived from the program, comments from the origins, definitions from
        the calls, and devices from the buffers.
        """

    def _allocate(self, line: Any, index: int) -> None:
        allocate(self._scope, line)

    def _reuse(self, line: Any, index: int) -> None:
        reuse(self._scope, line)

    def _reinterpret(self, line: Any, index: int) -> None:
        reinterpret(self._scope, line)

    def _kernel_call(self, line: Any, index: int) -> None:
        convert_kernel_call(self._scope, line, self._wrapper.call_notes.get(index))

    def _extern_out(self, line: Any, index: int) -> None:
        self._externs.out(line.node)

    def _extern_alloc(self, line: Any, index: int) -> None:
        self._externs.alloc(line.node)

    def _extern_multi_out(self, line: Any, index: int) -> None:
        self._externs.multi_out(line.node)

    def _index_put(self, line: Any, index: int) -> None:
        self._externs.index_put(line.node, line.indices)

    def _scatter(self, line: Any, index: int) -> None:
        self._externs.scatter(line.node)

    def _symbolic_argument(self, line: Any, index: int) -> None:
        value = self._scope.scalar(line.arg.inner_expr)
        self._scope.emit(ComputeSymbol(self._scope.bind(line.arg.inner), value))

    def _unbacked(self, line: Any, index: int) -> None:
        bind_unbacked(self._scope, self._externs, line)

    def _item(self, line: Any, index: int) -> None:
        bind_item(self._scope, line.node)

    def _assert_layout(self, line: Any, index: int) -> None:
        name = self._scope.resolve(line.name)
        node = self._wrapper.writing_node.get(index)
        origin = self._scope.origin(node) if line.op_name != "input" else None
        self._scope.emit(AssertLayout(name, line.op_name, origin=origin))


Handler = Callable[[LineConverter, Any, int], None]

_HANDLERS: Final[Mapping[str, Handler]] = {
    "AllocateLine": LineConverter._allocate,
    "ReuseLine": LineConverter._reuse,
    "ReinterpretLine": LineConverter._reinterpret,
    "FreeIfNotReusedLine": LineConverter._nothing,
    "FreeLine": LineConverter._nothing,
    "NullLine": LineConverter._nothing,
    "EnterDeviceContextManagerLine": LineConverter._nothing,
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
}


def _shown(line: Any, node: Any) -> str:
    """Return a short text that tells which line it is, without printing the whole graph."""
    fields = []
    for name in ("kernel_name", "name", "result_name", "output_name", "device_idx", "stream_idx"):
        value = getattr(line, name, None)
        if isinstance(value, (str, int)):
            fields.append(f"{name}={value}")
    if node is not None:
        fields.append(f"written by {type(node).__name__} {node.get_name()}")
    return ", ".join(fields) or type(line).__name__
