"""Torch's database of ops, and a batch of its samples as one function of tensors."""

from __future__ import annotations

import fnmatch
import sys
import types
import unittest
from dataclasses import dataclass
from typing import Any

# torch's samples come with its test helpers, which import a package that is not needed for them.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
vars(sys.modules["expecttest"]).setdefault("TestCase", unittest.TestCase)
vars(sys.modules["expecttest"]).setdefault("assert_expected_inline", None)

import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

__all__ = ["UNINITIALISED", "Batch", "NoSampleError", "OneCall", "op_infos", "op_names"]

#: Ops whose results hold no values, only a layout.
UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)


class NoSampleError(Exception):
    """Torch has no sample of an op for a CPU in this element type."""


def op_infos() -> dict[str, Any]:
    """Return torch's entries by name, ``op`` or ``op.variant``."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {".".join(filter(None, (info.name, info.variant_test_name))): info for info in op_db}


def op_names(pattern: str = "*") -> list[str]:
    """Return the names of the ops that a pattern fits."""
    return [name for name in op_infos() if fnmatch.fnmatch(name, pattern)]


@dataclass(frozen=True)
class OneCall:
    """A call of an op on given tensors, its other arguments being fixed."""

    op: Any
    fixed: tuple[Any, ...]
    spec: Any
    tensors: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, op: Any, sample: Any) -> OneCall:
        """Take a sample of torch's apart."""
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        fixed = tuple(None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves)
        tensors = tuple(leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return cls(op, fixed, spec, tensors)

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Call the op on other tensors."""
        given = iter(tensors)
        leaves = [next(given) if fixed is None else fixed[0] for fixed in self.fixed]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def samples(name: str, dtype: torch.dtype, count: int) -> list[OneCall]:
    """Return the first calls of an op that torch itself can make, at most ``count``.

    Raises:
        NoSampleError: There are none.
    """
    info = op_infos()[name]
    if dtype not in info.supported_dtypes("cpu"):
        raise NoSampleError(f"no {str(dtype).removeprefix('torch.')} on a CPU")
    torch.manual_seed(0)
    found: list[OneCall] = []
    reason = "no samples"
    try:
        for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
            call = OneCall.of(info.op, sample)
            torch.Tensor.clone(call.tensors[0]) if call.tensors else None
            call(*(t.clone() for t in call.tensors))
            found.append(call)
            if len(found) == count:
                break
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    if not found:
        raise NoSampleError(reason)
    return found


class Batch:
    """Samples of several ops, called one after the other in one function.

    One graph for many calls: compiling C++ costs more than all the rest, and calls beside each
    other in a graph try more than calls alone do.

    Args:
        calls: The calls.
    """

    def __init__(self, calls: list[OneCall]) -> None:
        self._calls = calls

    def arguments(self) -> list[list[torch.Tensor]]:
        """Return fresh copies of the tensors of all calls."""
        return [[_copied(t) for t in call.tensors] for call in self._calls]

    def __call__(self, arguments: list[list[torch.Tensor]]) -> list[Any]:
        """Make all calls."""
        return [call(*given) for call, given in zip(self._calls, arguments, strict=True)]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides, on a storage of its own."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return tensor.clone()
    extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    source = tensor.resolve_conj().resolve_neg()
    storage = torch.as_strided(source, (extent,), (1,)).clone()
    copy = storage.as_strided(tensor.shape, tensor.stride())
    if tensor.is_conj():
        return copy.conj()
    return copy
