"""Functions of numbers that graphs call where neither Python nor torch has one for all numbers.

They take numbers of Python and symbolic ones of torch. Dynamo works out numbers of Python while it
traces, and for that needs the functions of ``math``. What torch has for symbolic numbers is not
promised; where it is missing, ``math`` takes a symbolic number for the one it is by chance, or
refuses it.
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
    """``a if condition else b``."""
    if isinstance(condition, bool):
        return a if condition else b
    return torch.sym_ite(condition, *_alike(a, b))


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Two numbers as two of one type, which is what torch chooses between."""
    if any(isinstance(each, (float, torch.SymFloat)) for each in (a, b)):
        a, b = torch.sym_float(a), torch.sym_float(b)
    if isinstance(a, (int, float)) and not isinstance(b, (int, float)):
        return a + 0 * b, b
    if isinstance(b, (int, float)) and not isinstance(a, (int, float)):
        return a, b + 0 * a
    return a, b


def exp(x: Any) -> Any:
    """Natural exponential."""
    return math.exp(x)


def log(x: Any) -> Any:
    """Natural logarithm."""
    return math.log(x)


def sqrt(x: Any) -> Any:
    """Square root."""
    return math.sqrt(x) if isinstance(x, (int, float)) else _sqrt(x)


def log2(x: Any) -> Any:
    """Binary logarithm."""
    return math.log2(x) if isinstance(x, (int, float)) else _log2(x)


def sin(x: Any) -> Any:
    """Sine."""
    return math.sin(x) if isinstance(x, (int, float)) else _sin(x)


def cos(x: Any) -> Any:
    """Cosine."""
    return math.cos(x) if isinstance(x, (int, float)) else _cos(x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return math.tanh(x) if isinstance(x, (int, float)) else _tanh(x)
