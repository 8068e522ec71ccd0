"""What Inductor writes as text between its lines comes into programs typed, or is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._inductor.hooks import intermediate_hook
from torch._inductor.scheduler import ExternKernelSchedulerNode, Scheduler
from torch._inductor.utils import run_and_get_code
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.frontends.flows import UNBACKED, normal
from tests.frontends.support import calls, lines
from tests.frontends.test_control_flow import same
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.lines import (
    Allocate,
    AssertSymbol,
    BindSymbol,
    Comment,
    ComputeSymbol,
    ExternKernel,
    ItemOf,
    KernelCall,
    Program,
    Reuse,
    SizeOf,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def compiled(function: Callable[..., Any], *args: Any, **config: Any) -> tuple[Program, str]:
    """Compile and run a function by stock and by us; return our program and stock's text."""
    with torch._dynamo.config.patch(UNBACKED), inductor_config.patch(config):
        torch._dynamo.reset()
        torch.manual_seed(1)
        run = torch.compile(function, fullgraph=True)
        stock, sources = run_and_get_code(run, *pytree.tree_map(torch.clone, args))
        torch._dynamo.reset()
        torch.manual_seed(1)
        with wir.record() as programs:
            run = torch.compile(function, backend="wrapper_ir", fullgraph=True)
            ours = run(*pytree.tree_map(torch.clone, args))
    assert same(ours, stock)
    (program,) = programs
    return program, sources[0]


def runtime_checks(source: str) -> int:
    """Count the checks of symbols in stock's text."""
    return sum(line.strip().startswith("raise RuntimeError(") for line in source.splitlines())


def selected(x: Tensor, n: Tensor) -> Any:
    k = n.item()
    return x[k].sin(), x[k:].sum(0), x[:k] * 2


def test_a_selected_index_and_the_size_of_a_slice_are_computed() -> None:
    program, source = compiled(selected, normal(6, 4), torch.tensor(-2))
    values = [str(line.value) for line in lines(program, ComputeSymbol)]
    assert any("Where" in value for value in values)
    assert any("Max" in value for value in values)
    assert len(lines(program, AssertSymbol)) == runtime_checks(source) > 0


def test_a_number_made_of_a_condition_is_a_choice() -> None:
    def cut(x: Tensor, n: Tensor) -> Tensor:
        return torch.narrow(x, 0, n, 2)  # torch counts whether a start below zero is the last one

    program, _ = compiled(cut, normal(6, 4), torch.tensor(-2))
    size, _ = (line.value for line in lines(program, ComputeSymbol))
    assert "Where" in str(size)


def sizes_of_data(x: Tensor, n: Tensor) -> Any:
    found = x.nonzero()
    k, m = n.tolist()
    torch._check(k > 0)
    torch._check(k + m < 50)
    part = torch.masked_select(x, x > 0.5)
    return found.sum(), torch.zeros(k, m), part * k, found.shape[0] + k, torch.unique(n)


def test_no_check_of_what_the_data_decide_is_dropped() -> None:
    program, source = compiled(sizes_of_data, normal(6, 4), torch.tensor([3, 5]))
    assert len(lines(program, AssertSymbol)) == runtime_checks(source) > 0
    sources = [type(line.source) for line in lines(program, BindSymbol)]
    assert sources.count(ItemOf) == 2
    assert SizeOf in sources


def test_random_numbers_in_place_are_a_call() -> None:
    def function(x: Tensor) -> Tensor:
        return x.bernoulli_(0.3) * 2

    program, _ = compiled(function, torch.ones(64), fallback_random=True)
    assert len(calls(program, "aten::bernoulli_.float")) == 1


def in_parts(x: Tensor, y: Tensor) -> Any:
    a = (x + y).sin()
    b = a @ y
    values, places = torch.sort(b.cos() + a)
    return values * 2 + a, (places.float() @ b).tanh()


def test_partitions_are_written_where_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor cuts graphs into parts for CUDA graphs; here it is told to do so on the CPU."""
    whole, _ = compiled(in_parts, normal(4, 4), normal(4, 4))
    monkeypatch.setattr(
        Scheduler,
        "should_partition",
        lambda _, node: "a call" if isinstance(node, ExternKernelSchedulerNode) else None,
    )
    parts, source = compiled(in_parts, normal(4, 4), normal(4, 4), fx_graph_cache=False)
    assert "partition_1" in source
    for kind in (KernelCall, ExternKernel, Allocate, Reuse):
        assert len(lines(parts, kind)) == len(lines(whole, kind))


def test_what_inductor_expects_of_its_plan_is_a_comment() -> None:
    function = lambda x: (x.sin() @ x).cos() @ x  # noqa: E731 - a model
    setting = {"test_configs.track_memory_lifecycle": "log"}
    with inductor_config.patch(setting), wir.record() as programs:
        torch._dynamo.reset()
        torch.compile(function, backend="wrapper_ir")(normal(4, 4))
    assert any("Inductor expects" in line.text for line in lines(programs[0], Comment))


def shown(backend: str, emitter: str = "") -> list[tuple[str, Tensor]]:
    """Run a call of an op, and return what Inductor's hooks see of it."""
    found: list[tuple[str, Tensor]] = []
    torch._dynamo.reset()
    options = {"emitter": emitter} if emitter else None
    function = torch.compile(lambda x, w: torch.conv1d(x, w), backend=backend, options=options)
    hook = intermediate_hook(lambda name, value: found.append((name, value.clone())))
    with inductor_config.patch(generate_intermediate_hooks=True), hook:
        function(normal(3, 4), normal(4, 3, 1))
    return found


def test_hooks_see_what_inductor_shows_them() -> None:
    stock = shown("inductor")
    assert [name for name, _ in stock] == ["convolution"]
    for emitter in ("python", "cpp", "fx"):
        assert same(shown("wrapper_ir", emitter), stock)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx", None])
def test_nan_asserts_look_at_inputs_and_results(emitter: str | None) -> None:
    """As stock does: an AssertionError, for NaN and for infinity; without an emitter, stock."""
    torch._dynamo.reset()
    options = {"options": {"emitter": emitter}} if emitter else {}
    backend = "wrapper_ir" if emitter else "inductor"
    with inductor_config.patch(nan_asserts=True), wir.record() as programs:
        run = torch.compile(lambda x: (x @ x).log(), backend=backend, **options)
        x = torch.ones(4, 4)
        assert torch.equal(run(x), (x @ x).log())
        for value in (torch.nan, torch.inf, -1.0):  # the last one makes a NaN
            with pytest.raises(AssertionError):
                run(torch.full((4, 4), value) * torch.eye(4)[0])
    if emitter:
        (program,) = programs
        assert str(program).count("  wrapper_ir_inductor::assert_finite(") == 2
        with pytest.raises(Exception, match=r"input '.*' has NaN"):
            wir.interpret(program, torch.full((4, 4), torch.nan))
