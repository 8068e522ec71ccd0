"""Names and effects that the functions of all loaded programs have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.lines.program import Program


def present(function: Callable[..., Any], program: Program) -> None:
    """Give a function the name and the docstring of the program that it runs."""
    name, count = program.name, len(program.inputs)
    function.__name__ = function.__qualname__ = name if name.isidentifier() else "program"
    function.__doc__ = (
        f"Run the program '{name}' on its {count} inputs; gives a tuple of its results."
    )


def bump_versions(tensors: Sequence[Any]) -> None:
    """Tell autograd that tensors were written to: a stale saved value is then an error."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
