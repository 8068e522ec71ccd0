"""Made-up programs run, and do the same however their memory is planned."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings

import wrapper_ir as wir
from tests import strategies
from wrapper_ir.lines import Probe, Program, Stage, rewrite_lines


def run(program: Program, strategy: str) -> tuple[list[Any], list[torch.Tensor]]:
    """Results, and inputs as the program left them."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 4, generator=generator) for _ in program.inputs]
    planned = program
    if program.stage is Stage.LOGICAL:
        planned = wir.plan_memory(program, strategy=strategy)
    results = wir.emit(planned, "python").load()(*inputs)
    return [r.clone() if isinstance(r, torch.Tensor) else r for r in results], inputs


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(strategies.programs())
def test_the_plan_does_not_change_what_a_program_does(program: Program) -> None:
    # What probes show is tested where they are made; here they would only fill the output.
    body = rewrite_lines(program.body, lambda line: () if isinstance(line, Probe) else (line,))
    weights = {name: torch.ones(4, 4) for name in program.constants}
    program = program.replace(body=body, data=weights)
    plain, plain_inputs = run(program, "none")
    reused, reused_inputs = run(program, "reuse")
    for a, b in zip(plain, reused, strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b)
        else:
            assert a == b
    for item, a, b in zip(program.inputs, plain_inputs, reused_inputs, strict=True):
        # What was given away may hold anything afterwards.
        assert getattr(item, "donated", False) or torch.equal(a, b)
