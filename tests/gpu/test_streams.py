"""Programs on several streams, run: results are those of one stream, over and over.

The work on a stream is made long enough that a wait that is missing would be seen: the test says so
of itself, by running a program without its waits.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.lines import Program, RecordEvent, WaitEvent

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.build.values import Buffer

SIZE = 2048
LAPS = 20
MM = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
ADD = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
FILL = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
GPU = "cuda:0"
DOUBLE = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + index, 2 * tl.load(x + index))
"""


@pytest.fixture(autouse=True)
def _exactly() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


def chain(b: wir.Builder, x: Buffer, laps: int) -> Buffer:
    """A long chain of products on the stream of the block."""
    for _ in range(laps):
        y = b.allocate("f32", (SIZE, SIZE))
        b.extern(MM, x, x, out=y)
        x = y
    return x


def forked(streams: int, *, mempool: bool = False) -> Program:
    """Chains of products side by side, added up at the end."""
    b = wir.Builder("forked", device=GPU)
    x = b.input("x", "f32", (SIZE, SIZE))
    numbers = [b.stream() for _ in range(streams)]
    pool = b.mempool() if mempool else 0
    start, ends = b.event(), [b.event() for _ in range(streams)]
    seed = b.allocate("f32", (SIZE, SIZE))
    b.extern(MM, x, x, out=seed)
    b.record(start)
    parts = []
    for number, end in zip(numbers, ends, strict=True):
        b.wait(start, number)
        with b.on(number, mempool=pool):
            parts.append(chain(b, seed, 3 + number))
        b.record(end, number)
    total = chain(b, seed, 2)
    for part, end in zip(parts, ends, strict=True):
        b.wait(end)
        after = b.allocate("f32", (SIZE, SIZE))
        b.extern(ADD, total, part, out=after)
        total = after
    b.returns(total)
    return b.build()


def expected(x: Tensor, streams: int) -> Tensor:
    seed = x @ x
    parts = []
    for laps in (2, *(3 + n for n in range(1, streams + 1))):
        y = seed
        for _ in range(laps):
            y = y @ y
        parts.append(y)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def permutation(seed: int) -> Tensor:
    """A matrix whose products are exact, and whose powers all differ."""
    order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(seed))
    return torch.eye(SIZE)[order].to(GPU)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
@pytest.mark.parametrize("streams", [1, 3])
def test_streams_change_nothing(streams: int, strategy: str, emitter: str) -> None:
    run = wir.compile(wir.plan_memory(forked(streams), strategy), emitter)
    inputs = [permutation(seed) for seed in range(3)]
    wanted = [expected(x, streams) for x in inputs]
    found = [run(inputs[lap % 3])[0] for lap in range(LAPS)]  # nothing waits between calls
    for lap, each in enumerate(found):
        assert torch.equal(each, wanted[lap % 3]), lap


def test_without_its_waits_it_would_be_seen() -> None:
    program = wir.plan_memory(forked(3))
    body = [line for line in program.body if not isinstance(line, (RecordEvent, WaitEvent))]
    hasty = program.replace(body=tuple(body))
    assert {fault.rule.name for fault in wir.diagnose(hasty)} >= {"race"}
    with pytest.raises(wir.VerificationError):
        wir.emit(hasty)
    x = permutation(0)
    wanted = expected(x, 3)
    source = PythonEmitter().emit(program).source
    lines = source.splitlines()
    left = [line for line in lines if ".wait(" not in line]
    assert len(left) == len(lines) - 6
    # Memory that a call gets may hold the right numbers of the last one.
    torch.cuda.empty_cache()
    unsafe: dict[str, object] = {"__name__": "unsafe"}
    exec(compile("\n".join(left), "unsafe.py", "exec"), unsafe)
    call = unsafe["call"]
    assert callable(call)
    outcomes = [torch.equal(call([x])[0], wanted) for _ in range(LAPS)]
    assert not all(outcomes)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_memory_is_not_handed_out_early(emitter: str) -> None:
    """What one stream reads is freed while it is at work; the next allocation must not get it."""
    b = wir.Builder("early", device=GPU)
    x = b.input("x", "f32", (SIZE, SIZE))
    side, ready, done = b.stream(), b.event(), b.event()
    result = b.allocate("f32", (SIZE, SIZE))
    given = b.allocate("f32", (SIZE, SIZE))
    b.extern(MM, x, x, out=given)
    b.record(ready)
    b.wait(ready, side)
    with b.on(side):
        late = chain(b, x, 8)  # keeps the stream busy
        b.extern(ADD, given, late, out=result)
    for number in range(6):  # asks for memory of that size, and spoils it, on the caller's stream
        other = b.allocate("f32", (SIZE, SIZE))
        b.extern(FILL, other, 1000.0 + number)
    b.record(done, side)
    b.wait(done)
    b.returns(result)
    logical = b.build()
    planned = wir.plan_memory(logical, "none")
    x = permutation(1)
    late = x
    for _ in range(8):
        late = late @ late
    wanted = x @ x + late
    for program in (planned, wir.plan_memory(logical)):
        run = wir.compile(program, emitter)
        for _ in range(LAPS):
            assert torch.equal(run(x)[0], wanted)
    # Freed at once, with the word that the stream is not done, it is not handed out either.
    lines = [line for line in planned.body if getattr(line, "buffer", "") != given.name]
    at = 1 + max(n for n, line in enumerate(lines) if given.name in wir.lines.effects(line).reads)
    lines.insert(at, wir.Free(given.name, (1,)))
    told = planned.replace(body=tuple(lines))
    said = {"python": "record_stream(stream_1)", "cpp": "call.queues->wait(3, 0);"}
    assert said[emitter] in wir.emit(told, emitter).source
    run = wir.compile(told, emitter)
    for _ in range(LAPS):
        assert torch.equal(run(x)[0], wanted)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_triton_kernels_run_on_their_stream(emitter: str) -> None:
    b = wir.Builder("launched", device=GPU)
    x = b.input("x", "f32", (SIZE, SIZE))
    side, ready, done = b.stream(), b.event(), b.event()
    double = b.triton_kernel(
        "double",
        DOUBLE,
        reads=[("x", "f32")],
        writes=[("out", "f32")],
        constants={"BLOCK": 1024},
    )
    y = b.allocate("f32", (SIZE, SIZE))
    z = b.allocate("f32", (SIZE, SIZE))
    long = chain(b, x, 6)
    b.record(ready)
    b.wait(ready, side)
    with b.on(side):
        b.call(double, long, y, grid=(SIZE * SIZE // 1024,))
        b.call(double, y, z, grid=(SIZE * SIZE // 1024,))
    b.record(done, side)
    b.wait(done)
    b.returns(z)
    program = b.build()
    assert "with stream_1:\n        handle_1 = current_stream(0)\n" in wir.emit(program).source
    run = wir.compile(program, emitter)
    x = permutation(2)
    wanted = x
    for _ in range(6):
        wanted = wanted @ wanted
    for _ in range(LAPS):
        assert torch.equal(run(x)[0], 4 * wanted)


def test_memory_pools() -> None:
    run = wir.compile(forked(2, mempool=True))
    x = permutation(3)
    wanted = expected(x, 2)
    for _ in range(3):
        assert torch.equal(run(x)[0], wanted)
    source = wir.emit(forked(2, mempool=True)).source
    assert "with torch.cuda.use_mem_pool(mempool_1, cuda_0), stream_1:" in source


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_events_put_the_streams_of_callers_in_order(emitter: str) -> None:
    """Threads that call side by side, each on a stream of its own, do not disturb each other."""
    run = wir.compile(forked(2), emitter)
    inputs = [permutation(seed) for seed in range(4)]
    wanted = [expected(x, 2) for x in inputs]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [run(inputs[number])[0] for _ in range(5)]
            wrong.extend(number for each in found if not torch.equal(each, wanted[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_its_waits_it_would_be_seen_in_cpp() -> None:
    artifact: Any = wir.emit(wir.plan_memory(forked(3)), "cpp")
    # Two for each stream, and one by which the memory that it has used goes back.
    assert artifact.source.count("call.queues->wait(") == 9
    left = {
        name: text.replace("call.queues->wait(", "static_cast<void>(")
        for name, text in artifact.sources.items()
    }
    x = permutation(0)
    wanted = expected(x, 3)
    torch.cuda.empty_cache()
    run = dataclasses.replace(artifact, sources=left).load()
    outcomes = [torch.equal(run(x)[0], wanted) for _ in range(LAPS)]
    assert not all(outcomes)


def test_the_host_waits_where_a_program_says_so() -> None:
    b = wir.Builder("waiting", device=GPU)
    x = b.input("x", "f32", (SIZE, SIZE))
    side, ready, done = b.stream(), b.event(), b.event()
    result = b.allocate("f32", (SIZE, SIZE))
    b.record(ready)
    b.wait(ready, side)
    with b.on(side):
        b.extern(ADD, chain(b, x, 40), x, out=result)
    b.record(done, side)
    b.wait(done)
    b.synchronize()
    b.returns(result)
    run = wir.compile(b.build(), "cpp")
    x = permutation(4)
    run(x)
    torch.cuda.synchronize()
    run(x)
    assert torch.cuda.current_stream().query()


def test_an_exported_library_has_streams(tmp_path: Path) -> None:
    program = wir.plan_memory(forked(2))
    wir.export(program, tmp_path / "forked.pt2")
    package = torch._inductor.aoti_load_package(str(tmp_path / "forked.pt2"))
    ours = wir.load_package(tmp_path / "forked.pt2")
    for seed in range(3):
        x = permutation(seed)
        wanted = expected(x, 2)
        for call in (package, ours):
            assert all(torch.equal(call(x)[0], wanted) for _ in range(5))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_a_graph_of_it_is_not_captured(emitter: str) -> None:
    run: Any = wir.compile(forked(1), emitter, cuda_graph=True)
    x = permutation(5)
    assert torch.equal(run(x)[0], expected(x, 1))
    status = run.cuda_graphs.status
    assert "a graph is captured on one stream" in next(iter(status.reasons))
    assert status.replays == 0
