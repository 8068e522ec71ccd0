"""Random ops that are run again with the state of the generator that they had the first time.

What is checkpointed in training calls random ops in the forward and once more in the backward, and
has to draw the same numbers. For that Inductor calls two higher-order ops of torch
(``run_and_save_rng_state``, ``run_with_rng_state``), which take an op and its arguments. A program
has the op itself, and beside it ops that give and set the state of the generator.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx.node import has_side_effect

from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.layout import CPU, Layout

__all__ = ["GET_STATE", "SET_STATE", "STATE", "runs_and_saves", "runs_with"]

_library: Final[Any] = torch.library.Library("wrapper_ir_inductor", "FRAGMENT")  # type: ignore[no-untyped-call]

_BYTES: Final = torch.get_rng_state().numel()

#: How the state of the CPU's generator is kept.
STATE: Final = Layout(DType.UINT8, CPU, (_BYTES,), (1,))

# Of two calls neither is superfluous: something may have been drawn in between.
_library.define("random_state() -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
_library.impl("random_state", torch.get_rng_state, "CompositeExplicitAutograd")
torch.library.register_fake(
    "wrapper_ir_inductor::random_state",
    lambda: torch.empty(_BYTES, dtype=torch.uint8),
    lib=_library,
)
_library.define("set_random_state(Tensor state) -> ()")
_library.impl("set_random_state", torch.set_rng_state, "CompositeExplicitAutograd")
torch.library.register_fake(
    "wrapper_ir_inductor::set_random_state", lambda state: None, lib=_library
)

#: Gives the state of the CPU's generator.
GET_STATE: Final[Any] = has_side_effect(torch.ops.wrapper_ir_inductor.random_state.default)
#: Sets it.
SET_STATE: Final[Any] = has_side_effect(torch.ops.wrapper_ir_inductor.set_random_state.default)

_SAVES: Final = getattr(torch.ops.higher_order, "run_and_save_rng_state", None)
_RUNS_WITH: Final = getattr(torch.ops.higher_order, "run_with_rng_state", None)


def runs_and_saves(node: Any) -> bool:
    """Return whether an IR node calls a random op on the CPU and gives the state before, too."""
    return _is(node, _SAVES)


def runs_with(node: Any) -> bool:
    """Return whether an IR node calls a random op on the CPU with a state that it is given."""
    return _is(node, _RUNS_WITH)


def _is(node: Any, op: Any) -> bool:
    if op is None or getattr(node, "op_overload", None) is not op:
        return False
    device = node.get_device()
    return device is None or device.type == "cpu"
