"""Two ranks that run a program whose collectives are at work while lines follow.

The second rank comes late, so that whatever the first one does with a result too soon shows. It is
a fork, made before torch has run anything.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

import wrapper_ir as wir
from tests.distributed.ranks import join

if TYPE_CHECKING:
    from collections.abc import Callable

#: Those that compile nothing; ``ranks.py`` has C++.
TARGETS = ("interpreter", "python", "fx")

TEXT = """
wir 2
program @in_flight inference planned

symbol s0 : int [1, inf] hint 8
symbol s1 : int [1, inf] hint 8
input %x : f32[s0, s1] @cpu
input %n : i32[4, 6] @cpu

extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
extern aten::neg(Tensor self) -> Tensor
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
extern _c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)
extern _c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor
extern _c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor

  s0 = size %x, 0
  s1 = size %x, 1
  %sum = allocate : f32[s0, s1] @cpu
  aten::copy_(inout %sum, %x)
  _c10d_functional::all_reduce_(inout %sum, "sum", "0")
  %floats = allocate : f32[4, 6] @cpu
  %most = reinterpret %floats : i32[4, 6] @cpu
  aten::copy_(inout %most, %n)
  _c10d_functional::all_reduce_(inout %most, "max", "0")
  %more_floats = allocate : f32[8, 6] @cpu
  %all = reinterpret %more_floats : i32[8, 6] @cpu
  _c10d_functional::all_gather_into_tensor_out(%n, 2, "0", out=out %all)
  %y = aten::neg(%x) : f32[s0, s1] @cpu
  %both = _c10d_functional::all_gather_into_tensor(%y, 2, "0") : f32[2*s0, s1] @cpu
  assert_layout %both, "all_gather"
  free %y
  %turned = reinterpret %n : i32[6, 4]{1, 6} @cpu
  %least = _c10d_functional::all_reduce(%turned, "min", "0") : i32[6, 4] @cpu
  assert_layout %least, "all_reduce"
  _c10d_functional::wait_tensor(%sum)
  _c10d_functional::wait_tensor(%most)
  _c10d_functional::wait_tensor(%all)
  _c10d_functional::wait_tensor(%both)
  _c10d_functional::wait_tensor(%least)
return %sum, %most, %all, %both, %least
"""  # noqa: E501 - a schema is one line


def given(rank: int) -> tuple[Tensor, Tensor]:
    """What a rank is given."""
    return (
        torch.arange(15, dtype=torch.float32).reshape(3, 5) + 100 * rank,
        torch.arange(24, dtype=torch.int32).reshape(4, 6) * (1 - 2 * rank),
    )


def wanted() -> list[Tensor]:
    """What every rank has to return."""
    (x, n), (y, m) = given(0), given(1)
    least = torch.minimum(n, m).t()
    return [x + y, torch.maximum(n, m), torch.cat([n, m]), torch.cat([-x, -y]), least]


def function(target: str, device: torch.device) -> Callable[..., Any]:
    """The program in a target."""
    program = wir.parse(TEXT.replace("@cpu", f"@{device.type}"))
    if target == "interpreter":
        return lambda *args: wir.interpret(program, *args)
    found: Callable[..., Any] = wir.compile(program, target)
    return found


def work(rank: int, folder: Path, device: torch.device) -> None:
    """Run the program in every target."""
    join(rank, folder, device)
    for target in TARGETS:
        run = function(target, device)
        dist.barrier()
        time.sleep(0.2 * rank)
        found = run(*(each.to(device) for each in given(rank)))
        is_right = [torch.equal(a.cpu(), b) for a, b in zip(found, wanted(), strict=True)]
        line = " ".join(map(str, (rank, target, *is_right)))
        os.write(1, f"{line}\n".encode())  # in one piece: both processes write to one file
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    CHILD = os.fork()
    torch.set_num_threads(1)
    work(0 if CHILD else 1, Path(sys.argv[1]), torch.device(sys.argv[2]))
    if CHILD:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(CHILD, 0)[1]))
