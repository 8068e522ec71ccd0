"""Convolutions, pooling and what changes the size of images."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.sweep.kit import FLOATS, How, Kit, Made, family
from tests.sweep.sizes import among, rest, square, width

SIDES = {
    "side": width(4, 512),
    "height": among(4, 8, 15),
    "inner": width(1, 257),
    "images": rest(1, 1024),
}
HOW = How(kind="convolution", weight=48)
POOLS = How(kind="small", weight=64)


@family(HOW, **SIDES)
def convolution(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x, w, b):
        return functional.relu(functional.conv2d(x, w, b, padding=1)) + 1

    return Made(run, lambda: (k.r(images, inner, side, height), k.w(32, inner, 3, 3), k.r(32)))


@family(HOW, **SIDES)
def convolution_channels_last(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x, w, mean, variance):
        y = functional.conv2d(x, w, stride=2, padding=1)
        return functional.silu(functional.batch_norm(y, mean, variance, training=True))

    def inputs():
        x = k.c(images, inner, side, height).contiguous(memory_format=torch.channels_last)
        state = k.c(48, dtype=torch.float32), k.p(48, dtype=torch.float32)
        return x.requires_grad_(k.backward), k.w(48, inner, 3, 3), *state

    return Made(run, inputs)


@family(How(kind="convolution", weight=48, more=("tuned",) * 4), **SIDES)
def convolution_of_pixels(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x, w, b):
        return functional.gelu(functional.conv2d(x, w, b))

    return Made(run, lambda: (k.r(images, inner, side, height), k.w(64, inner, 1, 1), k.r(64)))


@family(HOW, **SIDES)
def convolution_of_each_channel(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x, w, b):
        return functional.hardswish(functional.conv2d(x, w, b, padding=2, groups=x.shape[1]))

    return Made(run, lambda: (k.r(images, inner, side, height), k.w(inner, 1, 5, 5), k.r(inner)))


@family(HOW, inner=among(1, 4, 80, 512), length=width(16, 65537), images=rest(1, 512))
def convolution_of_sound(k: Kit, inner: int, length: int, images: int) -> Made:
    def run(x, w, v):
        x = functional.gelu(functional.conv1d(x, w, padding=1))
        return functional.conv_transpose1d(x, v, stride=2)

    return Made(run, lambda: (k.r(images, inner, length), k.w(16, inner, 3), k.w(16, 8, 4)))


@family(
    How(kind="convolution", weight=64, dtypes=FLOATS[::2]),
    side=square(4, 65),
    height=among(4),
    inner=among(1, 3, 16),
    images=rest(1, 64),
)
def convolution_of_videos(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    return Made(
        lambda x, w: functional.relu(functional.conv3d(x, w, padding=1)),
        lambda: (k.r(images, inner, side, side, height), k.w(16, inner, 3, 3, 3)),
    )


@family(POOLS, **SIDES)
def greatest_of_windows(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x):
        return functional.max_pool2d(functional.relu(x), 3, 2, 1) * 2

    return Made(run, lambda: (k.r(images, inner, side, height),))


@family(POOLS, **SIDES)
def means_of_windows(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x):
        return (
            functional.avg_pool2d(x, 2, 1),
            functional.adaptive_avg_pool2d(x, (3, 5)),
            x.mean((2, 3)),
        )

    return Made(run, lambda: (k.r(images, inner, side, height),))


@family(POOLS, **SIDES)
def enlarged(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x):
        y = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        return functional.interpolate(x, scale_factor=2) + y

    return Made(run, lambda: (k.r(images, inner, side, height),))


@family(POOLS, side=width(4, 512), height=among(4), inner=width(1, 65), images=rest(1, 1024))
def pixels_shuffled(k: Kit, side: int, height: int, inner: int, images: int) -> Made:
    def run(x):
        y = functional.pixel_shuffle(x, 2)
        return functional.pad(y, (1, 2, 3, 0), mode="reflect") * y.mean()

    return Made(run, lambda: (k.r(images, 4 * inner, side, height),))


@family(POOLS, patch=square(2, 16), count=among(8), inner=among(1, 3, 4), images=rest(1, 4096))
def patches(k: Kit, patch: int, count: int, inner: int, images: int) -> Made:
    def run(x, w, b):
        y = x.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5)
        return functional.linear(y.flatten(3).flatten(1, 2), w, b)

    def inputs():
        return k.r(images, inner, count // 2 * patch, 2 * patch), k.w(96, inner * patch**2), k.r(96)

    return Made(run, inputs)
