"""Where in a model the lines of a program come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wrapper_ir.frontends.common import origins
from wrapper_ir.frontends.common.origins import origin_of

if TYPE_CHECKING:
    import pytest


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


def test_a_torch_that_is_not_installed_is_not_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a source tree, its modules lie in no folder of packages."""
    node = torch.fx.Graph().call_function(torch.ops.aten.relu.default, (1,))
    own = '  File "/src/pytorch/torch/nn/modules/linear.py", line 130, in forward\n    code\n'
    beside = '  File "/src/pytorch/torchery/net.py", line 3, in forward\n    code\n'
    node.meta["stack_trace"] = beside + own
    monkeypatch.setattr(origins, "_HOME", "/src/pytorch/")
    origins._frames.cache_clear()
    found = origin_of([node])
    origins._frames.cache_clear()
    assert found.place == "/src/pytorch/torchery/net.py:3"
    assert found.frames[-1].file == "site-packages/torch/nn/modules/linear.py"
