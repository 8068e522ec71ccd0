"""Attention in the ways in which models write it, and what stands around it."""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from tests.sweep.kit import FLOATS, How, Kit, Made, family
from tests.sweep.sizes import among, rest, square, width

HEADS = {"width_": among(32, 64, 80, 128), "heads": among(1, 4, 8, 12, 32)}
HALF = ("bfloat16", "float16")


@family(How(kind="product", dtypes=HALF), **HEADS, tokens=width(1, 8193), images=rest(1, 64))
def scaled_dot_product(k: Kit, width_: int, heads: int, tokens: int, images: int) -> Made:
    def run(q, key, v):
        q, key, v = (t.transpose(1, 2) for t in (q, key, v))
        made = functional.scaled_dot_product_attention(q, key, v, is_causal=True)
        return made.transpose(1, 2).flatten(2) * 2

    size = (images, tokens, heads, width_)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(*size)))


@family(
    How(kind="product", dtypes=HALF),
    width_=among(64, 128),
    tokens=width(1, 4097),
    images=rest(1, 64),
)
def grouped_queries(k: Kit, width_: int, tokens: int, images: int) -> Made:
    def run(q, key, v):
        key, v = (t.repeat_interleave(4, dim=1) for t in (key, v))
        return functional.scaled_dot_product_attention(q, key, v)

    small = (images, 2, tokens, width_)
    return Made(run, lambda: (k.r(images, 8, tokens, width_), k.r(*small), k.r(*small)))


@family(How(kind="product"), heads=among(1, 4, 16), tokens=square(2, 4097), images=rest(1, 64))
def written_out(k: Kit, heads: int, tokens: int, images: int) -> Made:
    def run(q, key, v, keep):
        scores = q @ key.transpose(-1, -2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        return torch.softmax(scores.float(), -1).to(v.dtype) @ v

    size = (images, heads, tokens, 64)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(*size), k.b(tokens, tokens)))


@family(How(kind="product"), heads=among(2, 8), tokens=square(2, 2049), images=rest(1, 64))
def with_a_bias(k: Kit, heads: int, tokens: int, images: int) -> Made:
    def run(q, key, v, bias):
        return functional.scaled_dot_product_attention(q, key, v, attn_mask=bias.to(q.dtype))

    size = (images, heads, tokens, 32)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(*size), k.c(heads, tokens, tokens)))


@family(How(varies="tokens"), heads=among(1, 8, 32), width_=among(64, 128), tokens=rest())
def rotary(k: Kit, heads: int, width_: int, tokens: int) -> Made:
    def run(x, positions):
        step = torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1]
        angle = positions[:, None].float() * 10000.0**-step
        angle = torch.cat([angle, angle], -1)[:, None]
        first, second = x.chunk(2, -1)
        return (x * angle.cos() + torch.cat([-second, first], -1) * angle.sin()).to(x.dtype)

    return Made(run, lambda: (k.r(tokens, heads, width_), k.i(100000, tokens)))


@family(
    How(dtypes=FLOATS[:1], trains=False, kind="product"),
    width_=among(64, 128),
    heads=among(8, 32),
    tokens=width(64, 8193),
    images=rest(1, 64),
)
def one_token_more(k: Kit, width_: int, heads: int, tokens: int, images: int) -> Made:
    def run(q, key, v, keys, values, at):
        keys.index_copy_(2, at, key)
        values.index_copy_(2, at, v)
        keep = torch.arange(keys.shape[2], device=q.device) <= at
        return functional.scaled_dot_product_attention(q, keys, values, attn_mask=keep[None])

    def inputs():
        new, old = (images, heads, 1, width_), (images, heads, tokens, width_)
        return k.c(*new), k.c(*new), k.c(*new), k.c(*old), k.c(*old), k.i(tokens, 1)

    return Made(run, inputs)


FLEX = How(dtypes=HALF, devices=("cuda",))


@family(FLEX, heads=among(2, 8), tokens=among(128, 512, 1000, 2048), images=rest(1, 16))
def flexible(k: Kit, heads: int, tokens: int, images: int) -> Made:
    def run(q, key, v):
        return flex_attention(q, key, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)

    size = (images, heads, tokens, 64)
    return Made(run, lambda: (k.r(*size), k.r(*size), k.r(*size)))


@family(FLEX, tokens=among(256, 1024, 4096), images=rest(1, 16))
def flexible_in_blocks(k: Kit, tokens: int, images: int) -> Made:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens, str(k.device))

    def run(q, key, v):
        return flex_attention(q, key, v, block_mask=mask, enable_gqa=True)

    small = (images, 2, tokens, 64)
    return Made(run, lambda: (k.r(images, 8, tokens, 64), k.r(*small), k.r(*small)))


@family(
    How(kind="product", dtypes=FLOATS[:1]),
    width_=among(256, 512, 1024),
    tokens=width(16, 2049),
    images=rest(1, 64),
)
def block(k: Kit, width_: int, tokens: int, images: int) -> Made:
    def run(x, norm, qkv, out, second, up, gate, down):
        q, key, v = functional.linear(functional.rms_norm(x, x.shape[-1:], norm), qkv).chunk(3, -1)
        q, key, v = (t.unflatten(-1, (-1, 64)).transpose(1, 2) for t in (q, key, v))
        mixed = functional.scaled_dot_product_attention(q, key, v, is_causal=True)
        x = x + functional.linear(mixed.transpose(1, 2).flatten(2), out)
        y = functional.rms_norm(x, x.shape[-1:], second)
        return x + functional.linear(
            functional.silu(functional.linear(y, gate)) * functional.linear(y, up), down
        )

    def inputs():
        w = width_
        mixing = k.r(w), k.w(3 * w, w), k.w(w, w)
        return k.r(images, tokens, w), *mixing, k.r(w), k.w(3 * w, w), k.w(3 * w, w), k.w(w, 3 * w)

    return Made(run, inputs)
