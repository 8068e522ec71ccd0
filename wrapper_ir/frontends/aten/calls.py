"""Calls of ops: one node, one ``ExternKernel``; one that works on copies, the copies besides."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from wrapper_ir.frontends.aten.numbers import bind_unbacked, kind_of, noted_by
from wrapper_ir.frontends.aten.state import POISON, Ref, UnsupportedNodeError, to_dtype
from wrapper_ir.frontends.common.ops import (
    NUMBERS,
    SYMBOLIC,
    Bound,
    Path,
    bind_arguments,
    call_of,
    is_op,
    plain_argument,
    source_of,
    to_device,
)
from wrapper_ir.frontends.common.symbols import Binding
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    CallResult,
    DeviceArg,
    DTypeArg,
    Relation,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
)
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.schema import parse_schema

if TYPE_CHECKING:
    from torch.fx import Node

    from wrapper_ir.frontends.aten.state import GraphWalk, State
    from wrapper_ir.lines.schema import SchemaArg


def call_op(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of an op; return the value of its node.

    Raises:
        UnsupportedNodeError: An argument or a result has no form, or the op does what no line does.
    """
    args = [walk.value(arg) for arg in node.args]
    kwargs = {name: walk.value(arg) for name, arg in node.kwargs.items()}
    return emit_call(walk, node, node.target, args, kwargs)


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected result of a call, as far as it is known and wanted.

    Attributes:
        name: What a single result is called, and what the names of parts begin with.
        value: Torch's stand-in for the result.
        names: What parts are called, by path.
        used: Paths of the parts that others use; None where it is used as a whole.
        bindings: The symbols of torch's that the call binds.
    """

    name: str
    value: Any
    names: Mapping[Path, str] = field(default_factory=dict)
    used: AbstractSet[Path] | None = None
    bindings: Sequence[Binding] = ()


def expected_of(node: Node) -> Expected:
    """Return what a node's call gives."""
    parts = {user: user.args[1] for user in node.users if user.target is operator.getitem}
    names: dict[Path, str] = {(i,): u.name for u, i in parts.items() if isinstance(i, int)}
    # A part may also be an index, or be counted from the end; then all is used.
    is_whole = len(parts) < len(node.users) or any(
        user.args[0] is not node or not isinstance(index, int) or index < 0
        for user, index in parts.items()
    )
    used = None if is_whole else set(names)
    return Expected(node.name, node.meta.get("val"), names, used, noted_by(node))


def emit_call(
    walk: GraphWalk,
    node: Node,
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    expected: Expected | None = None,
) -> Any:
    """Emit the call of an op with given values; the node tells what comes out of it."""
    expected = expected or expected_of(node)
    bound = bind_arguments(op, args, kwargs, partial(_argument, walk.state))
    if torch.Tag.inplace_view in bound.op.tags:
        raise UnsupportedNodeError("it changes the shape of its argument in place")
    call = _Call(walk.state, bound, expected)
    value = call.results(expected.value)
    results, device = tuple(call.defined), call.device()
    line = call_of(
        walk.state.draft, bound.op, bound.args, bound.kwargs, results=results, device=device
    )
    held = call.held(node.name)
    values = tuple(held.get(name, "") for name in effects(line).written)
    walk.emit(dataclasses.replace(line, origin=walk.state.origin(node, values=values)))
    bind_unbacked(walk, node, call.leaves)
    return value


def _argument(state: State, value: Any, declared: SchemaArg, access: Access) -> Arg:
    try:
        if isinstance(value, Ref):
            return BufferArg(value.name, access)
        if isinstance(value, NUMBERS):
            return ScalarArg(state.scalar(value))
        if declared.type.base == "Device" and isinstance(value, str):
            return DeviceArg(Device.parse(value))
        if isinstance(value, torch.dtype):
            return DTypeArg(to_dtype(value))
        found = plain_argument(value)
        if found is not None:
            return found
        kind = type(value).__name__
        raise UnsupportedNodeError(f"a value of type {kind} is no argument of a line")
    except UnsupportedNodeError as error:
        raise UnsupportedNodeError(f"argument {declared.name!r}: {error}") from None


class _Call:
    """The results of one call, being defined.

    Attributes:
        defined: What the line says it defines.
        leaves: Values of the leaves of the result, by path.
    """

    def __init__(self, state: State, bound: Bound, expected: Expected) -> None:
        self._state = state
        self._bound = bound
        self._expected = expected
        self._needed = {binding.path for binding in expected.bindings}
        self.defined: list[CallResult] = []
        self.leaves: dict[Path, Any] = {}

    def results(self, value: Any, path: Path = ()) -> Any:
        """Define what comes back at a path; return it as the value of a node."""
        if path and not self._is_used(path):
            return POISON
        if isinstance(value, (list, tuple)):
            return [self.results(item, (*path, index)) for index, item in enumerate(value)]
        if not self._bound.schema.returns or value is None:
            return self._untold(path)
        is_tensor = isinstance(value, torch.Tensor)
        leaf = self._tensor(value, path) if is_tensor else self._number(value, path)
        self.leaves[path] = leaf
        return leaf

    def held(self, node: str) -> dict[str, str]:
        """Return which value of a node's each buffer holds that the call has written."""
        return {
            leaf.name: node + "".join(f"[{index}]" for index in path)
            for path, leaf in self.leaves.items()
            if isinstance(leaf, Ref)
        }

    def _is_used(self, path: Path) -> bool:
        used = self._expected.used
        return used is None or path[:1] in used or path[:1] in {p[:1] for p in self._needed}

    def _untold(self, path: Path) -> Any:
        """Return what a result is that torch tells nothing of."""
        type_ = self._bound.schema.type_at(path)
        if type_ is None or path or not type_.is_tensor or type_.is_optional:
            return None
        _, of = self._bound.relation(path)
        if type_.writes and of and not type_.is_list:
            return Ref(of[0])
        if self._expected.used is None or self._expected.used:
            raise UnsupportedNodeError("its result's shape is not known (no meta['val'])")
        return None

    def _tensor(self, value: torch.Tensor, path: Path) -> Ref:
        state = self._state
        type_ = self._bound.schema.type_at(path)
        relation, of = self._bound.relation(path)
        if type_ is not None and type_.writes and of:
            # In place: what comes back is the argument itself.
            index = path[-1] if type_.is_list and path and isinstance(path[-1], int) else 0
            return Ref(same_layout(state, of[index], value))
        parts = (self._expected.name, *map(str, path))
        wanted = self._expected.names.get(path) or "_".join(parts)
        if relation is Relation.FRESH:
            name = state.define(wanted, value)
        else:
            name = state.define_view(wanted, value, relation, of)
        self.defined.append(ResultBuffer(name, path, relation, of))
        return Ref(name)

    def _number(self, value: Any, path: Path) -> Any:
        state = self._state
        own = [b for b in self._expected.bindings if b.path == path and not b.keys]
        if own and isinstance(value, SYMBOLIC):
            name = state.bind(own[0].name, kind_of(value), unbacked=True)
            self.defined.append(ResultSymbol(name, path))
            return state.draft.symbol(name)
        if isinstance(value, (bool, int, float, *SYMBOLIC)):
            return state.scalar(value)
        raise UnsupportedNodeError(f"a result of type {type(value).__name__} has no form")

    def device(self) -> Device:
        """Return where the call runs: where its results are, or else its arguments."""
        made = [to_device(value.device) for value in _tensors(self._expected.value)]
        return next(iter((*made, *map(self._state.device, self._bound.buffers))), CPU)


def same_layout(state: State, name: str, value: torch.Tensor) -> str:
    """Return the name of a buffer that an op gives back, having written to it.

    Raises:
        UnsupportedNodeError: The op has changed its shape, which a buffer's name stands for.
    """
    have, found = state.draft.buffers[name], state.layout_of(value)
    if (have.size, have.dtype) != (found.size, found.dtype):
        raise UnsupportedNodeError("it changes the shape of its argument")
    return name


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


# Ops that write, in graphs that do not: torch wraps them to work on copies.


def auto_functionalized(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of a writing op on copies: clones, then the op itself.

    The node's value is what the op returns, and then the clones.
    """
    op: Any = node.args[0]
    whole = node.meta.get("val")
    if not is_op(op) or not isinstance(whole, (list, tuple)):
        raise UnsupportedNodeError("its op cannot be told")
    schema = parse_schema(source_of(op).schema)
    given = {name: walk.value(value) for name, value in node.kwargs.items()}
    bases = list(given.pop("_all_bases", []))
    clones = [_cloned(walk, node, base, index) for index, base in enumerate(bases)]
    kwargs: dict[str, Any] = {}
    for declared in schema.args:
        if declared.name in given:
            kwargs[declared.name] = given[declared.name]
        elif declared.type.writes:
            kwargs[declared.name] = _target(
                given, declared.name, clones, is_list=declared.type.is_list
            )
    count = len(whole) - len(bases)
    value = tuple(whole[:count])
    returned: Any = value if schema.returns_tuple else value[0] if value else None
    expected = Expected(node.name, returned)
    found = emit_call(walk, node, op, (), kwargs, expected)
    firsts = list(found) if schema.returns_tuple and found is not None else [found]
    return [*firsts[:count], *clones] if schema.returns else [*([None] * count), *clones]


def _cloned(walk: GraphWalk, node: Node, base: Any, index: int) -> Any:
    if not isinstance(base, Ref):
        return base
    op = torch.ops.aten.clone.default
    value = node.meta["val"][index - len(node.kwargs.get("_all_bases", ()))]  # type: ignore[arg-type]
    return emit_call(walk, node, op, (base,), {}, Expected(f"{base.name}_clone", value))


def _target(given: Mapping[str, Any], name: str, clones: list[Any], *, is_list: bool) -> Any:
    """Return the clone that stands for a written argument.

    Raises:
        UnsupportedNodeError: The argument is a part of what was cloned.
    """
    if is_list:
        length = given.get(f"_{name}_length")
        if length is None:
            return None
        return [_clone(given, f"{name}_{item}", clones) for item in range(length)]
    return _clone(given, name, clones)


def _clone(given: Mapping[str, Any], name: str, clones: list[Any]) -> Any:
    index = given.get(f"_{name}_base_index")
    if index is None:
        return None
    if any(f"_{name}_{part}" in given for part in ("size", "slice_dim", "stride")):
        raise UnsupportedNodeError(f"its argument {name!r} is a part of a larger tensor")
    return clones[index]
