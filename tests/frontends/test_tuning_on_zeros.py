"""Which kernels may be tried on buffers of zeros, found out without a GPU."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.frontends.no_gpu import compiled_for_gpu
from wrapper_ir.frontends.inductor import triton_tuning

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="there is no Triton"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

ROWS = 50


def _places() -> list[Tensor]:
    return [torch.empty(40, dtype=torch.int64, device="cuda:0")]


def _embedded(w: Tensor, at: Tensor) -> Tensor:
    return functional.embedding(at, w) * 2


def _last_of_all(w: Tensor, at: Tensor) -> Tensor:
    return w[at - 1] * 2


def _loss(w: Tensor, at: Tensor) -> Tensor:
    return functional.log_softmax(w[:40], -1).gather(1, at[:, None])


def _cached(w: Tensor, at: Tensor) -> Tensor:
    return w.index_put((at[:1],), w[:1].sin()) * 2


def _clamped(w: Tensor, at: Tensor) -> Tensor:
    return w[(at - 100).clamp(0, ROWS - 1)] * (at >= 100)[:, None]


def _part_of_an_embedding(w: Tensor, at: Tensor) -> Tensor:
    inside = (at >= 100) & (at < 150)
    return w.view(-1).gather(0, (at - 100) * inside) * inside


def _shifted(w: Tensor, at: Tensor) -> Tensor:
    return w[at - 100] * 2


def _far_before(w: Tensor, at: Tensor) -> Tensor:
    place = at + torch.arange(40, device=at.device) - 9000
    return w.view(-1).index_add(0, place, w[:40, 0].sin())


def _places_in_padded_windows(w: Tensor, at: Tensor) -> Tensor:
    """Add where windows of a pooling found their maxima, as its backward does."""
    offsets = at[:25].to(torch.int8).view(1, 1, 5, 5).expand(1, 50, 5, 5)
    windows: tuple[list[int], ...] = ([3, 3], [10, 10], [2, 2], [1, 1], [1, 1])
    found = torch.ops.prims._low_memory_max_pool_offsets_to_indices(offsets, *windows)
    image = torch.cat([w, w], 1)[:, :100].sin()
    return image.scatter_add(1, found.view(50, 25), w[:, :25].sin())


CASES: list[tuple[Callable[..., Any], bool]] = [
    (_embedded, True),
    (_last_of_all, True),
    (_loss, True),
    (_cached, True),
    (_clamped, True),
    (_part_of_an_embedding, True),
    (_shifted, False),
    (_far_before, False),
    (_places_in_padded_windows, False),
]


@pytest.mark.parametrize(
    ("function", "all_tried"), CASES, ids=lambda case: getattr(case, "__name__", None)
)
def test_kernels_are_tried_on_zeros_where_zeros_are_places_within_bounds(
    function: Callable[..., Any], all_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, pin = [], triton_tuning.pin

    def noting(note: Any, tuner: Any, device: Any, examples: Any) -> Any:
        tried.append(examples is not None)
        return pin(note, tuner, device, examples)

    monkeypatch.setattr(triton_tuning, "pin", noting)
    compiled_for_gpu(function, (ROWS, 64), inputs=_places)
    assert tried
    assert all(tried) == all_tried
