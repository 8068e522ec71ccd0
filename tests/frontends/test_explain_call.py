"""Where the time of a call goes, as ``wir.explain_call`` tells it."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.release import TORCH
from wrapper_ir import runtime
from wrapper_ir.aot import load
from wrapper_ir.frontends.inductor import straight, straight_gradients
from wrapper_ir.frontends.inductor.errors import NothingCalledError
from wrapper_ir.runtime.checks import InputChecks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(TORCH < (2, 13), reason="calls go through torch's layers"),
]


def explain(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    compiled = torch.compile(function, backend="wrapper_ir", **options)
    return wir.explain_call(compiled, *args, seconds=0.01)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_model(emitter: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        report = explain(model, torch.randn(3, 4), options={"emitter": emitter, "build": "wait"})
    (graph,) = report.graphs
    assert graph.hindrances == ()
    assert 0 < graph.program_us < report.total_us
    assert graph.around_us is not None
    assert 0 < report.guards_us < report.total_us
    if emitter != "cpp":  # which calls it without the dispatcher
        assert graph.calls["aten::addmm"][0] == 2
    assert any("check_tensor" in guard.text for guard in report.guards)
    assert [each.us for each in report.guards] == sorted(
        (each.us for each in report.guards), reverse=True
    )
    words = str(report)
    assert "graph 0: the program" in words
    assert ("2 x aten::addmm" in words) == (emitter != "cpp")
    told = json.loads(report.to_json())
    assert told["graphs"][0]["program_us"] == graph.program_us
    assert (graph.checks_us is None) == (emitter == "fx")
    assert told["graphs"][0]["checks_us"] == graph.checks_us
    assert told["graphs"][0]["lines_us"] == graph.lines_us
    assert ("of which checks of its arguments" in words) == (emitter != "fx")
    assert ("checks of arguments cannot be told" in words) == (emitter == "fx")
    assert told["advice"] == [*report.advice()]
    assert "spans" not in told  # a trace has them


def spans_of(report: Any) -> dict[int, list[dict[str, Any]]]:
    """Return the spans of a trace by thread."""
    found: dict[int, list[dict[str, Any]]] = {}
    for event in json.loads(report.to_trace())["traceEvents"]:
        if event["ph"] == "X":
            found.setdefault(event["tid"], []).append(event)
    return found


def test_a_trace() -> None:
    """What was measured is nested and ordered; what a profiler saw has lines and allocations."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        report = explain(model, torch.randn(3, 4), options={"emitter": "python", "profile": True})
    (graph,) = report.graphs
    assert graph.calls.keys() >= {"aten::addmm.out", "allocate buf2"}
    assert graph.calls["allocate buf2"][0] == 1
    measured, profiled = spans_of(report).values()
    assert [each["cat"] for each in measured if each["cat"] != "guard"] == [
        *("call", "dynamo", "guards", "wrappers", "program", "checks", "lines")
    ]
    assert sum(each["cat"] == "guard" for each in measured) == len(report.guards)
    by_kind = {each["cat"]: each for each in measured}
    end = {kind: each["ts"] + each["dur"] for kind, each in by_kind.items()}
    assert by_kind["call"]["ts"] == 0
    assert 0 <= by_kind["guards"]["dur"] <= by_kind["dynamo"]["dur"]
    assert end["dynamo"] == pytest.approx(by_kind["wrappers"]["ts"])
    assert by_kind["wrappers"]["ts"] <= by_kind["program"]["ts"]
    assert end["program"] <= end["wrappers"] <= end["call"]
    assert by_kind["checks"]["ts"] == by_kind["program"]["ts"]
    assert by_kind["checks"]["dur"] > 0
    assert end["checks"] == pytest.approx(by_kind["lines"]["ts"])
    assert end["lines"] == pytest.approx(end["program"])
    names = [each["name"] for each in profiled]
    assert names.count("aten::addmm.out") == 2  # lines
    assert names.count("aten::addmm") == 2  # ops
    made = [each["args"]["bytes"] for each in profiled if each["name"] == "allocate buf2"]
    assert made == [24]  # the other buffer is kept between calls
    assert profiled[0]["ts"] == 0


def overlapping() -> tuple[Tensor, Tensor]:
    """Return arguments that AOTAutograd passes as one where the first is written to."""
    base = torch.randn(8)
    return base[:5], base[3:]


def test_a_trace_of_graphs_that_go_through_torch() -> None:
    def broken(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        z = y * 2
        torch._dynamo.graph_break()
        return z * 2

    measured = spans_of(explain(broken, *overlapping()))[1]
    kinds = [each["cat"] for each in measured if each["cat"] not in ("guard", "guards")]
    program = ["program", "checks", "lines"]
    assert kinds == ["call", "dynamo", *program, "dynamo", "wrappers", *program]


def test_a_graph_that_goes_through_torch_says_why() -> None:
    report = explain(lambda x, y: (x.add_(1), y * 2)[1], *overlapping())
    (graph,) = report.graphs
    assert "torch wraps it once more" in graph.hindrances
    assert graph.around_us is None
    assert graph.hindrances[0] in str(report)


def test_views_with_gradients() -> None:
    w = torch.randn(4, requires_grad=True)
    report = explain(lambda x: (x.t(), x * w), torch.randn(3, 4))
    assert report.graphs[0].hindrances == ()


@pytest.mark.parametrize("is_made", [True, False])
def test_gradients(is_made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose node records the call, and why it is not ours."""
    if is_made:
        load.extension_module()
    else:
        monkeypatch.setattr(straight_gradients, "module_if_made", lambda: None)
    w = torch.randn(3, requires_grad=True)
    report = explain(lambda x: x * w, torch.randn(3))
    (graph,) = report.graphs
    assert graph.hindrances == ()
    assert bool(graph.node) == (not is_made or TORCH < (2, 14))
    assert ("torch's node of autograd" in str(report)) == bool(graph.node)
    assert ("is not compiled yet" in graph.node) != is_made


def in_two_graphs(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    torch._dynamo.graph_break()
    return y.relu() @ w


def slow_down(function: Callable[..., None]) -> Callable[..., None]:
    def slow(*args: Any) -> None:
        time.sleep(0.002)
        function(*args)

    slow.__module__ = function.__module__
    return slow


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_slow_checks_are_not_lines(
    dynamic: bool, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Python: checks of what is fixed, and those of sizes that vary."""
    if dynamic:
        monkeypatch.setattr(runtime, "check_layout", slow_down(runtime.check_layout))
    else:
        monkeypatch.setattr(InputChecks, "__call__", slow_down(InputChecks.__call__))
    x, w = torch.randn(6, 4), torch.randn(4, 4, requires_grad=training)
    report = explain(in_two_graphs, x, w, dynamic=dynamic, options={"emitter": "python"})
    assert len(report.graphs) == 2
    for graph in report.graphs:
        assert graph.checks_us >= 2000
        assert graph.lines_us < graph.checks_us / 2


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("training", [False, True])
def test_checks_of_cpp_grow_with_what_is_checked(training: bool) -> None:
    def added(*xs: Tensor) -> Tensor:
        y = torch.stack(xs).sum(0)
        torch._dynamo.graph_break()
        return y * 2

    xs = [torch.randn(6, 4, requires_grad=training) for _ in range(24)]
    report = explain(added, *xs, options={"emitter": "cpp", "build": "wait"})
    assert all(graph.is_cpp for graph in report.graphs)
    many, one = (graph.checks_us for graph in report.graphs)
    assert 0 < 4 * one < many


def test_checks_of_a_program_that_bypasses_autograd() -> None:
    """Its function is decorated."""
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6))).eval()
    with torch.no_grad():
        (graph,) = explain(model, torch.randn(3, 4), options={"emitter": "python"}).graphs
    assert graph.checks_us > 0


def ragged() -> Tensor:
    """Return a tensor whose size of no value goes past programs."""
    rows = [torch.ones(3, 4), torch.ones(5, 4)]
    made: Tensor = torch.nested.nested_tensor(rows, layout=torch.jagged)
    return made


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_checks_of_a_program_that_values_go_past(emitter: str) -> None:
    options = {"emitter": emitter, "build": "wait"}
    report = explain(lambda x: (x.transpose(1, 2) + 1).cos(), ragged(), options=options)
    (graph,) = report.graphs
    assert 0 < graph.checks_us < graph.program_us
    assert graph.is_cpp == (emitter == "cpp")
    assert ("is not in C++" in " ".join(report.advice())) != graph.is_cpp


def test_checks_of_a_program_that_was_built_in_the_background() -> None:
    """First Python serves calls, then the library."""
    compiled = torch.compile(
        lambda x: x.sin().cumsum(0) + 1, backend="wrapper_ir", options={"emitter": "cpp"}
    )
    x = torch.randn(3)
    compiled(x)
    assert wir.wait_for_builds()
    (graph,) = wir.explain_call(compiled, x, seconds=0.01).graphs
    assert 0 < graph.checks_us < graph.program_us
    assert graph.is_cpp


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_without_checks(emitter: str) -> None:
    """Libraries compare what is fixed in any case."""
    options = {"emitter": emitter, "build": "wait"}
    if emitter == "python":
        options["checks"] = "never"
    (graph,) = explain(lambda: torch.ones(3) + torch.arange(3), options=options).graphs
    assert graph.checks_us == pytest.approx(0, abs=0.1)
    assert graph.lines_us == pytest.approx(graph.program_us, abs=0.1)


def test_what_is_compared_of_an_ops_result_is_among_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "check_result", slow_down(runtime.check_result))
    with torch.library._scoped_library("wir_explained", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", torch.empty_like, "Meta")
        twice = torch.ops.wir_explained.twice
        options = {"emitter": "python"}
        report = explain(lambda x: twice(x) + 1, torch.randn(6, 4), dynamic=True, options=options)
    (graph,) = report.graphs
    assert graph.lines_us >= 2000
    assert 0 < graph.checks_us < graph.lines_us / 2


def test_what_is_cheaper() -> None:
    model = nn.Linear(4, 4).eval()
    with torch.no_grad():
        cpp = explain(model, torch.randn(3, 4), options={"emitter": "cpp", "build": "wait"})
        python = explain(model, torch.randn(3, 4), options={"emitter": "python"})
    assert [cpp.graphs[0].is_cpp, python.graphs[0].is_cpp] == [True, False]
    told = ["is not in C++" in " ".join(report.advice()) for report in (cpp, python)]
    assert told == [False, True]
    guarded = replace(cpp, dynamo_us=cpp.total_us / 2)
    assert "wir.jit does without" in str(guarded)


def test_several_graphs() -> None:
    def broken(x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    report = explain(broken, torch.randn(3), options={"emitter": "python", "profile": True})
    one, two = (graph.calls for graph in report.graphs)
    assert one["cpp_fused_add_0"][0] == two["cpp_fused_mul_0"][0] == 1
    assert "2 graphs" in " ".join(report.advice())


def test_nothing_is_left_behind() -> None:
    def function(x: Tensor) -> Tensor:
        return x.sin() + 1

    compiled = torch.compile(function, backend="wrapper_ir")
    x = torch.randn(3)
    wanted = compiled(x)
    before = {id(graph): graph.compiled.current_callable for graph in straight.graphs}
    modules = [getattr(call, "__globals__", {}) for call in before.values()]
    checks = [module.get("check_inputs") for module in modules]
    assert any(isinstance(each, InputChecks) for each in checks)
    wir.explain_call(compiled, x, seconds=0.01)
    assert not straight.watchers
    for graph in straight.graphs:
        assert before.get(id(graph)) in (None, graph.compiled.current_callable)
    assert [module.get("check_inputs") for module in modules] == checks
    assert torch.equal(compiled(x), wanted)


def test_an_error_of_the_call_comes_through() -> None:
    def function(x: Tensor, table: Tensor) -> Tensor:
        return table.index_select(0, x).cumsum(0)

    compiled = torch.compile(function, backend="wrapper_ir")
    with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
        wir.explain_call(compiled, torch.tensor([9]), torch.randn(3, 2), seconds=0.01)
    assert not straight.watchers


@pytest.mark.parametrize("other", [torch.sin, torch.compile(torch.sin, backend="eager")])
def test_what_we_did_not_compile_is_refused(other: Callable[..., Any]) -> None:
    with pytest.raises(NothingCalledError, match="ran no graph that wrapper_ir compiled"):
        wir.explain_call(other, torch.randn(3), seconds=0.01)


def test_other_threads_call_meanwhile() -> None:
    """They get their results, and are not part of the report."""
    compiled = torch.compile(lambda x: x.sin() + 1, backend="wrapper_ir")
    x = torch.randn(3)
    wanted = compiled(x)
    compiled(x)
    is_over = threading.Event()
    wrong: list[Tensor] = []

    def work() -> None:
        while not is_over.is_set():
            if not torch.equal(found := compiled(x), wanted):
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        report = wir.explain_call(compiled, x, seconds=0.05)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert len(report.graphs) == 1
    assert not wrong
