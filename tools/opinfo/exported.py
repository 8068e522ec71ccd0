"""Samples exported and converted by ``from_fx``, each as a module of one call.

Results and arguments are compared bit by bit with the exported module and with eager.
"""

from __future__ import annotations

import copy
import fnmatch
import logging
import warnings
from collections import defaultdict
from typing import Any

import torch
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tools.opinfo.database import op_infos

EQUAL = "equal"
LEGAL = ("no sample in float32", "not exportable", "exported module fails", "random", "refused")
"""Outcomes that are not our fault."""


class OneOp(torch.nn.Module):
    """A call of an op on given tensors; its other arguments are fixed."""

    def __init__(self, op: Any, sample: Any) -> None:
        super().__init__()
        self._op = op
        leaves, self._spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self._fixed = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        self.tensors = [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Call the op."""
        given = iter(tensors)
        leaves = [next(given) if fixed is None else fixed[0] for fixed in self._fixed]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self._op(*args, **kwargs)


def outcome(info: Any, emitter: str) -> tuple[str, str]:
    """Return the outcome of an op and the reason."""
    if torch.float32 not in info.supported_dtypes("cpu"):
        return "no sample in float32", ""
    torch.manual_seed(0)
    try:
        samples = list(info.sample_inputs("cpu", torch.float32, requires_grad=False))[:3]
        model = OneOp(info.op, samples[-1])
        tensors = [
            torch.Tensor.clone(t) if t.layout is not torch.strided else t for t in model.tensors
        ]
        arguments = copy.deepcopy(tensors)
        eager = called(model, arguments)
    except Exception as error:
        return "no sample in float32", described(error)
    try:
        exported = torch.export.export(model, tuple(copy.deepcopy(tensors)))
    except Exception as error:
        return "not exportable", described(error)
    try:
        reference = called(exported.module(), copy.deepcopy(tensors))
    except Exception as error:
        return "exported module fails", described(error)
    return compared(exported, emitter, (tensors, arguments), (eager, reference))


def compared(
    exported: Any, emitter: str, arguments: tuple[list[Any], list[Any]], wanted: tuple[Any, Any]
) -> tuple[str, str]:
    """Compare a program's results and arguments with the exported module's and eager's."""
    (before, after), (eager, reference) = arguments, wanted
    try:
        program = wir.from_fx(exported)
    except wir.frontends.aten.UnsupportedGraphError as error:
        return "refused", described(error)
    except Exception as error:
        return "from_fx fails", described(error)
    given = copy.deepcopy(before)
    try:
        results = called(wir.compile(program, emitter), given)
    except Exception as error:
        return "running fails", described(error)
    if alike(results, reference) and alike(given, after):
        return EQUAL, ""
    return ("different" if alike(reference, eager) else "random"), ""


def called(function: Any, arguments: list[Any]) -> list[Any]:
    """Call from a known random state and return the leaves of the result."""
    torch.manual_seed(0)
    leaves: list[Any] = pytree.tree_leaves(function(*arguments))
    return leaves


def alike(ours: list[Any], theirs: list[Any]) -> bool:
    """Check that all values are equal bit for bit."""
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def same(a: Any, b: Any) -> bool:
    """Check that two values are equal bit for bit."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and (a == b or a != a)
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return False
    return torch.equal(bits(a), bits(b))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor's elements."""
    plain = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    plain = plain.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return plain.reshape(-1).view(torch.uint8)


def described(error: BaseException) -> str:
    """Format an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def main(pattern: str, emitter: str) -> int:
    """Try the ops that match a pattern and print the table."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, info in op_infos().items():
        if fnmatch.fnmatch(name, pattern):
            kind, why = outcome(info, emitter)
            found[kind].append((name, why))
    for kind, ops in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(ops):5}  {kind}")
    for kind, ops in found.items():
        if kind != EQUAL:
            print(f"\n{kind}:")
            for name, why in ops:
                print(f"  {name}  {why}".rstrip())
    return int(any(kind not in (EQUAL, *LEGAL) for kind in found))
