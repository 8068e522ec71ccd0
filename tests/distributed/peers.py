"""Two ranks whose CPU tensors are in memory that they share; each says how each case went.

The second rank is a fork, made before torch has run anything.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as collectives
from torch.distributed import _symmetric_memory as symmetric

import wrapper_ir as wir
from tests.distributed import shared_memory
from tests.distributed.ranks import join
from wrapper_ir.frontends.inductor.compat import inductor_config

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "0"
EMITTERS = ("python", "cpp", "fx")

one_shot = torch.ops.symm_mem.one_shot_all_reduce
two_shot = torch.ops.symm_mem.two_shot_all_reduce_


def sample(*size: int, seed: int = 0) -> Tensor:
    """Numbers that differ from rank to rank."""
    return torch.randn(size, generator=torch.Generator().manual_seed(2 * seed + dist.get_rank()))


def shared(x: Tensor) -> Tensor:
    """A copy in symmetric memory."""
    return symmetric.empty(x.shape, dtype=x.dtype, device="cpu").copy_(x)


def summed(x: Tensor) -> Tensor:
    """The sum over all ranks, by gloo."""
    total = x.clone()
    dist.all_reduce(total)
    return total


def one_shot_sums() -> None:
    met = shared_memory.rendezvous_count()
    x = sample(5, 7)
    y = shared(x)
    assert torch.equal(one_shot(y, "sum", GROUP), summed(x))
    assert torch.equal(y, x)
    y.add_(1)
    out = torch.empty(5, 7)
    given = torch.ops.symm_mem.one_shot_all_reduce_out(y, "sum", GROUP, out)
    assert given.data_ptr() == out.data_ptr()
    assert torch.equal(out, summed(x + 1))
    assert shared_memory.rendezvous_count() == met + 1
    for dtype in (torch.int32, torch.bfloat16, torch.float64):
        z = (100 * x).to(dtype)
        assert torch.equal(one_shot(shared(z), "sum", GROUP), summed(z))


def two_shot_sums() -> None:
    for size in ((5, 7), (1,), (0,), (64, 64)):
        x = sample(*size)
        y = shared(x)
        for _ in range(2):
            x = summed(x)
            assert two_shot(y, "sum", GROUP).data_ptr() == y.data_ptr()
            assert torch.equal(y, x)


def views() -> None:
    met = shared_memory.rendezvous_count()
    x = sample(8, 6)
    y = shared(x)
    assert torch.equal(one_shot(y[3:5], "sum", GROUP), summed(x[3:5]))
    two_shot(y[5:7], "sum", GROUP)
    assert torch.equal(y[5:7], summed(x[5:7]))
    assert torch.equal(y[:5], x[:5])
    assert torch.equal(y[7:], x[7:])
    assert shared_memory.rendezvous_count() == met + 1


def persistent_allocations() -> None:
    """What stock Inductor asks for."""
    met, alive = shared_memory.rendezvous_count(), shared_memory.alive()
    for seed in range(3):
        x = sample(4, 4, seed=seed)
        y = symmetric._SymmetricMemory.empty_strided_p2p(
            (4, 4), (1, 4), x.dtype, torch.device("cpu"), GROUP, alloc_id=7
        )
        y.copy_(x)
        assert y.stride() == (1, 4)
        assert torch.equal(one_shot(y.t(), "sum", GROUP), summed(x.t()))
        del y
    assert shared_memory.rendezvous_count() == met + 1
    assert shared_memory.alive() == alive + 1


def other_memory_is_refused() -> None:
    out = torch.empty(4)
    calls: list[Callable[[], Any]] = [
        lambda: one_shot(torch.ones(4), "sum", GROUP),
        lambda: torch.ops.symm_mem.one_shot_all_reduce_out(torch.ones(4), "sum", GROUP, out),
        lambda: two_shot(torch.ones(4), "sum", GROUP),
    ]
    for call in calls:
        assert "must be allocated with empty_strided_p2p" in error(call)
    assert "is not the beginning" in error(lambda: symmetric.rendezvous(torch.ones(4), GROUP))
    y = shared(sample(4, 4))
    assert "must be contiguous" in error(lambda: one_shot(y.t(), "sum", GROUP))
    assert "only sum" in error(lambda: one_shot(y, "avg", GROUP))


def memory_is_released() -> None:
    """Memory that takes the place of older memory is met for anew."""
    met, alive = shared_memory.rendezvous_count(), shared_memory.alive()
    mappings = shared_mappings()
    for seed in range(3):
        x = sample(16, seed=seed)
        y = shared(x)
        assert shared_memory.alive() == alive + 1
        assert torch.equal(one_shot(y, "sum", GROUP), summed(x))
        assert shared_mappings() == mappings + 2
        del y
        assert shared_memory.alive() == alive
    assert shared_memory.rendezvous_count() == met + 3
    assert shared_mappings() == mappings


def shared_mappings() -> int:
    """How many mappings of files in memory this process has."""
    return Path("/proc/self/maps").read_text(encoding="utf-8").count("/memfd:symmetric")


def ranks_wait_for_one_another() -> None:
    """Nobody reads too early, nor overwrites what others are still to read."""
    pause, y = random.Random(dist.get_rank()), shared(torch.zeros(3000))
    for step in range(200):
        y.fill_(step * (dist.get_rank() + 1))
        if pause.random() < 0.1:
            time.sleep(0.002)
        found = one_shot(y, "sum", GROUP)
        y.fill_(-1)
        assert found.eq(3 * step).all()


def peers_are_addressed() -> None:
    rank = dist.get_rank()
    y = shared(torch.full((4,), float(rank)))
    handle = symmetric.rendezvous(y, GROUP)
    assert (handle.rank, handle.world_size, handle.buffer_size) == (rank, 2, 16)
    assert handle.buffer_ptrs[rank] == y.data_ptr()
    handle.get_buffer(1 - rank, (2,), torch.float32, 1).fill_(5 + rank)
    handle.barrier(channel=3)
    other = 6.0 - rank
    assert y.tolist() == [rank, other, other, rank]
    if rank == 0:
        handle.put_signal(1, channel=2)
    else:
        handle.wait_signal(0, channel=2, timeout_ms=10_000)
    assert not handle.get_signal_pad(rank).view(torch.int32).any()


def nobody_is_waited_for_longer_than_told() -> None:
    handle = symmetric.rendezvous(shared(torch.ones(4)), GROUP)
    if dist.get_rank() == 0:
        said = "rank 0 has waited too long for rank 1"
        assert f"barrier: {said}" in error(lambda: handle.barrier(channel=1, timeout_ms=50))
        assert f"wait_signal: {said}" in error(lambda: handle.wait_signal(1, 2, timeout_ms=50))


def sizes_differ() -> None:
    y = shared(torch.ones(4 + dist.get_rank()))
    assert "bytes, rank" in error(lambda: symmetric.rendezvous(y, GROUP))


def error(call: Callable[[], Any]) -> str:
    """What a call says as it fails."""
    try:
        call()
    except RuntimeError as found:
        return str(found)
    return "no error"


#: What the ranks find out about the memory itself, with no program of ours.
MEMORY: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        one_shot_sums,
        two_shot_sums,
        views,
        persistent_allocations,
        other_memory_is_refused,
        memory_is_released,
        ranks_wait_for_one_another,
        peers_are_addressed,
        nobody_is_waited_for_longer_than_told,
        sizes_differ,
    )
}


def compiled(emitter: str, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile through us, or fail."""
    options |= {"emitter": emitter, "on_unsupported": "raise"}
    return torch.compile(function, backend="wrapper_ir", options=options, dynamic=False)


def agrees(run: Callable[..., Any], eager: Callable[..., Any], size: tuple[int, ...]) -> int:
    """Compare three calls with eager, and return how often their ranks had to meet."""
    met = 0
    for seed in range(3):
        x, w = sample(*size, seed=seed), sample(size[-1], 16, seed=9)
        before = shared_memory.rendezvous_count()
        found = run(x, w)
        met += shared_memory.rendezvous_count() - before
        assert torch.equal(found, eager(x, w)), f"call {seed} with {size}"
    return met


def a_model(emitter: str) -> None:
    """Two sizes; the ranks meet once for each, and memory is kept until it is released."""

    def model(x: Tensor, w: Tensor) -> Tensor:
        return one_shot((x @ w).relu(), "sum", GROUP) + 1

    def eager(x: Tensor, w: Tensor) -> Tensor:
        return one_shot(shared((x @ w).relu()), "sum", GROUP) + 1

    alive, mappings = shared_memory.alive(), shared_mappings()
    with wir.record() as programs:
        run = compiled(emitter, model)
        assert agrees(run, eager, (4, 8)) == 1
        assert agrees(run, eager, (6, 8)) == 1
        assert agrees(run, eager, (4, 8)) == 0
    assert [str(program).count("= allocate symmetric") for program in programs] == [1, 1]
    assert shared_memory.alive() == alive + 2
    assert wir.release_kept_memory() >= 16 * (4 + 6) * 4
    assert shared_memory.alive() == alive
    assert shared_mappings() == mappings
    assert agrees(run, eager, (4, 8)) == 1
    wir.release_kept_memory()
    assert shared_memory.alive() == alive


def two_buffers(emitter: str) -> None:
    """The second is made of what the first has given; neither is in the pool of other buffers."""

    def model(x: Tensor, w: Tensor) -> Tensor:
        y = one_shot((x @ w).relu(), "sum", GROUP)
        return y * one_shot(torch.cat([y, y + 1]).neg(), "sum", GROUP)[2:6]

    def eager(x: Tensor, w: Tensor) -> Tensor:
        y = one_shot(shared((x @ w).relu()), "sum", GROUP)
        return y * one_shot(shared(torch.cat([y, y + 1]).neg()), "sum", GROUP)[2:6]

    alive = shared_memory.alive()
    with wir.record() as programs:
        assert agrees(compiled(emitter, model, strategy="pool"), eager, (4, 8)) == 2
    (program,) = programs
    assert str(program).count("= allocate symmetric") == 2
    wir.release_kept_memory()
    assert shared_memory.alive() == alive


def chosen(emitter: str) -> None:
    """Inductor takes such an op where an ordinary one is small."""

    def model(x: Tensor, w: Tensor) -> Tensor:
        return collectives.all_reduce((x @ w).relu(), "sum", GROUP) + 1

    choice = inductor_config.patch({"_collective.auto_select": True})
    with wir.record() as programs, choice, symmetric._test_mode({GROUP}):
        assert agrees(compiled(emitter, model), model, (4, 8)) == 1
    assert "symm_mem::one_shot_all_reduce" in str(programs[0])
    assert "= allocate symmetric" in str(programs[0])


def ops_of_others(emitter: str) -> None:
    """An op says that an argument of its has to be in such memory.

    It looks for it where an allocation begins, as ``_low_contention_all_gather`` does.
    """
    with torch.library._scoped_library("wrapper_ir_shared", "FRAGMENT") as library:
        library.define("swapped(Tensor x, str group_name) -> Tensor")

        def swapped(x: Tensor, group_name: str) -> Tensor:
            handle = symmetric.rendezvous(x, group_name)
            handle.barrier()
            y = handle.get_buffer(1 - handle.rank, x.shape, x.dtype).clone()
            handle.barrier()
            return y

        library.impl("swapped", swapped, "CPU")
        library.register_symm_mem_args("swapped", ["x"])
        op = torch.ops.wrapper_ir_shared.swapped
        torch.library.register_fake(op.default, lambda x, _: torch.empty_like(x), lib=library)

        def model(x: Tensor, w: Tensor) -> Tensor:
            y = x @ w
            return op(y.relu(), GROUP) + 2 * op(y.neg(), GROUP)

        def eager(x: Tensor, w: Tensor) -> Tensor:
            y = x @ w
            return op(shared(y.relu()), GROUP) + 2 * op(shared(y.neg()), GROUP)

        with wir.record() as programs:
            assert agrees(compiled(emitter, model, strategy="pool"), eager, (4, 8)) == 2
        assert str(programs[0]).count("= allocate symmetric") == 2


BY_HAND = """
wir 2
program @by_hand inference logical

symbol s : int [1, 64] hint 8
input %x : f32[s, 8] @cpu

extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
extern aten::neg(Tensor self) -> Tensor
extern symm_mem::one_shot_all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
extern symm_mem::two_shot_all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)

  s = size %x, 0
  %a = allocate symmetric : f32[s, 8] @cpu
  aten::copy_(inout %a, %x)
  symm_mem::two_shot_all_reduce_(inout %a, "sum", "0")
  %b = allocate symmetric : f32[s, 8] @cpu
  aten::copy_(inout %b, %a)
  %c = symm_mem::one_shot_all_reduce(%b, "sum", "0") : f32[s, 8] @cpu
  %d = aten::neg(%a) : f32[s, 8] @cpu
return %b, %c, %d
"""


def by_hand(emitter: str) -> None:
    """Sizes vary, an op works in place, and what is returned stays as it is.

    The first buffer is kept, so its ranks meet where more is needed than before; the second is a
    result, so they meet in each call.
    """
    wir.release_kept_memory()  # of other cases
    alive = shared_memory.alive()
    run, found = wir.compile(wir.parse(BY_HAND), emitter), []
    for rows, meetings in (8, 2), (4, 1), (16, 2), (8, 1):
        x, before = sample(rows, 8, seed=rows), shared_memory.rendezvous_count()
        found.append((x, run(x)))
        assert shared_memory.rendezvous_count() - before == meetings, rows
    for x, (b, c, d) in found:
        total = x.clone()
        dist.all_reduce(total)
        assert torch.equal(b, total)
        assert torch.equal(c, dist.get_world_size() * total)
        assert torch.equal(d, -total)
    del run, found, b, c, d
    wir.release_kept_memory()
    assert shared_memory.alive() == alive


_OTHERS = [ops_of_others] if hasattr(torch.library.Library, "register_symm_mem_args") else []

#: Programs that use such memory, in every target.
PROGRAMS: dict[str, Callable[[], None]] = {
    f"{case.__name__} {emitter}": partial(case, emitter)
    for case in (a_model, two_buffers, chosen, by_hand, *_OTHERS)
    for emitter in EMITTERS
}

CASES: dict[str, Callable[[], None]] = {**MEMORY, **PROGRAMS}


def outcome(case: Callable[[], None]) -> str:
    """How a case fails, or nothing."""
    torch._dynamo.reset()
    try:
        case()
    except Exception:  # to be read by whoever asked for the case
        return traceback.format_exc()
    return ""


def work(rank: int, folder: Path, names: list[str]) -> None:
    """Go through cases, as one of the ranks."""
    join(rank, folder, torch.device("cpu"))
    shared_memory.install()
    for name in names:
        line = json.dumps([rank, name, outcome(CASES[name])])
        os.write(1, f"{line}\n".encode())  # in one piece: both processes write to one file
        dist.barrier()
    wir.release_kept_memory()
    dist.destroy_process_group()


if __name__ == "__main__":
    CHILD = os.fork()
    torch.set_num_threads(1)
    work(0 if CHILD else 1, Path(sys.argv[1]), sys.argv[2:])
    if CHILD:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(CHILD, 0)[1]))
