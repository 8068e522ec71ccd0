"""A library written by hand: what Python makes of it does not depend on the emitter."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wrapper_ir.aot.build.library import build_loadable
from wrapper_ir.aot.load import load_library
from wrapper_ir.toolchain.manifest import Sources

__all__ = ["arguments", "expected", "function", "library", "text"]


def text() -> str:
    """Its one file."""
    return Path(__file__).with_suffix(".cpp").read_text("utf-8")


@functools.cache
def library() -> Path:
    """The library, built when it is first asked for."""
    return build_loadable(Sources({"program.cpp": text()}, ()))


def function(weight: Tensor, **options: Any) -> Any:
    """A function of the library, with this constant."""
    return load_library(library(), (weight,), name="handmade", **options)


def arguments(rows: int = 4, number: int = 1, scale: float = 2.0) -> list[Any]:
    """Inputs for one call."""
    x, saved = torch.randn(rows, 3), torch.randn(rows, 3)
    return [x, saved, number, scale, True, None]


def expected(arguments: list[Any], weight: Tensor) -> Tensor:
    """What its first result must be."""
    x, saved, _, scale, *_ = arguments
    return x.detach() + saved.detach() + scale * weight.detach()
