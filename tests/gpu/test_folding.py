"""What depends on constants alone is computed on the GPU when a library is loaded."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.export.test_folding import Choosing, Empty, Folded, Several, Tied, capture
from tests.native.calls import Native

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UPDATE = "UpdateConstantBufferPairs"


def rows(count: int) -> Tensor:
    return torch.linspace(-1, 1, 4 * count, device="cuda").reshape(count, 4)


def close(found: list[Tensor], wanted: object) -> None:
    leaves = [each.detach() for each in torch.utils._pytree.tree_leaves(wanted)]
    torch.testing.assert_close([*found], leaves)


@pytest.mark.parametrize("kind", [Folded, Tied, Several, Choosing, Empty])
def test_models(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = kind().eval().cuda().requires_grad_(requires_grad=False)
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}}
    program = capture(copy.deepcopy(model), rows(2), dynamic_shapes=shapes)
    assert program.folded
    package = wir.export(program, tmp_path / "m.pt2")
    ways: dict[str, Callable[..., object]] = {
        **{emitter: wir.compile(program, emitter) for emitter in ("python", "fx", "cpp")},
        "torch": torch._inductor.aoti_load_package(str(package)),
        "ours": wir.load_package(package),
    }
    for x in (rows(2), rows(9), rows(2)):
        wanted = model(x)
        for call in ways.values():
            close(torch.utils._pytree.tree_leaves(call(x)), wanted)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_updates_are_folded(cuda_graph: bool, tmp_path: Path) -> None:
    """Captured calls, too, read what was folded last."""
    torch.manual_seed(0)
    model = Folded().eval().cuda()
    program = capture(model, rows(2))
    file = wir.export(program, tmp_path / "m.so", cuda_graph=cuda_graph)
    runner = torch._C._aoti.AOTIModelContainerRunnerCuda(str(file), 1, "cuda", "")

    def check(state: dict[str, Tensor]) -> None:
        for _ in range(4):
            x = rows(2)
            close(runner.run([x]), torch.func.functional_call(model, state, (x,)))

    check({})
    for seed, managed in enumerate((False, True, False)):
        torch.manual_seed(seed)
        state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
        runner.update_constant_buffer(state, False, True, managed)
        check(state)
        part = {"b": torch.randn_like(state["b"])}
        runner.update_constant_buffer(part, False, False, managed)
        check(state | part)
    inactive = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
    runner.update_constant_buffer(inactive, True, True, False)
    check(state | part)
    runner.swap_constant_buffer()
    check(inactive)


def test_updates_behind_a_busy_stream(tmp_path: Path) -> None:
    """Values that a stream is still writing are folded after it, and calls follow the folding."""
    model = Folded().eval().cuda()
    file = wir.export(capture(model, rows(2)), tmp_path / "m.so")
    native = Native(file, device="cuda")
    x, stream = rows(2), torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
            native.update(UPDATE, state, False, True)
            (found,) = native.run([x], results=1, stream=stream.cuda_stream)
            wanted = torch.func.functional_call(model, state, (x,))
        stream.synchronize()
        close([found], wanted)
