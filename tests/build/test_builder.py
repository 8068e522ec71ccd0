"""The builder: short programs, everything derived that can be, errors at the call."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.build import (
    ArgumentError,
    BuildError,
    ForeignValueError,
    IllegalNameError,
    LayoutError,
    NameTakenError,
    Result,
    ResultError,
    UnfinishedError,
)
from wrapper_ir.lines import (
    Access,
    AllocateFromPool,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    BufferArg,
    BufferInput,
    Cond,
    Device,
    DType,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    Layout,
    Program,
    Relation,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
    ScalarInput,
    SizeOf,
    Stage,
    StrideOf,
    Switch,
    SymbolKind,
    TritonKernel,
    While,
)
from wrapper_ir.lines.expr import TrueDiv

RELU = """#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void kernel(const float* x, float* y, const int64_t n)
{
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
}
"""
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
MM_OUT = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"


def relu_kernel(b: wir.Builder) -> Any:
    return b.cpp_kernel("relu", RELU, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"])


def lines_of(program: Program, kind: type) -> list[Any]:
    return [line for line in program.body if isinstance(line, kind)]


def two_kernels() -> Program:
    """Fifteen lines, as promised; the marker is for the test that counts them."""
    b = wir.Builder("two")
    n = b.symbol("n", min=1, hint=8)
    x = b.input("x", "f32", (n, 4))
    relu = b.cpp_kernel("relu", RELU, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"])
    y = b.allocate("f32", (n, 4))
    b.call(relu, x, y, 4 * n)
    z = b.extern(ADD, x, y, alpha=2, result=y)
    out = b.allocate(z)
    b.call(relu, z, out, 4 * n)
    b.returns(out, n)
    return b.build()


def test_a_program_of_two_kernels_is_short_and_complete() -> None:
    program = two_kernels()
    assert wir.parse(str(program)) == program
    assert [type(line).__name__ for line in program.body] == [
        "KernelDefinition",
        "KernelDefinition",
        "BindSymbol",
        "AssertLayout",
        "AssertSymbol",
        "Allocate",
        "KernelCall",
        "ExternKernel",
        "Allocate",
        "KernelCall",
    ]


def test_it_runs() -> None:
    x = torch.randn(3, 4)
    out, n = wir.compile(two_kernels())(x)
    torch.testing.assert_close(out, torch.relu(x + 2 * torch.relu(x)))
    assert n == 3


def test_accesses_come_from_the_parameters_and_the_schema() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4, 4))
    out = b.allocate("f32", (4, 4))
    b.extern(MM_OUT, x, x, out=out)
    b.extern(
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", out, x
    )
    b.call(relu_kernel(b), x, out, 16)
    b.returns(out)
    mm, add = lines_of(b.build(), ExternKernel)
    assert mm.args == (BufferArg("x"), BufferArg("x"))
    assert mm.kwargs == (("out", BufferArg(out.name, Access.WRITE)),)
    assert add.args == (BufferArg(out.name, Access.READ_WRITE), BufferArg("x"))
    (call,) = lines_of(b.build(), KernelCall)
    assert call.args[:2] == (BufferArg("x"), BufferArg(out.name, Access.WRITE))


def test_relations_come_from_the_schema() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4, 6))
    fresh = b.extern(ADD, x, x, result=x)
    view = b.extern(
        "aten::t(Tensor(a) self) -> Tensor(a)", fresh, result=b.permute(fresh, (1, 0)).layout
    )
    maybe = b.extern(
        "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
        view,
        result=("f32", (6, 4)),
        may_alias=True,
    )
    parts = b.extern(
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        fresh,
        2,
        results=[("f32", (2, 6)), None],
    )
    b.returns(view, maybe, *parts)
    results = [line.results[0] for line in lines_of(b.build(), ExternKernel)]
    assert [(r.relation, r.of, r.path) for r in results] == [
        (Relation.FRESH, (), ()),
        (Relation.ALIAS, (fresh.name,), ()),
        (Relation.MAY_ALIAS, (view.name,), ()),
        (Relation.ALIAS, (fresh.name,), (0,)),
    ]


def test_an_op_is_declared_once_and_by_name_afterwards() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    y = b.extern(ADD, x, x, result=x)
    z = b.extern("aten::add.Tensor", y, x, result=x)
    w = b.extern(ADD, z, x, result=x)
    b.returns(w)
    assert len(lines_of(b.build(), KernelDefinition)) == 1


def test_arguments_become_what_the_schema_wants() -> None:
    b = wir.Builder()
    x = b.extern(
        "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None,"
        " Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
        [2, 3],
        1.5,
        dtype="f64",
        layout="strided",
        device="cpu",
        pin_memory=False,
        result=("f64", (2, 3)),
    )
    y = b.extern(
        "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        x,
        memory_format="contiguous_format",
        result=x,
    )
    z = b.extern(
        "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        y,
        y,
        rounding_mode=None,
        result=y,
    )
    b.returns(z)
    text = str(b.build())
    assert "([2, 3], 1.5, dtype=f64, layout=layout.strided, device=@cpu, pin_memory=false)" in text
    assert "memory_format=memory_format.contiguous_format" in text
    assert "rounding_mode=none" in text
    torch.testing.assert_close(wir.compile(b.build())()[0], torch.ones(2, 3, dtype=torch.float64))


def test_symbols_are_bound_by_sizes_then_strides_in_the_order_of_inputs() -> None:
    b = wir.Builder()
    n, m, s, k = (b.symbol(name) for name in ("n", "m", "s", "k"))
    b.input("x", "f32", (n, 2), stride=(s, 1))
    b.scalar_input(k)
    b.input("y", "f32", (m, n))
    b.returns(n, m, s, k)
    program = b.build()
    assert lines_of(program, BindSymbol) == [
        BindSymbol("n", SizeOf("x", 0)),
        BindSymbol("m", SizeOf("y", 0)),
        BindSymbol("s", StrideOf("x", 0)),
    ]
    assert program.inputs == (BufferInput("x"), ScalarInput("k"), BufferInput("y"))


def test_symbols_that_a_line_binds_are_left_to_it() -> None:
    b = wir.Builder()
    n, m = b.symbol("n"), b.symbol("m")
    x = b.input("x", "f32", (n, m))
    assert b.size(x, 1, name="m") == m
    b.check_layout(x)
    b.returns(m)
    program = b.build()
    assert [line.symbol for line in lines_of(program, BindSymbol)] == ["n", "m"]
    assert isinstance(program.body[-1], AssertLayout)


def test_ranges_and_layouts_of_inputs_are_checked_unless_that_is_off() -> None:
    for check in (True, False):
        b = wir.Builder(check_inputs=check)
        n = b.symbol("n", min=0, max=9)
        k = b.symbol("k", min=0)
        b.input("x", "f32", (n,))
        b.scalar_input(k)
        b.returns(n)
        program = b.build()
        conditions = [str(line.condition) for line in lines_of(program, AssertSymbol)]
        assert conditions == (["n <= 9", "k >= 0"] if check else [])
        messages = [line.message for line in lines_of(program, AssertSymbol)]
        assert messages == (["n <= 9", "0 <= k"] if check else [])
        assert len(lines_of(program, AssertLayout)) == (1 if check else 0)


def test_views_keep_their_place_in_the_storage() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4, 6))
    part = b.narrow(x, 0, 1, 2)
    turned = b.permute(part, (1, 0))
    doubles = b.reinterpret(part, (6,), dtype="f64")
    bytes_ = b.reinterpret(part, (2, 24), dtype=DType.UINT8)
    flat = b.view(b.narrow(x, 0, 2, 2), (12,))
    b.returns(part, turned, doubles, bytes_, flat)
    assert part.layout == Layout(DType.FLOAT32, Device("cpu"), (2, 6), (6, 1), 6)
    assert turned.layout == Layout(DType.FLOAT32, Device("cpu"), (6, 2), (1, 6), 6)
    assert doubles.layout.offset == 3
    assert bytes_.layout.offset == 24
    assert flat.layout == Layout(DType.FLOAT32, Device("cpu"), (12,), (1,), 12)
    value = torch.arange(24.0).reshape(4, 6)
    results = wir.compile(b.build())(value)
    expected = (value[1:3], value[1:3].t(), value[1:3].flatten().view(torch.float64))
    for result, wanted in zip(results, expected, strict=False):
        assert torch.equal(result, wanted)
    assert torch.equal(results[4], value[2:].flatten())


def test_views_that_cannot_be() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4, 6))
    with pytest.raises(LayoutError, match="row-major"):
        b.view(b.permute(x, (1, 0)), (24,))
    with pytest.raises(LayoutError, match="permutation of 2 dimensions"):
        b.permute(x, (0, 0))
    with pytest.raises(LayoutError, match="no dimension 2"):
        b.narrow(x, 2, 0, 1)
    with pytest.raises(LayoutError, match="whole f64"):
        b.reinterpret(b.narrow(x, 1, 1, 2), (1,), dtype="f64")


def test_memory_lines_make_a_planned_program() -> None:
    b = wir.Builder(stage="planned")
    x = b.input("x", "f32", (16,))
    relu = relu_kernel(b)
    pool = b.allocate_pool(128)
    a = b.allocate_from_pool(pool, 64, "f32", (16,))
    b.call(relu, x, a, 16)
    c = b.allocate(a)
    b.call(relu, a, c, 16)
    b.free(a)
    b.free(pool)
    d = b.reuse(c, "f32", (4, 4))
    b.returns(d)
    program = b.build()
    assert program.stage is Stage.PLANNED
    assert lines_of(program, AllocateFromPool)[0].offset == 64
    value = torch.randn(16)
    assert torch.equal(wir.compile(program)(value)[0], value.relu().reshape(4, 4))


def test_constants_take_their_layout_from_their_value() -> None:
    b = wir.Builder()
    weight = torch.randn(3, 4)
    w = b.constant("w", weight.t(), qualified_name="linear.weight")
    shared = torch.ones(2)
    b.constant("a", shared, kind="buffer", mutable=True)
    b.constant("b", shared)
    b.constant("later", layout=Layout.contiguous(DType.INT64, (2,)))
    b.returns(w)
    program = b.build()
    assert program.buffers["w"] == Layout(DType.FLOAT32, Device("cpu"), (4, 3), (1, 4))
    assert program.constants["b"].tied_to == "a"
    assert program.constants["a"].mutable
    assert set(program.data) == {"w", "a", "b"}
    with pytest.raises(ArgumentError, match="neither a value nor a layout"):
        b.constant("nothing")


def test_cond_gives_one_or_many() -> None:
    b = wir.Builder()
    n = b.symbol("n", hint=4)
    x = b.input("x", "f32", (n,))
    relu = relu_kernel(b)

    def apply(v: Any, count: Any) -> Any:
        out = b.allocate(v)
        b.call(relu, v, out, count)
        return out

    one = b.cond(n > 3, [x, n], apply, lambda v, count: apply(apply(v, count), count))
    many = b.cond(n > 3, [x], lambda v: (apply(v, n), 1.5), lambda v: (apply(v, n), TrueDiv(n, 2)))
    nothing = b.cond(n > 3, [], lambda: (), lambda: b.comment("quiet") or ())
    assert nothing == []
    b.returns(one, *many)
    program = b.build()
    first, second, _ = lines_of(program, Cond)
    assert isinstance(first.results[0], ResultBuffer)
    assert isinstance(second.results[1], ResultSymbol)
    assert program.symbols[second.results[1].symbol].kind is SymbolKind.FLOAT
    assert second.results[1].path == (1,)
    assert wir.parse(str(program)) == program


def test_a_switch_gives_one_or_many() -> None:
    b = wir.Builder()
    n = b.symbol("n")
    x = b.input("x", "f32", (n,))
    number = b.input("number", "i64", ())
    neg = "aten::neg(Tensor self) -> Tensor"
    one = b.switch(
        number, [x], [lambda v: b.extern(neg, v, result=v), lambda v: b.extern(neg, v, result=v)]
    )
    many = b.switch(n // 2, [one], [lambda v: (b.extern(neg, v, result=v), 1)] * 3)
    b.returns(*many)
    first, second = lines_of(b.build(), Switch)
    assert (first.selector, len(first.cases), first.results[0].path) == (BufferArg("number"), 2, ())
    assert (len(second.cases), second.results[1].path) == (3, (1,))


RELU_OP = "aten::relu(Tensor self) -> Tensor"
ADD_ = "aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"


def _relu(b: wir.Builder, x: Any) -> Any:
    return b.extern(RELU_OP, x, result=x)


#: Regions that return what they are given: the calls, and the operands that each result may be.
SHARING: dict[str, tuple[Any, list[tuple[str, ...]]]] = {
    "cond": (
        lambda b, x, y: [
            b.cond(b.flag, [x], lambda v: v, lambda v: _relu(b, v), may_alias=True),
        ],
        [("x",)],
    ),
    "one of two": (
        lambda b, x, y: b.cond(
            b.flag, [x, y], lambda v, w: (w, _relu(b, v)), lambda v, w: (v, w), may_alias=True
        ),
        [("x", "y"), ("y",)],
    ),
    "nothing": (
        lambda b, x, y: [
            b.cond(b.flag, [x], lambda v: _relu(b, v), lambda v: _relu(b, v), may_alias=True)
        ],
        [()],
    ),
    "nested": (
        lambda b, x, y: [
            b.cond(
                b.flag,
                [x, y, b.on],
                lambda v, w, on: b.cond(
                    on, [w], lambda q: q, lambda q: _relu(b, q), may_alias=True
                ),
                lambda v, w, on: _relu(b, v),
                may_alias=True,
            )
        ],
        [("y",)],
    ),
    "view": (
        lambda b, x, y: [
            b.switch(
                1,
                [x],
                [
                    lambda v: b.reinterpret(v, (2,)),
                    lambda v: b.reinterpret(v, (2,), offset=2),
                ],
                may_alias=True,
            )
        ],
        [("x",)],
    ),
    "loop": (
        lambda b, x, y: b.while_loop(
            [0, x, y],
            [],
            lambda i, v, w: i < 3,
            lambda i, v, w: (i + 1, w, v),
            may_alias=True,
        )[1:],
        [("x", "y"), ("x", "y")],
    ),
    "loop with a capture": (
        lambda b, x, y: b.while_loop(
            [0, x],
            [y],
            lambda i, v, w: i < 3,
            lambda i, v, w: (i + 1, w),
            may_alias=True,
        )[1:],
        [("x", "y")],
    ),
}


@pytest.mark.parametrize("case", SHARING)
def test_results_of_regions_may_be_declared_as_aliases(case: str) -> None:
    build, expected = SHARING[case]
    b: Any = wir.Builder()
    x, y, b.flag, b.on = (
        b.input("x", "f32", (4,)),
        b.input("y", "f32", (4,)),
        b.input("flag", "bool", ()),
        b.input("on", "bool", ()),
    )
    results = build(b, x, y)
    b.extern(ADD_, results[0], 100)  # if it is an operand, that changes
    b.returns(*(_relu(b, each) for each in results), _relu(b, x), _relu(b, y))
    program = b.build()
    line = next(each for each in program.body if isinstance(each, (Cond, Switch, While)))
    declared = [each for each in line.results if isinstance(each, ResultBuffer)]
    assert [each.of for each in declared] == expected
    assert all((each.relation is Relation.MAY_ALIAS) == bool(each.of) for each in declared)
    assert wir.parse(str(program)) == program
    for flags in itertools.product((True, False), repeat=2):
        given = [torch.tensor([1.0, -2, 3, 4]), torch.tensor([-5.0, 6, 7, 8])]
        found = []
        for run in (wir.interpret, *(wir.compile(program, t) for t in ("python", "cpp", "fx"))):
            inputs = [each.clone() for each in (*given, *map(torch.tensor, flags))]
            call = partial(run, program) if run is wir.interpret else run
            found.append([each.tolist() for each in (*call(*inputs), *inputs)])
        assert found[1:] == found[:1] * 3


def test_results_of_regions_are_fresh_unless_they_are_declared() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    b.returns(b.cond(True, [x], lambda v: v, lambda v: _relu(b, v)))
    with pytest.raises(wir.WrapperIRError, match="WIR1095") as caught:
        b.build()
    assert "may_alias=True" in str(caught.value)


def test_operands_that_regions_write_are_passed_for_writing() -> None:
    b = wir.Builder()
    x, y = b.input("x", "f32", (4,)), b.input("y", "f32", (4,))

    def body(i: Any, v: Any, w: Any) -> Any:
        b.extern(ADD_, v, 1)
        return i + 1, w, v

    results = b.while_loop([0, x, y], [], lambda i, v, w: i < 3, body, may_alias=True)
    b.cond(True, [x], lambda v: b.extern(ADD_, v, 10) or (), lambda v: ())
    b.returns(*(_relu(b, each) for each in results[1:]))
    program = b.build()
    loop, cond = lines_of(program, While)[0], lines_of(program, Cond)[0]
    assert [arg.access for arg in loop.carried[1:]] == [Access.READ_WRITE] * 2
    assert [arg.access for arg in cond.operands] == [Access.READ_WRITE]
    for run in (partial(wir.interpret, program), wir.compile(program), wir.compile(program, "cpp")):
        inputs = [torch.zeros(4), torch.zeros(4)]
        run(*inputs)
        assert [each[0].item() for each in inputs] == [12.0, 1.0]


def test_a_loop_runs() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    add = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

    def body(i: Any, total: Any, addend: Any) -> Any:
        return i + 1, b.extern(add, total, addend, result=total)

    count, total = b.while_loop([0, x], [x], lambda i, total, addend: i < 3, body)
    b.returns(count, total)
    program = b.build()
    (loop,) = lines_of(program, While)
    assert loop.carried == (ScalarArg(0), BufferArg("x"))
    assert loop.captured == (BufferArg("x"),)
    value = torch.randn(4)
    found_count, found = wir.compile(program)(value)
    assert found_count == 3
    torch.testing.assert_close(found, 4 * value)


def test_a_stacked_loop_binds_its_number_of_rounds() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    body = lambda t: b.extern(ADD, t, t, result=t)  # noqa: E731 - as a user would
    gt = "aten::lt.Scalar(Tensor self, Scalar other) -> Tensor"
    any_ = "aten::any(Tensor self) -> Tensor"
    (rounds,) = b.while_loop(
        [x],
        [],
        lambda t: b.extern(any_, b.extern(gt, t, 100, result=("bool", (4,))), result=("bool", ())),
        body,
        stacked=True,
    )
    b.returns(rounds)
    program = b.build()
    assert program.buffers[rounds.name].rank == 2
    result = wir.compile(program)(torch.full((4,), 10.0))[0]
    assert result[:, 0].tolist() == [20.0, 40.0, 80.0, 160.0]


def test_numbers_from_tensors_and_expressions() -> None:
    b = wir.Builder()
    i, f, t = b.input("i", "i64", ()), b.input("f", "f32", (1,)), b.input("t", "bool", ())
    x = b.input("x", "f32", (4, 4), stride=(8, 2))
    symbols = [
        b.item(i),
        b.item(f),
        b.item(t),
        b.size(x, 0),
        b.stride(x, 0),
        b.storage_offset(x),
        b.compute(b.item(i) * 2, name="twice"),
    ]
    b.check(symbols[0] >= 0, "not negative")
    b.returns(*symbols)
    program = b.build()
    kinds = [program.symbols[s.name].kind.value for s in symbols]
    assert kinds == ["int", "float", "bool", "int", "int", "int", "int"]
    given = (torch.tensor(3), torch.tensor([0.5]), torch.tensor(True), torch.zeros(4, 8)[:, ::2])
    assert wir.compile(program)(*given) == (3, 0.5, True, 4, 8, 0, 6)


def test_sizes_are_written_with_the_operators_of_python() -> None:
    b = wir.Builder()
    n = b.symbol("n", min=1)
    m = b.symbol("m", min=1)
    b.input("x", "f32", (n, m))
    b.returns(n // 2, n % 2, -(-n // m), (n + 1) // (2 * m), n // 3 * 3)
    assert str(b.build()).splitlines()[-1] == (
        "return n // 2, n % 2, -(-n // m), (n + 1) // (2*m), 3*(n // 3)"
    )
    with pytest.raises(wir.WrapperIRError, match="fraction"):
        b.allocate("f32", (n / 2,))


def test_triton_kernels_get_their_signature() -> None:
    b = wir.Builder(device="cuda:0")
    x = b.input("x", "bf16", (64,))
    k = b.triton_kernel(
        "k",
        "...",
        reads=[("a", "bf16")],
        writes=[("b", "f32")],
        scalars=[("n", "i32")],
        constants={"BLOCK": 64},
        num_warps=8,
    )
    y = b.allocate("f32", (64,))
    b.call(k, x, y, 64, grid=(1, 1, 1))
    b.returns(y)
    program = b.build()
    source = program.kernels["k"].source
    assert isinstance(source, TritonKernel)
    assert source.signature == (("a", "*bf16"), ("b", "*fp32"), ("n", "i32"))
    assert source.entry == "k"
    (call,) = lines_of(program, KernelCall)
    assert call.device == Device("cuda", 0)
    assert wir.parse(str(program)) == program


def test_a_languages_own_names_are_those_of_its_kernels_types() -> None:
    b = wir.Builder(device="cuda:0")
    reads = [("a", "u16"), ("b", "u32"), ("c", "u64"), ("d", "bool")]
    k = b.triton_kernel("k", "...", reads=reads, scalars=[("n", "u64"), ("m", "f64")])
    x = [b.input(name, dtype, (4,)) for name, dtype in reads]
    b.call(k, *x, 1, 2.0, grid=(1,))
    b.returns(x[0])
    source = b.build().kernels["k"].source
    assert isinstance(source, TritonKernel)
    assert dict(source.signature) == {
        "a": "*u16",
        "b": "*u32",
        "c": "*u64",
        "d": "*i1",
        "n": "u64",
        "m": "fp64",
    }
    given = b.triton_kernel("g", "...", reads=[("a", "c64")], signature={"a": "*fp32"})
    assert given.definition.source.signature == (("a", "*fp32"),)


@pytest.mark.parametrize(
    "schema",
    [
        "aten::relu(Tensor self) -> Tensor",
        "aten::relu.mine(Tensor(a) self) -> Tensor(a)",
        "aten::_local_scalar_dense(Tensor self) -> Scalar",
        "aten::sort.mine(Tensor self) -> (Tensor values, Tensor indices)",
        "mine::write(Tensor(a!) self) -> (Tensor(a!), Tensor)",
    ],
)
def test_results_that_nobody_takes_are_dropped_on_purpose_only(schema: str) -> None:
    """A forgotten ``result=`` gave None, which is a legal result of a program."""
    b = wir.Builder()
    x = b.input("x", "f32", (1,))
    with pytest.raises(ResultError, match="give 'result', or results="):
        b.extern(schema, x)
    assert b.extern("aten::zero_(Tensor(a!) self) -> Tensor(a!)", x) is None
    assert b.extern("mine::say(Tensor self) -> ()", x) is None
    assert b.extern(schema, x, results=[None]) == []


def test_results_can_be_said_in_full() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    u = b.symbol("u", kind="float", unbacked=True)
    b.extern("aten::_local_scalar_dense(Tensor self) -> Scalar", b.narrow(x, 0, 0, 1), result=u)
    (indices,) = b.extern(
        "aten::sort(Tensor self, int dim=-1, bool descending=False)"
        " -> (Tensor values, Tensor indices)",
        x,
        results=[Result(("i64", (4,)), path=(1,), name="order")],
    )
    b.returns(indices, u)
    program = b.build()
    assert indices.name == "order"
    assert lines_of(program, ExternKernel)[1].results == (ResultBuffer("order", (1,)),)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda b, x, k: b.input("x", "f32", (2,)), NameTakenError, "buffer 'x'"),
        (lambda b, x, k: b.symbol("a b"), IllegalNameError, "'a b'"),
        (lambda b, x, k: b.allocate("f32", (2,), name="é"), IllegalNameError, "cannot name"),
        (lambda b, x, k: b.allocate("f33", (2,)), LayoutError, "f33"),
        (lambda b, x, k: b.allocate("f32"), LayoutError, "sizes are missing"),
        (lambda b, x, k: b.allocate("f32", (1.5,)), LayoutError, "1.5"),
        (lambda b, x, k: b.allocate("f32", 3), LayoutError, "describe a layout"),
        (lambda b, x, k: b.allocate("f32", (2,), device="cuda:x"), LayoutError, "cuda:x"),
        (lambda b, x, k: b.allocate(("f32", (2,), 3)), LayoutError, "pair"),
        (lambda b, x, k: b.allocate(x.layout, (2,)), LayoutError, "already"),
        (lambda b, x, k: b.call(k, x), ArgumentError, "takes 3 arguments"),
        (lambda b, x, k: b.call(k, 1, x, 3), ArgumentError, "'x' takes a buffer"),
        (lambda b, x, k: b.call(k, x, x, x), ArgumentError, "'n' takes a number"),
        (lambda b, x, k: b.call(k, x, x, "3"), ArgumentError, "'n' takes a number"),
        (lambda b, x, k: b.extern(ADD, x, x, x, result=x), ArgumentError, "takes 2"),
        (lambda b, x, k: b.extern(ADD, x, x, beta=1, result=x), ArgumentError, "'beta'"),
        (lambda b, x, k: b.extern(ADD, x, x, alpha=object(), result=x), ArgumentError, "'alpha'"),
        (lambda b, x, k: b.extern("relu", x), wir.WrapperIRError, "schema"),
        (lambda b, x, k: b.extern("k", x), ArgumentError, "use call"),
        (lambda b, x, k: b.extern(ADD, x, x, results=[x, x]), ResultError, "returns 1"),
        (lambda b, x, k: b.extern(ADD, x, x, result=x, results=[x]), ResultError, "not both"),
        (lambda b, x, k: b.returns("x"), ArgumentError, "cannot be a result"),
        (lambda b, x, k: b.probe("p", x, level="loud"), ArgumentError, "loud"),
        (
            lambda b, x, k: b.while_loop([x], [], lambda v: True, lambda v: ()),
            ResultError,
            "0 values",
        ),
        (
            lambda b, x, k: b.switch(2, [x], [lambda v: v, lambda v: ()]),
            ResultError,
            "switch: the regions return 1 results and 0",
        ),
        (lambda b, x, k: b.switch(2, [x], []), ArgumentError, "switch: there are no cases"),
        (
            lambda b, x, k: b.cond(True, [x], lambda v: v, lambda v: ()),
            ResultError,
            "1 results and 0",
        ),
        (lambda b, x, k: b.cond(True, [], lambda: None, lambda: None), ResultError, "None"),
        (lambda b, x, k: b.build(), UnfinishedError, "results are missing"),
        (lambda b, x, k: b.free(wir.Builder().input("q", "f32", (1,))), ForeignValueError, "'q'"),
        (lambda b, x, k: b.call(relu_kernel(wir.Builder()), x, x, 1), ForeignValueError, "'relu'"),
        (lambda b, x, k: b.cpp_kernel("k", ""), NameTakenError, "kernel 'k'"),
        (lambda b, x, k: b.cpp_kernel("m", "", scalars=[("n", "i7")]), ArgumentError, "i7"),
        (
            lambda b, x, k: b.triton_kernel("m", "", reads=[("a", "c64")]),
            ArgumentError,
            "complex64",
        ),
    ],
)
def test_mistakes_are_told_at_the_call(wrong: Any, kind: type[BuildError], message: str) -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    k = b.cpp_kernel("k", RELU, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"])
    with pytest.raises(kind, match=message) as caught:
        wrong(b, x, k)
    assert "test_builder.py:" in str(caught.value.origin)


def test_what_only_the_verifier_can_tell_names_the_call_too() -> None:
    b = wir.Builder()
    x = b.input("x", "f32", (4,))
    b.free(x)
    b.call(relu_kernel(b), x, b.allocate(x), 4)  # the culprit
    b.returns()
    with pytest.raises(wir.VerificationError, match="freed") as caught:
        b.build()
    assert "test_builder.py:" in str(caught.value)
    assert isinstance(b.build(verify=False), Program)
    with pytest.raises(UnfinishedError, match="already declared"):
        b.returns()


def test_building_twice_gives_the_same_program() -> None:
    assert str(two_kernels()) == str(two_kernels())
    assert two_kernels() == two_kernels()


def test_sizes_that_are_expressions_bind_their_symbols() -> None:
    """A symbol is taken from the equation that needs no division by another symbol."""
    b = wir.Builder("solved")
    n, m = b.symbol("n", min=0, max=9), b.symbol("m")
    x = b.input("x", "f32", (2 * n,))
    b.input("y", "f32", (n * m, m + n - 1))
    b.returns(x, m)
    program = b.build()
    assert b.build() == program
    run = wir.compile(program)
    for runs in (run, lambda *args: wir.interpret(program, *args)):
        assert runs(torch.ones(4), torch.ones(6, 4))[1] == 3
        assert runs(torch.ones(0), torch.ones(0, 4))[1] == 5
        with pytest.raises(wir.WrapperIRError, match="expected"):
            runs(torch.ones(4), torch.ones(5, 4))
    with pytest.raises(wir.WrapperIRError, match=r"size 0 of 'x' to be 2\*n for some n"):
        run(torch.ones(3), torch.ones(6, 4))
