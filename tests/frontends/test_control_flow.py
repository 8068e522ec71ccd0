"""Choices, loops and called subgraphs through us and through stock Inductor, to the last bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.compiler import nested_compile_region
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.frontends.flows import (
    BIG,
    FLOWS,
    HAS_SWITCH,
    Flow,
    among_layers,
    everything,
    normal,
    table,
)
from tests.frontends.support import DYNAMIC, captured
from tests.frontends_aten.support import Function
from tests.release import TORCH
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.lines import (
    AssertLayout,
    BufferArg,
    Cond,
    ExternKernel,
    KernelCall,
    Program,
    ScalarArg,
    Switch,
    While,
)
from wrapper_ir.lines.walk import walk

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

#: Those that take longest: each a second compilation of what the others compile.
LONG = {
    "nested choices",
    "regions called twice",
    "a choice between layers, trained",
    "a choice among many",
}

COMMITTED = [
    *(
        pytest.param(flow, id=name, marks=pytest.mark.long if name in LONG else ())
        for name, flow in FLOWS.items()
    ),
    *(pytest.param(flow, id=name, marks=pytest.mark.models) for name, flow in BIG.items()),
]


def outcomes(flow: Flow, backend: str, **options: Any) -> list[Any]:
    """Compile a function and return what each call gave and left: results, arguments, gradients."""
    torch._dynamo.reset()
    function = flow.make()
    with torch._dynamo.config.patch(flow.config):
        compiled = torch.compile(
            function, backend=backend, fullgraph=True, dynamic=flow.dynamic, options=options or None
        )
        return [_call(flow, function, compiled, args) for args in flow.calls]


def _call(flow: Flow, function: Any, compiled: Any, args: tuple[Any, ...]) -> Any:
    args = tuple(arg.clone() for arg in args)
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    with torch.set_grad_enabled(flow.trains):
        if not flow.trains:
            return pytree.tree_leaves(compiled(*args)), list(args)
        args = tuple(arg.requires_grad_(arg.is_floating_point()) for arg in args)
        results = pytree.tree_leaves(compiled(*args))
        sum(r.square().sum() for r in results if r.requires_grad).backward()
        gradients = [value.grad for value in (*args, *parameters)]
        for parameter in parameters:
            parameter.grad = None
        return [r.detach() for r in results], [arg.detach() for arg in args], gradients


def same(ours: Any, stock: Any) -> bool:
    """Whether two outcomes are equal in layout and in every bit."""
    pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(stock), strict=True)
    return all(_same(a, b) for a, b in pairs)


def _same(ours: Any, stock: Any) -> bool:
    if not isinstance(ours, Tensor) or not isinstance(stock, Tensor):
        return type(ours) is type(stock) and ours == stock
    metadata = (ours.dtype, ours.shape, ours.stride()) == (stock.dtype, stock.shape, stock.stride())
    return metadata and torch.equal(_bits(ours), _bits(stock))


def _bits(value: Tensor) -> Tensor:
    return value.contiguous().flatten().view(torch.uint8)


@pytest.mark.parametrize("flow", COMMITTED)
def test_it_gives_what_stock_gives(flow: Flow) -> None:
    stock = outcomes(flow, "inductor")
    statistics.reset()
    with wir.record() as programs:
        ours = outcomes(flow, "wrapper_ir")
    assert same(ours, stock)
    assert len(programs) == statistics.programs >= 1
    assert statistics.fallbacks == 0


@pytest.mark.models
@pytest.mark.parametrize("emitter", ["fx", "cpp"])
@pytest.mark.parametrize("flow", [pytest.param(f, id=n) for n, f in (FLOWS | BIG).items()])
def test_other_emitters_give_what_stock_gives(flow: Flow, emitter: str) -> None:
    stock = outcomes(flow, "inductor")
    assert same(outcomes(flow, "wrapper_ir", emitter=emitter), stock)


def all_lines(program: Program, kind: type) -> list[Any]:
    return [line for _, line in walk(program) if isinstance(line, kind)]


@pytest.mark.skipif(
    TORCH < (2, 13),
    reason="before PyTorch 2.13 torch.export takes no region that is compiled once in a branch",
)
def test_all_kinds_captured_in_one_another() -> None:
    x = normal(4, 3)
    p, n = torch.tensor(True), torch.tensor(2)
    program = captured(everything, p, n, x)
    assert {Cond, While} <= {type(line) for _, line in walk(program)}
    expected = [everything(torch.tensor(flag), n, x) for flag in (True, False)]
    for emitter in ("python", "fx", "cpp"):
        run = wir.compile(program, emitter)
        for flag, eager in zip((True, False), expected, strict=True):
            given = run(torch.tensor(flag), n, x)
            assert same(given, wir.interpret(program, torch.tensor(flag), n, x))
            torch.testing.assert_close(tuple(given), eager)


@pytest.mark.skipif(not HAS_SWITCH, reason="torch has no choices among many")
def test_a_choice_among_many_captured() -> None:
    layers = among_layers()
    shapes = {"i": None, "x": {0: DYNAMIC}}
    program = wir.capture(layers, (torch.tensor(1), normal(4, 6)), dynamic_shapes=shapes)
    (line,) = all_lines(program, Switch)
    assert len(line.cases) == 3
    runs = [wir.compile(program, emitter) for emitter in ("python", "fx", "cpp")]
    for number in (-1, 0, 1, 2, 7):
        args = torch.tensor(number), normal(number + 3, 6)
        interpreted = wir.interpret(program, *args)
        torch.testing.assert_close(interpreted, (layers(*args),))
        assert all(same(run(*args), interpreted) for run in runs)


def test_a_branch_sees_the_symbols_around_it() -> None:
    def function(p: Tensor, x: Tensor) -> Tensor:
        return torch.cond(p, lambda a: a * a.shape[0], lambda a: a.sin(), (x,))

    program = wir.capture(
        function,
        (torch.tensor(True), normal(4, 3)),
        dynamic_shapes={"p": None, "x": {0: DYNAMIC}},
    )
    (cond,) = all_lines(program, Cond)
    assert all(isinstance(arg, BufferArg) for arg in cond.operands)
    assert any(isinstance(a, ScalarArg) for c in all_lines(program, KernelCall) for a in c.args)


def test_a_region_that_is_called_twice_is_written_out_twice() -> None:
    flow = FLOWS["regions called twice"]
    with wir.record() as programs:
        outcomes(flow, "wrapper_ir")
    (program,) = programs
    assert len(all_lines(program, Cond)) == 2
    calls = [line.op for line in all_lines(program, ExternKernel)]
    assert calls.count("aten::mm.out") == 2


class Repeated(torch.nn.Module):
    """A subgraph that keeps for its backward what it gives, and whose gradients are views."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @nested_compile_region
    def inner(self, x: Tensor) -> Tensor:
        return self.linear(x).exp()

    def forward(self, x: Tensor) -> Tensor:
        return (self.inner(x) + 1) * self.inner(x + 1)


@pytest.mark.models
def test_what_a_subgraph_keeps_is_not_written_over() -> None:
    """Inductor takes each of a subgraph's results for a tensor of its own; so stock writes over."""
    torch._dynamo.reset()
    model, x = Repeated(), torch.linspace(-1, 1, 12).reshape(3, 4)
    compiled = torch.compile(model, backend="wrapper_ir", fullgraph=True)
    gradients = []
    for function in (model, compiled):
        model.zero_grad()
        given = x.clone().requires_grad_()
        function(given).square().sum().backward()
        assert torch.equal(given, x)
        gradients.append([given.grad, *(value.grad for value in model.parameters())])
    torch.testing.assert_close(*gradients)


@nested_compile_region
def _last_rows(x: Tensor) -> Tensor:
    return x.sin()[2:]


@torch.no_grad()
def test_a_subgraph_gives_what_begins_inside_of_a_storage() -> None:
    """Inductor counts such an offset twice: stock reads what lies behind the storage."""
    torch._dynamo.reset()

    def function(x: Tensor) -> tuple[Tensor, ...]:
        first, second = _last_rows(x), _last_rows(x + 1)
        return first + second[1:2], first @ second, second

    x = torch.linspace(-1, 1, 15).reshape(5, 3)
    compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True)
    torch.testing.assert_close(compiled(x), function(x))


def test_a_loop_copies_no_row_that_stays_as_it_is() -> None:
    """What a scan runs over goes round unchanged: it is captured, not carried."""
    with wir.record() as programs:
        outcomes(FLOWS["a scan"], "wrapper_ir")
    (loop,) = all_lines(programs[0], While)
    inputs = [value.name for value in programs[0].inputs if hasattr(value, "name")]
    captured_names = [arg.buffer for arg in loop.captured if isinstance(arg, BufferArg)]
    assert set(inputs) <= set(captured_names)
    assert "aten::copy_" not in [line.op for line in all_lines(programs[0], ExternKernel)]


def test_a_branch_has_constants_of_its_own() -> None:
    """Stock Inductor of torch 2.13 passes None for them."""
    torch._dynamo.reset()
    run = torch.compile(table, backend="wrapper_ir")
    for flag in (True, False):
        x = normal(20)
        assert torch.equal(run(torch.tensor(flag), x), table(torch.tensor(flag), x))


def test_checks_of_results_are_kept() -> None:
    with wir.record() as programs:
        outcomes(FLOWS["a loop"], "wrapper_ir")
    checks = [line for line in all_lines(programs[0], AssertLayout) if "while_loop" in line.subject]
    assert checks
    assert all(check.alignment == 16 for check in checks)


def _looped(x: Tensor) -> Any:
    def double(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, y * 2 + y.sum(1, keepdim=True)

    return while_loop(lambda i, _: i < 3, double, (torch.tensor(0), x.view(4, 3)))[1]


def _chosen(x: Tensor) -> Any:
    def product(y: Tensor) -> Tensor:
        return y.t() @ y

    return torch.cond(x.sum() > 0, product, lambda y: product(y) - 1, (x.view(-1, 3),))


def _chosen_in_a_loop(x: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.cond(y.sum() > 0, lambda y: y * 2 - 1, lambda y: y + 1, (y,))

    return while_loop(lambda i, _: i < 3, body, (torch.tensor(0), x.view(4, 3)))[1]


@pytest.mark.parametrize("function", [_looped, _chosen, _chosen_in_a_loop])
def test_views_of_dynamic_tensors_enter_regions(function: Any) -> None:
    """Their sizes are ``[4, 3]`` on one side and ``[4, s0*s1 // 4]`` on the other."""
    if TORCH < (2, 14) and function is not _looped:
        pytest.skip("torch's cond takes no such strides before 2.14")
    torch._dynamo.reset()
    x = normal(2, 6)
    compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True, dynamic=True)
    for args in (x, -x.view(3, 4)):
        torch.testing.assert_close(compiled(args), function(args))
    auto = torch.export.Dim.AUTO
    exported = torch.export.export(Function(function), (x,), dynamic_shapes=({0: auto, 1: auto},))
    for program in (wir.capture(exported), wir.from_fx(exported)):
        torch.testing.assert_close(wir.interpret(program, -x)[0], function(-x))
