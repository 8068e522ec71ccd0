"""What graphs may hold: mutation, views, symbols, control flow, modes, custom ops, numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.frontends.flows import HAS_SWITCH, among_layers
from tests.frontends_aten.support import agrees, calls, export, ops
from wrapper_ir.lines import (
    Access,
    Allocate,
    AssertSymbol,
    BindSymbol,
    BufferArg,
    ComputeSymbol,
    Cond,
    ConstantKind,
    Program,
    Reinterpret,
    Relation,
    ResultBuffer,
    ScalarArg,
    Switch,
    While,
)

BATCH = torch.export.Dim("batch", min=2, max=64)


def lines(program: Program, kind: Any) -> list[Any]:
    return [line for line in program.body if isinstance(line, kind)]


def relation(program: Program, op: str) -> Relation:
    (call,) = calls(program, op)
    (result,) = call.results
    assert isinstance(result, ResultBuffer)
    return result.relation


# Tensors of the model.


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0), requires_grad=False)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("hidden", torch.ones(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        self.hidden.mul_(2)
        return x * self.weight + self.count * self.hidden + torch.tensor([1.0, 2.0, 3.0])


def test_tensors_of_the_model_are_constants_and_written_back() -> None:
    program = agrees(Counter(), (torch.ones(3),), (torch.ones(3),))
    found = {c.qualified_name: (c.kind, c.mutable) for c in program.constants.values()}
    assert found == {
        "weight": (ConstantKind.PARAMETER, False),
        "count": (ConstantKind.BUFFER, True),
        "hidden": (ConstantKind.BUFFER, True),
        "lifted_tensor_0": (ConstantKind.TENSOR, False),
    }


class Swap(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(2))
        self.register_buffer("b", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        before = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(before)
        return x + self.a


def test_buffers_that_change_places() -> None:
    agrees(Swap(), (torch.ones(2),), (torch.ones(2),))


@pytest.mark.parametrize(
    "module",
    [nn.BatchNorm1d(3), nn.InstanceNorm1d(3, affine=True, track_running_stats=True)],
    ids=lambda module: type(module).__name__,
)
def test_statistics_that_no_schema_says_are_written(module: nn.Module) -> None:
    agrees(module.requires_grad_(False), (torch.randn(2, 3, 4),), (torch.randn(2, 3, 4),))


# Mutation and views.


def test_inputs_are_changed_and_given_back_as_they_are() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        x[1:].add_(1)
        x.t().mul_(2)
        return x, y.add_(x.sum()), y[0]

    program = agrees(function, (torch.randn(4, 4), torch.randn(3)))
    run = wir.compile(program)
    x, y = torch.randn(4, 4), torch.randn(3)
    results = run(x, y)
    assert results[0] is x
    assert results[1] is y


def test_slices_are_assigned_to() -> None:
    def function(x: Tensor, i: Tensor) -> Tensor:
        y = x.clone()
        y[1:3] = 0
        y[:, 0] += 1
        return y.index_put_((i,), torch.tensor(5.0))

    agrees(function, (torch.randn(4, 4), torch.tensor([0, 3])))


def test_relations_are_those_of_the_ops() -> None:
    def function(x: Tensor) -> Any:
        y = x.relu()
        return y.t(), y.t().reshape(16), y + 1, torch.dropout(y, 0.5, False), y.to(torch.float32)

    program = agrees(function, (torch.randn(4, 4),))
    assert relation(program, "aten::relu") is Relation.FRESH
    assert relation(program, "aten::add.Scalar") is Relation.FRESH
    assert relation(program, "aten::reshape") is Relation.MAY_ALIAS
    assert relation(program, "aten::dropout") is Relation.MAY_ALIAS
    assert {line.results[0].relation for line in calls(program, "aten::t")} == {Relation.ALIAS}


def test_a_view_of_what_may_be_a_view_may_lie_beyond_the_storage_it_is_not_in() -> None:
    def function(x: Tensor) -> Tensor:
        return x.relu().expand(3, 4).reshape(12)[8:] + 1

    agrees(function, (torch.randn(4),))


def test_strided_views_count_from_the_start_of_the_storage() -> None:
    def function(x: Tensor) -> Any:
        y = x.relu()
        return (
            y[1:].as_strided((2, 2), (1, 4), 1),
            y[1:].as_strided((2,), (1,)),
            y.view(torch.int32),
        )

    program = agrees(function, (torch.randn(4, 4),))
    views = lines(program, Reinterpret)
    assert [program.layout(view.out).offset for view in views] == [1, 4]
    assert {view.source for view in views} == {"relu", "slice_1"} or len(views) == 2


def test_empty_tensors_are_allocations() -> None:
    def function(x: Tensor) -> Any:
        return torch.empty_strided((2, 2), (1, 2)).copy_(x), torch.empty(2, 2).fill_(3)

    assert len(lines(agrees(function, (torch.randn(2, 2),)), Allocate)) == 2


def test_results_of_several_parts() -> None:
    def function(x: Tensor) -> Any:
        whole = x.split([1, 3])
        return whole[1], torch.stack(x.unbind(0)[1:]), x.max(1).indices, torch.cat(x.chunk(2, 1))

    program = agrees(function, (torch.randn(4, 4),))
    (split,) = calls(program, "aten::split_with_sizes")
    assert [result.path for result in split.results] == [(0,), (1,)]


# Numbers.


def test_trees_numbers_and_nothing() -> None:
    def function(tree: Any, k: int, scale: float, flag: bool, nothing: None) -> Any:
        return {"a": tree["x"] * scale + tree["y"][0] if flag else None, "b": [k, nothing]}

    tree = {"x": torch.ones(2), "y": [torch.ones(2)]}
    program = agrees(function, (tree, 3, 2.5, True, None))
    assert len(program.inputs) == 5
    run = wir.compile(program)
    with pytest.raises(wir.WrapperIRError, match="is not 3, for which the program was made"):
        run(torch.ones(2), torch.ones(2), 4, 2.5, True)


def test_sizes_that_vary_and_their_relations() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        return x.view(-1, 2, 3).sum(1) * x.shape[0] + y, x.shape[0] // 2

    shapes = {"x": {0: 2 * BATCH}, "y": {0: BATCH}}
    args = [(torch.randn(2 * n, 3), torch.randn(n, 3)) for n in (4, 2, 7)]
    program = agrees(function, *args, dynamic_shapes=shapes)
    run = wir.compile(program)
    with pytest.raises(wir.WrapperIRError, match="wrong size"):
        run(torch.randn(8, 3), torch.randn(5, 3))
    with pytest.raises(wir.WrapperIRError, match=r"needs s\d+ <= 64"):
        run(torch.randn(140, 3), torch.randn(70, 3))


def test_a_size_that_only_an_equation_gives() -> None:
    shapes = {"x": {0: 2 * BATCH}}
    args = [(torch.randn(n, 3),) for n in (8, 4, 14)]
    program = agrees(lambda x: x.view(-1, 2, 3) + 1, *args, dynamic_shapes=shapes)
    assert len(lines(program, ComputeSymbol)) == 1
    with pytest.raises(wir.WrapperIRError, match="to be 2"):
        wir.compile(program)(torch.randn(5, 3))


def test_what_tracing_has_assumed_is_checked() -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[::2] + 1 if x.shape[0] % 2 == 0 else x[:1]

    shapes = {"x": {0: torch.export.Dim.AUTO}}
    program = agrees(Halves(), (torch.randn(4),), (torch.randn(10),), dynamic_shapes=shapes)
    with pytest.raises(wir.WrapperIRError, match="as when the graph was made"):
        wir.compile(program)(torch.randn(5))


def test_a_number_that_varies() -> None:
    def function(x: Tensor, k: int) -> Tensor:
        return x[:k] * k

    shapes = {"x": None, "k": torch.export.Dim.DYNAMIC}
    agrees(function, (torch.randn(9), 5), (torch.randn(9), 3), dynamic_shapes=shapes)


def test_sizes_and_numbers_that_only_the_data_gives() -> None:
    def function(x: Tensor) -> Any:
        number = x.max().item()
        torch._check(number >= 0)
        torch._check(number < 100)
        return x.nonzero(), x[x > 0] * 2, torch.zeros(number), x.double().mean().item(), number

    program = agrees(function, (torch.tensor([1, 0, 2]),), (torch.tensor([5, 0, 0]),))
    assert len(lines(program, BindSymbol)) == 4
    run = wir.compile(program)
    with pytest.raises(wir.WrapperIRError, match="u0 <= 99"):
        run(torch.tensor([500, 0, 0]))


def test_a_check_is_kept_though_torch_has_learnt_from_it() -> None:
    def function(x: Tensor) -> Tensor:
        number = x[0].item()
        torch._check(number == 4)
        return torch.zeros(number) + 1

    program = agrees(function, (torch.tensor([4]),))
    conditions = [str(line.condition) for line in lines(program, AssertSymbol)]
    assert "Eq(item, 4)" in conditions
    with pytest.raises(wir.WrapperIRError, match="item is 5"):
        wir.compile(program)(torch.tensor([5]))


# Control flow.


class Choice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        def then(x: Tensor) -> Tensor:
            return self.linear(x).relu()

        def orelse(x: Tensor) -> Tensor:
            return torch.cond(x.mean() < -2, lambda y: y.sin(), lambda y: y * y.shape[0], (x,))

        return torch.cond(x.sum() > 0, then, orelse, (x,))


def test_choices() -> None:
    args = [(torch.ones(5, 4),), (-torch.ones(3, 4),), (-3 * torch.ones(7, 4),)]
    program = agrees(Choice(), *args, dynamic_shapes={"x": {0: BATCH}})
    (cond,) = lines(program, Cond)
    assert Cond in [type(line) for line in cond.orelse.body]


def test_a_choice_by_a_size() -> None:
    def function(x: Tensor) -> Any:
        return torch.cond(
            x.shape[0] > 4, lambda x: (x.sin(), x.sum()), lambda x: (x * 2, x.mean()), (x,)
        )

    exported = export(function, (torch.ones(3, 4),), dynamic_shapes={"x": {0: BATCH}})
    run = wir.compile(wir.from_fx(exported))
    small, large = torch.randn(3, 4), torch.randn(5, 4)
    assert torch.equal(run(small)[1], small.mean())
    assert torch.equal(run(large)[0], large.sin())
    assert torch.equal(run(small)[0], small * 2)


@pytest.mark.skipif(not HAS_SWITCH, reason="torch has no choices among many")
def test_choices_among_many() -> None:
    args = [(torch.tensor(n), torch.randn(n + 3, 6)) for n in (-1, 0, 1, 2, 7)]
    layers = among_layers().requires_grad_(False)
    program = agrees(layers, *args, dynamic_shapes={"i": None, "x": {0: BATCH}})
    (line,) = lines(program, Switch)
    assert len(line.cases) == 3


def test_loops() -> None:
    while_loop = torch.ops.higher_order.while_loop

    def function(i: Tensor, x: Tensor, y: Tensor) -> Any:
        return while_loop(lambda i, x, y: i < 5, lambda i, x, y: (i + 1, x * 1.5 + y), (i, x), (y,))

    args = [(torch.tensor(n), torch.ones(3), torch.ones(3)) for n in (0, 7)]
    program = agrees(function, *args)
    (loop,) = lines(program, While)
    assert len(loop.carried) == 2
    assert len(loop.captured) == 1


def test_a_loop_over_a_number() -> None:
    while_loop = torch.ops.higher_order.while_loop

    def function(x: Tensor) -> Any:
        return while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x + i), (0, x), ())

    agrees(function, (torch.ones(3, 3),))


# Modes, random numbers, ops of others.


def test_modes_are_worked_out() -> None:
    def function(x: Tensor) -> Any:
        with torch.no_grad():
            y = x.sin()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return y, x @ x

    program = agrees(function, (torch.randn(4, 4),))
    assert "aten::_to_copy" in ops(program)


def test_random_numbers_are_drawn_as_in_eager() -> None:
    def function(x: Tensor) -> Any:
        return torch.dropout(x, 0.5, True), torch.rand_like(x), torch.randint(0, 5, (3,))

    agrees(function, (torch.randn(4, 4),), decomposed=False)


@torch.library.custom_op("wir_test_aten::add_into", mutates_args=("y",))
def add_into(x: Tensor, y: Tensor) -> Tensor:
    y.add_(x)
    return x * 2


@add_into.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("wir_test_aten::scaled", mutates_args=())
def scaled(xs: list[Tensor], k: int, f: float = 1.5, name: str = "a") -> list[Tensor]:
    return [x * k + f + len(name) for x in xs]


@scaled.register_fake
def _(xs: list[Tensor], k: int, f: float = 1.5, name: str = "a") -> list[Tensor]:
    return [torch.empty_like(x) for x in xs]


def test_arguments_stand_where_the_schema_has_them_and_what_is_filled_is_not_read() -> None:
    def model(x: Tensor) -> Tensor:
        drawn = torch.ops.aten.uniform_(x.clone(), to=2.0, **{"from": 1.0})
        return torch.ops.aten.cumsum(self=drawn, dim=0)

    program = wir.from_fx(export(model, (torch.ones(4),)))
    (fill,), (cumsum,) = calls(program, "aten::uniform_"), calls(program, "aten::cumsum")
    assert fill.args[1:] == (ScalarArg(1.0), ScalarArg(2.0))
    assert isinstance(fill.args[0], BufferArg)
    assert fill.args[0].access is Access.WRITE
    assert cumsum.args[1:] == (ScalarArg(0),)


def test_custom_ops() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        z = torch.ops.wir_test_aten.add_into(x, y)
        return z, y + 1, *torch.ops.wir_test_aten.scaled([x, y], 3, name="bc")

    agrees(function, (torch.randn(4), torch.randn(4)))


def test_complex_numbers() -> None:
    def function(x: Tensor) -> Any:
        return torch.view_as_real(x * x), x.conj() @ x, x.real

    agrees(function, (torch.randn(4, 4, dtype=torch.complex64),))


# Where lines come from.


def test_lines_know_the_module_and_the_line_of_the_model() -> None:
    program = wir.from_fx(export(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), (torch.ones(5, 4),)))
    (linear,) = calls(program, "aten::linear")
    assert linear.origin is not None
    origin = program.origins[linear.origin]
    assert origin.nodes == ("linear",)
    assert origin.module == "1"
    assert any(frame.file.endswith("linear.py") for frame in origin.frames)
