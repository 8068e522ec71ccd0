"""Programs of real models, forward and backward: interpreted as they are, and planned."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from tests.interpreter.support import copies, same
from tests.models import harness
from tests.models.harness import OURS
from tests.models.zoo import CASES, TRAINING, Case
from wrapper_ir.interpreter import made_up_inputs
from wrapper_ir.lines import BufferInput, Stage

#: Run on every change; the others with ``make models``.
QUICK = ("mlp", "input_mutation")

RUNS = [(case, False) for case in CASES] + [(case, True) for case in TRAINING]

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


@pytest.mark.parametrize(
    ("case", "training"),
    [
        pytest.param(
            case,
            training,
            id=f"{case.name}{'-training' * training}",
            marks=() if case.name in QUICK else pytest.mark.models,
        )
        for case, training in RUNS
    ],
)
def test_model(case: Case, training: bool) -> None:
    threads = torch.get_num_threads()
    if case.atomic:
        torch.set_num_threads(1)
    try:
        programs = harness.run(case, OURS, training=training, calls=1).programs
        assert programs
        for program in programs:
            check(program)
    finally:
        torch.set_num_threads(threads)


def check(program: wir.Program) -> None:
    inputs = made_up_inputs(program, seed=3)
    data = program.data
    theirs = copies(inputs)
    saved = {name: value.clone() for name, value in data.items()}
    torch.manual_seed(5)
    values = dict(zip(saved, copies(saved.values()), strict=True))
    expected = wir.compile(program.replace(data=values))(*theirs)
    versions = [program]
    if program.stage is Stage.LOGICAL:
        versions += [wir.plan_memory(program, strategy=s) for s in ("reuse", "pool")]
    for version in versions:
        ours = copies(inputs)
        torch.manual_seed(5)
        values = dict(zip(saved, copies(saved.values()), strict=True))
        found = wir.interpret(version.replace(data=values), *ours)
        pairs = zip(found, expected, strict=True)
        assert [n for n, (a, b) in enumerate(pairs) if not same(a, b)] == []
        for item, a, b in zip(program.inputs, ours, theirs, strict=True):
            assert (isinstance(item, BufferInput) and item.donated) or same(a, b)
