"""Having things tried in a process of their own, and in another one where that has died."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.cli.doctor import trial
from wrapper_ir.cli.doctor.report import Fault, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["run_trials"]

#: How long one trial may take. Seconds.
_PATIENCE: Final = 600.0


def run_trials(
    names: list[str], progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], list[Trial]]:
    """Import torch and try the front end and emitters.

    None that fails or crashes keeps the next from being tried, but for the import of torch.

    Args:
        names: ``trial.FRONT_END`` and names of emitters.
        progress: Called with the number of trials that are done, and of all.

    Returns:
        What torch says of itself, and all trials, the first of them its import.
    """
    facts, found = {}, []
    names = [trial.IMPORT, *names]
    for told in _told(names):
        found.append(_trial(told))
        facts.update(told.get("facts", {}))
        progress(len(found), len(names))
        if found[0].fault is not None:
            break
    return facts, found


def _trial(told: dict[str, Any]) -> Trial:
    fault = Fault(**told["fault"]) if "fault" in told else None
    return Trial(told["name"], told.get("seconds", 0.0), told.get("refusal", ""), fault)


def _told(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield what is told at the end of each trial."""
    while names:
        done = 0
        for told in _one_process(names):
            yield told
            done += 1
        names = names[done:]


def _one_process(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield what a process tells, the trial that it dies in being the last."""
    command = [sys.executable, "-P", "-m", trial.__name__, *names]
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    left = iter(names)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as process:
            assert process.stdout is not None
            alarm = _alarm(process)
            for line in process.stdout:
                alarm.cancel()
                next(left)
                yield json.loads(line)
                alarm = _alarm(process)
            alarm.cancel()
        errors.seek(0)
        for died in itertools.islice(left, 1):
            yield {"name": died, "fault": _death(process.returncode, errors.read())}


def _alarm(process: subprocess.Popen[str]) -> threading.Timer:
    timer = threading.Timer(_PATIENCE, process.kill)
    timer.daemon = True
    timer.start()
    return timer


def _death(status: int, said: str) -> dict[str, str]:
    """Return the fault of a trial that ended its process."""
    last = said.strip().rpartition("\n")[2]
    how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    if -status == signal.SIGKILL:
        how += f" (out of memory, or longer than {_PATIENCE:.0f} s)"
    return {"code": "", "message": f"its process ended with {how}{f': {last}' if last else ''}"}
