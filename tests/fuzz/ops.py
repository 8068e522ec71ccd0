"""Library ops on made-up buffers: torch itself says what layouts they give."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

from tests.fuzz.state import State, example, layout_of, torch_dtype
from wrapper_ir.build import Buffer, Result
from wrapper_ir.lines import Layout, Relation

if TYPE_CHECKING:
    from collections.abc import Callable

FLOATS = ("f32", "f64")
NUMBERS = ("f32", "f64", "i64", "i32")

_SCHEMAS: dict[str, str] = {}


def schema(op: str) -> str:
    """The schema of ``relu`` or ``add.out``, as torch has it."""
    if op not in _SCHEMAS:
        base, _, overload = op.partition(".")
        packet = getattr(torch.ops.aten, base)
        _SCHEMAS[op] = str(getattr(packet, overload or "default")._schema)
    return _SCHEMAS[op]


def call(s: State, op: str, *args: Any, may: bool = False, **kwargs: Any) -> list[Buffer]:
    """Calls an op on static buffers and enters its results, with the layouts torch gives them."""
    base, _, overload = op.partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            given = function(*map(_example, args), **{k: _example(v) for k, v in kwargs.items()})
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return []  # torch does not take these: so no program has them
    leaves = _leaves(given)
    wanted: list[Any] = [Result(layout_of(t), path) for path, t in leaves]
    if len(wanted) > 1 and s.maybe(0.3):
        wanted[s.chance.randrange(len(wanted))] = None
    args = tuple(_named(a) for a in args)
    kwargs = {k: _named(v) for k, v in kwargs.items()}
    is_view = "(a" in schema(op).partition("->")[2] or may
    if is_view:
        sources = _buffers([*args, *kwargs.values()])[:1]
        if may:
            wanted = [
                Result(_at_start(r.layout), r.path, Relation.MAY_ALIAS) if r is not None else None
                for r in wanted
            ]
    made = s.b.extern(schema(op), *args, results=wanted, may_alias=may, **kwargs)
    for buffer in made:
        if is_view:
            s.see(buffer, sources[0])
        else:
            s.own(buffer)
    return made


def _at_start(layout: Any) -> Any:
    if isinstance(layout, Layout):
        return Layout(layout.dtype, layout.device, layout.size, layout.stride)
    return layout


def _example(value: Any) -> Any:
    if isinstance(value, Buffer):
        return example(value.layout)
    if isinstance(value, list):
        return [_example(item) for item in value]
    return value


def _named(value: Any) -> Any:
    """An argument as the builder takes it."""
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return [_named(item) for item in value] if isinstance(value, list) else value


def _buffers(values: list[Any]) -> list[Buffer]:
    found: list[Buffer] = []
    for value in values:
        if isinstance(value, Buffer):
            found.append(value)
        elif isinstance(value, list):
            found += _buffers(value)
    return found


def _leaves(value: Any) -> list[tuple[tuple[int, ...], torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [((), value)]
    if isinstance(value, (list, tuple)):
        return [((n, *path), t) for n, v in enumerate(value) for path, t in _leaves(v)]
    return []


# New tensors.


def unary(s: State) -> None:
    op = s.pick(
        ("relu", "neg", "abs", "clone", "sgn", "exp", "cumsum", "sum", "flip", "logical_not")
    )
    x = s.find(static=True, dtype=FLOATS if op == "exp" else ())
    if x is None:
        return
    args: tuple[Any, ...] = (x,)
    if op == "cumsum":
        args = (x, s.pick(range(x.layout.rank)) or 0)
    elif op == "flip":
        args = (x, [n for n in range(x.layout.rank) if s.maybe()])
    call(s, op, *args)


def binary(s: State) -> None:
    a = s.find(static=True)
    c = s.find(static=True, like=a) if a is not None and s.maybe(0.7) else s.find(static=True)
    if a is None or c is None:
        return
    op = s.pick(("add.Tensor", "mul.Tensor", "maximum", "eq.Tensor", "lt.Tensor"))
    call(s, op, a, c, **({"alpha": s.pick((1, 2))} if op == "add.Tensor" and s.maybe() else {}))


def number(s: State) -> None:
    x = s.find(static=True, dtype=NUMBERS)
    if x is not None:
        call(s, s.pick(("mul.Scalar", "add.Scalar", "eq.Scalar")), x, s.pick((0, 1, -2, 3, 2.0)))


def several(s: State) -> None:
    x = s.find(static=True, dtype=NUMBERS)
    if x is None:
        return
    op = s.pick(("max.dim", "sort", "topk", "var_mean.correction", "unbind_copy.int", "aminmax"))
    dim = s.pick(range(x.layout.rank)) or 0
    if op == "topk":
        call(s, op, x, s.pick((0, 1, 2)), dim)
    elif op == "var_mean.correction":
        if x.layout.numel:
            call(s, op, x, [dim], correction=0, keepdim=s.maybe())
    elif op == "aminmax":
        call(s, op, x, dim=dim, keepdim=s.maybe())
    else:
        call(s, op, x, dim)


def reduce(s: State) -> None:
    x = s.find(static=True)
    if x is not None:
        dims = [n for n in range(x.layout.rank) if s.maybe()]
        op = s.pick(("sum.dim_IntList", "amax", "any.dims"))
        call(s, op, x, dims, s.maybe())


def joined(s: State) -> None:
    a = s.find(static=True)
    if a is not None:
        others = [c for _ in range(2) if (c := s.find(static=True, like=a)) is not None]
        call(s, s.pick(("cat", "stack")), [a, *others], s.pick(range(a.layout.rank)) or 0)


def worded(s: State) -> None:
    """Ops with arguments of other kinds: words, nothing, lists with nothing in them."""
    x = s.find(static=True, dtype=NUMBERS)
    if x is None:
        return
    kind = s.pick(("div", "clamp", "roll", "index"))
    if kind == "div":
        call(s, "div.Scalar_mode", x, s.pick((1, 2)), rounding_mode=s.pick(("trunc", "floor")))
    elif kind == "clamp":
        call(s, "clamp", x, s.pick((None, 0)), 2)
    elif kind == "roll":
        call(s, "roll", x, [s.pick((1, 2))], [s.pick(range(x.layout.rank)) or 0])
    elif x.layout.rank >= 2:
        (index,) = call(s, "arange", s.pick((0, 1, int(x.size[1]))), dtype=torch.int64)
        if index.size[0] <= x.size[1]:
            call(s, "index.Tensor", x, [None, index])


def product(s: State) -> None:
    a, c = s.find(static=True, rank=2, dtype=NUMBERS), s.find(static=True, rank=2, dtype=NUMBERS)
    if a is not None and c is not None:
        call(s, "mm", a, c)


def chosen(s: State) -> None:
    mask, a = s.find(static=True, dtype=("bool",)), s.find(static=True)
    c = None if a is None else s.find(static=True, like=a)
    if mask is not None and a is not None and c is not None:
        call(s, "where.self", mask, a, c)


def converted(s: State) -> None:
    x = s.find(static=True, dtype=("f32", "i64", "i32", "u8", "bool", "bf16"))
    if x is not None:
        kinds = (torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.float16)
        dtype = s.pick((*kinds, torch.int16, torch.complex64, torch.float8_e4m3fn))
        call(s, "_to_copy", x, dtype=dtype)


def made(s: State) -> None:
    size = [s.pick((0, 1, 2, 3)) for _ in range(s.pick((0, 1, 2)))]
    kind = s.pick(("full", "arange", "rand", "zeros"))
    dtype = s.pick((torch.float32, torch.int64, torch.bool))
    if kind == "full":
        call(s, kind, size, s.pick((0, 1, 2)), dtype=dtype)
    elif kind == "arange":
        call(s, kind, s.pick((0, 3, 4)), dtype=torch.int64)
    elif kind == "rand":
        call(s, kind, size, dtype=torch.float32)
    else:
        call(s, kind, size, dtype=dtype)


def indexed(s: State) -> None:
    """Elements picked by an index that is computed just before."""
    x = s.find(static=True)
    if x is None or not x.layout.rank:
        return
    dim = s.chance.randrange(x.layout.rank)
    length = s.pick((0, 1, int(x.size[dim])))
    if length > x.size[dim]:
        return
    (index,) = call(s, "arange", length, dtype=torch.int64)
    call(s, "index_select", x, dim, index)


def put(s: State) -> None:
    """Rows written where an index says."""
    x = s.find(static=True, written=True)
    if x is None or not x.layout.rank or not x.size[0]:
        return
    (index,) = call(s, "full", [2], s.chance.randrange(int(x.size[0])), dtype=torch.int64)
    values = call(s, "full", [2, *x.size[1:]], 1, dtype=torch_dtype(x.layout))
    if values:
        # With different values at one place, or sums of them, the order would count.
        _write(s, "index_put_", x, [index], values[0], False)


def found(s: State) -> None:
    """The places of what is not zero: how many, the data say."""
    x = s.find(static=True, rank=1)
    if x is None or s.depth:
        return
    try:
        torch.ops.aten.nonzero(_example(x))
    except NotImplementedError:
        return
    count = s.b.symbol(f"n{len(s.scope.vars)}_{s.chance.randrange(10**6)}", min=0, unbacked=True)
    where = s.own(s.b.extern(schema("nonzero"), x, result=("i64", (count, 1))))
    s.b.size(where, 0, name=count.name)
    s.numbers.append(count)


# Views.


def turned(s: State) -> None:
    x = s.find(static=True)
    if x is None:
        return
    rank, extent = x.layout.rank, int(x.layout.extent)
    dim, start = s.pick(range(rank)) or 0, s.pick((0, 1, 2))
    views: dict[str, tuple[Any, ...]] = {
        "permute": (s.chance.sample(range(rank), rank),),
        "transpose.int": (dim, s.pick(range(rank)) or 0),
        "slice.Tensor": (dim, start, start + s.pick((0, 1, 2, 9)), s.pick((1, 1, 2))),
        "select.int": (dim, s.pick((0, 0, -1, 1))),
        "view": ([-1] if x.layout.numel else [0, 3],),
        "expand": ([2, *(3 if n == 1 else n for n in x.size)],),
        "split.Tensor": (s.pick((1, 2)), dim),
        "as_strided": ([extent], [1]),
        "detach": (),
        "unsqueeze": (dim,),
        "squeeze.dim": (dim,),
        "unbind.int": (dim,),
    }
    op = s.pick(views)
    call(s, op, x, *views[op])


def perhaps(s: State) -> None:
    x = s.find(static=True)
    if x is None:
        return
    op = s.pick(("contiguous", "reshape", "flatten.using_ints"))
    if op == "contiguous":
        call(s, op, x, may=True)
    elif op == "reshape":
        call(s, op, x, [-1] if x.layout.numel else [0], may=True)
    elif x.layout.rank:
        call(s, op, x, 0, -1, may=True)


# Writes.


_IN_PLACE = (
    *("add_.Tensor", "mul_.Scalar", "relu_", "copy_", "zero_", "fill_.Scalar", "neg_"),
    *("masked_fill_.Scalar", "index_fill_.int_Scalar", "bernoulli_.float"),
)


def in_place(s: State) -> None:
    x = s.find(static=True, written=True)
    if x is None:
        return
    other = s.find(static=True, like=x, avoid=(x,))
    op = s.pick(_IN_PLACE)
    if op in ("add_.Tensor", "copy_"):
        if other is not None:
            _write(s, op, x, other)
    elif op == "masked_fill_.Scalar":
        mask = s.find(static=True, dtype=("bool",), avoid=(x,))
        if mask is not None:
            _write(s, op, x, mask, 1)
    elif op == "index_fill_.int_Scalar":
        index = s.find(static=True, dtype=("i64",), rank=1, avoid=(x,))
        if index is not None and index.layout.numel == 0:
            _write(s, op, x, 0, index, 1)
    elif op == "bernoulli_.float":
        _write(s, op, x, 0.5)
    elif op in ("mul_.Scalar", "fill_.Scalar"):
        _write(s, op, x, s.pick((0, 1, 2)))
    else:
        _write(s, op, x)


def _write(s: State, op: str, x: Buffer, *args: Any) -> None:
    """Calls an op for what it writes; its result, a view of that, is bound at times."""
    base, _, overload = op.partition(".")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")
    try:
        function(_example(x), *map(_example, args))
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return
    if s.maybe(0.2):
        s.see(s.b.extern(schema(op), x, *args, result=x.layout), x)
    else:
        s.b.extern(schema(op), x, *args)


def into(s: State) -> None:
    """An op that writes to a buffer it is given."""
    op = s.pick(("add.out", "relu.out", "mm.out", "cat.out", "sum.IntList_out", "mul.out"))
    a = s.find(static=True, dtype=NUMBERS, rank=2 if op == "mm.out" else None)
    if a is None:
        return
    c = (
        s.find(static=True, dtype=NUMBERS, rank=2)
        if op == "mm.out"
        else s.find(static=True, like=a)
    )
    if c is None:
        return
    args: tuple[Any, ...] = (a, c)
    if op == "relu.out":
        args = (a,)
    elif op == "cat.out":
        args = ([a, c], 0)
    elif op == "sum.IntList_out":
        args = (a, [n for n in range(a.layout.rank) if s.maybe()] or [0], False)
    function = getattr(getattr(torch.ops.aten, op.partition(".")[0]), op.partition(".")[2])
    plain = {"add.out": torch.add, "relu.out": torch.relu, "mm.out": torch.mm, "mul.out": torch.mul,
             "cat.out": torch.cat, "sum.IntList_out": torch.sum}[op]  # fmt: skip
    try:
        like = layout_of(plain(*map(_example, args)).contiguous())
        function(*map(_example, args), out=example(like))
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return
    old = s.find(static=True, written=True, avoid=tuple(_buffers(list(args))))
    out = old if old is not None and (old.dtype, old.size) == (like.dtype, like.size) else None
    out = out or s.own(s.b.allocate(Layout(like.dtype, like.device, like.size, like.stride)))
    s.b.extern(schema(op), *args, out=out)


STEPS: tuple[Callable[[State], None], ...] = (
    *(unary, binary, number, several, reduce, joined, product, chosen, converted, made),
    *(indexed, put, found, worded),
    *(turned, turned, turned, perhaps, in_place, in_place, into, into),
)
