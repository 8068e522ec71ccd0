"""Wrong programs are caught: by the verifier, or, what it cannot know, by the interpreter."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING

import torch

import wrapper_ir as wir
from tests.fuzz import kernels
from tests.fuzz.maker import make
from tests.fuzz.mutants import mutants
from tests.interpreter.support import copies

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

#: What the verifier knows all about: names, lifetimes, whose storage is whose, places in pools.
KNOWN = {"WIR2401", "WIR2402", "WIR2403", "WIR2404", "WIR2405"}


def test_what_breaks_the_rules_of_memory_is_caught_before_it_runs() -> None:
    kernels.warm()
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(24):
        made = make(seed)
        planned = wir.plan_memory(made.program, ("reuse", "pool")[seed % 2])
        for kind, mutant in mutants(planned, seed):
            verdict = "verifier" if wir.diagnose(mutant) else run(mutant, made.inputs())
            seen[kind, verdict] += 1
    missed = {key: count for key, count in seen.items() if key[1] in KNOWN}
    assert missed == {}
    for kind in ("drop", "duplicate", "swap", "retarget", "resize", "re-dtype"):
        assert seen[kind, "verifier"]
    # Of what ops return and how far kernels write the verifier knows nothing.
    assert {"WIR2406", "WIR2407"} & {code for _, code in seen}
    assert seen["resize", "WIR2408"]
    assert seen["re-dtype", "WIR2408"]


def run(program: Program, inputs: list[object]) -> str:
    """The code of the error that the interpreter raises, if it does."""
    data = dict(zip(program.data, copies(program.data.values()), strict=True))
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wir.interpret(program.replace(data=data), *copies(inputs), verify=False)
        except wir.WrapperIRError as error:
            return error.code
    return "ran"
