"""An architecture as a library and as a package, run by torch's own loaders in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.harness import unlike
from tests.models.zoo import Case

if TYPE_CHECKING:
    from tests.zoo.toys import Architecture

__all__ = ["exported"]

CALLS = 2


def exported(architecture: Architecture) -> tuple[str, int, int]:
    """Export an architecture; return what is wrong, the number of graphs and that of lines."""
    case = Case(architecture.name, architecture.build, architecture.batch)
    module, arguments = case.make()
    module.eval()
    with torch.no_grad():
        try:
            graph = torch.export.export(module, arguments)
        except Exception as error:
            return f"stock cannot export it: {str(error).splitlines()[0]}", 0, 0
        program = wir.capture(graph)
        given = [_tensors(_other(case, call)) for call in range(CALLS)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # How a convolution adds up depends on how many threads share it.
            torch.save((given, torch.get_num_threads()), folder / "given.pt")
            wir.export(program, folder / "model.so")
            wir.export(program, folder / "model.pt2")
            command = [sys.executable, "-W", "ignore", "-m", "tests.zoo.reloading", name]
            subprocess.run(command, check=True, stdout=sys.stderr)
            found = torch.load(folder / "found.pt")
        why = _judged(found, module, wir.compile(program, "python"), given)
    return why, 1, len(program.body)


def _other(case: Case, call: int) -> tuple[Any, ...]:
    return Case(case.name, case.build, case.batch, seed=100 * call + 7).make()[1]


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


def _judged(found: dict[str, Any], module: Any, ours: Any, given: list[list[Tensor]]) -> str:
    """Compare with the Python emitter to the bit, and with eager within what rounding does."""
    for call, arguments in enumerate(given):
        wanted = _tensors(ours(*(a.clone() for a in arguments)))
        for what, results in found.items():
            pairs = zip(results[call], wanted, strict=True)
            for number, (a, b) in enumerate(pairs):
                if why := unlike(a, b):
                    return f"model.{what} differs: call {call} result {number}: {why}"
        eager = _tensors(module(*arguments))
        try:
            torch.testing.assert_close(wanted, eager, rtol=1e-3, atol=1e-4, check_stride=False)
        except AssertionError as error:
            return f"not as eager: {str(error).splitlines()[0]}"
    return ""
