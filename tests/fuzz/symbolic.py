"""Steps on buffers whose sizes are expressions: library ops, views, slices of pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tests.fuzz.ops import schema
from tests.fuzz.state import Root, State, torch_dtype
from wrapper_ir.lines import DType, Layout, expr
from wrapper_ir.lines.layout import contiguous_strides

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.build import Buffer

#: Where the symbolic part of a pool begins, in bytes: what is before has slices of known sizes.
BEHIND = 192


def strided(s: State, size: tuple[Any, ...]) -> tuple[Any, ...]:
    """Strides of an input of symbolic sizes: its dimensions turned round, or with gaps."""
    strides: list[Any] = []
    step: Any = 1 if s.maybe() else 2
    for length in size:
        strides.append(step)
        step = step * length
    if step and s.maybe():
        return tuple(strides)
    return tuple(2 * n for n in contiguous_strides(size))


def alike(s: State) -> None:
    """An op that gives each element its own."""
    x = s.find(symbolic=True, dense=True)
    if x is None:
        return
    op = s.pick(("relu", "neg", "abs", "clone", "eq.Scalar", "mul.Scalar", "add.Tensor"))
    args: tuple[Any, ...] = (x,)
    if op in ("eq.Scalar", "mul.Scalar"):
        args = (x, s.pick((0, 1, 2)))
    elif op == "add.Tensor":
        args = (x, s.find(dense=True, like=x))
    base, _, overload = op.partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")
    try:
        given = function(*(_example(a) if hasattr(a, "layout") else a for a in args))
    except (RuntimeError, NotImplementedError):
        return
    dtype = DType.from_torch_name(str(given.dtype)).short
    s.own(s.b.extern(schema(op), *args, result=(dtype, x.size)))


def _example(buffer: Buffer) -> torch.Tensor:
    """Something of a buffer's type, which says what type an op gives."""
    return torch.zeros((2,) * buffer.layout.rank, dtype=torch_dtype(buffer.layout))


def copied(s: State) -> None:
    """What has symbolic strides, or begins at a symbolic offset, into memory that is dense."""
    x = s.find(symbolic=True)
    if x is not None:
        out = s.own(s.b.allocate(x.dtype, x.size))
        s.b.extern(schema("copy_"), out, x)


def filled(s: State) -> None:
    """New tensors whose sizes are arguments, expressions among them."""
    size = s.shape(s.pick((1, 2)))
    if s.maybe(0.3):
        s.own(s.b.extern(schema("arange"), size[0], dtype="int64", result=("i64", size[:1])))
    else:
        dtype = s.pick(("f32", "i64", "bool"))
        name = {"f32": "float32", "i64": "int64", "bool": "bool"}[dtype]
        s.own(s.b.extern(schema("full"), list(size), 1, dtype=name, result=(dtype, size)))


def changed(s: State) -> None:
    """An op in place, at times with a symbolic number for an argument."""
    x = s.find(symbolic=True, dense=True, written=True, dtype=("f32", "f64", "i64"))
    if x is None:
        return
    op = s.pick(("zero_", "relu_", "neg_", "fill_.Scalar", "add_.Scalar"))
    number = s.pick([*s.numbers, 2])
    s.b.extern(schema(op), x, *((number,) if op.endswith("Scalar") else ()))


def seen(s: State) -> None:
    """A view that a library op makes, with expressions for arguments."""
    x = s.find(symbolic=True)
    if x is None:
        return
    layout, rank = x.layout, x.layout.rank
    size, stride = list(layout.size), list(layout.stride)
    dim = s.chance.randrange(rank)
    kind = s.pick(("slice.Tensor", "permute", "view", "unsqueeze", "expand"))
    args: tuple[Any, ...]
    offset = layout.offset
    if kind == "slice.Tensor":
        half = expr.FloorDiv(size[dim], 2)
        args = (dim, half, size[dim])
        offset += half * stride[dim]
        size[dim] = size[dim] - half
    elif kind == "permute":
        order = s.chance.sample(range(rank), rank)
        args = (order,)
        size, stride = [size[n] for n in order], [stride[n] for n in order]
    elif kind == "view":
        if not layout.is_contiguous:
            return
        args = ([layout.numel],)
        size, stride = [layout.numel], [1]
    elif kind == "unsqueeze":
        args = (0,)
        size, stride = [1, *size], [size[0] * stride[0], *stride]
    else:
        args = ([2, *size],)
        size, stride = [2, *size], [0, *stride]
    found = Layout(layout.dtype, layout.device, tuple(size), tuple(stride), offset)
    s.see(s.b.extern(schema(kind), x, *args, result=found), x)


def behind(s: State) -> None:
    """Slices of a pool of symbolic size, behind those of known sizes: they begin at expressions."""
    pools = [p for p in s.pools if p.owner in s.units and p.owner not in s.cut_behind]
    pool = s.pick(pools)
    if pool is None:
        return
    unit = s.units[pool.owner]
    s.cut_behind.add(pool.owner)
    for start, most in ((BEHIND, 2), (BEHIND + 32 * unit, 4)):
        dtype = s.pick(("f32", "i64", "u8", "bool", "bf16", "f64"))
        size = (unit, s.pick(range(1, most)))
        found = s.b.allocate_from_pool(pool.owner, start, dtype, size)
        pool.slices += 1
        s.scope.vars[found] = Root(found, owned=True, pool=pool)
        s.b.extern(schema("fill_.Scalar"), found, s.pick((0, 1)))


STEPS: tuple[Callable[[State], None], ...] = (alike, alike, copied, filled, changed, seen, seen)
