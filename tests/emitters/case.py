"""What a program of the corpus has to give, said in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.runtime import random_tensor


@dataclass
class Case:
    """Inputs for a program and what it must give for them."""

    make: Callable[[], list[Any]]
    run: Callable[..., Any]
    """Takes the inputs and the constants by name; changes inputs that the program changes."""
    constants: list[str] = field(default_factory=list)


def t(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return random_tensor(dtype, size, torch.empty(size).stride())
