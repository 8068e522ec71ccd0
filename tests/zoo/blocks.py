"""Networks written the way people write them, small: diffusion, graphs, sound, points, searches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "AdaptiveBlock",
    "Autoencoder",
    "BeamStep",
    "Broken",
    "Codebook",
    "Denoiser",
    "DetectionHead",
    "FourierOperator",
    "GraphNet",
    "Integrator",
    "PointNet",
    "WaveNet",
]


def time_embedding(steps: Tensor, width: int) -> Tensor:
    """Return sines and cosines of steps."""
    powers = torch.arange(width // 2) / (width // 2)
    angles = steps[:, None] * torch.exp(-math.log(1e4) * powers)
    return torch.cat([angles.sin(), angles.cos()], -1)


class Residual(nn.Module):
    """A residual block to which the time is added between its convolutions."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(4, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the block's result."""
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(y)))


class CrossAttention(nn.Module):
    """Attention of pixels to each other, then to words, then a gated layer."""

    def __init__(self, channels: int, words: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.to_q = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(2))
        widths = (channels, words)
        self.to_kv = nn.ModuleList(nn.Linear(w, 2 * channels, bias=False) for w in widths)
        self.gate, self.out = nn.Linear(channels, 4 * channels), nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return pictures of the same shape."""
        batch, channels, height, width = x.shape
        y = x.permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        for i, context in enumerate((None, words)):
            normed = self.norms[i](y)
            q = self.to_q[i](normed)
            k, v = self.to_kv[i](normed if context is None else context).chunk(2, -1)
            heads = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in (q, k, v))
            found = functional.scaled_dot_product_attention(*heads)
            y = y + found.transpose(1, 2).flatten(-2)
        hidden, gate = self.gate(self.norms[2](y)).chunk(2, -1)
        y = y + self.out(hidden * functional.gelu(gate))
        return y.reshape(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()


class Denoiser(nn.Module):
    """A U-Net of latent diffusion: down, middle, up, with skips and words."""

    def __init__(self, width: int = 8, time: int = 16, words: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down = Residual(width, 2 * width, time)
        self.shrink = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
        self.middle = Residual(2 * width, 2 * width, time)
        self.attention = CrossAttention(2 * width, words)
        self.grow = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = Residual(4 * width, width, time)
        self.norm, self.last = nn.GroupNorm(4, width), nn.Conv2d(width, 4, 3, padding=1)
        self.width = width

    def forward(self, x: Tensor, steps: Tensor, words: Tensor) -> Tensor:
        """Return the noise in a picture."""
        time = self.time(time_embedding(steps, self.width))
        skip = self.down(self.first(x), time)
        deep = self.attention(self.middle(self.shrink(skip), time), words)
        grown = self.grow(functional.interpolate(deep, scale_factor=2.0, mode="nearest"))
        y = self.up(torch.cat([grown, skip], 1), time)
        return self.last(functional.silu(self.norm(y)))


class AdaptiveBlock(nn.Module):
    """A block of a diffusion transformer, its norms scaled and shifted by the condition."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU("tanh"), nn.Linear(64, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return tokens."""
        parts = self.modulation(condition)[:, None].chunk(6, -1)
        y = self.norm1(x) * (1 + parts[1]) + parts[0]
        x = x + parts[2] * self.attention(y, y, y, need_weights=False)[0]
        y = self.norm2(x) * (1 + parts[4]) + parts[3]
        return x + parts[5] * self.mlp(y)


class Autoencoder(nn.Module):
    """A variational one: it draws its code, so its random numbers have to be stock's."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.BatchNorm2d(width), nn.LeakyReLU(0.2)
        )
        self.code = nn.Conv2d(width, 2 * width, 1)
        self.up = nn.Sequential(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.PReLU())
        self.last = nn.Conv2d(width, 12, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a picture of twice the size, and the divergence."""
        mean, log = self.code(self.down(x)).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log).exp()
        divergence = 0.5 * (mean.square() + log.exp() - 1 - log).sum((1, 2, 3))
        return functional.pixel_shuffle(self.last(self.up(drawn)), 2).sigmoid(), divergence


class GraphNet(nn.Module):
    """Messages along edges, summed and averaged at the nodes, with attention over neighbours."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.message = nn.Linear(2 * width, width)
        self.score = nn.Linear(2 * width, 1)
        self.update = nn.GRUCell(width, width)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Return new nodes."""
        source, target = edges
        both = torch.cat([nodes[source], nodes[target]], -1)
        score = functional.leaky_relu(self.score(both)).squeeze(-1)
        top = score.new_full((nodes.shape[0],), -1e9).scatter_reduce(0, target, score, "amax")
        weight = (score - top[target]).exp()
        total = torch.zeros_like(nodes[:, 0]).index_add(0, target, weight)
        share = weight / total.clamp(min=1e-6)[target]
        messages = share[:, None] * self.message(both).relu()
        summed = torch.zeros_like(nodes).index_add(0, target, messages)
        return self.update(summed, nodes)


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates, under weight norm."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        norm = nn.utils.parametrizations.weight_norm
        self.gated = nn.ModuleList(
            norm(nn.Conv1d(width, 2 * width, 2, dilation=2**i)) for i in range(3)
        )
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return sound of the same length."""
        x = self.first(x)
        total = torch.zeros_like(x)
        for i, layer in enumerate(self.gated):
            value, gate = layer(functional.pad(x, (2**i, 0))).chunk(2, 1)
            y = value.tanh() * gate.sigmoid()
            total, x = total + y, x + y
        return self.out(total.relu())


class Codebook(nn.Module):
    """Vector quantisation: the nearest code, a straight-through gradient, and its use counted."""

    def __init__(self, codes: int = 12, width: int = 8) -> None:
        super().__init__()
        self.codes = nn.Embedding(codes, width)
        self.register_buffer("used", torch.zeros(codes))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return quantised vectors, which codes they are, and the loss of commitment."""
        flat = x.transpose(1, 2).reshape(-1, x.shape[1])
        which = torch.cdist(flat.detach(), self.codes.weight.detach()).argmin(-1)
        found = self.codes(which)
        loss = functional.mse_loss(found, flat.detach()) + 0.25 * functional.mse_loss(
            flat, found.detach()
        )
        self.used.mul_(0.9).add_(0.1 * torch.bincount(which, minlength=self.used.shape[0]))
        quantised = flat + (found - flat).detach()
        return quantised.view(x.shape[0], -1, x.shape[1]).transpose(1, 2), which, loss


class FourierOperator(nn.Module):
    """A layer that multiplies the lowest frequencies by complex weights."""

    def __init__(self, width: int = 4, modes: int = 5) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(width, width, modes, 2) * 0.1)
        self.beside = nn.Conv1d(width, width, 1)
        self.modes = modes

    def forward(self, x: Tensor) -> Tensor:
        """Return functions on the same grid."""
        spectrum = torch.fft.rfft(x)
        weights = torch.view_as_complex(self.weights)
        kept = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], weights)
        full = functional.pad(kept, (0, spectrum.shape[-1] - self.modes))
        return functional.gelu(torch.fft.irfft(full, n=x.shape[-1]) + self.beside(x))


class Integrator(nn.Module):
    """Four steps of Runge and Kutta through a small network."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(width + 1, 16), nn.Softplus(), nn.Linear(16, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the path."""
        path, step = [x], 0.25
        for i in range(4):
            k1 = self._slope(x, i * step)
            k2 = self._slope(x + step / 2 * k1, (i + 0.5) * step)
            x = x + step * k2
            path.append(x)
        return torch.stack(path, 1)

    def _slope(self, x: Tensor, time: float) -> Tensor:
        return self.field(torch.cat([x, torch.full_like(x[:, :1], time)], -1))


class PointNet(nn.Module):
    """Points in any order: shared layers, a learned rotation, and the largest of each feature."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.turn = nn.Linear(3, 9)
        self.shared = nn.Conv1d(3, width, 1)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithms of four probabilities."""
        turned = torch.bmm(self.turn(x.amax(-1)).view(-1, 3, 3) + torch.eye(3), x)
        y = self.norm(self.shared(turned)).relu()
        return self.head(y.max(-1).values).log_softmax(-1)


class Broken(nn.Module):
    """Graphs with breaks between them, the last chosen by a value; one is used twice."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        """Return a tensor and a number that went by way of Python."""
        # Not in a loop: Dynamo leaves a function to eager that breaks in one.
        x = self.layers[0](x).tanh()
        torch._dynamo.graph_break()
        x = self.layers[1](x).tanh()
        torch._dynamo.graph_break()
        x = self.layers[2](x).tanh()
        mean = x.mean().item()
        x = x.sin() if mean > 10 else x.cos()
        torch._dynamo.graph_break()
        return self.layers[0](x) * mean, mean


class BeamStep(nn.Module):
    """A step of beam search: the best of all continuations, and where they came from."""

    def forward(self, logits: Tensor, scores: Tensor) -> tuple[Tensor, ...]:
        """Return scores, tokens and beams, in order."""
        words = logits.shape[-1]
        ordered, index = logits.sort(-1, descending=True)
        kept = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1) < 0.8
        masked = ordered.masked_fill(~kept, float("-inf")).scatter(-1, index, ordered)
        total = (masked.log_softmax(-1) + scores[..., None]).flatten(1)
        best, which = total.topk(3, -1)
        return best, which % words, which // words, index[:, :, 0]


class DetectionHead(nn.Module):
    """Boxes from feature maps: strided views, meshes, gathers by the best scores."""

    def __init__(self, width: int = 8, kinds: int = 3) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, groups=width),
            nn.Conv2d(width, width, 1),
            nn.SiLU(),
        )
        self.kind, self.box = nn.Conv2d(width, kinds, 1), nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> dict[str, Any]:
        """Return the ten best boxes of each picture."""
        y = self.tower(x)
        scores = self.kind(y).sigmoid().flatten(2).transpose(1, 2)
        rows = torch.arange(x.shape[-2], dtype=x.dtype)
        columns = torch.arange(x.shape[-1], dtype=x.dtype)
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).view(-1, 2)
        sides = self.box(y).exp().flatten(2).transpose(1, 2)
        boxes = torch.cat([grid - sides[..., :2], grid + sides[..., 2:]], -1)
        best, which = scores.amax(-1).topk(10)
        chosen = boxes.gather(1, which[..., None].expand(-1, -1, 4))
        inside = chosen.clamp(min=0, max=x.shape[-1] - 1)
        return {"boxes": inside, "scores": best, "kinds": scores.argmax(-1).gather(1, which)}
