"""Where in a model the lines of a program come from."""

from __future__ import annotations

import torch

from wrapper_ir.frontends.common.origins import origin_of


def _node(graph: torch.fx.Graph, module: str, *lines: int) -> torch.fx.Node:
    node = graph.call_function(torch.ops.aten.relu.default, (1,))
    frames = (f'  File "net.py", line {line}, in forward\n    code\n' for line in lines)
    node.meta["stack_trace"] = "".join(frames)
    node.meta["nn_module_stack"] = {module: (module, "torch.nn.Module")}
    return node


def test_the_place_is_that_of_the_last_node() -> None:
    """Also where a node before it shares its line or its module."""
    graph = torch.fx.Graph()
    first, second = _node(graph, "layers.0", 20, 12), _node(graph, "layers.1", 20, 3)
    assert origin_of([first, second]).source == "net.py:3, layers.1"
    last = _node(graph, "layers.0", 20, 12)
    assert origin_of([first, second, last]).source == "net.py:12, layers.0"
    assert origin_of([first, last]).frames == origin_of([first]).frames
