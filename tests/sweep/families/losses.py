"""Losses, from a few classes to vocabularies."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import rest, side, square, width

ROWS = How(varies="rows", kind="reduction")


@family(ROWS, classes=width(2), rows=rest())
def cross_entropy(k: Kit, rows: int, classes: int) -> Made:
    return Made(
        lambda x, y: functional.cross_entropy(x.float(), y),
        lambda: (k.r(rows, classes), k.i(classes, rows)),
    )


@family(ROWS, classes=width(2), rows=rest())
def cross_entropy_smoothed(k: Kit, rows: int, classes: int) -> Made:
    def run(x, y):
        y = torch.where(y == 0, -100, y)
        return functional.cross_entropy(x, y, label_smoothing=0.1, reduction="sum")

    return Made(run, lambda: (k.r(rows, classes), k.i(classes, rows)))


@family(How(kind="product", weight=20), width_=side(64, 4096), classes=width(1000), rows=rest(2))
def cross_entropy_of_a_product(k: Kit, width_: int, classes: int, rows: int) -> Made:
    def run(x, w, y):
        logits = functional.linear(x, w).float()
        return functional.cross_entropy(logits, y) + 1e-4 * logits.logsumexp(-1).square().mean()

    return Made(run, lambda: (k.r(rows, width_), k.w(classes, width_), k.i(classes, rows)))


@family(ROWS, classes=width(2), rows=rest())
def divergence(k: Kit, rows: int, classes: int) -> Made:
    def run(x, y):
        x, y = functional.log_softmax(x, -1), functional.log_softmax(y, -1)
        return functional.kl_div(x, y, log_target=True, reduction="batchmean")

    return Made(run, lambda: (k.r(rows, classes), k.c(rows, classes)))


@family(ROWS, columns=width(), rows=rest())
def two_classes(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, w):
        return functional.binary_cross_entropy_with_logits(x, y, pos_weight=w)

    return Made(run, lambda: (k.r(rows, columns), k.p(rows, columns).clamp_(0, 1), k.p(columns)))


@family(ROWS, columns=width(), rows=rest())
def squares(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        wide = functional.smooth_l1_loss(x.float(), y.float(), beta=0.5)
        return functional.mse_loss(x, y) + wide, functional.l1_loss(x, y)

    return Made(run, lambda: (k.r(rows, columns), k.c(rows, columns)))


@family(How(kind="product"), columns=side(16, 1024), rows=square(2, 16384))
def contrast(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y):
        x, y = functional.normalize(x, dim=-1), functional.normalize(y, dim=-1)
        scores = x @ y.t() * 14
        wanted = torch.arange(x.shape[0], device=x.device)
        return functional.cross_entropy(scores, wanted) + functional.cross_entropy(
            scores.t(), wanted
        )

    return Made(run, lambda: (k.r(rows, columns), k.r(rows, columns)))


@family(ROWS, columns=width(8), rows=rest())
def angles(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, z):
        near = functional.cosine_similarity(x, y)
        return functional.triplet_margin_loss(x, y, z) + functional.relu(0.2 - near).mean()

    size = (rows, columns)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(*size)))
