"""The model that the demonstration is about: ``examples/decoder.py``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from wrapper_ir.cli.errors import MissingExampleError
from wrapper_ir.cli.reference import import_file


@dataclass(frozen=True)
class Example:
    """A decoder, what it is called with, and what it should have said.

    ``tokens`` and ``targets`` are integers of shape (batch, time).
    """

    name: str
    model: nn.Module
    tokens: Tensor
    targets: Tensor


def load_example(layers: int) -> Example:
    """Return the decoder with random weights, in evaluation mode.

    Raises:
        MissingExampleError: The example is not there.
    """
    module = import_file(_find("decoder.py"))
    model, (tokens,) = module.make(layers=layers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    batch, time = tokens.shape
    name = f"decoder, {layers} layers, {parameters / 1e6:.1f} M parameters, {batch} x {time} tokens"
    return Example(name, model, tokens, torch.roll(tokens, -1, dims=1))


def _find(name: str) -> Path:
    # Beside the package in a checkout; where the wheel puts shared files otherwise.
    checkout = Path(__file__).parents[3]
    places = [checkout / "examples" / name, Path(sys.prefix) / "share/wrapper_ir/examples" / name]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise MissingExampleError(file=str(places[0]))
    return found
