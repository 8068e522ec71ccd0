"""One model through ``torch.export``, ``from_fx`` and an emitter, against torch itself."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.harness import _sharing, unlike
from wrapper_ir.lines import ExternKernel, Program

__all__ = ["Function", "agrees", "calls", "differences", "export", "ops"]


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function


def export(model: Any, args: tuple[Any, ...], **options: Any) -> torch.export.ExportedProgram:
    module = model if isinstance(model, nn.Module) else Function(model)
    return torch.export.export(module, copy.deepcopy(args), **options)


def agrees(
    model: Any,
    *calls: tuple[Any, ...],
    dynamic_shapes: Any = None,
    decomposed: bool = True,
    target: str = "python",
) -> Program:
    """Return the model's program, after it did in each call what the model does, to the bit."""
    module = model if isinstance(model, nn.Module) else Function(model)
    exported = export(copy.deepcopy(module), calls[0], dynamic_shapes=dynamic_shapes)
    found = differences(wir.from_fx(exported), exported, module, calls, target)
    assert not found, found
    if decomposed:
        apart = export(copy.deepcopy(module), calls[0], dynamic_shapes=dynamic_shapes)
        apart = apart.run_decompositions({})
        found = differences(wir.from_fx(apart), apart, module, calls, target, sharing=False)
        assert not found, found
    return wir.from_fx(exported)


def differences(
    program: Program,
    exported: torch.export.ExportedProgram,
    module: nn.Module,
    calls: tuple[tuple[Any, ...], ...],
    target: str = "python",
    *,
    sharing: bool = True,
) -> list[str]:
    """List in what a program differs from the model in a series of calls.

    Results of a decomposed graph share storage in other ways: there are no writes to see them by.
    """
    assert wir.parse(str(program)) == program
    module = copy.deepcopy(module)
    run = wir.compile(program, target)
    found: list[str] = []
    for number, args in enumerate(calls):
        theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
        with torch.no_grad():
            torch.manual_seed(number)
            wanted = pytree.tree_leaves(module(*theirs))
            torch.manual_seed(number)
            given = run(*_inputs(ours))
        where = f"call {number}:"
        found += _compare(f"{where} result", given, wanted)
        found += _compare(f"{where} argument", _inputs(ours), _inputs(theirs))
        state = {**exported.state_dict, **exported.constants}
        for name, value in {**dict(module.named_buffers()), **module.state_dict()}.items():
            if name in state:
                found += _compare(f"{where} {name}", [state[name].detach()], [value.detach()])
        if sharing and [s for s, _ in _sharing(given)] != [s for s, _ in _sharing(wanted)]:
            found.append(f"{where} results share storage otherwise")
    return found


def _inputs(args: tuple[Any, ...]) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, (Tensor, int, float))]


def _compare(what: str, ours: Any, theirs: Any) -> list[str]:
    if len(ours) != len(theirs):
        return [f"{what}s: {len(ours)} of them, not {len(theirs)}"]
    pairs = zip(ours, theirs, strict=True)
    return [f"{what} {n}: {why}" for n, (a, b) in enumerate(pairs) if (why := unlike(a, b))]


def calls(program: Program, op: str) -> list[ExternKernel]:
    """Return the calls of one op."""
    return [line for line in program.body if isinstance(line, ExternKernel) and line.op == op]


def ops(program: Program) -> list[str]:
    """Return the ops that the program calls, in order."""
    return [line.op for line in program.body if isinstance(line, ExternKernel)]
