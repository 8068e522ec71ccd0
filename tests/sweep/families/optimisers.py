"""Steps of optimisers over many parameters: one by one, and in kernels of several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.optim import adam, adamw, sgd

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import among, rest

HOW = How(trains=False, dtypes=("float32", "bfloat16"), more=("combo",) * 6)
MANY = {"count": among(1, 3, 12, 70), "columns": among(1, 7, 64, 768, 1025, 4096), "rows": rest()}


def _parameters(k: Kit, count: int, rows: int, columns: int) -> list[torch.Tensor]:
    return [k.c(rows, columns) if n % 2 else k.c(columns) for n in range(1, count + 1)]


def _steps(k: Kit, count: int) -> list[torch.Tensor]:
    return [torch.ones((), device=k.device) for _ in range(count)]


def _adam(k: Kit, function: Any, how: dict[str, Any], count: int, size: tuple[int, int]) -> Made:
    numbers = {"beta1": 0.9, "beta2": 0.999, "lr": 1e-3, "eps": 1e-8, "amsgrad": False}

    def run(weights, gradients, means, squares, steps):
        with torch.no_grad():
            function(
                weights, gradients, means, squares, [], steps, **numbers, maximize=False, **how
            )

    def inputs():
        given = [_parameters(k, count, *size) for _ in range(3)]
        above_zero = [t.abs_() for t in _parameters(k, count, *size)]
        return *given, above_zero, _steps(k, count)

    return Made(run, inputs)


#: Steps are counted on the GPU; on the CPU Dynamo knows them only from an optimiser.
COUNTED = replace(HOW, devices=("cuda",))


@family(COUNTED, **MANY)
def adamw_of_lists(k: Kit, count: int, columns: int, rows: int) -> Made:
    how = {"foreach": True, "capturable": True, "weight_decay": 0.1}
    return _adam(k, adamw.adamw, how, count, (rows, columns))


@family(COUNTED, **MANY)
def adam_one_by_one(k: Kit, count: int, columns: int, rows: int) -> Made:
    how = {"foreach": False, "capturable": True, "weight_decay": 0.0}
    return _adam(k, adam.adam, how, min(count, 12), (rows, columns))


@family(HOW, **MANY)
def adamw_fused(k: Kit, count: int, columns: int, rows: int) -> Made:
    """The op itself: the optimiser's function keeps Dynamo out."""

    def fused(weights, gradients, means, squares, _, steps, **how):
        greatest = [each * 2 for each in squares]  # torch cannot trace it with an empty list
        lists = (weights, gradients, means, squares, greatest, steps)
        torch._fused_adamw_(*lists, **{**how, "amsgrad": True})

    return _adam(k, fused, {"weight_decay": 0.1}, count, (rows, columns))


@family(HOW, **MANY)
def momentum(k: Kit, count: int, columns: int, rows: int) -> Made:
    def run(weights, gradients, momenta):
        with torch.no_grad():
            how = {"nesterov": True, "maximize": False, "foreach": True}
            numbers = {"momentum": 0.9, "lr": 1e-3, "dampening": 0.0, "weight_decay": 1e-4}
            sgd.sgd(weights, gradients, momenta, **how, **numbers)

    return Made(run, lambda: tuple(_parameters(k, count, rows, columns) for _ in range(3)))


@family(HOW, **MANY)
def signs_of_means(k: Kit, count: int, columns: int, rows: int) -> Made:
    def run(weights, gradients, means):
        steps = torch._foreach_lerp(means, gradients, 0.1)
        torch._foreach_add_(weights, torch._foreach_sign(steps), alpha=-1e-4)
        torch._foreach_lerp_(means, gradients, 0.01)

    return Made(run, lambda: tuple(_parameters(k, count, rows, columns) for _ in range(3)))


@family(HOW, **MANY)
def gradients_cut_short(k: Kit, count: int, columns: int, rows: int) -> Made:
    def run(gradients):
        norms = torch.stack(torch._foreach_norm(gradients))
        scale = (1.0 / (norms.float().norm() + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(gradients, scale)
        return norms

    return Made(run, lambda: (_parameters(k, count, rows, columns),))
