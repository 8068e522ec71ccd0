"""User code that puts work on streams and in memory pools, as programs: traced and scheduled for
real, on a machine that need not have a GPU.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.frontends.no_gpu import compiled_for_gpu, stream
from tests.release import TORCH
from wrapper_ir.frontends.inductor.convert.streams import joined
from wrapper_ir.lines import Event, MemoryPool, Program
from wrapper_ir.lines.layout import Device
from wrapper_ir.runtime import UserObjectError, user_object

pytestmark = [
    pytest.mark.skipif(TORCH < (2, 12), reason="Inductor knows streams since 2.12"),
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
]
waits_stay = pytest.mark.skipif(
    TORCH < (2, 13), reason="Inductor 2.12 moves the wait before the work: a race, which we refuse"
)
needs_pools = pytest.mark.skipif(TORCH < (2, 14), reason="Inductor knows memory pools since 2.14")

GPU = Device("cuda", 0)
SHAPE = (64, 64)
SIDE, OTHER = stream(3), stream(7)


def one(function: Any, **options: Any) -> Program:
    """The program of a function of one matrix; planned and rendered, it reads back as it is."""
    (program,) = compiled_for_gpu(function, SHAPE, **options)
    for each in (program, wir.plan_memory(program), wir.plan_memory(program, "pool")):
        assert wir.parse(str(wir.verify(each))) == each
        compile(wir.emit(each).source, "wrapper.py", "exec")
    return program


def body(program: Program) -> str:
    """The lines of a program but its declarations and checks, without names of buffers' layouts."""
    lines = [line.strip() for line in str(program).splitlines() if line.startswith("  ")]
    kept = [line for line in lines if not line.startswith("assert_layout")]
    return "\n".join(line.replace(" : f32[64, 64] @cuda:0", "") for line in kept)


def test_a_fork_and_a_join_by_events() -> None:
    ready, done = torch.Event(), torch.Event()

    def forked(x: Tensor) -> Tensor:
        y = torch.mm(x, x)
        ready.record()
        with SIDE:
            ready.wait()
            z = torch.mm(y, y)
            done.record()
        done.wait()
        return torch.mm(z, x)

    program = one(forked)
    assert [each.device for each in program.streams] == [GPU]
    assert all(each.user_object is not None for each in (*program.streams, *program.events))  # type: ignore[attr-defined]
    assert body(program) == (
        "%buf0 = allocate\n"
        "aten::mm.out(%arg0_1, %arg0_1, out=out %buf0) @cuda:0\n"
        "record_event 1 @cuda:0\n"
        "wait_event 1 @cuda:0 stream 1\n"
        f"%{name(program, 1)} = allocate stream 1\n"
        f"aten::mm.out(%buf0, %buf0, out=out %{name(program, 1)}) @cuda:0 stream 1\n"
        "record_event 2 @cuda:0 stream 1\n"
        "wait_event 2 @cuda:0\n"
        f"%{name(program, 2)} = allocate\n"
        f"aten::mm.out(%{name(program, 1)}, %arg0_1, out=out %{name(program, 2)}) @cuda:0"
    )
    source = wir.emit(program).source
    number = program.streams[0].user_object
    assert f"    stream_1 = user_object({number})\n" in source
    assert "    event_1.record(callers_stream)\n    event_1.wait(stream_1)\n    with stream_1:\n"


def name(program: Program, position: int) -> str:
    """The name of an allocation, which differs among releases of torch."""
    made = [line.out for line in program.body if isinstance(line, wir.Allocate)]
    return made[position]


@waits_stay
def test_waiting_for_a_stream_takes_an_event_of_its_own() -> None:
    def joined(x: Tensor) -> Tensor:
        SIDE.wait_stream(torch.cuda.current_stream())
        with SIDE:
            y = torch.mm(x, x)
        torch.cuda.current_stream().wait_stream(SIDE)
        return torch.mm(y, y)

    program = one(joined)
    assert program.events == (Event(), Event())
    assert body(program) == (
        "record_event 1 @cuda:0\n"
        "wait_event 1 @cuda:0 stream 1\n"
        f"%{name(program, 0)} = allocate stream 1\n"
        f"aten::mm.out(%arg0_1, %arg0_1, out=out %{name(program, 0)}) @cuda:0 stream 1\n"
        "record_event 2 @cuda:0 stream 1\n"
        "wait_event 2 @cuda:0\n"
        f"%{name(program, 1)} = allocate\n"
        f"aten::mm.out(%{name(program, 0)}, %{name(program, 0)}, "
        f"out=out %{name(program, 1)}) @cuda:0"
    )
    # What is made on one stream and last used on another goes back when both are done.
    assert f"free %{name(program, 0)} after [0]\n" in str(wir.plan_memory(program))
    source = wir.emit(program).source
    assert f"    {name(program, 0)}.record_stream(callers_stream)\n" in source


def test_two_streams_side_by_side() -> None:
    ready, here, there = torch.Event(), torch.Event(), torch.Event()

    def forked(x: Tensor) -> Tensor:
        ready.record()
        with SIDE:
            ready.wait()
            y = torch.mm(x, x)
            here.record()
        with OTHER:
            ready.wait()
            z = torch.mm(x, x.t())
            there.record()
        here.wait()
        there.wait()
        return torch.mm(y, z)

    program = one(forked)
    assert len(program.streams) == 2
    assert len({each.user_object for each in program.streams}) == 2
    on = [line.stream for line in program.body if isinstance(line, wir.ExternKernel)]
    assert on == [1, 2, 0]


def test_the_host_waits() -> None:
    done = torch.Event()

    def waiting(x: Tensor) -> Tensor:
        y = torch.mm(x, x)
        done.record()
        done.synchronize()
        SIDE.synchronize()
        torch.cuda.synchronize()
        return torch.mm(y, y)

    text = body(one(waiting))
    assert "record_event 1 @cuda:0\nwait_event 1\n" in text
    if TORCH >= (2, 13):  # earlier ones break the graph there
        assert "record_event 2 @cuda:0 stream 1\nwait_event 2\nsynchronize @cuda:0\n" in text


@needs_pools
def test_a_memory_pool() -> None:
    # One that nothing was asked of yet: making one asks the GPU.
    pool = torch.cuda.MemPool.__new__(torch.cuda.MemPool)

    def pooled(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.cuda.use_mem_pool(pool):
            y = torch.mm(x, x)
        z = torch.mm(y, y)
        return torch.mm(z, z), y

    program = one(pooled)
    (declared,) = program.mempools
    assert declared == MemoryPool(GPU, declared.user_object)
    assert declared.user_object is not None
    made = [line.mempool for line in program.body if isinstance(line, wir.Allocate)]
    assert made == [1, 0, 0]
    source = wir.emit(program).source
    assert "    with torch.cuda.use_mem_pool(mempool_1, cuda_0):\n" in source


@needs_pools
def test_memory_does_not_move_between_pools() -> None:
    pool = torch.cuda.MemPool.__new__(torch.cuda.MemPool)

    def pooled(x: Tensor) -> Tensor:
        with torch.cuda.use_mem_pool(pool):
            y = torch.mm(x, x)
            z = torch.mm(y, y)
            u = torch.mm(z, z)
        v = torch.mm(u, u)
        return torch.mm(v, v)

    planned = wir.plan_memory(one(pooled))
    made = [line.mempool for line in planned.body if isinstance(line, wir.Allocate)]
    reused = [line for line in planned.body if isinstance(line, wir.Reuse)]
    assert made.count(1) == 2  # the third takes over the first, and no other
    assert len(reused) >= 1


def test_a_number_that_is_read_on_a_stream_is_waited_for() -> None:
    def reading(x: Tensor) -> float:
        SIDE.wait_stream(torch.cuda.current_stream())
        with SIDE:
            return torch.linalg.det(x).item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        (program,) = compiled_for_gpu(reading, SHAPE)
    lines = list(program.body)
    (read,) = (n for n, line in enumerate(lines) if isinstance(line, wir.BindSymbol))
    recorded, waited = lines[read - 2 : read]
    assert isinstance(recorded, wir.RecordEvent)
    assert recorded.stream == 1
    assert waited == wir.WaitEvent(recorded.event)


def test_a_stream_that_does_not_wait_is_refused() -> None:
    def racing(x: Tensor) -> Tensor:
        y = torch.mm(x, x)
        with SIDE:
            return torch.mm(y, y)

    with pytest.raises(wir.WrapperIRError, match="stream 1 uses %buf0, but does not wait"):
        compiled_for_gpu(racing, SHAPE)


def test_what_streams_need_is_refused_by_name_elsewhere() -> None:
    def forked(x: Tensor) -> Tensor:
        SIDE.wait_stream(torch.cuda.current_stream())
        with SIDE:
            return torch.mm(x, x)

    with pytest.raises(wir.WrapperIRError, match=r"it is on stream 1; .*caller's stream alone"):
        wir.emit(one(forked), "fx")


@waits_stay
def test_cpp_looks_up_streams_and_events_of_the_users() -> None:
    done = torch.Event()

    def forked(x: Tensor) -> Tensor:
        done.record()
        with SIDE:
            done.wait()
            y = torch.mm(x, x)
        with OTHER:
            done.wait()
            z = torch.mm(x, x.t())
        torch.cuda.current_stream().wait_stream(SIDE)
        torch.cuda.current_stream().wait_stream(OTHER)
        return torch.mm(y, z)

    program = one(forked)
    side, other = (stream.user_object for stream in program.streams)
    numbers = [-1 if e.user_object is None else e.user_object for e in program.events]
    assert sum(number != -1 for number in numbers) == 1
    source = wir.emit(program, "cpp").source
    # One event more, by which memory goes back.
    events = ", ".join(map(str, [*numbers, -1]))
    queues = f"wir::UserGpuQueues queues(call, 0, {{{side}, {other}}}, {{{events}}});"
    assert queues in source
    assert "call.queues->enter(1);" in source


BACKWARD = """
wir 2
program @backward backward logical
input %saved : f32[64, 64] @cuda:0
input %t : f32[64, 64] @cuda:0
stream 1 @cuda:0 user 2
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
  %a = allocate stream 1 : f32[64, 64] @cuda:0
  aten::mm.out(%t, %saved, out=out %a) @cuda:0 stream 1
  %b = reuse %a : f32[64, 64] @cuda:0
  aten::mm.out(%saved, %t, out=out %b) @cuda:0 stream 1
return %b
"""


def test_a_backward_pass_is_put_in_order_with_what_is_round_it() -> None:
    """Torch puts its ops on the streams of the forward ones, and orders nothing."""
    program = wir.parse(BACKWARD)
    assert {each.code for each in wir.diagnose(program)} == {"WIR1114", "WIR1116"}
    assert body(wir.verify(joined(program))) == (
        "%a = allocate\n"
        "record_event 1 @cuda:0\n"
        "wait_event 1 @cuda:0 stream 1\n"
        "aten::mm.out(%t, %saved, out=out %a) @cuda:0 stream 1\n"
        "%b = reuse %a\n"
        "aten::mm.out(%saved, %t, out=out %b) @cuda:0 stream 1\n"
        "record_event 2 @cuda:0 stream 1\n"
        "wait_event 2 @cuda:0"
    )
    forward = wir.parse(BACKWARD.replace("@backward backward", "@forward forward"))
    assert joined(forward) is forward  # the user puts it in order


@needs_pools
def test_cpp_has_no_memory_pools() -> None:
    pool = torch.cuda.MemPool.__new__(torch.cuda.MemPool)

    def pooled(x: Tensor) -> Tensor:
        with torch.cuda.use_mem_pool(pool):
            return torch.mm(x, x)

    told = "its memory is from memory pool 1, which only emitted Python can look up"
    with pytest.raises(wir.WrapperIRError, match=told):
        wir.emit(one(pooled), "cpp")


def test_objects_of_the_users_are_those_that_dynamo_has_now() -> None:
    kept = torch._dynamo.graph_bytecode_inputs
    try:
        kept.set_external_object_by_index(0, SIDE)
        assert user_object(0) is SIDE
        kept.set_external_object_by_index(0, OTHER)
        assert user_object(0) is OTHER
        with pytest.raises(UserObjectError, match="user object 7, which is missing"):
            user_object(7)
    finally:
        kept.reset_user_object_tracking()
