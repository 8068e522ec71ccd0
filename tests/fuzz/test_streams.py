"""Made-up programs with streams have no races; those with less order have the verifier's."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from tests.fuzz.streams import made
from wrapper_ir.interpreter import RaceError, run_interleaved
from wrapper_ir.lines import WaitEvent

X = torch.arange(-4.0, 4.0)


@pytest.mark.parametrize("seed", range(6))
def test_programs_in_order_have_no_races_also_when_planned(seed: int) -> None:
    program = made(seed)
    for each in (program, wir.plan_memory(program), wir.plan_memory(program, "pool")):
        assert wir.diagnose(each) == ()
        run_interleaved(each, X.clone(), interleavings=4)


def test_what_races_is_what_the_verifier_refuses() -> None:
    races = 0
    for seed in range(4):
        program = made(seed)
        for index, line in enumerate(program.body):
            if not isinstance(line, WaitEvent):
                continue
            changed = program.replace(body=program.body[:index] + program.body[index + 1 :])
            if not wir.diagnose(changed):
                run_interleaved(changed, X.clone(), interleavings=4)
                continue
            try:
                run_interleaved(changed, X.clone(), interleavings=40, verify=False)
            except RaceError:
                races += 1
            else:
                # Halves of a buffer: by bytes they do not race.
                assert "reinterpret" in str(program), (seed, index)
    assert races >= 8
