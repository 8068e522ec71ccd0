"""Random ops that are run again with the state of the generator that they had the first time.

What is checkpointed in training calls random ops in the forward and once more in the backward, and
has to draw the same numbers. For that Inductor calls two higher-order ops of torch
(``run_and_save_rng_state``, ``run_with_rng_state``), which take an op and its arguments. A program
has the op itself, and beside it ops that give and set the state of the generator.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from wrapper_ir.frontends.inductor.convert.operators import define
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.layout import CPU, Layout

__all__ = ["GET_STATE", "SET_STATE", "STATE", "runs_and_saves", "runs_with"]

_BYTES: Final = torch.get_rng_state().numel()

#: How the state of the CPU's generator is kept.
STATE: Final = Layout(DType.UINT8, CPU, (_BYTES,), (1,))

#: Gives the state of the CPU's generator. Of two calls neither is superfluous: something may have
#: been drawn in between.
GET_STATE: Final = define(
    "random_state() -> Tensor",
    torch.get_rng_state,
    fake=lambda: torch.empty(_BYTES, dtype=torch.uint8),
    tags=(torch.Tag.nondeterministic_seeded,),
)
#: Sets it.
SET_STATE: Final = define(
    "set_random_state(Tensor state) -> ()", torch.set_rng_state, fake=lambda state: None
)

_SAVES: Final = torch.ops.higher_order.run_and_save_rng_state
_RUNS_WITH: Final = torch.ops.higher_order.run_with_rng_state


def runs_and_saves(node: Any) -> bool:
    """Return whether an IR node calls a random op on the CPU and gives the state before, too."""
    return _is(node, _SAVES)


def runs_with(node: Any) -> bool:
    """Return whether an IR node calls a random op on the CPU with a state that it is given."""
    return _is(node, _RUNS_WITH)


def _is(node: Any, op: Any) -> bool:
    if getattr(node, "op_overload", None) is not op:
        return False
    device = node.get_device()
    return device is None or device.type == "cpu"
