"""The process in which things are tried: it may crash without taking the report with it.

Started as a program with names of trials. It writes a line of JSON at the end of each; what the
trials themselves write goes nowhere.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

from wrapper_ir.cli.doctor.report import Fault, fault_of
from wrapper_ir.devices import registered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__all__ = ["FRONT_END", "IMPORT", "main"]

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
