"""Families with a planted fault: what the sweep itself is tried with."""

from __future__ import annotations

import torch

from tests.sweep.kit import Family, Kit, Made
from tests.sweep.sizes import rest
from wrapper_ir.frontends.inductor.session import statistics

__all__ = ["PLANTED"]

_calls = 0


@torch.library.custom_op("sweep::planted", mutates_args=())
def _planted(x: torch.Tensor, fault: str) -> torch.Tensor:
    """Add one, or with a fault something else: where programs are ours, or at each call."""
    global _calls
    _calls += 1
    if fault == "other" and statistics.programs:
        return x + 1 + x.abs().max()
    return x + 1 + (_calls * 1e-6 if fault == "unsteady" else 0)


@_planted.register_fake
def _(x: torch.Tensor, fault: str) -> torch.Tensor:
    return torch.empty_like(x)


def other_numbers(k: Kit, numbers: int) -> Made:
    return Made(lambda x: torch.ops.sweep.planted(x, "other"), lambda: (k.c(numbers),))


def unsteady(k: Kit, numbers: int) -> Made:
    return Made(lambda x: torch.ops.sweep.planted(x, "unsteady"), lambda: (k.c(numbers),))


def honest(k: Kit, numbers: int) -> Made:
    return Made(lambda x: torch.ops.sweep.planted(x, ""), lambda: (k.c(numbers),))


def resized(k: Kit, numbers: int) -> Made:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.sweep.planted(x, "")
        torch.ops.inductor.resize_storage_bytes_(y, 4 * x.numel())
        return torch.ops.sweep.planted(y, "")

    return Made(run, lambda: (k.c(numbers),))


PLANTED = tuple(
    Family(make.__name__, make, {"numbers": rest()})
    for make in (other_numbers, unsteady, honest, resized)
)
