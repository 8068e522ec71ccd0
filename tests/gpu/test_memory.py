"""Plans on a GPU: arenas that are kept from call to call, and whom they belong to meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from tests.gpu.cases import CASES, t
from tests.gpu.test_programs import captured, no_tuning_by_time, same

__all__ = ["no_tuning_by_time"]

CHAIN = """\
wir 2
program @p inference logical

symbol s0 : int [1, 4096] hint 16
input %x : f32[s0, s0] @cuda:0

extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  s0 = size %x, 0
  %a = allocate : f32[s0, s0] @cuda:0
  aten::add.out(%x, %x, out=out %a) @cuda:0
  %b = allocate : f32[s0, s0] @cuda:0
  aten::mm.out(%x, %x, out=out %b) @cuda:0
  %c = allocate : f32[s0, s0] @cuda:0
  aten::mm.out(%a, %b, out=out %c) @cuda:0
  %c_t = reinterpret %c : f32[s0, s0]{1, s0} @cuda:0
  %d = allocate : f32[s0, s0] @cuda:0
  aten::mm.out(%c_t, %b, out=out %d) @cuda:0
  %e = allocate : f32[s0, s0] @cuda:0
  aten::mm.out(%d, %a, out=out %e) @cuda:0
return %e
"""


def chain(size: int | None = None) -> wir.Program:
    if size is None:
        return wir.parse(CHAIN)
    text = CHAIN.replace("s0, s0]", f"{size}, {size}]").replace("{1, s0}", f"{{1, {size}}}")
    return wir.parse("\n".join(line for line in text.splitlines() if "s0" not in line))


def whole(size: int) -> torch.Tensor:
    """Of numbers whose products are exact, mostly zeros."""
    return (torch.rand(size, size, device="cuda") < 2 / size).float()


@pytest.mark.parametrize("name", CASES)
def test_kept_arenas_change_nothing(name: str) -> None:
    _, program, inputs = captured(name)
    plain, kept = wir.compile(program), wir.compile(program, arena="kept")
    for seed in range(3):
        found = []
        for function in (plain, kept):
            torch.manual_seed(seed)
            given = [x.clone() for x in inputs]  # some programs write to them
            found.append([*function(*given), *given])
        assert all(map(same, *found))


def _allocated() -> int:
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])


def _allocated_by_ops(x: torch.Tensor) -> int:
    """Allocations that the ops of the chain make for themselves: workspaces, since PyTorch 2.15."""
    results = [torch.empty_like(x) for _ in range(5)]
    before = _allocated()
    torch.add(x, x, out=results[0])
    for result in results[1:]:
        torch.mm(x, x, out=result)
    return _allocated() - before


def test_a_second_call_allocates_its_result_alone() -> None:
    function, x = wir.compile(chain(256), arena="kept"), whole(256)
    function(x)
    by_ops = _allocated_by_ops(x)
    before = _allocated()
    result = function(x)
    assert _allocated() - before == by_ops + 1
    assert function.release() > 0  # type: ignore[attr-defined]
    assert same(result[0], function(x)[0])


def test_arenas_grow_with_sizes() -> None:
    function, plain = wir.compile(chain(), arena="kept"), wir.compile(chain())
    for size in (8, 100, 3, 257, 16):
        x = whole(size)
        assert same(function(x)[0], plain(x)[0])


def test_streams_have_arenas_of_their_own() -> None:
    size = 1024
    function, plain = wir.compile(chain(size), arena="kept"), wir.compile(chain(size))
    xs = [whole(size) for _ in range(8)]
    expected = [plain(x)[0] for x in xs]
    torch.cuda.synchronize()
    streams, actual = [torch.cuda.Stream() for _ in range(2)], []
    for number, x in enumerate(xs):  # none waits for another
        with torch.cuda.stream(streams[number % 2]):
            actual.append(function(x)[0])
    torch.cuda.synchronize()
    assert all(map(same, actual, expected))
    assert function.release() >= 2 * 4 * size * size  # type: ignore[attr-defined]


def test_threads_have_arenas_of_their_own() -> None:
    function, plain = wir.compile(chain(512), arena="kept"), wir.compile(chain(512))
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            x = whole(512)
            if not same(function(x)[0], plain(x)[0]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_captured_call_has_an_arena_that_nobody_else_gets() -> None:
    size = 512
    function, plain = wir.compile(chain(size), arena="kept"), wir.compile(chain(size))
    x = whole(size)
    function(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = function(x)[0]
    function.release()  # type: ignore[attr-defined]
    rubbish = [torch.full((size, size), torch.nan, device="cuda") for _ in range(8)]
    for _ in range(3):
        x.copy_(whole(size))
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):  # runs beside the replay
            function(rubbish[0])
        graph.replay()
        torch.cuda.synchronize()
        assert same(actual, plain(x)[0])


def test_kept_arenas_and_graphs_together() -> None:
    _, program, _ = captured("attention")
    plain = wir.compile(program)
    function: Any = wir.compile(program, arena="kept", cuda_graph=True)
    for _ in range(5):
        x = t(2, 10, 64)
        assert all(map(same, function(x), plain(x)))
    assert function.cuda_graphs.status.replays >= 3


def test_snapshots_of_memory_have_the_names_of_buffers() -> None:
    x = torch.randn(64, 64, device="cuda")
    program = wir.capture(lambda x: torch.mm(torch.mm(x, x), x).nonzero(), (x,))
    function = wir.compile(program, profile=True)
    function(x)
    torch.cuda.memory._record_memory_history(context=None)
    try:
        torch.cuda.memory._set_memory_metadata("the caller's")
        function(x)
        assert torch.cuda.memory._get_memory_metadata() == "the caller's"
        traces = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._set_memory_metadata("")
        torch.cuda.memory._record_memory_history(enabled=None)
    named = [e["user_metadata"] for e in traces if e["action"] == "alloc"]
    assert {"allocate buf0", "allocate buf1", "aten::nonzero"} <= set(named)
