"""Graph modules: traced by others, changed by passes, exported for users; what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import wrapper_ir as wir
from tests.frontends_aten.support import export, ops
from wrapper_ir.frontends import aten

X = torch.linspace(-1, 1, 12).view(4, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + x.view(3, 4).t().reshape(4, 3)


def model(x: Tensor) -> Tensor:
    return torch.relu(x @ torch.ones_like(x).t()) + x.sum() * x.shape[0]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_what_make_fx_traces(mode: str) -> None:
    traced = make_fx(model, tracing_mode=mode)(X)
    program = wir.from_fx(traced)
    assert torch.equal(wir.compile(program)(X)[0], model(X))
    assert bool(program.symbols) is (mode == "symbolic")
    if mode == "symbolic":
        larger = torch.randn(5, 6)
        assert torch.equal(wir.compile(program)(larger)[0], model(larger))


def test_shapes_that_a_pass_has_left_out_are_worked_out() -> None:
    traced = make_fx(Net())(X)
    for node in traced.graph.nodes:
        if node.op == "call_function":
            node.meta.pop("val")
    assert torch.equal(wir.compile(wir.from_fx(traced))(X)[0], traced(X))
    assert all("val" not in n.meta for n in traced.graph.nodes if n.op == "call_function")


def test_the_module_of_an_exported_program() -> None:
    model = Net()
    module = export(model, (X,)).module()
    program = wir.from_fx(module)
    assert sorted(c.qualified_name for c in program.constants.values()) == [
        "linear.bias",
        "linear.weight",
    ]
    assert torch.equal(wir.compile(program)(X)[0], model(X))


def test_a_module_of_modules_is_refused_and_with_inputs_exported() -> None:
    traced = torch.fx.symbolic_trace(Net())
    with pytest.raises(aten.NotAnAtenGraphError, match="%linear is a call_module") as caught:
        wir.from_fx(traced)
    assert "torch.export.export" in str(caught.value)
    program = wir.from_fx(traced, (X,))
    assert "aten::linear" in ops(program)
    assert torch.equal(wir.compile(program)(X)[0], traced(X))


def test_a_module_without_shapes_is_refused() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten.relu.default, (x,)))
    with pytest.raises(aten.NotAnAtenGraphError, match="the shape of %x is not known"):
        wir.from_fx(torch.fx.GraphModule(nn.Module(), graph))


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(aten.NotAModelError, match="not a Net"):
        wir.from_fx(Net())


def test_what_cannot_be_exported_says_why() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x.nonexistent()  # type: ignore[attr-defined]

    traced = torch.fx.symbolic_trace(Wrong())
    with pytest.raises(aten.ExportError, match="nonexistent"):
        wir.from_fx(traced, (X,))


def test_an_input_without_a_form_is_named() -> None:
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(name) for name in ("x", "y", "z")]
    for node, value in zip(inputs, (X, X.to_sparse(), X.to_sparse()), strict=True):
        node.meta["val"] = value
    added = graph.call_function(torch.ops.aten.add.Tensor, tuple(inputs[:2]))
    added.meta["val"] = X
    graph.output((added,))
    with pytest.raises(aten.UnsupportedGraphError, match="is not strided") as caught:
        wir.from_fx(torch.fx.GraphModule(nn.Module(), graph))
    assert [problem.node for problem in caught.value.fields["problems"]] == ["y", "z"]  # type: ignore[attr-defined]


def test_all_nodes_without_a_form_are_listed_with_their_lines() -> None:
    class Sparse(nn.Module):
        def forward(self, x: Tensor) -> Any:
            a = x.to_sparse()
            b = (x + 1).to_sparse()
            return a, b, x * 2

    with pytest.raises(aten.UnsupportedGraphError) as caught:
        wir.from_fx(export(Sparse(), (X,)))
    problems = caught.value.fields["problems"]
    assert isinstance(problems, tuple)
    assert [problem.node for problem in problems] == ["to_sparse", "to_sparse_1"]
    assert all("test_modules.py:" in problem.source for problem in problems)
    assert "2 nodes of the graph" in str(caught.value)


def test_a_string_among_the_results_is_refused() -> None:
    with pytest.raises(aten.UnsupportedGraphError, match="result 1: a result of type str"):
        wir.from_fx(export(lambda x: (x + 1, "text"), (X,)))
