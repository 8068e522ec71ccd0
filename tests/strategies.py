"""Hypothesis strategies: expressions, faulty programs of any lines, and programs without a fault.

``any_programs`` puts together whatever the classes allow: names that nothing defines, layouts that
fit nothing. They need not make sense; they must print, parse, compare and hash. ``programs`` drives
the builder and so breaks no rule of the verifier: these can be planned, emitted and run.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import sympy
from hypothesis import assume
from hypothesis import strategies as st

from tests.wellformed import programs as programs
from wrapper_ir import lines as ir
from wrapper_ir.lines import expr as ex
from wrapper_ir.text.words import RESERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

INTS = ("s0", "s1", "s2", "s10", "u0", "free", "inf")
REALS = ("z0", "z1", "f32")
BOOLS = ("b0", "true")

#: What the symbols of all strategies are declared as.
SYMBOLS = ir.FrozenMap(
    {
        **{name: ir.SymbolInfo(lower=2 if name == "s0" else None) for name in INTS},
        **{name: ir.SymbolInfo(ir.SymbolKind.FLOAT) for name in REALS},
        **{name: ir.SymbolInfo(ir.SymbolKind.BOOL, unbacked=True) for name in BOOLS},
    }
)

# Text.

identifiers = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True),
    st.sampled_from(sorted(RESERVED)),
    st.sampled_from(["buf0", "arg0_1", "class", "int", "None", "__init__", "x" * 70]),
)

#: Any string, lone surrogates and control characters included, and what would be code elsewhere.
strings = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.sampled_from(
        [
            '"',
            "\\",
            '"""',
            "*/",
            "'''",
            "\\n",
            "\r\n",
            "|",
            "; x",
            " ",
            "{x}",
            "%s",
            "\u202e",
            "\x00",
        ]
    ),
)
sources = st.lists(strings, max_size=4).map("\n".join)


# Expressions.


def _combine(make: Callable[..., Any], *parts: SearchStrategy[Any]) -> SearchStrategy[Any]:
    def build(values: Sequence[Any]) -> Any:
        try:
            return make(*values)
        except (ex.UnsupportedExprError, ValueError, TypeError):
            assume(False)

    return st.tuples(*parts).map(build)


def _integers(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    two = (inner, inner)
    small = st.integers(0, 3)
    return st.one_of(
        _combine(sympy.Add, *two),
        _combine(sympy.Add, inner, inner, inner),
        _combine(sympy.Mul, *two),
        _combine(sympy.Mul, st.integers(-3, 3), inner, inner),
        _combine(lambda a, n: sympy.Pow(a, n), inner, small),
        *(
            _combine(f, *two)
            for f in (
                *(ex.FloorDiv, ex.CeilDiv, ex.Mod, sympy.Max, sympy.Min),
                *(ex.BitAnd, ex.BitOr, ex.BitXor, ex.ShiftLeft, ex.ShiftRight),
            )
        ),
        _combine(sympy.Max, inner, inner, inner),
        _combine(sympy.Abs, inner),
        _combine(lambda c, a, b: ex.Where(c, a, b), relations(inner), inner, inner),
    )


def _reals(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    numbers = st.one_of(inner, int_exprs)
    return st.one_of(
        _combine(sympy.Add, inner, numbers),
        _combine(sympy.Mul, inner, numbers),
        _combine(ex.TrueDiv, numbers, numbers),
        _combine(ex.FloatPow, numbers, numbers),
        *(_combine(f, inner) for f in (ex.Sqrt, ex.Exp, ex.Log, ex.Log2, ex.Sin, ex.Cos, ex.Tanh)),
        _combine(ex.ToFloat, int_exprs),
        _combine(
            lambda f, x: ex.FUNCTIONS[f](x),
            st.sampled_from(["Floor", "Ceil", "Truncate", "Round"]),
            inner,
        ),
    )


def relations(numbers: SearchStrategy[Any]) -> SearchStrategy[Any]:
    kinds = st.sampled_from([sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge])
    return _combine(lambda kind, a, b: kind(a, b), kinds, numbers, numbers)


def _truths(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.one_of(
        _combine(sympy.And, inner, inner),
        _combine(sympy.Or, inner, inner, inner),
        _combine(sympy.Not, inner),
        _combine(sympy.Eq, relations(int_exprs), relations(int_exprs)),
    )


_int_leaves = st.one_of(
    st.sampled_from(INTS).map(ir.symbol),
    st.integers(-9, 9).map(sympy.Integer),
    st.integers(-(2**70), 2**70).map(sympy.Integer),
)
int_exprs: SearchStrategy[Any] = st.recursive(_int_leaves, _integers, max_leaves=6)
_finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)
_real_leaves = st.one_of(st.sampled_from(REALS).map(ir.real_symbol), _finite.map(sympy.Float))
real_exprs: SearchStrategy[Any] = st.recursive(_real_leaves, _reals, max_leaves=5)
truth_exprs: SearchStrategy[Any] = st.recursive(
    st.one_of(st.sampled_from(BOOLS).map(ir.symbol), relations(int_exprs), relations(real_exprs)),
    _truths,
    max_leaves=4,
)


def _canonical(value: Any) -> Any:
    try:
        return ir.scalar(value)
    except (ex.UnsupportedExprError, TypeError, OverflowError):
        # sympy worked out something that is outside the vocabulary: infinities, fractions.
        assume(False)


def _dim(value: Any) -> Any:
    try:
        return ir.dim(value)
    except ex.UnsupportedExprError:
        assume(False)


plain_dims = st.one_of(st.integers(0, 9), st.sampled_from(INTS[:3]).map(ir.symbol))
dims = st.one_of(plain_dims, plain_dims, st.integers(), int_exprs.map(_dim))
floats = st.floats().map(lambda value: math.nan if math.isnan(value) else value)
scalars = st.one_of(
    plain_dims,
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63, -(2**63), 10**40]),
    floats,
    st.one_of(int_exprs, real_exprs, truth_exprs).map(_canonical),
)
numbers = st.one_of(scalars, st.complex_numbers(allow_nan=False))


# Parts of lines.

dtypes = st.sampled_from(list(ir.DType))
devices = st.one_of(
    st.just(ir.CPU),
    st.builds(
        ir.Device, st.sampled_from(["cpu", "cuda", "xpu"]), st.one_of(st.none(), st.integers(0, 9))
    ),
)
layouts = st.one_of(
    st.builds(ir.Layout.contiguous, dtypes, st.lists(plain_dims, max_size=3).map(tuple), devices),
    st.builds(
        ir.Layout,
        dtypes,
        devices,
        st.lists(dims, max_size=3).map(tuple),
        st.lists(dims, max_size=3).map(tuple),
        dims,
    ),
)
buffer_args = st.builds(ir.BufferArg, identifiers, st.sampled_from(list(ir.Access)))
scalar_args = st.builds(ir.ScalarArg, numbers)
args = st.recursive(
    st.one_of(
        buffer_args,
        scalar_args,
        st.just(ir.NoneArg()),
        st.builds(ir.ObjectArg, identifiers),
        st.builds(ir.StringArg, strings),
        st.builds(ir.DTypeArg, dtypes),
        st.builds(ir.DeviceArg, devices),
        st.builds(ir.EnumArg, st.sampled_from(list(ir.EnumKind)), identifiers),
    ),
    lambda inner: st.builds(ir.ListArg, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=5,
)


def tuples(items: SearchStrategy[Any], size: int = 3) -> SearchStrategy[Any]:
    return st.lists(items, max_size=size).map(tuple)


_paths = tuples(st.one_of(st.integers(0, 3), strings), 2)
results = st.one_of(
    st.builds(
        ir.ResultBuffer,
        identifiers,
        _paths,
        st.sampled_from(list(ir.Relation)),
        tuples(identifiers, 2),
    ),
    st.builds(ir.ResultSymbol, st.sampled_from(sorted(SYMBOLS)), _paths),
)
op_results = st.one_of(
    results, st.builds(ir.ResultObject, identifiers, st.just("ns::Queue"), _paths)
)
values = st.one_of(
    st.builds(ir.BufferValue, identifiers),
    st.builds(ir.ScalarValue, numbers),
    st.just(ir.NoneValue()),
)
inputs = st.one_of(
    st.builds(ir.BufferInput, identifiers, st.booleans()),
    st.builds(ir.ScalarInput, st.sampled_from(sorted(SYMBOLS))),
    st.builds(ir.ObjectInput, identifiers, st.just("ns::Queue")),
)
params = st.one_of(
    st.builds(ir.BufferParam, identifiers, dtypes, st.sampled_from(list(ir.Access))),
    st.builds(ir.ScalarParam, identifiers, st.sampled_from(list(ir.ScalarType))),
)
_rows = st.tuples(strings, st.one_of(scalars, strings))
kernel_sources = st.one_of(
    st.builds(ir.CppKernel, sources, strings, strings, tuples(strings, 2)),
    st.builds(
        ir.TritonKernel,
        sources,
        strings,
        tuples(st.tuples(strings, strings), 2),
        tuples(st.one_of(_rows, st.tuples(strings, st.none())), 2),
        st.integers(1, 32),
        st.integers(),
        tuples(_rows, 2),
    ),
)

SCHEMAS = (
    "aten::relu(Tensor self) -> Tensor",
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::t(Tensor(a) self) -> Tensor(a)",
    "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
    "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
    "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
)
METHOD = "ns::Queue.pop(__torch__.torch.classes.ns.Queue self) -> Tensor"
definitions = st.one_of(
    st.just(ir.KernelDefinition("ns::Queue.pop", (), ir.TorchOp(METHOD, is_method=True))),
    st.builds(ir.KernelDefinition, identifiers, tuples(params), kernel_sources),
    st.sampled_from(SCHEMAS).map(
        lambda schema: ir.KernelDefinition(ir.parse_schema(schema).name, (), ir.TorchOp(schema))
    ),
)

# Lines that hold no region, each made of whatever its fields can be.

_memory = st.sampled_from(list(ir.MemoryKind))
_symbols = st.sampled_from(sorted(SYMBOLS))
_streams = st.integers(0, 3)
FLAT: dict[type, SearchStrategy[Any]] = {
    ir.Allocate: st.builds(ir.Allocate, identifiers, _memory, st.booleans(), _streams, _streams),
    ir.Free: st.builds(ir.Free, identifiers, tuples(_streams, 2)),
    ir.Reuse: st.builds(ir.Reuse, identifiers, identifiers),
    ir.Reinterpret: st.builds(ir.Reinterpret, identifiers, identifiers),
    ir.AllocatePool: st.builds(ir.AllocatePool, identifiers, _memory),
    ir.AllocateFromPool: st.builds(ir.AllocateFromPool, identifiers, identifiers, dims),
    ir.KernelDefinition: definitions,
    ir.KernelCall: st.builds(
        ir.KernelCall, identifiers, tuples(args), devices, _streams, tuples(dims), tuples(dims)
    ),
    ir.ExternKernel: st.builds(
        ir.ExternKernel,
        st.sampled_from(["aten::relu", "aten::add.Tensor", "my_ns::op_1.out"]),
        tuples(args),
        tuples(st.tuples(identifiers, args), 2),
        tuples(op_results),
        devices,
        _streams,
        _streams,
    ),
    ir.RecordEvent: st.builds(ir.RecordEvent, _streams, devices, _streams),
    ir.WaitEvent: st.builds(ir.WaitEvent, _streams, devices, _streams),
    ir.Synchronize: st.builds(ir.Synchronize, devices),
    ir.BindSymbol: st.builds(
        ir.BindSymbol,
        _symbols,
        st.one_of(
            st.builds(ir.SizeOf, identifiers, st.integers(0, 9)),
            st.builds(ir.StrideOf, identifiers, st.integers()),
            st.builds(ir.StorageOffsetOf, identifiers),
            st.builds(ir.ItemOf, identifiers),
        ),
    ),
    ir.ComputeSymbol: st.builds(ir.ComputeSymbol, _symbols, scalars),
    ir.AssertLayout: st.builds(ir.AssertLayout, identifiers, strings, st.integers(0, 64)),
    ir.AssertApart: st.builds(ir.AssertApart, tuples(identifiers), tuples(identifiers)),
    ir.AssertSymbol: st.builds(ir.AssertSymbol, scalars, strings),
    ir.Comment: st.builds(ir.Comment, strings),
    ir.Probe: st.builds(
        ir.Probe,
        strings,
        st.sampled_from(list(ir.When)),
        st.sampled_from(list(ir.ProbeLevel)),
        tuples(identifiers),
        tuples(scalars),
    ),
}


def _nested(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    regions = st.builds(ir.Region, tuples(inputs, 2), tuples(inner, 2), tuples(values, 2))
    few = tuples(args, 2)
    return st.one_of(
        st.builds(
            ir.Cond, tuples(results, 2), st.one_of(buffer_args, scalar_args), few, regions, regions
        ),
        st.builds(
            ir.Switch,
            tuples(results, 2),
            st.one_of(buffer_args, scalar_args),
            few,
            st.lists(regions, min_size=1, max_size=3).map(tuple),
        ),
        st.builds(ir.While, tuples(results, 2), few, few, regions, regions, st.booleans()),
    )


flat_lines = st.one_of(*FLAT.values())
any_lines = st.recursive(flat_lines, lambda inner: st.one_of(inner, _nested(inner)), max_leaves=4)

#: A line of each class.
LINES: dict[type, SearchStrategy[Any]] = {
    **FLAT,
    ir.Cond: _nested(flat_lines).filter(lambda line: isinstance(line, ir.Cond)),
    ir.Switch: _nested(flat_lines).filter(lambda line: isinstance(line, ir.Switch)),
    ir.While: _nested(flat_lines).filter(lambda line: isinstance(line, ir.While)),
}

origins = st.builds(
    ir.Origin,
    tuples(strings, 2),
    tuples(strings, 2),
    tuples(st.builds(ir.Frame, strings, st.integers(1, 10**6), strings, strings), 2),
    strings,
)
_infos = st.builds(
    ir.SymbolInfo,
    st.just(ir.SymbolKind.INT),
    st.one_of(st.none(), st.integers()),
    st.one_of(st.none(), st.integers()),
    st.one_of(st.none(), st.integers(0, 99)),
    st.booleans(),
)


@st.composite
def any_programs(draw: DrawFn) -> ir.Program:
    """A program of any lines; all that it promises is that it can be printed."""
    table = draw(tuples(origins, 3))
    count = len(table)
    body = []
    for line in draw(st.lists(any_lines, max_size=5)):
        origin = draw(st.one_of(st.none(), st.integers(0, count - 1))) if count else None
        body.append(_with_origin(line, origin))
    names = draw(st.lists(identifiers, max_size=6, unique=True))
    extra = draw(
        st.dictionaries(identifiers.filter(lambda n: n not in SYMBOLS), _infos, max_size=2)
    )
    constants = st.builds(
        ir.Constant,
        strings,
        st.sampled_from(list(ir.ConstantKind)),
        st.booleans(),
        st.one_of(st.none(), identifiers),
    )
    objects = st.builds(ir.ObjectConstant, st.just("ns::Foo"), strings)
    users = st.one_of(st.none(), st.integers(0, 9))
    return ir.Program(
        name=draw(identifiers),
        inputs=draw(tuples(inputs)),
        results=draw(tuples(values)),
        body=tuple(body),
        buffers=ir.FrozenMap({name: draw(layouts) for name in names}),
        symbols=SYMBOLS.set(**extra),
        constants=ir.FrozenMap(draw(st.dictionaries(identifiers, constants, max_size=2))),
        objects=ir.FrozenMap(draw(st.dictionaries(identifiers, objects, max_size=2))),
        streams=draw(tuples(st.builds(ir.Stream, devices, users), 2)),
        events=draw(tuples(st.builds(ir.Event, users), 2)),
        mempools=draw(tuples(st.builds(ir.MemoryPool, devices, users), 2)),
        role=draw(st.sampled_from(list(ir.GraphRole))),
        stage=draw(st.sampled_from(list(ir.Stage))),
        in_spec=draw(strings),
        out_spec=draw(strings),
        tangents=draw(tuples(st.integers(0, 9))),
        unread=draw(tuples(strings)),
        origins=table,
    )


def _with_origin(line: Any, origin: int | None) -> Any:
    return dataclasses.replace(line, origin=origin)
