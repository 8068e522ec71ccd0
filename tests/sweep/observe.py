"""What is seen of a call: everything that it gives and leaves behind, to the bit.

Convention: a tensor stays on its device, and is seen as numbers that change with any of its bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Seen", "call", "difference", "spread"]

#: Elements that are looked at in one go, and that are kept of a tensor.
_CHUNK: Final = 1 << 24
_SAMPLE: Final = 1 << 14

_WORDS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Seen:
    """A call.

    Attributes:
        facts: By what it is about: type, sizes, strides and bits of a tensor, or another value.
        samples: Some numbers of each tensor, for the distance of two that differ.
        peak: Bytes of GPU memory that were allocated at most, beyond the arguments.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Tensor] = field(default_factory=dict)
    peak: int = 0

    def add(self, path: str, value: Any) -> None:
        """Note a value."""
        if isinstance(value, Tensor):
            self.facts[path] = _facts(value)
            self.samples[path] = _sample(value)
        else:
            self.facts[path] = repr(value)


def call(function: Callable[..., Any], inputs: tuple[Any, ...], *, backward: bool) -> Seen:
    """Call a function from a known random state, take gradients if wanted, and look."""
    seen = Seen()
    leaves = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)]
    is_gpu = any(leaf.is_cuda for leaf in leaves)
    torch.manual_seed(11)
    before = torch.cuda.memory_allocated() if is_gpu else 0
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    with torch.set_grad_enabled(backward):
        out = function(*inputs)
    results = [r for r in pytree.tree_leaves(out) if isinstance(r, Tensor) and r.grad_fn]
    if backward and results:
        torch.autograd.backward(results, list(_tangents(results)))
    if is_gpu:
        torch.cuda.synchronize()
        seen.peak = torch.cuda.max_memory_allocated() - before
    for number, leaf in enumerate(pytree.tree_leaves(out)):
        seen.add(f"result {number}", leaf)
    for number, leaf in enumerate(leaves):
        seen.add(f"argument {number}", leaf)
        if leaf.grad is not None:
            seen.add(f"gradient {number}", leaf.grad)
    state = torch.cuda.get_rng_state() if is_gpu else torch.get_rng_state()
    seen.facts["random state"] = _bits(state)
    return seen


def _tangents(results: list[Tensor]) -> Iterator[Tensor]:
    for result in results:
        generator = torch.Generator(result.device).manual_seed(5)
        how = {"dtype": result.dtype, "device": result.device}
        yield torch.randn(result.shape, generator=generator, **how)


def _facts(value: Tensor) -> list[Any]:
    strides = list(value.stride()) if value.numel() else []
    said = [str(value.dtype), list(value.shape), strides, value.device.type, value.requires_grad]
    return [*said, _bits(value.detach())]


def _bits(value: Tensor) -> list[int]:
    """Return a number for each chunk of elements, which any of their bits changes."""
    flat = _flat(value)
    return [_of_chunk(chunk) for chunk in flat.split(_CHUNK)] if flat.numel() else []


def _flat(value: Tensor) -> Tensor:
    """Return all elements in the order in which they lie; strides are compared by themselves."""
    value = value.resolve_neg().resolve_conj()
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.permute(sorted(range(value.dim()), key=lambda d: -value.stride(d))).reshape(-1)


def _of_chunk(chunk: Tensor) -> int:
    words = chunk.contiguous().view(_WORDS[chunk.element_size()]).to(torch.int64)
    places = torch.arange(words.numel(), device=words.device)
    mixed = (words + 1) * (places * 0x9E3779B97F4A7C1 + 0x632BE59BD9B4E019)
    mixed ^= mixed >> 29
    return int((mixed * 0x58476D1CE4E5B9).sum())


def _sample(value: Tensor) -> Tensor:
    flat = _flat(value.detach())
    return flat[:: max(1, flat.numel() // _SAMPLE)].cpu().double()


def difference(one: Seen, other: Seen) -> str:
    """Say where two calls differ first; empty where they are the same to the bit."""
    if one.facts.keys() != other.facts.keys():
        missing = sorted(one.facts.keys() ^ other.facts.keys())
        return f"{', '.join(missing)}: on one side only"
    unlike = [path for path in one.facts if one.facts[path] != other.facts[path]]
    for path in unlike[:1]:
        wanted, found = one.facts[path], other.facts[path]
        if isinstance(wanted, list) and isinstance(found, list) and wanted[:-1] == found[:-1]:
            more = f" ({', '.join(unlike[1:4])} too)" if unlike[1:] else ""
            return f"{path}: other bits, {_distance(one, other, path)}{more}"
        if isinstance(wanted, list) and path in one.samples:
            return f"{path}: {found[:-1]}, not {wanted[:-1]}"
        return f"{path}: differs"
    return ""


def _distance(one: Seen, other: Seen, path: str) -> str:
    if path not in one.samples:
        return "of a random state"
    return f"off by {_off(one.samples[path], other.samples[path]):.1e} of its size"


def _off(a: Tensor, b: Tensor) -> float:
    """Return how far apart numbers are, as a part of how large they are."""
    if a.shape != b.shape or not torch.equal(a.isfinite(), b.isfinite()):
        return float("inf")
    a, b = a[a.isfinite()], b[b.isfinite()]
    size = float(a.abs().max()) if a.numel() else 0.0
    return float((a - b).abs().max()) / (size or 1.0) if a.numel() else 0.0


def spread(one: Seen, other: Seen) -> float:
    """Return how far apart the numbers of two calls are at most, as a part of their size."""
    if one.samples.keys() != other.samples.keys():
        return float("inf")
    return max((_off(a, other.samples[path]) for path, a in one.samples.items()), default=0.0)
