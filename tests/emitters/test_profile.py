"""Ranges in PyTorch's profiler, where asked for: one a call, one an allocation, by their names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import wrapper_ir as wir
from wrapper_ir.lines.kernels import KernelCall

EMITTERS = ("python", "cpp")

# PyTorch 2.11 says so of every profiler, the first time.
pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")


def shown(function: Any, *args: Any) -> list[str]:
    """The names of the ranges of one call, in the order in which they begin."""
    function(*args)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        function(*args)
    events = sorted(seen.events() or (), key=lambda event: event.time_range.start)
    return [event.name for event in events]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1)).eval()


@pytest.mark.parametrize("emitter", EMITTERS)
def test_each_call_is_a_range(emitter: str) -> None:
    made, x = model(), torch.randn(3, 8)
    program = wir.capture(made, (x,))
    calls = [line.kernel for line in program.body if isinstance(line, KernelCall)]
    function = wir.compile(program, emitter, profile=True)
    names = shown(function, x)
    assert [name for name in names if name in calls] == calls
    assert names.count("aten::addmm.out") == 2
    assert torch.equal(function(x)[0], wir.compile(program, emitter)(x)[0])


@pytest.mark.parametrize("emitter", EMITTERS)
def test_without_it_there_is_no_trace_of_it(emitter: str) -> None:
    made, x = model(), torch.randn(3, 8)
    program = wir.capture(made, (x,))
    assert "aten::addmm.out" not in shown(wir.compile(program, emitter), x)
    plain = wir.emit(program, emitter).source
    assert "shown_range" not in plain
    assert "Mark" not in plain


def test_on_a_gpu_the_range_names_memory_in_snapshots() -> None:
    """What the context does there, a test on a GPU looks at."""
    b = wir.Builder("p")
    x = b.input("x", "f32", (4,), device="cuda:0")
    y = b.allocate("f32", (4,), device="cuda:0")
    b.returns(b.extern("aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)", y, x))
    text = wir.emit(b.build(), "python", profile=True).source
    assert 'with shown_gpu_range("allocate ' in text
    assert "shown_range" not in text


@pytest.mark.parametrize("emitter", EMITTERS)
def test_results_of_calls_are_seen_after_the_range(emitter: str) -> None:
    """Numbers and tensors that an op returns are defined outside of the block around the call."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        values, places = torch.topk(x, 2)
        return torch.nonzero(x) + 1, values * 2, places

    x = torch.tensor([1.0, 0.0, 3.0, 2.0])
    program = wir.capture(function, (x,))
    run = wir.compile(program, emitter, profile=True)
    for found, wanted in zip(run(x), function(x), strict=True):
        assert torch.equal(found, wanted)
    assert "aten::nonzero" in shown(run, x)


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("options", [{"scratch_bytes": 0}, {"arena": "kept"}], ids=str)
def test_memory_has_the_names_of_buffers(emitter: str, options: dict[str, Any]) -> None:
    """What a range allocates is the profiler's to count; kept memory is allocated once."""
    x = torch.randn(64, 64)
    program = wir.capture(lambda x: torch.mm(torch.mm(x, x), x), (x,))
    function = wir.compile(program, emitter, profile=True, **options)
    function(x)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        function(x)
    taken = {e.name: e.cpu_memory_usage for e in seen.events() or () if e.cpu_memory_usage}
    kept = {} if "arena" in options else {"allocate buf0": x.nbytes}
    assert {k: v for k, v in taken.items() if k.startswith("allocate")} == {
        **kept,
        "allocate buf1": x.nbytes,
    }


@pytest.mark.parametrize("emitter", EMITTERS)
def test_inductor_s_setting_asks_for_it(emitter: str) -> None:
    torch._dynamo.reset()
    with torch._inductor.config.patch("cpp.enable_kernel_profile", True):
        compiled = torch.compile(model(), backend="wrapper_ir", options={"emitter": emitter})
        with torch.no_grad(), wir.record() as programs:
            names = shown(compiled, torch.randn(3, 8))
    (program,) = programs
    calls = {line.kernel for line in program.body if isinstance(line, KernelCall)}
    assert calls
    assert calls <= {*names}
