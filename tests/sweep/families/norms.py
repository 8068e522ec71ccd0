"""Normalisations, alone and with what models put beside them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn import functional

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import among, rest, width

ROWS = How(varies="rows", kind="reduction")


@family(ROWS, columns=width(2), rows=rest())
def layer_norm(k: Kit, rows: int, columns: int) -> Made:
    return Made(
        lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        lambda: (k.r(rows, columns), k.r(columns), k.r(columns)),
    )


@family(ROWS, columns=width(2), rows=rest())
def rms_norm(k: Kit, rows: int, columns: int) -> Made:
    return Made(
        lambda x, w: functional.rms_norm(x, x.shape[-1:], w),
        lambda: (k.r(rows, columns), k.r(columns)),
    )


@family(ROWS, columns=width(64), rows=rest())
def residual_and_norm(k: Kit, rows: int, columns: int) -> Made:
    def run(x, y, w):
        z = x + y
        wide = z.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return z, (scaled * w).to(z.dtype)

    inputs = (rows, columns)
    return Made(run, lambda: (k.r(*inputs), k.r(*inputs), k.r(columns)))


@family(ROWS, columns=width(64, 8192), rows=rest())
def two_norms_and_a_product(k: Kit, rows: int, columns: int) -> Made:
    def run(x, a, w, b):
        y = functional.layer_norm(x, x.shape[-1:], a)
        return functional.rms_norm(functional.gelu(y * w) + x, x.shape[-1:], b)

    return Made(run, lambda: (k.r(rows, columns), k.r(columns), k.r(columns), k.r(columns)))


@family(ROWS, columns=width(), rows=rest())
def softmax(k: Kit, rows: int, columns: int) -> Made:
    return Made(lambda x: torch.softmax(x, -1), lambda: (k.r(rows, columns),))


@family(How(kind="reduction"), columns=width(), rows=rest())
def softmax_of_columns(k: Kit, rows: int, columns: int) -> Made:
    return Made(lambda x: torch.log_softmax(x * 2, 0), lambda: (k.r(rows, columns),))


@family(
    How(kind="reduction", varies="images"),
    side=width(1, 513),
    height=among(1, 2, 7),
    channels=width(1, 2048),
    images=rest(2),
)
def batch_norm(k: Kit, side: int, height: int, channels: int, images: int) -> Made:
    def run(x, w, b, mean, variance):
        y = functional.batch_norm(x, mean, variance, w, b, training=True)
        return functional.relu(y)

    def inputs():
        wide = torch.float32
        weights = k.r(channels, dtype=wide), k.r(channels, dtype=wide)
        state = k.c(channels, dtype=wide), k.p(channels, dtype=wide)
        return k.r(images, channels, side, height), *weights, *state

    return Made(run, inputs)


@family(
    How(kind="reduction"),
    side=width(1, 513),
    height=among(1, 2, 7),
    channels=width(1, 2048),
    images=rest(2),
)
def batch_norm_channels_last(k: Kit, side: int, height: int, channels: int, images: int) -> Made:
    def run(x, y, w, b):
        x = x.permute(0, 3, 1, 2)
        z = functional.batch_norm(x, None, None, w, b, training=True)
        return functional.silu(z + y.permute(0, 3, 1, 2))

    size = (images, side, height, channels)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(channels), k.r(channels)))


@family(
    How(kind="reduction", varies="images"),
    groups=among(1, 2, 8, 32),
    each=width(1, 64),
    side=width(2, 513),
    images=rest(),
)
def group_norm(k: Kit, groups: int, each: int, side: int, images: int) -> Made:
    channels = groups * each
    return Made(
        lambda x, w, b: functional.silu(functional.group_norm(x, groups, w, b)),
        lambda: (k.r(images, channels, side, 2), k.r(channels), k.r(channels)),
    )


@family(How(kind="reduction"), side=width(8, 1025), images=rest())
def instance_norm(k: Kit, side: int, images: int) -> Made:
    return Made(functional.instance_norm, lambda: (k.r(images, 4, side, 2),))


@family(ROWS, columns=width(), rows=rest())
def unit_length(k: Kit, rows: int, columns: int) -> Made:
    return Made(lambda x: functional.normalize(x.float(), dim=-1), lambda: (k.r(rows, columns),))


@family(replace(ROWS, trains=False), columns=width(16), rows=rest())
def scaled_to_eight_bits(k: Kit, rows: int, columns: int) -> Made:
    def run(x):
        scale = x.abs().amax(-1, keepdim=True).float() / 448 + 1e-12
        return (x.float() / scale).to(torch.float8_e4m3fn), scale

    return Made(run, lambda: (k.c(rows, columns),))
