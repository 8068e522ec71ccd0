"""Functions of numbers that graphs call, for Python's numbers and torch's symbolic ones alike.

Neither Python nor torch has functions for both. Dynamo evaluates Python numbers while it traces,
which requires the functions of ``math``. Torch's functions for symbolic numbers are private; if
they are missing, ``math`` specializes a symbolic number to its hint, or rejects it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch

_sqrt: Final[Any] = getattr(torch, "_sym_sqrt", math.sqrt)
_log2: Final[Any] = getattr(torch, "_sym_log2", math.log2)
_sin: Final[Any] = getattr(torch, "_sym_sin", math.sin)
_cos: Final[Any] = getattr(torch, "_sym_cos", math.cos)
_tanh: Final[Any] = getattr(torch, "_sym_tanh", math.tanh)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return ``a if condition else b``."""
    if isinstance(condition, bool):
        return a if condition else b
    return torch.sym_ite(condition, *_alike(a, b))


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert two numbers to one type, as ``torch.sym_ite`` requires."""
    if any(isinstance(each, (float, torch.SymFloat)) for each in (a, b)):
        a, b = torch.sym_float(a), torch.sym_float(b)
    if isinstance(a, (int, float)) and not isinstance(b, (int, float)):
        return a + 0 * b, b
    if isinstance(b, (int, float)) and not isinstance(a, (int, float)):
        return a, b + 0 * a
    return a, b


def exp(x: Any) -> Any:
    """Return the exponential."""
    return math.exp(x)


def log(x: Any) -> Any:
    """Return the natural logarithm."""
    return math.log(x)


def sqrt(x: Any) -> Any:
    """Return the square root."""
    return math.sqrt(x) if isinstance(x, (int, float)) else _sqrt(x)


def log2(x: Any) -> Any:
    """Return the binary logarithm."""
    return math.log2(x) if isinstance(x, (int, float)) else _log2(x)


def sin(x: Any) -> Any:
    """Return the sine."""
    return math.sin(x) if isinstance(x, (int, float)) else _sin(x)


def cos(x: Any) -> Any:
    """Return the cosine."""
    return math.cos(x) if isinstance(x, (int, float)) else _cos(x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    return math.tanh(x) if isinstance(x, (int, float)) else _tanh(x)
