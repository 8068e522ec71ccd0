"""Tables that rows are taken of."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.sweep.kit import How, Kit, Made, family
from tests.sweep.sizes import rest, side, width

SIZES = {"columns": width(1, 8192), "words": side(2), "tokens": rest()}
HOW = How(varies="tokens")


@family(HOW, **SIZES)
def embedding(k: Kit, columns: int, words: int, tokens: int) -> Made:
    return Made(
        lambda i, w: functional.embedding(i, w) * 2,
        lambda: (k.i(words, tokens), k.r(words, columns)),
    )


@family(HOW, **SIZES)
def embedding_and_norm(k: Kit, columns: int, words: int, tokens: int) -> Made:
    def run(i, w, positions, norm):
        x = functional.embedding(i, w, padding_idx=0)
        x = x + positions[torch.arange(i.shape[0], device=i.device) % positions.shape[0]]
        return functional.layer_norm(x, x.shape[-1:], norm)

    return Made(
        run,
        lambda: (k.i(words, tokens), k.r(words, columns), k.r(512, columns), k.r(columns)),
    )


@family(HOW, columns=width(1, 1024), words=side(2), tokens=rest(8))
def embedding_of_bags(k: Kit, columns: int, words: int, tokens: int) -> Made:
    def run(i, w):
        return functional.embedding_bag(i.view(-1, 4), w, mode="sum") + 1

    return Made(run, lambda: (k.i(words, 4 * tokens), k.r(words, columns)))


@family(HOW, **SIZES)
def several_tables(k: Kit, columns: int, words: int, tokens: int) -> Made:
    def run(i, j, v, w):
        return torch.cat([functional.embedding(i, v), functional.embedding(j, w)], -1).tanh()

    def inputs():
        tables = k.r(words, columns), k.r(words, columns)
        return k.i(words, tokens), k.i(words, tokens), *tables

    return Made(run, inputs)


@family(How(trains=False), classes=width(2, 4096), tokens=rest())
def one_hot(k: Kit, classes: int, tokens: int) -> Made:
    def run(i):
        return functional.one_hot(i, classes).to(k.dtype).mean(0)

    return Made(run, lambda: (k.i(classes, tokens),))
