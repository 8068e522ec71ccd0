"""Calls of ops. A node becomes one ``ExternKernel``, plus clones if it works on copies."""

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

from wrapper_ir import lines
from wrapper_ir.frontends.aten.numbers import bind_unbacked, kind_of, noted_by
from wrapper_ir.frontends.aten.state import POISON, Ref, UnsupportedNodeError, to_dtype
from wrapper_ir.frontends.common import ops
from wrapper_ir.frontends.common.symbols import Binding

if TYPE_CHECKING:
    from torch.fx import Node

    from wrapper_ir.frontends.aten.state import GraphWalk, State


def call_op(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of an op and return the value of its node."""
    return emit_call(walk, node, node.target, walk.value(node.args), walk.value(node.kwargs))


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of a call."""

    name: str  #: of a single result, and the prefix of the names of parts
    value: Any  #: torch's fake value
    names: Mapping[ops.Path, str] = field(default_factory=dict)  #: of parts
    used: AbstractSet[ops.Path] | None = None  #: parts; None if the result is used as a whole
    bindings: Sequence[Binding] = ()


def expected_of(node: Node) -> Expected:
    """Return the expected result of a node's call."""
    parts = {user: user.args[1] for user in node.users if user.target is operator.getitem}
    names: dict[ops.Path, str] = {(i,): u.name for u, i in parts.items() if isinstance(i, int)}
    # With a symbolic or negative index, the whole result counts as used.
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
    """Emit a call of an op. The expected result is by default that of the node."""
    expected = expected or expected_of(node)
    bound = ops.bind_arguments(op, args, kwargs, partial(_argument, walk.state))
    if torch.Tag.inplace_view in bound.op.tags:
        raise UnsupportedNodeError("it changes the shape of its argument in place")
    call = _Call(walk.state, bound, expected)
    value = call.results(expected.value)
    defined, where = tuple(call.defined), call.device()
    line = ops.call_of(walk.state.draft, bound.op, bound.args, bound.kwargs, defined, device=where)
    held = call.held(node.name)
    values = tuple(held.get(name, "") for name in lines.effects(line).written)
    walk.emit(dataclasses.replace(line, origin=walk.state.origin(node, values=values)))
    bind_unbacked(walk, node, call.leaves)
    return value


def _argument(
    state: State, value: Any, declared: lines.SchemaArg, access: lines.Access
) -> lines.Arg:
    try:
        if isinstance(value, Ref):
            return lines.BufferArg(value.name, access)
        if isinstance(value, ops.NUMBERS):
            return lines.ScalarArg(state.scalar(value))
        if declared.type.base == "Device" and isinstance(value, str):
            return lines.DeviceArg(lines.Device.parse(value))
        if isinstance(value, torch.dtype):
            return lines.DTypeArg(to_dtype(value))
        found = ops.plain_argument(value)
        if found is not None:
            return found
        kind = type(value).__name__
        raise UnsupportedNodeError(f"a value of type {kind} cannot be an argument of a line")
    except UnsupportedNodeError as error:
        raise UnsupportedNodeError(f"argument {declared.name!r}: {error}") from None


class _Call:
    """Definer of the results of one call."""

    def __init__(self, state: State, bound: ops.Bound, expected: Expected) -> None:
        self._state = state
        self._bound = bound
        self._expected = expected
        self._needed = {binding.path for binding in expected.bindings}
        self.defined: list[lines.CallResult] = []
        #: The values of the result's leaves.
        self.leaves: dict[ops.Path, Any] = {}

    def results(self, value: Any, path: ops.Path = ()) -> Any:
        """Define the result at a path and return it as the value of a node."""
        if path and not self._is_used(path):
            return POISON
        if isinstance(value, (list, tuple)):
            return [self.results(item, (*path, index)) for index, item in enumerate(value)]
        if not self._bound.schema.returns or value is None:
            return self._without_value(path)
        is_tensor = isinstance(value, torch.Tensor)
        leaf = self._tensor(value, path) if is_tensor else self._number(value, path)
        self.leaves[path] = leaf
        return leaf

    def held(self, node: str) -> dict[str, str]:
        """Return the value of the node that each written buffer holds, such as ``sort[1]``."""
        refs = {path: leaf.name for path, leaf in self.leaves.items() if isinstance(leaf, Ref)}
        return {name: node + "".join(f"[{n}]" for n in path) for path, name in refs.items()}

    def _is_used(self, path: ops.Path) -> bool:
        used = self._expected.used
        return used is None or path[:1] in used or path[:1] in {p[:1] for p in self._needed}

    def _without_value(self, path: ops.Path) -> Any:
        """Return a result for which torch has no fake value."""
        type_ = self._bound.schema.type_at(path)
        if type_ is None or path or not type_.is_tensor or type_.is_optional:
            return None
        _, of = self._bound.relation(path)
        if type_.writes and of and not type_.is_list:
            return Ref(of[0])
        if self._expected.used is None or self._expected.used:
            raise UnsupportedNodeError("its result's shape is not known (no meta['val'])")
        return None

    def _tensor(self, value: torch.Tensor, path: ops.Path) -> Ref:
        state = self._state
        type_ = self._bound.schema.type_at(path)
        relation, of = self._bound.relation(path)
        if type_ is not None and type_.writes and of:
            # In place: the result is the argument itself.
            index = path[-1] if type_.is_list and path and isinstance(path[-1], int) else 0
            have, new = state.draft.buffers[of[index]], state.layout_of(value)
            if (have.size, have.dtype) != (new.size, new.dtype):
                raise UnsupportedNodeError("it changes the shape of its argument")
            return Ref(of[index])
        parts = (self._expected.name, *map(str, path))
        wanted = self._expected.names.get(path) or "_".join(parts)
        if relation is lines.Relation.FRESH:
            name = state.define(wanted, value)
        else:
            name = state.define_view(wanted, value, relation, of)
        self.defined.append(lines.ResultBuffer(name, path, relation, of))
        return Ref(name)

    def _number(self, value: Any, path: ops.Path) -> Any:
        state = self._state
        own = [b for b in self._expected.bindings if b.path == path and not b.keys]
        if own and isinstance(value, ops.SYMBOLIC):
            name = state.bind(own[0].name, kind_of(value), unbacked=True)
            self.defined.append(lines.ResultSymbol(name, path))
            return state.draft.symbol(name)
        if isinstance(value, (bool, int, float, *ops.SYMBOLIC)):
            return state.scalar(value)
        raise UnsupportedNodeError(f"a result of type {type(value).__name__} cannot be expressed")

    def device(self) -> lines.Device:
        """Return the device to run on: that of the results, or else that of the arguments."""
        leaves = pytree.tree_leaves(self._expected.value)
        devices = [ops.to_device(leaf.device) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        buffers = self._state.draft.buffers
        devices += [buffers[name].device for name in self._bound.buffers]
        return next(iter(devices), lines.CPU)


# Writing ops in functional graphs, which torch wraps to work on copies.


def auto_functionalized(walk: GraphWalk, node: Node) -> Any:
    """Convert a call of a writing op on copies: clones, then the op itself.

    The node's value is the op's result, followed by the clones.
    """
    op: Any = node.args[0]
    whole = node.meta.get("val")
    if not ops.is_op(op) or not isinstance(whole, (list, tuple)):
        raise UnsupportedNodeError("its op is unknown")
    schema = lines.parse_schema(ops.source_of(op).schema)
    given = dict(walk.value(node.kwargs))
    bases = list(given.pop("_all_bases", []))
    clones = [_cloned(walk, node, base, index) for index, base in enumerate(bases)]
    kwargs: dict[str, Any] = {}
    for declared in schema.args:
        if declared.name in given:
            kwargs[declared.name] = given[declared.name]
        elif declared.type.writes:
            is_list = declared.type.is_list
            kwargs[declared.name] = _target(given, declared.name, clones, is_list=is_list)
    count = len(whole) - len(bases)
    value = tuple(whole[:count])
    returned: Any = value if schema.returns_tuple else value[0] if value else None
    found = emit_call(walk, node, op, (), kwargs, Expected(node.name, returned))
    firsts = list(found) if schema.returns_tuple and found is not None else [found]
    return [*firsts[:count], *clones] if schema.returns else [*([None] * count), *clones]


def _cloned(walk: GraphWalk, node: Node, base: Any, index: int) -> Any:
    if not isinstance(base, Ref):
        return base
    op = torch.ops.aten.clone.default
    value = node.meta["val"][index - len(node.kwargs.get("_all_bases", ()))]  # type: ignore[arg-type]
    return emit_call(walk, node, op, (base,), {}, Expected(f"{base.name}_clone", value))


def _target(given: Mapping[str, Any], name: str, clones: list[Any], *, is_list: bool) -> Any:
    """Return the clone that replaces a written argument, which must be the whole tensor."""
    if not is_list:
        return _clone(given, name, clones)
    length = given.get(f"_{name}_length")
    items = range(length or 0)
    return None if length is None else [_clone(given, f"{name}_{item}", clones) for item in items]


def _clone(given: Mapping[str, Any], name: str, clones: list[Any]) -> Any:
    index = given.get(f"_{name}_base_index")
    if index is None:
        return None
    if any(f"_{name}_{part}" in given for part in ("size", "slice_dim", "stride")):
        raise UnsupportedNodeError(f"its argument {name!r} is part of a larger tensor")
    return clones[index]
