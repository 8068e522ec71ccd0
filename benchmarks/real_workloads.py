"""Workloads as people run them, for ``benchmarks.real_sizes``: mostly training steps.

Each function builds its model on the GPU and returns what is timed. It takes ``compiled``, which
stands for ``torch.compile``, and returns a function without arguments whose result is a list of
tensors to compare: a loss and a few gradients, or the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["INFERENCE", "WORKLOADS"]

Compiled = Callable[[Callable[..., Any]], Callable[..., Any]]
Work = Callable[[], list[Tensor]]

HALF = torch.bfloat16


def _normal(*sizes: int, dtype: torch.dtype = HALF) -> Tensor:
    return torch.randn(*sizes, device="cuda", dtype=dtype)


def _whole(limit: int, *sizes: int) -> Tensor:
    return torch.randint(0, limit, sizes, device="cuda")


def _transformers(
    model: str, config: str, dtype: torch.dtype = HALF, **fields: object
) -> nn.Module:
    """Return a model of transformers with random weights, in training mode."""
    import transformers

    settings = getattr(transformers, config)(**fields)
    with torch.device("cuda"):
        module: nn.Module = getattr(transformers, model)(settings).to(dtype)
    return module.train()


def _training(module: nn.Module, loss: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """Return one step of plain gradient descent; its results are the loss and six gradients."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    watched = [each for each in module.parameters() if each.requires_grad][:6]

    def step(*args: Tensor) -> list[Tensor]:
        found = loss(*args)
        torch.autograd.backward(found)
        gradients = [each.grad.clone() for each in watched if each.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
        return [found.detach(), *gradients]

    return step


def _resnet(compiled: Compiled) -> Work:
    module = _transformers(
        "ResNetForImageClassification", "ResNetConfig", torch.float32, num_labels=1000
    ).to(memory_format=torch.channels_last)
    x = _normal(128, 3, 224, 224, dtype=torch.float32).to(memory_format=torch.channels_last)
    return _with_images(module, x, compiled)


def _vit(compiled: Compiled) -> Work:
    sizes = {"hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16}
    module = _transformers(
        "ViTForImageClassification",
        "ViTConfig",
        torch.float32,
        intermediate_size=4096,
        num_labels=1000,
        **sizes,
    )
    return _with_images(module, _normal(64, 3, 224, 224, dtype=torch.float32), compiled)


def _with_images(module: nn.Module, x: Tensor, compiled: Compiled) -> Work:
    """Train a classifier of images under autocast."""
    labels = _whole(1000, len(x))

    def loss(x: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cuda", HALF):
            found: Tensor = module(pixel_values=x, labels=labels).loss
        return found

    step = _training(module, compiled(loss))
    return lambda: step(x, labels)


def _gpt2(compiled: Compiled) -> Work:
    sizes = {"n_embd": 1024, "n_layer": 4, "n_head": 16, "n_positions": 1024}
    module = _transformers("GPT2LMHeadModel", "GPT2Config", use_cache=False, **sizes)
    step = _training(module, compiled(lambda x: module(input_ids=x, labels=x).loss))
    tokens = _whole(50257, 4, 512)

    def run() -> list[Tensor]:
        torch.manual_seed(3)  # of dropout
        return step(tokens)

    return run


def _t5(compiled: Compiled) -> Work:
    sizes = {"d_model": 768, "d_ff": 3072, "num_layers": 4, "num_heads": 12, "dropout_rate": 0.0}
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0}
    module = _transformers(
        "T5ForConditionalGeneration",
        "T5Config",
        num_decoder_layers=4,
        use_cache=False,
        **sizes,
        **ids,
    )
    step = _training(module, compiled(lambda x, y: module(input_ids=x, labels=y).loss))
    source, target = _whole(32000, 16, 512), _whole(32000, 16, 128)
    return lambda: step(source, target)


class LatentAttention(nn.Module):
    """Attention whose keys and values are expanded from one narrow latent vector (DeepSeek-V2)."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(2048, 16 * 192, bias=False)
        self.narrow, self.norm = nn.Linear(2048, 512 + 64, bias=False), nn.RMSNorm(512)
        self.wide = nn.Linear(512, 16 * 256, bias=False)
        self.out = nn.Linear(16 * 128, 2048, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Map ``x`` [batch, length, 2048] to the same shape; the tables are [length, 64]."""
        batch, length, _ = x.shape
        query = self.query(x).view(batch, length, 16, 192).transpose(1, 2)
        latent, turned = self.narrow(x).split([512, 64], -1)
        wide = self.wide(self.norm(latent)).view(batch, length, 16, 256).transpose(1, 2)
        key, value = wide.split([128, 128], -1)
        turned = _rotated(turned[:, None], cosine, sine).expand(-1, 16, -1, -1)
        straight, bent = query.split([128, 64], -1)
        query = torch.cat([straight, _rotated(bent, cosine, sine)], -1)
        key = torch.cat([key, turned], -1)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        found: Tensor = x + self.out(y.transpose(1, 2).reshape(batch, length, 2048))
        return found


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def _latent_attention(compiled: Compiled) -> Work:
    layers = nn.ModuleList(LatentAttention() for _ in range(4)).to("cuda", HALF)
    x, cosine, sine = _normal(4, 1024, 2048), _normal(1024, 64), _normal(1024, 64)

    def loss(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, cosine, sine)
        return x.float().square().mean()

    step = _training(layers, compiled(loss))
    return lambda: step(x)


def _norms(compiled: Compiled) -> Work:
    layers = (
        nn.LayerNorm(4096),
        nn.Linear(4096, 4096),
        nn.RMSNorm(4096),
        nn.GELU(),
        nn.LayerNorm(4096),
    )
    module = nn.Sequential(*layers).to("cuda", HALF)
    step = _training(module, compiled(lambda x: module(x).float().square().mean()))
    x = _normal(16384, 4096).requires_grad_()
    return lambda: step(x)


def _batch_norm(compiled: Compiled) -> Work:
    layers = (
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.BatchNorm2d(64),
    )
    module = nn.Sequential(*layers).to("cuda")
    step = _training(module, compiled(lambda x: module(x).square().mean()))
    x = _normal(64, 64, 112, 112, dtype=torch.float32)
    return lambda: step(x)


def _cross_entropy(compiled: Compiled) -> Work:
    head = nn.Linear(2048, 128256, bias=False).to("cuda", HALF)
    loss = compiled(lambda x, labels: functional.cross_entropy(head(x).float(), labels))
    step = _training(head, loss)
    x, labels = _normal(4096, 2048), _whole(128256, 4096)
    return lambda: step(x, labels)


class Experts(nn.Module):
    """A mixture of eight experts, all computed, two of them taken."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(1024, 8)
        self.up = nn.Parameter(torch.randn(8, 1024, 2048) * 0.02)
        self.down = nn.Parameter(torch.randn(8, 2048, 1024) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` [tokens, 1024] to the same shape."""
        weights, taken = self.gate(x).float().softmax(-1).topk(2, -1)
        y = functional.silu(torch.einsum("td,edf->tef", x, self.up))
        y = torch.einsum("tef,efd->ted", y, self.down)
        y = y.gather(1, taken[..., None].expand(-1, -1, x.shape[-1]))
        found: Tensor = (y * weights[..., None].to(x.dtype)).sum(1)
        return found


def _experts(compiled: Compiled) -> Work:
    module = Experts().to("cuda", HALF)
    step = _training(module, compiled(lambda x: module(x).float().square().mean()))
    x = _normal(4096, 1024)
    return lambda: step(x)


def _reductions(compiled: Compiled) -> Work:
    """Reduce along rows, columns and both; inference."""
    run = compiled(
        lambda x: [x.sum(), x.var(), x.amax(0), x.float().norm(), x.std(1), x.mean((0, 1))]
    )
    x = _normal(8192, 8192)
    return lambda: list(run(x))


def _wide_indices(compiled: Compiled) -> Work:
    """Index more than two to the power of 31 elements; inference."""
    run = compiled(lambda x: (functional.gelu(x) * 2).sum(-1))
    x = _normal(2**21 + 3, 1100)
    return lambda: [run(x)]


def _scatter(compiled: Compiled) -> Work:
    """Sum what arrives over the edges of a graph; inference."""
    nodes, edges = 10**6, 5 * 10**6
    source, target = _whole(nodes, edges), _whole(nodes, edges).sort().values

    def layer(h: Tensor) -> tuple[Tensor, Tensor]:
        summed = torch.zeros_like(h).index_add(0, target, h[source].relu())
        return summed * 0 + h, h[source].sigmoid().sum(0)

    run = compiled(layer)
    h = _normal(nodes, 16, dtype=torch.float32)
    return lambda: list(run(h))


def _float8(compiled: Compiled) -> Work:
    """Multiply matrices in float8 with scales of whole tensors; inference."""
    limit = torch.finfo(torch.float8_e4m3fn).max

    def narrowed(x: Tensor) -> tuple[Tensor, Tensor]:
        scale = limit / x.abs().amax().float().clamp(min=1e-12)
        return (x.float() * scale).clamp(-limit, limit).to(torch.float8_e4m3fn), 1 / scale

    weight, of_weight = narrowed(_normal(4096, 4096))

    def linear(x: Tensor) -> Tensor:
        narrow, of_x = narrowed(x)
        product = torch._scaled_mm(narrow, weight.t(), of_x, of_weight, out_dtype=HALF)
        return functional.gelu(product)

    run = compiled(linear)
    x = _normal(4096, 4096)
    return lambda: [run(x)]


WORKLOADS: dict[str, Callable[[Compiled], Work]] = {
    "resnet": _resnet,
    "vit": _vit,
    "gpt2": _gpt2,
    "t5": _t5,
    "latent-attention": _latent_attention,
    "norms": _norms,
    "batch-norm": _batch_norm,
    "cross-entropy": _cross_entropy,
    "experts": _experts,
    "reductions": _reductions,
    "wide-indices": _wide_indices,
    "scatter": _scatter,
    "float8": _float8,
}

#: Those that compute no gradients, which stock's ``cpp_wrapper`` can compile, too.
INFERENCE = ("reductions", "wide-indices", "scatter", "float8")
