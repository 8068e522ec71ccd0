"""The doctor's trials. They run in a separate process, and in a new one after a crash."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.cli.doctor import Fault, Trial, fault_of
from wrapper_ir.devices import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch


#: The time limit of one trial, in seconds.
_PATIENCE: Final = 600.0


def run_trials(
    names: list[str], progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], list[Trial]]:
    """Import torch and try the front end and emitters; return torch's facts, and the trials.

    A trial that fails or crashes does not stop the others, except for the first, the import of
    torch. ``progress`` is called with the number of trials done and in total.
    """
    facts, trials = {}, []
    names = [IMPORT, *names]
    for record in _records(names):
        fault = Fault(**record["fault"]) if "fault" in record else None
        seconds, refusal = record.get("seconds", 0.0), record.get("refusal", "")
        trials.append(Trial(record["name"], seconds, refusal, fault))
        facts.update(record.get("facts", {}))
        progress(len(trials), len(names))
        if trials[0].fault is not None:
            break
    return facts, trials


def _records(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the record of each trial, starting a new process after a crash."""
    left = list(names)
    while left:
        for record in _one_process(list(left)):
            yield record
            left.pop(0)


def _one_process(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the records that one process writes, and one for the trial it dies in, if any."""
    command = [sys.executable, "-P", "-m", __name__, *names]
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


def _death(status: int, output: str) -> dict[str, str]:
    """Return the fault of a trial that ended its process."""
    last = output.strip().rpartition("\n")[2]
    how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    if -status == signal.SIGKILL:
        how += f" (out of memory, or longer than {_PATIENCE:.0f} s)"
    return {"code": "", "message": f"its process ended with {how}{f': {last}' if last else ''}"}


# The process that runs the trials, so that a crash does not lose the report.
#
# Its arguments are names of trials. It writes one JSON record per line after each; output of the
# trials themselves is discarded.


#: The trial that imports torch and collects its facts.
IMPORT = "torch"

#: The trial that captures a model. No emitter has this name: theirs are identifiers.
FRONT_END = "Inductor front end"

#: y = relu(x) by a C++ kernel, z = y @ w by a library op.
_PROGRAM = Path(__file__).with_name("doctor.wir")


def main(names: Sequence[str]) -> None:
    """Run the named trials in this order."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for name in names:
        start = time.perf_counter()
        record = _tried(name)
        seconds = time.perf_counter() - start
        print(json.dumps({"name": name, "seconds": seconds, **record}), file=out, flush=True)


def _tried(name: str) -> dict[str, Any]:
    """Run a trial and return its record, without its name and time."""
    from wrapper_ir.emitters import EmitError

    try:
        if name == IMPORT:
            return {"facts": _torch_facts()}
        fault = _capture() if name == FRONT_END else _emit(name)
    except EmitError as error:
        first = error.problems[0]
        return {"refusal": f"'{first.line.mnemonic}': {first.reason}"}
    except (Exception, SystemExit) as error:
        fault = fault_of(error)
    return {} if fault is None else {"fault": dataclasses.asdict(fault)}


def _torch_facts() -> dict[str, Any]:
    import torch

    devices = {}
    for kind in registered():
        found = kind.doctor.inventory(torch)
        units = [(unit.name, unit.capability) for unit in found.units]
        devices[kind.type] = (found.built_for, units)
    return {"version": torch.__version__, "devices": devices}


def _emit(target: str) -> Fault | None:
    """Run the program with a unique source: a cached kernel would not test the compiler."""
    from wrapper_ir.api import compile
    from wrapper_ir.text import parse

    program = parse(_PROGRAM.read_text("utf-8").replace("// unique", f"// {uuid.uuid4().hex}"))
    x, w = _inputs()
    expected = (x.relu(), x.relu() @ w)
    return _compared(compile(program, target)(x, w), expected)


def _capture() -> Fault | None:
    """Capture and run a model on each available kind of device."""
    import torch

    from wrapper_ir.api import compile
    from wrapper_ir.frontends.inductor import capture

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x.relu() @ w).relu() * 2

    for kind in registered():
        if kind.is_accelerator and not kind.doctor.inventory(torch).units:
            continue
        inputs = tuple(tensor.to(kind.type) for tensor in _inputs())
        program = capture(Model(), inputs)
        fault = _compared(compile(program)(*inputs), (Model()(*inputs),))
        if fault is not None:
            return fault
    return None


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 8, generator=generator), torch.randn(8, 2, generator=generator)


def _compared(results: Sequence[Any], expected: Sequence[torch.Tensor]) -> Fault | None:
    import torch

    def bits(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().contiguous().view(torch.int32)

    pairs = zip(results, expected, strict=True)
    if all(a.shape == b.shape and torch.equal(bits(a), bits(b)) for a, b in pairs):
        return None
    return Fault("", "its results are not bitwise equal to those of eager execution")


if __name__ == "__main__":
    main(sys.argv[1:])
