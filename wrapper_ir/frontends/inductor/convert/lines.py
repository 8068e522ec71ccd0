"""Inductor's lines, one handler each; a line without a handler is an error that names it.

Handlers are looked up by class name, so that one table serves releases with different classes.
Text comes only from IR nodes that print themselves. The wrapper records which node was writing, and
that node is converted instead, once for all of its text. The only text that is inspected is the
first character of a comment, and text that checks, zeroes or shows a buffer, which is compared with
what Inductor would write.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import sympy
import torch

from wrapper_ir.frontends.inductor.compat import GPU_ALIGN_BYTES, checked_op, inductor_config, ir
from wrapper_ir.frontends.inductor.convert import externs as ops
from wrapper_ir.frontends.inductor.convert.control import convert_control
from wrapper_ir.frontends.inductor.convert.cpp_and_triton import (
    convert_kernel_call,
    kernels_to_tune,
)
from wrapper_ir.frontends.inductor.convert.line_fields import known_fields
from wrapper_ir.frontends.inductor.convert.memory import allocate, combine_parts, reinterpret, reuse
from wrapper_ir.frontends.inductor.convert.operators import add_check, hooked_name, print_arguments
from wrapper_ir.frontends.inductor.convert.values import op_called
from wrapper_ir.frontends.inductor.devices import MEMPOOL_BLOCK, STREAM_BLOCK
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.notes import LineNote
from wrapper_ir.frontends.inductor.untried import unknown_field
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.kernels import Synchronize
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.convert.streams import Queues


def _entries(wrapper: Any) -> Iterator[LineNote]:
    """Yield the lines of a wrapper, with the lines of a partition in place of its call."""
    end = 0
    for index, line in enumerate(wrapper.lines):
        note = wrapper.control_notes.get(index)
        if note is not None:
            end = note.end
            if note.partition is not None:
                yield from _entries(note.partition)
            else:
                yield LineNote(control=note.node)
        if index >= end:
            yield dataclasses.replace(wrapper.line_notes[index], line=line)


def convert_lines(scope: Scope, wrapper: Any) -> None:
    """Convert all lines of one wrapper of ours into a scope, in Inductor's order."""
    entries = list(_entries(wrapper))
    scope.shared.tuners.expect(kernel for e in entries for kernel in kernels_to_tune(e.call))
    to = _Lines(scope, ops.ExternConverter(scope, [entry.line for entry in entries]))
    for entry in entries:
        if entry.control is not None:
            _refuse_on_stream(scope, entry.control)
            convert_control(scope, entry.control)
        elif entry.part is not None:
            combine_parts(scope, entry.part)
        elif entry.waits:
            scope.emit(Synchronize(scope.shared.queues.device, origin=scope.origin(entry.writer)))
        elif entry.handle:
            scope.handle = entry.handle
        elif isinstance(entry.line, str):
            to.text(entry.line, entry.writer)
        else:
            to.line(entry)


def _refuse_on_stream(scope: Scope, node: Any) -> None:
    if scope.shared.queues.is_open:
        why = "branches, loops and subgraphs run on the caller's stream and default memory"
        raise UnsupportedLineError(type(node).__name__, str(node.get_name()), why)


class _Lines:
    """Converts single lines into a scope, and the library ops among them with ``externs``."""

    def __init__(self, scope: Scope, externs: ops.ExternConverter) -> None:
        self.scope = scope
        self.externs = externs
        self._done: set[int] = set()
        #: The last kernel called, and the names of its arguments.
        self._called: tuple[str, Sequence[str]] = ("", ())

    def line(self, entry: LineNote) -> None:
        """Convert a line that is not text."""
        kind = type(entry.line).__name__
        new = unknown_field(entry.line, known_fields(kind))
        if new:
            why = f"its field {new!r} is new in this torch"
            raise UnsupportedLineError(kind, _shown(entry), why)
        if kind in _LINES:
            _LINES[kind](self.scope, entry.line)
        elif kind in _CALLS:
            _CALLS[kind](self.externs, entry.line)
        elif kind in _NOTED:
            _NOTED[kind](self, entry)
        elif kind not in _SILENT:
            raise UnsupportedLineError(kind, _shown(entry), "it has no handler")

    def text(self, text: str, node: Any) -> None:
        """Convert one line of text that ``node`` wrote."""
        if text.lstrip().startswith("#") or not text.strip() or id(node) in self._done:
            return
        if self._checks_result(text, node) or self._zeroes_workspace(text) or self._shows(text):
            return
        if add_check(self.scope, text, *self._called):
            return
        prints = getattr(node, "op_overload", None) is torch.ops.higher_order.print
        handler = _Lines.print if prints else _NODES.get(type(node).__name__)
        if handler is None and isinstance(node, ir.TemplateBuffer):
            raise UnsupportedLineError(
                "external template",
                f"{type(node).__name__} {node.get_name()}",
                "a Python function of its own launches the kernel",
                hint="launch the Triton kernel directly (Helion: without fusion by torch.compile); "
                "with on_unsupported='stock' Inductor's own wrapper is used for such graphs",
            )
        if handler is None:
            writer = "unknown" if node is None else f"{type(node).__name__} {node.name}"
            raise UnsupportedLineError("raw string", repr(text), f"written by {writer}")
        self._done.add(id(node))
        handler(self, node)

    # Text.

    def _checks_result(self, text: str, node: Any) -> bool:
        """Add the check of a node's result if the text is one, and return whether it is.

        Since 2.13 the check of a layout is a line of its own.
        """
        if getattr(node, "name", None) is None:  # a call that only mutates
            return False
        name: str = node.get_name()
        if text == f"track_tensor({name}, '{name}')":
            return True  # a note for Inductor's checks of its own plan
        if not isinstance(node, ir.ExternKernel):
            return False
        op_name, bytes_ = node.get_op_name(), GPU_ALIGN_BYTES
        if text == f"assert_alignment({name}, {bytes_}, {op_name!r})":
            assert_alignment(self.scope, name, bytes_, op_name, node)
            return True
        if text.startswith(f"assert_size_stride({name}, ") and text.endswith(f", {op_name!r})"):
            assert_layout(self.scope, name, op_name, node)
            return True
        return False

    def _zeroes_workspace(self, text: str) -> bool:
        """Return whether the text zeroes the workspace just allocated, which is already zero."""
        scope = self.scope
        last = scope.body[-1] if scope.body else None
        if not isinstance(last, Allocate) or not last.zeroed:
            return False
        filling: str = scope.shared.wrapper.make_zero_buffer(last.out)
        return text == filling

    def _shows(self, text: str) -> bool:
        """Show a kernel's result to Inductor's hooks if the text does; return whether it does."""
        if not inductor_config.generate_intermediate_hooks:
            return False
        for buffer in self.scope.graph.buffers:
            shown = hooked_name(buffer)
            if shown and text == f"run_intermediate_hooks({shown!r}, {buffer.get_name()})":
                self.externs.show(buffer)
                return True
        return False

    # Lines.

    def kernel_call(self, entry: LineNote) -> None:
        convert_kernel_call(self.scope, entry.line, entry.call)
        passed = [name for name in entry.line.call_args if isinstance(name, str)]
        self._called = (entry.line.kernel_name, passed)

    def check_layout(self, entry: LineNote) -> None:
        line = entry.line
        assert_layout(self.scope, line.name, checked_op(line), entry.writer)

    def check_layouts(self, entry: LineNote) -> None:
        for name, _size, _stride in entry.line.asserts:
            assert_layout(self.scope, name, entry.line.op_name, entry.writer)

    def check_alignment(self, entry: LineNote) -> None:
        line = entry.line
        assert_alignment(self.scope, line.name, line.alignment, line.op_name, entry.writer)

    # Nodes behind text.

    def print(self, node: Any) -> None:
        from wrapper_ir.runtime import own_ops  # noqa: PLC0415 - registers ops

        self.externs.call(node, own_ops.PRINT, print_arguments(node), {})

    def assert_scalar(self, node: Any) -> None:
        # Not simplified: torch simplifies by what is asserted, so the result would be True.
        condition = self.scope.scalar(node.scalar, simplify=False)
        if condition is not True:
            origin = self.scope.origin(node)
            self.scope.emit(AssertSymbol(condition, str(node.msg), origin=origin))

    def copy_into(self, node: Any) -> None:
        self.externs.call(node, torch.ops.aten.copy_.default, ops.plain_args(node), {})

    def copy_to_device(self, node: Any) -> None:
        (source,) = node.inputs
        (non_blocking,) = node.constant_args
        target = node.output_view if node.output_view is not None else node
        if node.get_layout().is_pinned:
            non_blocking = False  # Inductor waits for the copy right after it
        args = (target, source, non_blocking)
        self.externs.call(node, torch.ops.aten.copy_.default, args, {})

    def check_memory(self, node: Any) -> None:
        """Keep what Inductor expects of its own memory plan as a comment, since ours differs."""
        allocated, freed, *_ = node.constant_args
        expected = f"allocated {', '.join(allocated)}; freed {', '.join(freed)}"
        text = f"Inductor expects here: {expected}"
        self.scope.emit(Comment(text, origin=self.scope.origin(node)))

    def refuse_resize(self, node: Any) -> None:
        why = "it changes the size of a storage, which is fixed in a program"
        raise UnsupportedLineError("call of an op", str(node.python_kernel_name), why)

    def refuse_descriptor(self, node: Any) -> None:
        why = "kernels cannot take one that is made on the host"
        hint = "make it in the kernel, with tl.make_tensor_descriptor"
        raise UnsupportedLineError("tensor descriptor", str(node.name), why, hint=hint)

    def call_in_place(self, node: Any) -> None:
        self.externs.call(node, ops.node_op(node), ops.plain_args(node), {})

    def select_offset(self, node: Any) -> None:
        """Compute the offset of a selected element; a negative index counts from the end."""
        scope = self.scope
        index, size = (sympy.sympify(scope.scalar(x)) for x in (node.index, node.size))
        position = ours.Where(sympy.Lt(index, 0), index + size, index)
        if node.clamp:
            position = sympy.Max(0, sympy.Min(size, position))
        base, stride = scope.dim(node.base_offset), scope.dim(node.base_dim_stride)
        symbol = scope.bind(node.unbacked_offset_symbol)
        scope.emit(ComputeSymbol(symbol, base + stride * position, origin=scope.origin(node)))

    def slice_size(self, node: Any) -> None:
        """Compute the length of a slice; negative ends count from the end, and both ends clamp."""
        scope = self.scope
        values = (node.size, node.step, node.start, node.end)
        size, step, *ends = (sympy.sympify(scope.scalar(x)) for x in values)
        start, end = (_clamped(x, size) for x in ends)
        length = sympy.Max(0, ours.FloorDiv(end - start + step - 1, step))
        symbol = scope.bind(node.unbacked_size_symbol)
        scope.emit(ComputeSymbol(symbol, length, origin=scope.origin(node)))


def _queues(scope: Scope, line: Any) -> Queues:
    """Return what opens a block, which in a region must be one of the caller's stream."""
    if scope.is_region and getattr(line, "stream_idx", -1) != 0:
        why = "branches, loops and subgraphs run on one stream and default memory"
        raise UnsupportedLineError(type(line).__name__, _shown(LineNote(line)), why)
    return scope.shared.queues


def _compute_argument(scope: Scope, line: Any) -> None:
    """Compute a number that is passed to a kernel."""
    arg = line.arg
    value = scope.scalar(arg.inner_expr)
    scope.emit(ComputeSymbol(scope.bind(arg.inner), value))


#: Ignored lines: we derive the ends of storages from the program, comments from origins,
#: definitions from calls, and devices from buffers.
_SILENT: Final = (
    *("FreeIfNotReusedLine", "FreeLine", "NullLine", "CommentLine", "LineContext"),
    *("KernelDefinitionLine", "MultiOutputLine", "ExitDeviceContextManagerLine"),
    "ExitDeviceContextManagerWithStreamInfoLine",
)

_LINES: Final[Mapping[str, Callable[[Scope, Any], None]]] = {
    "AllocateLine": allocate,
    "ReuseLine": reuse,
    "ReinterpretLine": reinterpret,
    "EnterDeviceContextManagerLine": lambda scope, line: scope.shared.queues.enter_device(line),
    "EnterDeviceContextManagerWithStreamInfoLine": (
        lambda scope, line: scope.shared.queues.enter_device(line)
    ),
    STREAM_BLOCK[0]: lambda scope, line: _queues(scope, line).enter_stream(line),
    STREAM_BLOCK[1]: lambda scope, line: scope.shared.queues.exit_stream(),
    MEMPOOL_BLOCK[0]: lambda scope, line: _queues(scope, line).enter_mempool(line),
    MEMPOOL_BLOCK[1]: lambda scope, line: scope.shared.queues.exit_mempool(),
    "SymbolicCallArgLine": _compute_argument,
    "UnbackedSymbolDefsLine": ops.bind_unbacked,
    "DynamicScalarLine": ops.bind_item,
}

_CALLS: Final[Mapping[str, Callable[[ops.ExternConverter, Any], None]]] = {
    "ExternKernelOutLine": ops.ExternConverter.out,
    "ExternKernelAllocLine": ops.ExternConverter.alloc,
    "ExternKernelMultiOutLine": ops.ExternConverter.multi_out,
    "IndexPutFallbackLine": ops.ExternConverter.index_put,
    "ScatterFallbackLine": ops.ExternConverter.scatter,
}

#: Lines that the wrapper takes notes on.
_NOTED: Final[Mapping[str, Callable[[_Lines, LineNote], None]]] = {
    "KernelCallLine": _Lines.kernel_call,
    "AssertSizeStrideLine": _Lines.check_layout,
    "GroupedAssertSizeStrideLine": _Lines.check_layouts,
    "AssertAlignmentLine": _Lines.check_alignment,
}

_NODES: Final[Mapping[str, Callable[[_Lines, Any], None]]] = {
    "AssertScalar": _Lines.assert_scalar,
    "InplaceCopyFallback": _Lines.copy_into,
    "DeviceCopy": _Lines.copy_to_device,
    "InplaceBernoulliFallback": _Lines.call_in_place,
    "DynamicSelectStorageOffset": _Lines.select_offset,
    "DynamicSliceSize": _Lines.slice_size,
    "MemoryCheckKernel": _Lines.check_memory,
    "ResizeStorageBytes": _Lines.refuse_resize,
    "TMADescriptorStable": _Lines.refuse_descriptor,
    "TMADescriptorExperimental": _Lines.refuse_descriptor,
}


def _shown(entry: LineNote) -> str:
    """Return a short text that identifies a line, without printing the whole graph."""
    fields = []
    for name in ("kernel_name", "name", "result_name", "output_name", "device_idx", "stream_idx"):
        value = getattr(entry.line, name, None)
        if isinstance(value, (str, int)):
            fields.append(f"{name}={value}")
    if entry.writer is not None:
        fields.append(f"written by {type(entry.writer).__name__} {entry.writer.get_name()}")
    return ", ".join(fields) or type(entry.line).__name__


def _clamped(index: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    positive = sympy.Max(0, sympy.Min(index, size))
    negative = sympy.Max(0, sympy.Min(index + size, size))
    return ours.Where(sympy.Ge(index, 0), positive, negative)


# Checks of a graph's inputs and of library ops' results: layouts and addresses.


def assert_layout(scope: Scope, name: str, op_name: str, writer: Any) -> None:
    """Check the layout of an op's result, or of an input, whose op is called ``input``."""
    check = _check(scope, name, op_name, writer)
    if _last_check(scope, check) is None:
        scope.emit(check)


def assert_alignment(scope: Scope, name: str, bytes_: int, op_name: str, writer: Any) -> None:
    """Check an address too, in the same line as the layout if that check is directly before it."""
    check = _check(scope, name, op_name, writer)
    last = _last_check(scope, check)
    if last is not None:
        scope.body.remove(last)
    scope.emit(dataclasses.replace(check, alignment=bytes_))


def _check(scope: Scope, name: str, op_name: str, writer: Any) -> AssertLayout:
    subject = op_called(op_name, writer)
    origin = scope.origin(writer) if subject != "input" else None
    return AssertLayout(scope.resolve(name), subject, origin=origin)


def _last_check(scope: Scope, check: AssertLayout) -> AssertLayout | None:
    """Return the check of the same buffer among the checks at the end of the body."""
    for line in reversed(scope.body):
        if not isinstance(line, AssertLayout):
            return None
        if line.buffer == check.buffer:
            return line
    return None
