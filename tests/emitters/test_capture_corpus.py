"""The corpus, captured and replayed by a recorder that stands in for a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.emitters.test_python_kept import same
from tests.runtime.test_graphs import Stand
from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.lines import Cond, Probe, While
from wrapper_ir.lines.walk import walk
from wrapper_ir.runtime import CudaGraphs

if TYPE_CHECKING:
    from collections.abc import Sequence


def depends_on_contents(made: wir.Program) -> bool:
    """Whether sizes do, or what runs: the stand-in runs the program again in its places."""
    if any(info.unbacked for info in made.symbols.values()):
        return True
    return any(isinstance(line, (Cond, While, Probe)) for _, line in walk(made))


NAMES = [name for name in CASES if not depends_on_contents(program(name))]


def shared(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Which tensors lie in the same storage."""
    storages = [
        each.untyped_storage().data_ptr() if isinstance(each, Tensor) and each.numel() else None
        for each in values
    ]
    return [
        (a, b)
        for a in range(len(storages))
        for b in range(a)
        if storages[a] is not None and storages[a] == storages[b]
    ]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", NAMES)
def test_replays_do_what_the_program_does(name: str) -> None:
    made, other = program(name), program(name)
    plain, call = wir.compile(made), wir.emit(other).load_boxed()
    tensors = [each for each in other.data.values() if isinstance(each, Tensor)]
    recorder = Stand()
    graphs = CudaGraphs(
        name, recorder=recorder, writes=mutated_inputs(other), constants=lambda: tensors
    )
    replayed, kept = graphs(call), []
    for seed in (1, 2, 3, 3):
        torch.manual_seed(seed)
        ours = CASES[name].make()
        torch.manual_seed(seed)
        theirs = CASES[name].make()
        recorder.inputs = [each for each in (*ours, *tensors) if isinstance(each, Tensor)]
        with torch.no_grad():
            found = replayed(list(ours))
        expected = plain(*theirs)
        kept.append((found, expected, ours, theirs))
        assert shared([*found, *ours]) == shared([*expected, *theirs])
        same(tensors, [made.data[each] for each in other.data])
    for found, expected, ours, theirs in kept:  # no later call has changed anything
        same(found, expected)
        same(ours, theirs)
    status = graphs.status
    assert not status.reasons
    assert status.replays == 3
