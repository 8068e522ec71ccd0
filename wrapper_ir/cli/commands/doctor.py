"""``wrapper-ir doctor``: whether all is well with an installation."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option

if TYPE_CHECKING:
    from wrapper_ir.cli.doctor.report import Report


@click.command(epilog=examples("""
wrapper-ir doctor
wrapper-ir doctor > report.txt
wrapper-ir doctor --json | jq '.trials[] | select(.fault) | .name'
"""))
@json_option
@traceback_option
def doctor(as_json: bool) -> None:
    """Look at the installation, and run a small program through everything.

    Shows versions and what is known of them (supported: the tests run with it; tried: it worked
    when tried by hand; untried; not supported), the cache, and whether the Inductor front end and
    each installed emitter give what eager execution gives, bit for bit. The program is compiled
    anew each time, which takes half a minute. The exit code is 1 where something is wrong. Made to
    be pasted into bug reports.
    """
    from wrapper_ir.cli.doctor.show import show

    report = _examine()
    if as_json:
        click.echo(json.dumps(report.as_data(), indent=2))
    else:
        show(report)
    sys.exit(0 if report.is_well else 1)


def _examine() -> Report:
    """Look at everything; where torch cannot be imported, nothing else is tried."""
    from wrapper_ir.cli.doctor import trial
    from wrapper_ir.cli.doctor.facts import cache_facts, gather
    from wrapper_ir.cli.doctor.report import Report
    from wrapper_ir.cli.doctor.trials import run_trials
    from wrapper_ir.cli.terminal import bar
    from wrapper_ir.emitters import emitter_names

    cache = cache_facts()
    with bar("running a small program") as progress:
        torch, (imported, *trials) = run_trials([trial.FRONT_END, *emitter_names()], progress)
    return Report(gather(torch, imported.fault), cache, trials)
