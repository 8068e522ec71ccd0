"""Torch's own pipeline schedules, as programs: they raise no alarm, and what is sent arrives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.distributed.pipelining import schedules

import wrapper_ir as wir
from tests.distributed.externs import externs
from wrapper_ir.interpreter import DeadlockError, run_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

HEAD = """
wir 2
program @stage inference logical
input %x : f32[{batches}, 2] @cpu
"""

#: Classes of schedules, and whether the second half of their stages goes back over the ranks.
SCHEDULES = {
    "ScheduleLoopedBFS": False,
    "ScheduleInterleaved1F1B": False,
    "ScheduleInterleavedZeroBubble": False,
    "ScheduleZBVZeroBubble": True,
    "ScheduleDualPipeV": True,
}


def schedule(name: str, ranks: int, batches: int) -> tuple[dict[int, list[Any]], dict[int, int]]:
    """Return what each rank does with two stages, and the rank of each stage."""
    count = 2 * ranks
    stages = [
        SimpleNamespace(
            group=None,
            group_size=ranks,
            group_rank=0,
            num_stages=count,
            stage_index=at,
            is_first=at == 0,
            is_last=at == count - 1,
            has_backward=True,
            submod=None,
            stage_index_to_group_rank={},
        )
        for at in (0, count - 1 if SCHEDULES[name] else ranks)
    ]
    made = getattr(schedules, name)(stages, batches, loss_fn=lambda *_: 0)
    return made.pipeline_order_with_comms, made.stage_index_to_group_rank


class Stages:
    """The program of a rank: forward adds 1 in each stage, backward adds 100."""

    def __init__(self, ranks: dict[int, int], batches: int, *, tags: bool = False) -> None:
        self.rank_of, self.last, self.batches = ranks, max(ranks), batches
        self.tags = {"f": 0, "b": int(tags)}
        self.sent: list[str] = []
        self.waiting: set[str] = set()
        self.done: list[str] = []

    def program(self, actions: list[Any]) -> Program:
        lines = [line for action in actions for line in self.lines(action)]
        lines += [f"  _c10d_functional::wait_tensor(%{name})" for name in self.sent]
        results = ", ".join(f"%{name}" for name in self.done)
        head = [HEAD.format(batches=self.batches), *externs("\n".join(lines))]
        return wir.parse("\n".join([*head, *lines, f"return {results}\n"]))

    def lines(self, action: Any) -> Iterator[str]:
        for each in action.sub_actions or ():
            yield from self.lines(each)
        stage, kind, batch = (
            action.stage_index,
            action.computation_type.name,
            action.microbatch_index,
        )
        way = "f" if kind in ("FORWARD", "SEND_F", "RECV_F") else "b"
        name, step = f"{way}{stage}_{batch}", 1 if way == "f" else -1
        if kind.startswith("SEND"):
            self.sent.append(f"sent_{name}")
            peer = self.rank_of[stage + step]
            call = f'_c10d_functional::isend(%{name}, {peer}, {self.tags[way]}, "0")'
            yield f"  %{self.sent[-1]} = {call} : f32[0] @cpu"
        elif kind.startswith("RECV"):
            self.waiting.add(f"{way}{stage - step}_{batch}")
            before, peer = f"{way}{stage - step}_{batch}", self.rank_of[stage - step]
            yield f"  %{before} = allocate : f32[2] @cpu"
            yield f'  _c10d_functional::irecv(%{before}, {peer}, {self.tags[way]}, "0")'
        elif kind in ("FORWARD", "FULL_BACKWARD", "BACKWARD_INPUT"):
            yield from self.compute(way, stage, batch)

    def compute(self, way: str, stage: int, batch: int) -> Iterator[str]:
        """Yield the lines of a stage's work on one batch."""
        step = 1 if way == "f" else -1
        before = f"{way}{stage - step}_{batch}"
        if way == "f" and stage == 0:
            yield f"  %{before.replace('-', 'm')} = reinterpret %x : f32[2]+{2 * batch} @cpu"
            before = before.replace("-", "m")
        elif way == "b" and stage == self.last:
            before = f"f{stage}_{batch}"
        if before in self.waiting:
            yield f"  _c10d_functional::wait_tensor(%{before})"
        name = f"{way}{stage}_{batch}"
        yield f"  %{name} = aten::add.Scalar(%{before}, {1 if way == 'f' else 100}) : f32[2] @cpu"
        if way == "b" and stage == 0:
            self.done.append(name)


@pytest.mark.parametrize(("ranks", "batches"), [(2, 4), (4, 8)])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_of_torchs_raises_no_alarm(name: str, ranks: int, batches: int) -> None:
    if not hasattr(schedules, name):
        pytest.skip("this torch does not have it")
    order, rank_of = schedule(name, ranks, batches)
    stages = [Stages(rank_of, batches) for _ in order]
    programs = [each.program(order[rank]) for rank, each in enumerate(stages)]
    report = wir.verify_ranks(programs)
    assert report.proved, str(report)
    given = torch.arange(2.0 * batches).reshape(batches, 2)
    found = run_ranks(programs, [(given.clone(),) for _ in programs], seed=batches)
    (first,) = [number for number, each in enumerate(stages) if each.done]
    right = {f"b0_{n}": given[n] + 2 * ranks * 101 for n in range(batches)}
    assert len(stages[first].done) == batches
    for which, value in zip(stages[first].done, found[first], strict=True):
        assert torch.equal(value, right[which])


def test_a_schedule_that_receives_too_early_is_found() -> None:
    """A rank waits for a gradient before it sends what the gradient is made of."""
    order, rank_of = schedule("ScheduleInterleaved1F1B", 2, 4)
    actions = order[0]
    late = actions.pop(max(n for n, each in enumerate(actions) if _is(each, "SEND_F")))
    back = next(n for n, each in enumerate(actions) if _is(each, "FULL_BACKWARD", late))
    actions.insert(back + 1, late)
    programs = [Stages(rank_of, 4, tags=True).program(order[rank]) for rank in order]
    (problem,) = wir.verify_ranks(programs).problems
    assert problem.kind == "deadlock"
    with pytest.raises(DeadlockError):
        run_ranks(programs, [(torch.zeros(4, 2),) for _ in programs])


def _is(action: Any, kind: str, like: Any = None) -> bool:
    """Return whether an action is of a kind, and for the stage and batch of another."""
    same = like is None or action.stage_index == like.stage_index
    same &= like is None or action.microbatch_index == like.microbatch_index
    return action.computation_type.name == kind and same
