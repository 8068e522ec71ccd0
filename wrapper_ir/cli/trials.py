"""Trials of the doctor, in a process of their own, and in another one where that has died."""

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
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.cli.doctor import Fault, Trial, fault_of
from wrapper_ir.devices import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch


#: How long one trial may take. Seconds.
_PATIENCE: Final = 600.0


def run_trials(
    names: list[str], progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], list[Trial]]:
    """Import torch and try the front end and emitters.

    None that fails or crashes keeps the next from being tried, but for the import of torch.

    Args:
        names: ``FRONT_END`` and names of emitters.
        progress: Called with the number of trials that are done, and of all.

    Returns:
        What torch says of itself, and all trials, the first of them its import.
    """
    facts, found = {}, []
    names = [IMPORT, *names]
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


def _death(status: int, said: str) -> dict[str, str]:
    """Return the fault of a trial that ended its process."""
    last = said.strip().rpartition("\n")[2]
    how = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    if -status == signal.SIGKILL:
        how += f" (out of memory, or longer than {_PATIENCE:.0f} s)"
    return {"code": "", "message": f"its process ended with {how}{f': {last}' if last else ''}"}


# The process in which things are tried: it may crash without taking the report with it.
#
# Started as a program with names of trials. It writes a line of JSON at the end of each; what the
# trials themselves write goes nowhere.


#: Imports torch, and has it tell of itself.
IMPORT = "torch"

#: Takes a program from Inductor. No emitter can be called so: their names are identifiers.
FRONT_END = "Inductor front end"

#: y = relu(x) by a C++ kernel, z = y @ w by a library op.
_PROGRAM = """\
wir 2
program @doctor inference logical

input %x : f32[4, 8] @cpu
input %w : f32[8, 2] @cpu

kernel @relu(in_ptr0: in f32, out_ptr0: out f32) cpp
  | // {unique}
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
  | {{
  |     for (int i = 0; i < 32; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;
  | }}
  |

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %y = allocate : f32[4, 8] @cpu
  call @relu(%x, out %y)
  %z = allocate : f32[4, 2] @cpu
  aten::mm.out(%y, %w, out=out %z)
return %y, %z
"""


def main(names: Sequence[str]) -> None:
    """Try what is named, in this order."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for name in names:
        start = time.perf_counter()
        told = _tried(name)
        seconds = time.perf_counter() - start
        print(json.dumps({"name": name, "seconds": seconds, **told}), file=out, flush=True)


def _tried(name: str) -> dict[str, Any]:
    """Return what is to be told of a trial, besides its time."""
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

    found = {kind.type: kind.doctor.inventory(torch) for kind in registered()}
    devices = {
        type_: (each.built_for, [(unit.name, unit.capability) for unit in each.units])
        for type_, each in found.items()
    }
    return {"version": torch.__version__, "devices": devices}


def _emit(target: str) -> Fault | None:
    """Run the program, built anew: found in the cache, it would say nothing of the compiler."""
    from wrapper_ir.api import compile
    from wrapper_ir.text import parse

    program = parse(_PROGRAM.format(unique=uuid.uuid4().hex))
    x, w = _inputs()
    expected = (x.relu(), x.relu() @ w)
    return _compared(compile(program, target)(x, w), expected)


def _capture() -> Fault | None:
    """Run a model, on each kind of device that there is."""
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

    made = torch.Generator().manual_seed(0)
    return torch.randn(4, 8, generator=made), torch.randn(8, 2, generator=made)


def _compared(found: Sequence[Any], expected: Sequence[torch.Tensor]) -> Fault | None:
    import torch

    def bits(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().contiguous().view(torch.int32)

    pairs = zip(found, expected, strict=True)
    if all(got.shape == of.shape and torch.equal(bits(got), bits(of)) for got, of in pairs):
        return None
    return Fault("", "its results are not those of eager execution, bit for bit")


if __name__ == "__main__":
    main(sys.argv[1:])
