"""Tries torch's own samples of its ops: exported, made programs by ``from_fx``, emitted, run.

    python tools/opinfo.py [--emitter NAME] [OP...]

Every op of torch's ``op_db`` that has a sample in float32 is a module of one call. Results and
arguments are compared bit by bit with the exported module and with eager. It prints a table, and
what is not equal; it ends with status 1 where something differs or fails that should not.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import types
import unittest
import warnings
from collections import defaultdict
from typing import Any

# torch's samples come with its test helpers, which import a package that is not needed for them.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
vars(sys.modules["expecttest"]).setdefault("TestCase", unittest.TestCase)
vars(sys.modules["expecttest"]).setdefault("assert_expected_inline", None)

import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import wrapper_ir as wir  # noqa: E402

EQUAL = "equal"
LEGAL = ("no sample in float32", "not exportable", "exported module fails", "random", "refused")
"""What does not speak against us."""


class OneOp(torch.nn.Module):
    """A call of an op on given tensors, its other arguments being fixed."""

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
    """Say how an op fares, and why."""
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
    """Compare a program with what the exported module gave and what eager left behind."""
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
    """Call from a known random state, and return the leaves of what comes back."""
    torch.manual_seed(0)
    leaves: list[Any] = pytree.tree_leaves(function(*arguments))
    return leaves


def alike(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether values are the same to the bit."""
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same to the bit."""
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
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def main() -> int:
    """Try the ops and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ops", nargs="*", help="names of ops; all by default")
    parser.add_argument("--emitter", default="python")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from torch.testing._internal.common_methods_invocations import op_db

    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for info in op_db:
        if not options.ops or info.name in options.ops:
            kind, why = outcome(info, options.emitter)
            found[kind].append((f"{info.name} {info.variant_test_name}".strip(), why))
    for kind, ops in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(ops):5}  {kind}")
    for kind, ops in found.items():
        if kind != EQUAL:
            print(f"\n{kind}:")
            for name, why in ops:
                print(f"  {name}  {why}".rstrip())
    return int(any(kind not in (EQUAL, *LEGAL) for kind in found))


if __name__ == "__main__":
    sys.exit(main())
