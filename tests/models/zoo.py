"""The models of the differential tests, each with how it is made and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from examples import decoder as example
from tests.models import nets, pretrained

__all__ = ["CASES", "DYNAMIC", "TRAINING", "Case"]

Made = tuple[nn.Module, tuple[object, ...]]


@dataclass(frozen=True)
class Case:
    """One model.

    Attributes:
        name: For test ids.
        build: Makes the module and its arguments for a batch size.
        batch: The batch size to use where the batch is fixed.
        training: Whether forward and backward are compared too.
        batches: Batch sizes for one compilation with a dynamic batch; empty: not tested so.
        random: Whether the numbers drawn differ from eager's (Inductor draws its own), so that
            only the two compilers can be compared.
        training_random: The same for training alone (dropout).
        doubles: Whether the model runs in double precision too.
        atomic: Whether its backward adds atomically: then the order of additions, and with it the
            last bit, depends on the threads, even between two runs of one compiler, and the case
            is run on a single one.
        seed: Of weights, arguments and the run.
        context: Under what an inference runs: ``no_grad``, ``inference_mode`` or ``autocast``, the
            last of them also around a training step's forward.
    """

    name: str
    build: Callable[[int], Made]
    batch: int = 4
    training: bool = False
    batches: tuple[int, ...] = ()
    random: bool = False
    training_random: bool = False
    doubles: bool = True
    atomic: bool = False
    seed: int = 0
    context: str = "no_grad"

    def make(self, batch: int | None = None) -> Made:
        """Make the module and its arguments, the same ones at each call."""
        torch.manual_seed(self.seed)
        return self.build(self.batch if batch is None else batch)

    def __str__(self) -> str:
        return self.name


def _mlp(batch: int) -> Made:
    return nets.MLP(), (torch.randn(batch, 32),)


def _conv_net(batch: int) -> Made:
    return nets.ConvNet(), (torch.randn(batch, 3, 12, 12),)


def _encoder(batch: int) -> Made:
    return nets.Encoder(), (torch.randn(batch, 6, 32), torch.rand(batch, 6) < 0.8)


def _torch_encoder(batch: int) -> Made:
    return nets.TorchEncoder(), (torch.randn(batch, 6, 32),)


def _decoder(batch: int) -> Made:
    return nets.Decoder(), (torch.randn(batch, 6, 32), torch.randn(batch, 5, 32))


def _lstm(batch: int) -> Made:
    return nets.LSTMLoop(), (torch.randn(3, batch, 16),)


def _dlrm(batch: int) -> Made:
    return nets.DLRM(), (torch.randn(batch, 4), torch.randint(0, 20, (batch, 3, 5)))


def _unet(batch: int) -> Made:
    return nets.UNet(), (torch.randn(batch, 2, 8, 8),)


def _attention(batch: int) -> Made:
    return nets.CausalAttention(), (torch.randn(batch, 6, 32),)


def _experts(batch: int) -> Made:
    return nets.MixtureOfExperts(), (torch.randn(batch, 3, 16),)


def _mutation(batch: int) -> Made:
    return nets.InputMutation(), (torch.randn(batch, 8), torch.randn(batch, 4, 8), torch.zeros(()))


def _views(batch: int) -> Made:
    return nets.ViewsAndDuplicates(), (torch.randn(batch, 8),)


def _random(batch: int) -> Made:
    return nets.RandomNumbers(), (torch.randn(batch, 6),)


def _dtypes(batch: int) -> Made:
    return nets.MixedDtypes(), (torch.randn(batch, 6), torch.tensor([0, 2, 1]))


def _breaks(batch: int) -> Made:
    return nets.GraphBreaks(), (torch.randn(batch, 16),)


def _example(batch: int) -> Made:
    sizes = example.Config(
        layers=1, width=32, heads=2, key_heads=1, hidden=48, vocabulary=40, context=16
    )
    return example.Decoder(sizes), (torch.randint(0, 40, (batch, 8)),)


CASES: tuple[Case, ...] = (
    Case("mlp", _mlp, training=True, batches=(4, 7, 3)),
    Case("conv_net", _conv_net, training=True, batches=(2, 5, 3)),
    Case("encoder", _encoder, batch=2, training=True, batches=(2, 5, 3), training_random=True),
    Case("torch_encoder", _torch_encoder, batch=2),
    Case("decoder", _decoder, batch=2, training=True),
    Case("lstm", _lstm, training=True),
    Case("dlrm", _dlrm, training=True, atomic=True, batches=(4, 6, 3)),
    Case("unet", _unet, batch=2, training=True),
    Case("attention", _attention, batch=2, training=True, batches=(2, 4, 3)),
    Case("experts", _experts, batch=2, training=True, atomic=True),
    Case("input_mutation", _mutation, batches=(4, 6, 3)),
    Case("views_and_duplicates", _views),
    Case("random_numbers", _random, random=True),
    Case("mixed_dtypes", _dtypes, doubles=False),
    Case("graph_breaks", _breaks, training=True),
    # RMSNorm's default epsilon follows the dtype: in double precision it is another function.
    Case("example_decoder", _example, batch=2, training=True, doubles=False, atomic=True),
    Case("bert", pretrained.bert, batch=2),
    Case("gpt2", pretrained.gpt2, batch=2, training=True, atomic=True),
    Case("t5", pretrained.t5, batch=2),
    Case("vit", pretrained.vit, batch=2),
    Case("llama", pretrained.llama, batch=2, batches=(2, 4, 3)),
)

TRAINING = tuple(case for case in CASES if case.training)
DYNAMIC = tuple(case for case in CASES if case.batches)
