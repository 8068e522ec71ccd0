"""The project's own test models: small, and each with something that wrappers find hard.

Every class is an ordinary ``nn.Module``. Sizes are the smallest ones at which Inductor still makes
the interesting code, since what these tests cost is compilation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "DLRM",
    "MLP",
    "CausalAttention",
    "ConvNet",
    "Decoder",
    "Encoder",
    "GraphBreaks",
    "InputMutation",
    "LSTMLoop",
    "MixedDtypes",
    "MixtureOfExperts",
    "RandomNumbers",
    "TorchEncoder",
    "UNet",
    "ViewsAndDuplicates",
]


class MLP(nn.Module):
    """Linear layers through which views of weights pass to ``addmm``, and one fused softmax."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x.softmax(-1)


class ConvNet(nn.Module):
    """Convolutions, and batch norm, whose running statistics a training step changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(self.norm1(self.conv1(x)).relu(), 2)
        x = self.norm2(self.conv2(x)).relu()
        return self.head(x.mean((-2, -1)))


class Encoder(nn.Module):
    """A pre-norm encoder layer with a padding mask; in training, dropout takes random numbers."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.heads = heads

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        mask = keep[:, None, None, :]
        y = functional.scaled_dot_product_attention(
            *(t.transpose(1, 2) for t in (q, k, v)), attn_mask=mask
        )
        x = x + self.dropout(self.out(y.transpose(1, 2).flatten(-2)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class TorchEncoder(nn.Module):
    """Torch's own encoder layer, which at inference is one large library op."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.layer(x))


class Decoder(nn.Module):
    """Torch's own decoder layer: causal attention to itself, then attention to a memory."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        length = x.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)
        return self.layer(x, memory, tgt_mask=mask)


class LSTMLoop(nn.Module):
    """A cell in a loop: many small kernels that hand buffers on to each other."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = x.new_zeros(x.shape[1], x.shape[2])
        cell = torch.zeros_like(hidden)
        outputs = []
        for step in x:
            hidden, cell = self.cell(step, (hidden, cell))
            outputs.append(self.head(hidden))
        return torch.stack(outputs), cell


class DLRM(nn.Module):
    """Embedding bags, an op with four results, and pairwise products of what they give."""

    def __init__(self, rows: int = 20, width: int = 8, tables: int = 3) -> None:
        super().__init__()
        modes = ["sum", "mean", "sum"]
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode=modes[i % 3]) for i in range(tables)
        )
        self.bottom = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 8), nn.ReLU(), nn.Linear(8, 1))
        self.register_buffer("upper", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        bottom = self.bottom(dense)
        found = [bottom] + [table(indices[:, i]) for i, table in enumerate(self.tables)]
        stacked = torch.stack(found, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        pairs = products[:, self.upper[0], self.upper[1]]
        return self.top(torch.cat([bottom, pairs], 1)).sigmoid()


class UNet(nn.Module):
    """Down, up and a skip: concatenation into one buffer, upsampling, a transposed convolution."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.last = nn.Conv2d(3 * width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = functional.silu(self.first(x))
        deep = functional.silu(self.norm(self.down(skip)))
        coarse = functional.interpolate(
            functional.avg_pool2d(skip, 2), scale_factor=2.0, mode="nearest"
        )
        return self.last(torch.cat([skip, functional.silu(self.up(deep)), coarse], 1))


class CausalAttention(nn.Module):
    """``scaled_dot_product_attention``: views of one projection go in, several results come out."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class MixtureOfExperts(nn.Module):
    """The two best of four experts for each token: ``topk``, gathered weights, scattered counts."""

    def __init__(self, width: int = 16, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * width**-0.5)
        self.chosen = chosen

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.flatten(0, 1)
        weights, which = self.gate(tokens).softmax(-1).topk(self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(tokens)
        for rank in range(self.chosen):
            expert = which[:, rank]
            hidden = functional.silu(torch.bmm(tokens.unsqueeze(1), self.up[expert]))
            mixed = mixed + weights[:, rank, None] * torch.bmm(hidden, self.down[expert]).squeeze(1)
        counts = tokens.new_zeros(self.gate.out_features)
        counts = counts.scatter_add(0, which.flatten(), torch.ones_like(weights).flatten())
        return mixed.view_as(x), counts


class InputMutation(nn.Module):
    """Changes its arguments and a buffer of its own in place, in whole and in part."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x: Tensor, cache: Tensor, total: Tensor) -> Tensor:
        y = self.linear(x)
        cache[:, 1:3] = y.unsqueeze(1)
        total.add_(y.sum())
        x.mul_(0.5)
        self.calls += 1
        self.mean.lerp_(y.mean(0), 0.1)
        return (cache.sum(1) + x).relu()


class ViewsAndDuplicates(nn.Module):
    """Returns views, the same tensor twice, an argument, a number and ``None``."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> tuple[object, ...]:
        y = self.linear(x)
        z = y.relu().reshape(2, -1, y.shape[-1])
        return y, y, y.t(), y[1:, ::2], z, z[0], x, x.view(-1), None, 3, z.permute(2, 0, 1)


class RandomNumbers(nn.Module):
    """Dropout and random tensors; which numbers come depends on the generator alone."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        noisy = functional.dropout(x, 0.3) + torch.randn_like(x)
        return noisy, torch.rand(3, 5), torch.randint(0, 100, (7,))


class MixedDtypes(nn.Module):
    """Integers, booleans, half precision and double in one graph, and views that change dtype."""

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        low = (x * 2).to(torch.bfloat16)
        mask = low.float() > 0.5
        counts = mask.sum(0, dtype=torch.int32)
        picked = x.double().cumsum(0)[index]
        bits = x.view(torch.int32).bitwise_and(0xFF)
        values, order = torch.sort(x, dim=1, descending=True)
        return low @ low.t(), mask, counts, picked, bits, values, order


class GraphBreaks(nn.Module):
    """Several graphs, the last chosen by a number that an earlier one computed."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).tanh()
        torch._dynamo.graph_break()
        x = self.second(x).tanh()
        if x.sum().item() > 1e6:
            return x.sin()
        return x.cos()
