"""The order in which things are looked at."""

from __future__ import annotations

from wrapper_ir.cli.doctor import trial
from wrapper_ir.cli.doctor.facts import cache_facts, gather
from wrapper_ir.cli.doctor.report import Report
from wrapper_ir.cli.doctor.trials import run_trials
from wrapper_ir.cli.terminal import bar
from wrapper_ir.emitters import emitter_names

__all__ = ["examine"]


def examine() -> Report:
    """Look at everything; where torch cannot be imported, nothing else is tried."""
    cache = cache_facts()
    with bar("running a small program") as progress:
        torch, (imported, *trials) = run_trials([trial.FRONT_END, *emitter_names()], progress)
    return Report(gather(torch, imported.fault), cache, trials)
