"""Rendering of kernel calls, library ops and their arguments."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import begins_work
from wrapper_ir.analysis.ops import PRODUCTS, reads_otherwise
from wrapper_ir.emitters.fx.kernels import KernelForm
from wrapper_ir.emitters.fx.library import op_named, pack
from wrapper_ir.emitters.fx.region import Bound, RegionBase, Storage, torch_dtype
from wrapper_ir.emitters.fx.triton import LAUNCH, PinnedKernel, launch_kwargs
from wrapper_ir.emitters.kernel_types import launch_problem
from wrapper_ir.lines.effects import handed_over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Kernel arguments that share memory with a buffer that the call writes.
#
# The call passes such buffers as one memory and places in it (:class:`KernelForm`). It does the
# same for buffers that are written as another dtype than that of their memory, because torch's
# functionalization assumes that a view written by a custom op has the dtype of its base.
#
# Buffers that provably do not overlap are passed as they are. So are slices of a pool, since slices
# that are alive at the same time do not overlap.


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an argument in memory, in bytes from the start of the memory's owner."""

    storage: Storage
    begin: ir.Dim
    end: ir.Dim
    is_written: bool
    has_other_dtype: bool

    @classmethod
    def of(cls, arg: ir.BufferArg, bound: Bound, layout: ir.Layout) -> Place:
        """Return the place of an argument."""
        begin = ir.dim(layout.offset * layout.dtype.itemsize)
        end = ir.dim(begin + layout.clamped_extent * layout.dtype.itemsize)
        storage = bound.storage
        other = layout.dtype is not storage.dtype
        return cls(storage, begin, end, arg.access.writes, other)

    @property
    def at(self) -> ir.Dim:
        """The offset in bytes from the first element of the memory's tensor."""
        return ir.dim(self.begin - self.storage.start)

    def may_meet(self, other: Place) -> bool:
        """Return whether the two may overlap."""
        mine, theirs = self.storage, other.storage
        if mine.node is not theirs.node or mine.start != theirs.start:
            return False
        return not (_is_at_most(self.end, other.begin) or _is_at_most(other.end, self.begin))


def places(
    args: Sequence[ir.Arg], bound: Mapping[str, Bound], layouts: Mapping[str, ir.Layout]
) -> dict[int, Place]:
    """Return the places of the arguments that the call passes as places in memory, by position."""
    every = {
        position: Place.of(arg, bound[arg.buffer], layouts[arg.buffer])
        for position, arg in enumerate(args)
        if isinstance(arg, ir.BufferArg)
    }
    memories = {
        place.storage.node
        for position, place in every.items()
        if place.is_written and (place.has_other_dtype or _meets_another(place, position, every))
    }
    return {n: place for n, place in every.items() if place.storage.node in memories}


def _meets_another(place: Place, position: int, every: Mapping[int, Place]) -> bool:
    return any(n != position and place.may_meet(other) for n, other in every.items())


def _is_at_most(low: ir.Dim, high: ir.Dim) -> bool:
    """Return whether ``low <= high`` is certain."""
    difference = ir.dim(high - low)
    return isinstance(difference, int) and difference >= 0


_aten = torch.ops.aten


def _keeps_layout(op: str, storage: Storage, layout: ir.Layout) -> bool:
    """Return whether functionalizing an op keeps the layout of a whole buffer that it writes."""
    if not (storage.is_whole or storage.node.op in ("placeholder", "get_attr")):
        return True  # perhaps a view
    if op == "aten::copy_" or handed_over(op) is not None:
        return True  # the former keeps it; the latter must get the caller's own tensor
    return op in PRODUCTS and layout.is_contiguous


class CallLines(RegionBase):
    """Renders definitions and calls."""

    @override
    def visit_kernel_definition(self, line: ir.KernelDefinition) -> None:
        problem = self.context.kernel_problem(line)
        if problem:  # kernels in other languages are looked up at their calls
            self.unsupported(line, problem)

    @override
    def visit_kernel_call(self, line: ir.KernelCall) -> None:
        problem = launch_problem(self.context.program.kernels[line.kernel].source, line.device)
        if problem:
            self.unsupported(line, problem)
            return
        if pinned := self.context.launched.get(line.kernel):
            self._launch(line, pinned)
            return
        op = self.context.ops.get(line.kernel)
        if op is None:  # its definition was refused
            return
        shared = places(line.args, self.bound, self.context.program.buffers)
        if shared:
            self._call_with_places(line, shared)
        else:
            kinds = KernelForm(self.context.program.kernels[line.kernel]).kinds
            self.call(op, *pack(kinds, [self._kernel_arg(line, arg) for arg in line.args]))

    def _call_with_places(self, line: ir.KernelCall, shared: Mapping[int, Place]) -> None:
        """Call the form of a kernel that takes memories and places in them."""
        memories = list(dict.fromkeys(place.storage.node for place in shared.values()))
        numbers = {n: memories.index(place.storage.node) for n, place in shared.items()}
        definition = self.context.program.kernels[line.kernel]
        form = KernelForm(definition, tuple(numbers.get(n) for n in range(len(line.args))))
        args = [
            self.number(shared[n].at) if n in shared else self._kernel_arg(line, arg)
            for n, arg in enumerate(line.args)
        ]
        self.call(self.context.kernel_form(form), *pack(form.kinds, [*memories, *args]))

    def _launch(self, line: ir.KernelCall, kernel: PinnedKernel) -> None:
        """Launch a Triton kernel over a grid."""
        if len(line.args) != len(kernel.types):
            reason = f"its signature has {len(kernel.types)} types for {len(line.args)} arguments"
            self.unsupported(line, reason)
            return
        args = [self._kernel_arg(line, arg) for arg in line.args]
        # Torch's tools expect a grid of three sizes.
        grid = (*self.numbers(line.grid), 1, 1)[:3]
        named = dict(zip(kernel.types, args, strict=True))
        self.call(LAUNCH, **launch_kwargs(kernel, grid, named))

    def _kernel_arg(self, line: ir.KernelCall, arg: ir.Arg) -> Any:
        """Return an argument of a kernel that is passed as it is."""
        if not isinstance(arg, ir.BufferArg) or not arg.access.writes:
            return self.arg(line, arg)
        bound = self.bound[arg.buffer]
        if bound.is_direct:
            return bound.node
        # Torch cannot functionalize a write through a chain of views.
        return self.view(bound.storage, self.layout(arg.buffer), 0, arg.buffer)

    @override
    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        method = self.context.method(line.op)
        op: Any = torch.ops.higher_order.call_torchbind if method else op_named(line.op)
        if op is None:
            self.unsupported(line, f"torch has no op '{line.op}' in this process")
            return
        args = [self._passed(line, arg) for arg in line.args]
        args[1:1] = [method] if method else []
        kwargs = {name: self._passed(line, arg) for name, arg in line.kwargs}
        whole = [r for r in line.results if isinstance(r, ir.ResultBuffer) and r.path == ()]
        preferred = whole[0].out if whole else None
        node = self.call(op, *args, name=preferred, **kwargs)
        names = () if method else tuple(r.name for r in op._schema.returns)  # noqa: SLF001
        self.results(line, line.results, node, names)
        for result in line.results:
            if isinstance(result, ir.ResultBuffer):
                self.fresh.difference_update(result.of)
                # A copy of what is not there yet would be made too early.
                if result.relation is ir.Relation.FRESH and not begins_work(line):
                    self.fresh.add(result.out)

    # Arguments.

    def _passed(self, line: ir.ExternKernel, arg: ir.Arg) -> Any:
        """Return an argument of a library op that may write to it.

        Functionalization replaces a whole buffer that is written by a new tensor in whatever layout
        the op returns, but writes a view back into the old buffer.

        An op that writes after it returns gets the buffer itself, which is waited for.
        """
        if isinstance(arg, ir.ListArg):
            return [self._passed(line, item) for item in arg.items]
        if not isinstance(arg, ir.BufferArg) or arg.access is ir.Access.READ or begins_work(line):
            return self.arg(line, arg)
        bound, layout = self.bound[arg.buffer], self.layout(arg.buffer)
        if arg.buffer in self.fresh and arg.buffer in self.context.asserted:
            # The check that is still to come puts it into its layout. It must see the tensor that
            # the op gets, which the op may resize.
            return bound.node
        storage = bound.storage
        is_whole = bound.is_direct and bound.node is storage.node
        # Torch cannot functionalize a write through a chain of views.
        is_view = bound.is_direct and not is_whole
        if is_view or (is_whole and _keeps_layout(line.op, storage, layout)):
            return bound.node
        return self.view(storage, layout, 0, arg.buffer)

    def arg(self, line: ir.AnyLine, arg: ir.Arg) -> Any:
        """Return an argument of a call."""
        match arg:
            case ir.BufferArg():
                return self.node(arg.buffer)
            case ir.ScalarArg():
                return self.number(arg.value)
            case ir.ObjectArg():
                return self.objects[arg.object]
            case ir.NoneArg():
                return None
            case ir.StringArg():
                return arg.value
            case ir.DTypeArg():
                return torch_dtype(arg.dtype)
            case ir.DeviceArg():
                return torch.device(str(arg.device))
            case ir.EnumArg():
                return self._enum(line, arg)
            case ir.ListArg():
                return [self.arg(line, item) for item in arg.items]

    def _enum(self, line: ir.AnyLine, arg: ir.EnumArg) -> Any:
        constant = getattr(torch, arg.name, None)
        if not isinstance(constant, (torch.layout, torch.memory_format)):
            self.unsupported(line, f"torch has no constant '{arg.name}'")
            return None
        return constant

    # Results.

    def results(
        self,
        line: ir.AnyLine,
        results: Sequence[ir.OpResult],
        node: fx.Node,
        names: Sequence[str] = (),
    ) -> None:
        """Bind the results of a call; ``names`` are those of its returns."""
        parts: dict[tuple[int | str, ...], fx.Node] = {(): node}
        for result in results:
            part = self._part(line, result, parts, names)
            if isinstance(result, ir.ResultBuffer):
                storage = None if reads_otherwise(line) else self._storage_of(result)
                self.bind(result.out, part, storage, is_direct=False)
            elif isinstance(result, ir.ResultObject):
                self.objects[result.object] = part
            else:
                self.symbols[result.symbol] = part
                self.context.values.symbol(part, result.symbol)

    def _part(
        self,
        line: ir.AnyLine,
        result: ir.OpResult,
        parts: dict[tuple[int | str, ...], fx.Node],
        names: Sequence[str],
    ) -> fx.Node:
        """Return the node of a part of a call's return value; nested parts share nodes."""
        path = result.path
        for length in range(1, len(path) + 1):
            if path[:length] in parts:
                continue
            step = path[length - 1]
            if isinstance(step, str):
                if length > 1 or step not in names:
                    self.unsupported(line, f"'{step}' names no part of a result")
                step = names.index(step) if step in names else 0
            name = None
            if length == len(path):
                name = _name_of(result)
            outer = parts[path[: length - 1]]
            parts[path[:length]] = self.call(operator.getitem, outer, step, name=name)
        return parts[path]

    def _storage_of(self, result: ir.ResultBuffer) -> Storage | None:
        """Return the storage of a result that is a definite alias, or None."""
        if result.relation is not ir.Relation.ALIAS or len(result.of) != 1:
            return None
        return self.bound[result.of[0]].storage


def _name_of(result: ir.OpResult) -> str:
    if isinstance(result, ir.ResultBuffer):
        return result.out
    return result.object if isinstance(result, ir.ResultObject) else result.symbol
