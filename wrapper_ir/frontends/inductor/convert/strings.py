"""Nodes that write text instead of lines; the node is converted, the text is not read.

Where a node is known, all of its text counts as one thing and is converted once. The only text
that is looked at is a comment's first character, and the checks of a result's address and layout,
which are compared with what the node would write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.frontends.inductor.compat import GPU_ALIGN_BYTES, inductor_config, ir
from wrapper_ir.frontends.inductor.convert.externs import node_op
from wrapper_ir.frontends.inductor.convert.interface import assert_alignment, assert_layout
from wrapper_ir.frontends.inductor.convert.operators import add_check, hooked_name, prints
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.symbols import AssertSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.externs import ExternConverter
    from wrapper_ir.frontends.inductor.convert.state import Scope


class StringConverter:
    """Converts the nodes behind lines of text.

    Args:
        scope: Where the converted lines go.
        externs: Converts calls of ops.
    """

    def __init__(self, scope: Scope, externs: ExternConverter) -> None:
        self._scope = scope
        self._externs = externs
        self._done: set[int] = set()
        #: The kernel that was called last, and the names of what it was called with.
        self.called: tuple[str, Sequence[str]] = ("", ())

    def convert(self, text: str, node: Any) -> None:
        """Convert one line of text that ``node`` wrote.

        Raises:
            UnsupportedLineError: The node is unknown, or has no typed form.
        """
        if text.lstrip().startswith("#") or not text.strip() or id(node) in self._done:
            return
        # A call that only changes others has no name, and no result whose layout is checked.
        is_named = getattr(node, "name", None) is not None
        if is_named and text == _alignment_check(node):
            name, op_name = node.get_name(), node.get_op_name()
            assert_alignment(self._scope, name, GPU_ALIGN_BYTES, op_name, node)
            return
        if is_named and text == f"track_tensor({node.get_name()}, '{node.get_name()}')":
            return  # a note for Inductor's checks of its own plan
        if is_named and _is_layout_check(text, node):
            assert_layout(self._scope, node.get_name(), node.get_op_name(), node)
            return
        if self._zeroes_workspace(text) or self._shows(text):
            return
        if add_check(self._scope, text, *self.called):
            return
        if prints(node):
            self._done.add(id(node))
            self._externs.print(node)
            return
        handler = _HANDLERS.get(type(node).__name__)
        if handler is None:
            writer = "unknown" if node is None else f"{type(node).__name__} {node.name}"
            raise UnsupportedLineError(
                kind="raw string", text=repr(text), why=f"written by {writer}"
            )
        self._done.add(id(node))
        handler(self, node)

    def _zeroes_workspace(self, text: str) -> bool:
        """Return whether the text zeroes the workspace just allocated, which is zero already."""
        scope = self._scope
        last = scope.body[-1] if scope.body else None
        if not isinstance(last, Allocate) or not last.zeroed:
            return False
        filling: str = scope.shared.wrapper.make_zero_buffer(last.out)
        return text == filling

    def _shows(self, text: str) -> bool:
        """Return whether the text shows a kernel's result to Inductor's hooks, as a call."""
        if not inductor_config.generate_intermediate_hooks:
            return False
        for buffer in self._scope.graph.buffers:
            shown = hooked_name(buffer)
            if shown and text == f"run_intermediate_hooks({shown!r}, {buffer.get_name()})":
                self._externs.show(buffer)
                return True
        return False

    def _assert_scalar(self, node: Any) -> None:
        # Not simplified: torch simplifies by what is asserted, so it would come out as True.
        condition = self._scope.scalar(node.scalar, simplify=False)
        if condition is not True:
            origin = self._scope.origin(node)
            self._scope.emit(AssertSymbol(condition, str(node.msg), origin=origin))

    def _copy_into(self, node: Any) -> None:
        target, source = node.inputs
        (non_blocking,) = node.constant_args
        self._externs.copy(node, target, source, non_blocking=non_blocking)

    def _copy_to_device(self, node: Any) -> None:
        (source,) = node.inputs
        (non_blocking,) = node.constant_args
        target = node.output_view if node.output_view is not None else node
        if node.get_layout().is_pinned:
            non_blocking = False  # Inductor waits for the copy right after it
        self._externs.copy(node, target, source, non_blocking=non_blocking)

    def _check_memory(self, node: Any) -> None:
        """Keep what Inductor expects of its own plan as a comment: the plan will be another."""
        allocated, freed, *_ = node.constant_args
        expected = f"allocated {', '.join(allocated)}; freed {', '.join(freed)}"
        text = f"Inductor expects here: {expected}"
        self._scope.emit(Comment(text, origin=self._scope.origin(node)))

    def _refuse_resize(self, node: Any) -> None:
        raise UnsupportedLineError(
            kind="call of an op",
            text=str(node.python_kernel_name),
            why="it changes the size of a storage, which is fixed in a program",
        )

    def _refuse_descriptor(self, node: Any) -> None:
        raise UnsupportedLineError(
            kind="tensor descriptor",
            text=str(node.name),
            why="kernels take none that is made on the host",
            hint="make it in the kernel, with tl.make_tensor_descriptor",
        )

    def _call_in_place(self, node: Any) -> None:
        self._externs.call(node, node_op(node), (*node.inputs, *node.constant_args), {})

    def _select_offset(self, node: Any) -> None:
        """Compute where a selected element lies; an index below zero counts from the end."""
        scope = self._scope
        index, size = _expr(scope.scalar(node.index)), _expr(scope.scalar(node.size))
        position = ours.Where(sympy.Lt(index, 0), index + size, index)
        if node.clamp:
            position = sympy.Max(0, sympy.Min(size, position))
        base, stride = scope.dim(node.base_offset), scope.dim(node.base_dim_stride)
        symbol = scope.bind(node.unbacked_offset_symbol)
        scope.emit(ComputeSymbol(symbol, base + stride * position, origin=scope.origin(node)))

    def _slice_size(self, node: Any) -> None:
        """Compute the length of a slice; its ends count from the end when below zero, and clamp."""
        scope = self._scope
        size, step = _expr(scope.scalar(node.size)), _expr(scope.scalar(node.step))
        start, end = (_clamped(_expr(scope.scalar(x)), size) for x in (node.start, node.end))
        length = sympy.Max(0, ours.FloorDiv(end - start + step - 1, step))
        symbol = scope.bind(node.unbacked_size_symbol)
        scope.emit(ComputeSymbol(symbol, length, origin=scope.origin(node)))


Handler = Callable[[StringConverter, Any], None]

_HANDLERS: Final[Mapping[str, Handler]] = {
    "AssertScalar": StringConverter._assert_scalar,
    "InplaceCopyFallback": StringConverter._copy_into,
    "DeviceCopy": StringConverter._copy_to_device,
    "InplaceBernoulliFallback": StringConverter._call_in_place,
    "DynamicSelectStorageOffset": StringConverter._select_offset,
    "DynamicSliceSize": StringConverter._slice_size,
    "MemoryCheckKernel": StringConverter._check_memory,
    "ResizeStorageBytes": StringConverter._refuse_resize,
    "TMADescriptorStable": StringConverter._refuse_descriptor,
    "TMADescriptorExperimental": StringConverter._refuse_descriptor,
}


def _alignment_check(node: Any) -> str | None:
    """Return the text by which a node checks its result's address."""
    if not isinstance(node, ir.ExternKernel):
        return None
    return f"assert_alignment({node.get_name()}, {GPU_ALIGN_BYTES}, {node.get_op_name()!r})"


def _is_layout_check(text: str, node: Any) -> bool:
    """Return whether a text checks the layout of a node's result; torch 2.13 has a line for it."""
    return (
        isinstance(node, ir.ExternKernel)
        and text.startswith(f"assert_size_stride({node.get_name()}, ")
        and text.endswith(f", {node.get_op_name()!r})")
    )


def _clamped(index: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    positive = sympy.Max(0, sympy.Min(index, size))
    negative = sympy.Max(0, sympy.Min(index + size, size))
    return ours.Where(sympy.Ge(index, 0), positive, negative)


def _expr(value: Any) -> sympy.Expr:
    return sympy.sympify(value)
