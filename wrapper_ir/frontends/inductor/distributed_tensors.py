"""Models whose parameters are distributed tensors, as ``parallelize_module`` makes them.

A program takes the tensors that they hold. So a call tests that each still holds the same tensor,
spread in the same way. What a mesh is does not change.
"""

from __future__ import annotations

import functools
import sys
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torch import Tensor

_HELD: Final = "_local_tensor"

#: The slots of a distributed tensor: the tensor of this rank, and how values are spread.
PARTS_OF_DISTRIBUTED: Final = (_HELD, "_spec")

_HOME: Final = "torch.distributed.tensor"


def is_distributed(value: object) -> bool:
    """Return whether a value is a distributed tensor of torch's own class."""
    home: Any = sys.modules.get(_HOME)
    return home is not None and type(value) is home.DTensor


def held_by(tensor: Tensor) -> Tensor:
    """Return the tensor of this rank that a distributed one holds."""
    held: Tensor = getattr(tensor, _HELD)
    return held


def has_no_effects(hook: Any) -> bool:
    """Return whether a module's hook only computes, so that tracing it once is enough.

    Of torch's own hooks, those do that spread inputs and gather results. Users' hooks are there for
    their effects.
    """
    while isinstance(hook, (functools.partial, MethodType)):
        hook = hook.func if isinstance(hook, functools.partial) else hook.__func__
    home = str(getattr(hook, "__module__", None))
    return home == _HOME or home.startswith(f"{_HOME}.")
