"""One step of training, and how far two models are apart after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


@dataclass(frozen=True)
class Outcome:
    """Outcome of one training step: results, gradients and updated parameters."""

    output: Tensor
    loss: Tensor
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]


def train_step(
    model: nn.Module, call: Callable[[Tensor], Tensor], tokens: Tensor, targets: Tensor
) -> Outcome:
    """Take one step: forward, cross entropy, backward, gradient descent.

    Not Adam: its first step divides each gradient by its own size, so that rounding errors in tiny
    gradients would show as differences as large as the learning rate.

    Args:
        model: Whose parameters are trained.
        call: How it is called: the model itself or what torch.compile made of it.
        tokens: Integers of shape (batch, time).
        targets: Integers of the same shape.
    """
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    output = call(tokens)
    loss = _loss(output, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    optimiser.step()
    optimiser.zero_grad()
    parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
    return Outcome(output.detach(), loss.detach(), gradients, parameters)


def bare_step(
    model: nn.Module, call: Callable[[Tensor], Tensor], tokens: Tensor, targets: Tensor
) -> None:
    """Run forward and backward and forget the gradients: what is timed."""
    _loss(call(tokens), targets).backward()  # type: ignore[no-untyped-call]
    model.zero_grad()


def _loss(output: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())


def differences(one: Outcome, other: Outcome) -> dict[str, float]:
    """Return the largest absolute difference of each part of two outcomes.

    Raises:
        ValueError: One has gradients that the other lacks.
    """
    if one.gradients.keys() != other.gradients.keys():
        raise ValueError("the two models have gradients for different parameters")
    return {
        "output": max_difference(one.output, other.output),
        "loss": max_difference(one.loss, other.loss),
        "gradients": _largest(one.gradients, other.gradients),
        "parameters after the step": _largest(one.parameters, other.parameters),
    }


def max_difference(one: Tensor, other: Tensor) -> float:
    """Return the largest absolute difference of two tensors; not a number where one has one."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {tuple(one.shape)} and {tuple(other.shape)} differ")
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def _largest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    each = [max_difference(one[name], other[name]) for name in one]
    return float(torch.tensor(each, dtype=torch.float64).max()) if each else 0.0
