"""Programs on a GPU: captured, printed and read back, planned, run; against stock Inductor."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

import wrapper_ir as wir
from tests.gpu.cases import CASES, t
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import KernelCall

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_tuning_by_time() -> Iterator[None]:
    """Have both sides choose configurations by rule: sums depend on them in the last bit.

    The first setting alone holds for one compilation: Dynamo sets it back when it has traced.
    """
    with torch._inductor.config.patch(
        {"deterministic": True, "test_configs.force_filter_reduction_configs": True}
    ):
        yield


def same(actual: Any, expected: Any) -> bool:
    """Whether tensors are of one layout and have the same bits."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    return torch.equal(bits(actual), bits(expected)) and actual.device == expected.device


def bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def captured(name: str) -> tuple[nn.Module, wir.Program, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    case = CASES[name]
    model, inputs = case.make().cuda(), case.inputs()
    options: dict[str, Any] = {}
    if case.dynamic is not None:
        options["dynamic_shapes"] = (case.dynamic,)
    torch._dynamo.reset()
    with torch.no_grad(), torch._inductor.config.patch(dict(case.config)):
        return model, wir.capture(model, inputs, **options), inputs


def compiled(
    name: str,
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    backend: str,
    options: dict[str, Any] | None = None,
) -> list[Tensor]:
    torch._dynamo.reset()
    for value, sizes in zip(inputs, CASES[name].dynamic or (), strict=False):
        for size in sizes:
            torch._dynamo.mark_dynamic(value, size)
    torch.manual_seed(1)
    with torch.no_grad(), torch._inductor.config.patch(dict(CASES[name].config)):
        results = torch.compile(model, backend=backend, options=options)(*inputs)
    return list(results) if isinstance(results, (tuple, list)) else [results]


def stock(name: str, model: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    return compiled(name, model, inputs, "inductor")


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_stock(name: str) -> None:
    model, program, inputs = captured(name)
    expected = stock(name, model, inputs)
    function = wir.compile(program)
    torch.manual_seed(1)
    actual = function(*inputs)
    assert len(actual) == len(expected)
    assert all(map(same, actual, expected))


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].config or "_" in name])
def test_the_backend_gives_the_same(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = CASES[name].make().cuda(), CASES[name].inputs()
    expected = stock(name, model, inputs)
    after = torch.rand(1, device="cuda")
    before = torch.rand(1)
    actual = compiled(name, model, inputs, "wrapper_ir")
    assert len(actual) == len(expected)
    assert all(map(same, actual, expected))
    assert torch.equal(after, torch.rand(1, device="cuda"))
    assert torch.equal(before, torch.rand(1))


@pytest.mark.parametrize("name", CASES)
def test_read_back_from_text(name: str) -> None:
    _, program, _ = captured(name)
    again = wir.parse(str(program)).replace(data=program.data)
    assert again == program
    assert wir.emit(again).source == wir.emit(program).source


@pytest.mark.parametrize(
    "name", ["pointwise", "scan_in_parts", "dynamic", "attention", "template", "combo", "foreach"]
)
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
def test_every_plan_gives_the_same(name: str, strategy: str) -> None:
    _, program, inputs = captured(name)
    expected = wir.compile(program)(*inputs)
    planned = wir.plan_memory(program, strategy)
    assert all(map(same, wir.compile(planned)(*inputs), expected))


def test_other_sizes() -> None:
    model, program, _ = captured("dynamic")
    function = wir.compile(program)
    for size in (2, 7, 200):
        inputs = (t(size, 64), t(64, 64))
        torch.testing.assert_close(tuple(function(*inputs)), tuple(model(*inputs)))


def test_kernels_are_pinned() -> None:
    _, program, _ = captured("softmax")
    calls = [line for line in program.body if isinstance(line, KernelCall)]
    assert calls
    assert all(call.grid for call in calls)
    text = str(program)
    assert "XBLOCK" in text
    assert "triton_heuristics" not in text
    assert wir.emit(program).source == wir.emit(wir.parse(text)).source


def test_training() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).cuda()
    theirs = copy.deepcopy(ours)
    x = t(32, 64)
    for model, backend in ((ours, "wrapper_ir"), (theirs, "inductor")):
        torch._dynamo.reset()
        torch.compile(model, backend=backend)(x).square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        # cuBLAS may add up in another order from one call to the next.
        torch.testing.assert_close(mine.grad, other.grad)


def test_dropout_draws_the_same_numbers() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).cuda().train()
    x, found = t(32, 64), []
    for backend in ("wrapper_ir", "inductor"):
        torch._dynamo.reset()
        with torch.no_grad():
            compiled = torch.compile(model, backend=backend)
            torch.manual_seed(3)
            found.append((compiled(x), compiled(x), torch.rand(4, device="cuda")))
    assert all(map(same, *found))


def test_a_thread_that_has_not_used_the_gpu() -> None:
    _, program, inputs = captured("pointwise")
    function, found = wir.compile(program), []
    thread = threading.Thread(target=lambda: found.append(function(*inputs)))
    thread.start()
    thread.join()
    assert all(map(same, found[0], function(*inputs)))


def test_another_stream() -> None:
    _, program, inputs = captured("pointwise")
    function = wir.compile(program)
    expected = function(*inputs)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        actual = function(*inputs)
    stream.synchronize()
    assert all(map(same, actual, expected))


def test_a_captured_graph() -> None:
    _, program, inputs = captured("pointwise")
    function = wir.compile(program)
    expected = function(*inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = function(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(same, actual, expected))


def test_odd_addresses() -> None:
    """Kernels load 16 bytes at a time where an input's address is a multiple of 16."""
    model, program, inputs = captured("pointwise")
    odd = torch.empty(64 * 64 + 1, device="cuda")[1:].view(64, 64).copy_(inputs[0])
    expected = wir.compile(program)(*inputs)
    for target in ("python", "cpp", "fx"):
        assert all(map(same, wir.compile(program, target)(odd, inputs[1]), expected))
    torch._dynamo.reset()
    with torch.no_grad():
        function = torch.compile(model, backend="wrapper_ir")
        assert same(function(*inputs), function(odd, inputs[1]))


def test_optimisers() -> None:
    def updated(backend: str) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        weights = [t(64, 64).requires_grad_() for _ in range(4)]
        for weight in weights:
            weight.grad = torch.randn_like(weight)
        optimiser = torch.optim.Adam(weights, lr=1e-3, foreach=True, capturable=True)
        step = torch.compile(optimiser.step, backend=backend)
        step()
        step()
        return weights

    assert all(map(same, updated("wrapper_ir"), updated("inductor")))


def test_flex_attention_backwards() -> None:
    def gradients(backend: str) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = CASES["flex_attention"].make()
        inputs = [x.requires_grad_() for x in CASES["flex_attention"].inputs()]
        torch.compile(model, backend=backend)(*inputs).sum().backward()
        return [x.grad for x in inputs if x.grad is not None]

    ours, theirs = gradients("wrapper_ir"), gradients("inductor")
    assert len(ours) == 3
    assert all(map(same, ours, theirs))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_attention_in_training(emitter: str) -> None:
    """The op that is chosen for this type returns the state of random numbers on the host."""

    def gradients(**options: Any) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = CASES["attention"].make().cuda()
        (x,) = CASES["attention"].inputs()
        torch.compile(model, **options)(x).sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    ours = gradients(backend="wrapper_ir", options={"emitter": emitter})
    theirs = gradients(backend="inductor")
    assert len(ours) == len(theirs) == 6
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)  # see test_training


def test_a_chosen_configuration_stays() -> None:
    """What capturing times is chosen once: after that a program's text says it all."""
    with torch._inductor.config.patch(deterministic=False, max_autotune=True):
        _, program, inputs = captured("reduction")
    function, again = wir.compile(program), wir.compile(wir.parse(str(program)))
    assert wir.emit(program).source == wir.emit(wir.parse(str(program))).source
    assert all(map(same, function(*inputs), again(*inputs)))


@pytest.mark.parametrize("name", ["with_heuristics", "over_a_grid_of_the_data"])
def test_kernels_that_dynamo_alone_knows(name: str) -> None:
    function = getattr(pytest.importorskip("tests.gpu.user_kernels"), name)
    x, y = t(64, 64), t(64, 64)
    found = []
    for backend in ("wrapper_ir", "inductor"):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            found.append(torch.compile(function, backend=backend, fullgraph=True)(x, y))
    assert same(*found)


def test_descriptors_made_on_the_host_are_refused() -> None:
    function = pytest.importorskip("tests.gpu.user_kernels").with_descriptors
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match=r"tensor descriptor .* made on the host"):
        torch.compile(function, backend="wrapper_ir", fullgraph=True)(t(64, 64), t(64, 64))


def test_capturing_a_kernel_that_export_does_not_see() -> None:
    kernels = pytest.importorskip("tests.gpu.user_kernels")
    with pytest.raises(WrapperIRError, match="wrap_triton"):
        wir.capture(kernels.with_heuristics, (t(64, 64), t(64, 64)))


def test_what_a_kernel_of_the_user_gets_is_changed() -> None:
    """Also where it is an input of the graph."""
    kernels = pytest.importorskip("tests.gpu.user_kernels")

    def model(x: Tensor) -> Tensor:
        kernels.increase[(32,)](x, x.numel(), BLOCK=128)
        return x * 2

    found = []
    for backend in ("wrapper_ir", "inductor"):
        torch._dynamo.reset()
        x = torch.arange(4096.0, device="cuda")
        found.append((torch.compile(model, backend=backend, fullgraph=True)(x), x))
    assert all(map(same, *found))
    assert found[0][1][0] == 1


def test_inputs_on_the_host_are_refused() -> None:
    _, program, inputs = captured("pointwise")
    with pytest.raises(WrapperIRError, match="device"):
        wir.compile(program)(inputs[0].cpu(), inputs[1])


def test_values_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    _, program, inputs = captured("softmax")
    expected = wir.compile(program)(*inputs)
    actual = wir.compile(program, debug="print")(*inputs)
    assert all(map(same, actual, expected))
    assert "triton_" in "".join(capfd.readouterr())
