"""Each of Inductor's line kinds as one of ours, on functions small enough to know the answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.frontends.support import (
    DYNAMIC,
    buffer_args,
    calls,
    captured,
    cpp_kernels,
    declared_ops,
    lines,
)
from wrapper_ir.lines import (
    Access,
    Allocate,
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    BufferInput,
    BufferParam,
    BufferValue,
    ExternKernel,
    Free,
    ItemOf,
    KernelCall,
    KernelDefinition,
    NoneValue,
    Program,
    Reinterpret,
    Relation,
    ResultBuffer,
    Reuse,
    ScalarArg,
    ScalarParam,
    ScalarValue,
    SizeOf,
    Stage,
)

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def matrix(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


# Kernels --------------------------------------------------------------------------------------


def test_kernel_parameters_are_those_of_the_source() -> None:
    program = captured(lambda x, y: (x.sin() * y, y.exp().sum()), matrix(64, 8), matrix(64, 8))
    for kernel in cpp_kernels(program):
        signature = re.search(rf'extern "C"[^(]*\b{kernel.name}\(([^)]*)\)', kernel.source.code)
        assert signature is not None
        names = [part.split()[-1].lstrip("*") for part in signature[1].split(",")]
        assert names == [param.name for param in kernel.params]
        for part, param in zip(signature[1].split(","), kernel.params, strict=True):
            read_only = isinstance(param, ScalarParam) or param.access is Access.READ
            assert ("const" in part) == read_only


def test_kernel_source_is_stored_without_paths_and_placeholders() -> None:
    (kernel,) = cpp_kernels(captured(lambda x: x.sin(), matrix(64, 8)))
    assert kernel.source.entry == kernel.name
    assert "#include <torch/csrc/inductor/cpp_prefix.h>" in kernel.source.code
    assert kernel.source.isa
    stored = " ".join((kernel.source.code, kernel.source.isa, *kernel.source.flags))
    for foreign in ("KERNEL_NAME", "DESCRIPTIVE_NAME", "CMT", str(Path.home()), "/tmp", "torchind"):
        assert foreign not in stored


def test_what_a_kernel_makes_is_written_and_what_it_takes_is_read() -> None:
    program = captured(lambda x: x.sin(), matrix(64, 8))
    (kernel,) = cpp_kernels(program)
    assert [p.access for p in kernel.params if isinstance(p, BufferParam)] == [
        Access.READ,
        Access.WRITE,
    ]
    (call,) = lines(program, KernelCall)
    assert [arg.access for arg in buffer_args(call)] == [Access.READ, Access.WRITE]


def test_sizes_are_passed_as_expressions() -> None:
    program = captured(lambda x: x.sin(), matrix(6, 8), dynamic_shapes=({0: DYNAMIC},))
    (call,) = lines(program, KernelCall)
    sizes = [arg.value for arg in call.args if isinstance(arg, ScalarArg)]
    (bound,) = lines(program, BindSymbol)
    assert [str(size) for size in sizes] == [bound.symbol]
    assert isinstance(cpp_kernels(program)[0].params[-1], ScalarParam)


def test_definitions_precede_the_lines_and_are_made_once() -> None:
    program = captured(lambda x, w: ((x @ w) @ w).relu(), matrix(4, 4), matrix(4, 4))
    kinds = [isinstance(line, KernelDefinition) for line in program.body]
    assert kinds == sorted(kinds, reverse=True)
    assert declared_ops(program) == ["aten::mm.out"]
    assert len(calls(program, "aten::mm.out")) == 2


# Storage --------------------------------------------------------------------------------------


def test_nothing_is_freed_or_planned() -> None:
    program = captured(lambda x: (x @ x).relu() @ x, matrix(4, 4))
    assert program.stage is Stage.LOGICAL
    assert lines(program, Free) == []


def test_work_in_place_takes_the_storage() -> None:
    program = captured(lambda x, w: (x @ w).relu(), matrix(4, 4), matrix(4, 4))
    (reuse,) = lines(program, Reuse)
    (allocate,) = lines(program, Allocate)
    assert reuse.donor == allocate.out
    (call,) = lines(program, KernelCall)
    assert [(a.buffer, a.access) for a in buffer_args(call)] == [(reuse.out, Access.READ_WRITE)]


def test_a_weight_transposed_twice_is_one_view() -> None:
    program = captured(lambda x, w: (x @ w.t()) @ w.t(), matrix(4, 4), matrix(4, 4))
    (view,) = lines(program, Reinterpret)
    assert program.layout(view.out).stride == (1, 4)
    for call in calls(program, "aten::mm.out"):
        assert [arg.buffer for arg in buffer_args(call)][1] == view.out


def test_parts_of_a_cat_lie_inside_it() -> None:
    program = captured(lambda x, y: torch.cat([x @ y, x.sin()]) @ y, matrix(4, 4), matrix(4, 4))
    parts = {line.out: line.source for line in lines(program, Reinterpret)}
    assert len(set(parts.values())) == 1
    assert sorted(program.layout(part).offset for part in parts) == [0, 16]


def test_offsets_count_from_the_start_of_the_storage() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        whole = torch.cat([x @ y, x.sin()])
        return whole[4:][1:3] @ y

    program = captured(function, matrix(4, 4), matrix(4, 4))
    (last,) = calls(program, "aten::mm.out")[-1:]
    assert program.layout(next(buffer_args(last)).buffer).offset == 20


# Results --------------------------------------------------------------------------------------


def test_views_and_duplicates_among_the_results() -> None:
    def function(x: Tensor) -> Any:
        y = x * 2
        return y, y, y.t(), x

    program = captured(function, matrix(3, 4))
    one, two, view, given = (v.buffer for v in program.results if isinstance(v, BufferValue))
    assert one == two
    assert program.layout(view).stride == (1, 4)
    assert {line.out: line.source for line in lines(program, Reinterpret)} == {view: one}
    assert given == next(i.name for i in program.inputs if isinstance(i, BufferInput))


def test_numbers_and_none_among_the_results() -> None:
    program = captured(
        lambda x: (x + 1, None, x.shape[0] * 2, 7), matrix(5, 2), dynamic_shapes=({0: DYNAMIC},)
    )
    _, none, twice, seven = program.results
    assert none == NoneValue()
    assert isinstance(twice, ScalarValue)
    (bound,) = lines(program, BindSymbol)
    assert str(twice.value) == f"2*{bound.symbol}"
    assert seven == ScalarValue(7)


def test_several_results_of_one_call_are_defined_by_it() -> None:
    program = captured(lambda x: torch.topk(x, 3), matrix(4, 10))
    (call,) = calls(program, "aten::topk")
    assert [r.path for r in call.results] == [(0,), (1,)]
    assert [v.buffer for v in program.results] == [r.out for r in call.results]
    assert all(r.relation is Relation.FRESH for r in call.results)


def test_a_result_that_nothing_wants_is_not_defined() -> None:
    program = captured(lambda x: torch.topk(x, 3)[1], matrix(4, 10))
    (call,) = calls(program, "aten::topk")
    assert [r.path for r in call.results] == [(1,)]


def test_views_made_by_ops_are_declared_as_views() -> None:
    program = captured(lambda x: torch.view_as_real(torch.fft.fft(x) * 2), matrix(8))
    related = {
        r.relation
        for call in calls(program, "aten::view_as_real")
        for r in call.results
        if isinstance(r, ResultBuffer)
    }
    assert related == {Relation.ALIAS}


# Inputs ---------------------------------------------------------------------------------------


def test_a_changed_input_is_written_in_place() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x * 2

    program = captured(function, matrix(8), matrix(8))
    names = [i.name for i in program.inputs if isinstance(i, BufferInput)]
    written = [
        arg.buffer
        for call in lines(program, KernelCall)
        for arg in buffer_args(call)
        if arg.access.writes
    ]
    assert names[0] in written
    assert names[1] not in written


def test_a_part_of_an_input_that_is_changed_keeps_the_rest() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x[1:3] = y[1:3]
        return x.sum()

    program = captured(function, matrix(8), matrix(8))
    name = next(i.name for i in program.inputs if isinstance(i, BufferInput))
    accesses = [
        arg.access
        for call in lines(program, KernelCall)
        for arg in buffer_args(call)
        if arg.buffer == name and arg.access.writes
    ]
    assert accesses == [Access.READ_WRITE]


def test_inputs_are_checked_before_their_first_use() -> None:
    program = captured(lambda x, y: x @ y, matrix(3, 4), matrix(4, 5))
    checks = [line for line in lines(program, AssertLayout) if line.subject == "input"]
    assert [c.buffer for c in checks] == [
        i.name for i in program.inputs if isinstance(i, BufferInput)
    ]
    first_use = program.body.index(lines(program, ExternKernel)[0])
    assert all(program.body.index(check) < first_use for check in checks)


def test_results_of_ops_are_checked_for_layout_and_alignment() -> None:
    program = captured(lambda x: torch.topk(x.sin(), 3), matrix(4, 10))
    checks = [line for line in lines(program, AssertLayout) if line.subject != "input"]
    assert {check.alignment for check in checks} == {16}
    assert all("topk" in check.subject for check in checks)


# Symbols --------------------------------------------------------------------------------------


def test_a_size_is_bound_where_it_is_found() -> None:
    program = captured(lambda x: x * 2, matrix(5, 3), dynamic_shapes=({0: DYNAMIC},))
    (bound,) = lines(program, BindSymbol)
    assert bound.source == SizeOf(program.inputs[0].name, 0)
    info = program.symbols[bound.symbol]
    assert info.hint == 5
    assert not info.unbacked


def test_a_size_that_data_decides_is_bound_after_its_call() -> None:
    program = captured(lambda x: torch.nonzero(x) * 2, matrix(10))
    (call,) = calls(program, "aten::nonzero")
    (bound,) = lines(program, BindSymbol)
    assert bound.source == SizeOf(call.results[0].out, 0)
    assert program.symbols[bound.symbol].unbacked
    assert program.body.index(bound) > program.body.index(call)


def test_a_number_read_from_a_tensor_is_bound_and_checked() -> None:
    def function(x: Tensor, n: Tensor) -> Tensor:
        k = n.item()
        torch._check(k >= 2)
        torch._check(k < 10)
        return x * k

    program = captured(function, matrix(10), torch.tensor(4))
    (bound,) = lines(program, BindSymbol)
    assert isinstance(bound.source, ItemOf)
    conditions = " ".join(str(line.condition) for line in lines(program, AssertSymbol))
    assert f"{bound.symbol} >= 2" in conditions
    assert re.search(rf"{bound.symbol} (< 10|<= 9)", conditions)


# Library ops ----------------------------------------------------------------------------------


def test_arguments_passed_by_name_are_put_where_the_schema_has_them() -> None:
    program = captured(nn.Conv2d(3, 4, 3, padding=1).eval(), matrix(1, 3, 8, 8))
    (call,) = calls(program, "aten::convolution")
    assert call.kwargs == ()
    assert len(call.args) == 9


def test_out_is_written_by_name() -> None:
    program = captured(lambda x: x @ x, matrix(4, 4))
    (call,) = calls(program, "aten::mm.out")
    ((name, out),) = call.kwargs
    assert name == "out"
    assert out.access is Access.WRITE
    assert call.results == ()


def test_random_numbers_come_from_seeds() -> None:
    program = captured(lambda x: x + torch.rand(8), matrix(8))
    (seeds,) = calls(program, "aten::randint.low_out")
    (seed_buffer,) = [a.buffer for a in buffer_args(seeds)]
    (call,) = lines(program, KernelCall)
    assert (seed_buffer, Access.READ) in [(a.buffer, a.access) for a in buffer_args(call)]


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), "aten::scatter_reduce_.two"),
        (lambda x, i, v: x.index_put((i[:, 0],), v.bool(), accumulate=False), None),
    ],
    ids=["scatter", "index_put"],
)
def test_scatter_and_index_put_change_a_copy_in_place(function: Any, op: str | None) -> None:
    x = torch.zeros(6, 3, dtype=torch.float32 if op else torch.bool)
    program = captured(function, x, torch.randint(0, 6, (4, 3)), matrix(4, 3))
    given = {i.name for i in program.inputs if isinstance(i, BufferInput)}
    found = [line for line in lines(program, ExternKernel) if op in (None, line.op)]
    for call in found:
        target = next(buffer_args(call))
        assert target.access is Access.READ_WRITE
        assert target.buffer not in given
    assert found or op is None


def test_a_number_where_the_schema_has_a_tensor_is_the_other_overload() -> None:
    program = captured(lambda x: torch.fft.fft(x) * 2, matrix(8))
    assert calls(program, "aten::mul.Tensor") == []
    (call,) = calls(program, "aten::mul.Scalar")
    assert call.args[1] == ScalarArg(2)


# Origins and names ----------------------------------------------------------------------------


def test_lines_know_where_they_come_from() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).sin()  # the line that both calls come from

    program = captured(Model(), matrix(2, 4))
    call = lines(program, ExternKernel)[0]
    assert call.origin is not None
    origin = program.origins[call.origin]
    assert any("addmm" in op for op in origin.ops)
    assert any(Path(f.file) == Path(__file__) and "both calls" in f.code for f in origin.frames)
    assert origin.module.endswith("layer")


def test_the_same_model_gives_the_same_program() -> None:
    def capture() -> Program:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        return captured(model, matrix(4, 8))

    first = capture()
    torch._dynamo.reset()
    torch.compile(lambda x: x.cos() + 1)(matrix(3))  # what was compiled before does not count
    second = capture()
    assert first == second
    assert str(first) == str(second)
    assert wir.parse(str(first)) == first


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code gen:UserWarning")
def test_views_that_an_op_returns_begin_where_they_do() -> None:
    x = torch.view_as_complex(matrix(7, 4, 2))  # torch.export says of what it is a view
    program = captured(lambda x: (x[1:].chunk(2)[1], x.unbind(1)[3]), x)
    (split,) = calls(program, "aten::split.Tensor")
    _, part = split.results
    assert isinstance(part, ResultBuffer)
    assert part.relation is Relation.ALIAS
    assert program.layout(part.out).offset == 16
    for found, wanted in zip(wir.interpret(program, x), (x[4:], x[:, 3]), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="x86 only")
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_a_packed_weight_that_is_an_object_and_no_bias() -> None:
    """The schema of the op says that there is one; the weights are C++ objects in tensors."""
    weight, scale, zero = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor(0.1), torch.tensor(0)
    half, quantised = torch.ops.quantized, torch.ops._quantized

    def model(x: Tensor) -> Any:
        given = (x, scale, zero, weight, scale, zero, scale.expand(3), scale, zero, 3)
        return (
            half.linear_dynamic_fp16_unpacked_weight(x, weight, None),
            quantised.wrapped_quantized_linear(*given),
        )

    program, x = captured(model, torch.ones(2, 4)), torch.linspace(0, 1, 8).view(2, 4)
    for run in (lambda x: wir.interpret(program, x), wir.compile(program, "fx")):
        assert all(map(torch.equal, run(x), model(x)))
