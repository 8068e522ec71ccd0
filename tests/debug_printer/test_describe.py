"""What is said of tensors: every type and shape, exactly, and never an exception."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from wrapper_ir.runtime.probes import describe, difference, statistics
from wrapper_ir.runtime.probes.describe import SHORT_DTYPES, checksum, number

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions"),
]

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.tensor([1.0, -2.0]), "x: f32[2] min=-2 max=1 mean=-0.5 std=2.12132 [1, -2]"),
        (torch.tensor(2.5), "x: f32[] min=2.5 max=2.5 mean=2.5 2.5"),
        (torch.empty(0, 3), "x: f32[0, 3]"),
        (torch.tensor([0.1]), "x: f32[1] min=0.1 max=0.1 mean=0.1 [0.1]"),
        (torch.tensor([2**40 + 1]), f"x: i64[1] min={2**40 + 1} max={2**40 + 1}"),
        (torch.tensor([1e300], dtype=torch.float64), "min=1e+300 max=1e+300 mean=1e+300"),
        (torch.tensor([True, False]), "x: bool[2] min=false max=true mean=0.5"),
        (torch.tensor([1 + 2j]), "x: c64[1] min=1 max=2 mean=1.5 std=0.707107 [1+2i]"),
        (torch.tensor([NAN, 1.0]), "min=1 max=1 mean=1 nan=1 first=(0) [nan, 1]"),
        (torch.tensor([[1, INF], [-INF, NAN]]), "nan=1 first=(1, 1) inf=2 first=(0, 1)"),
        (torch.zeros(2, 3).t(), "x: f32[3, 2] stride=[1, 3] min=0"),
        (torch.arange(100), "[0, 1, 2, ..., 97, 98, 99]"),
        (torch.empty(2, 3, device="meta"), "x: f32[2, 3] @meta"),
        (torch.eye(2).to_sparse(), "x: f32[2, 2] sparse_coo"),
    ],
)
def test_words(tensor: Tensor, words: str) -> None:
    assert words in describe("x", tensor)


def test_unsigned_integers_are_exact() -> None:
    big = torch.tensor([2**64 - 1, 0], dtype=torch.uint64)
    found = statistics(big)
    assert (found.minimum, found.maximum) == (0, 2**64 - 1)


@pytest.mark.parametrize("rank", range(9))
def test_large_tensors_are_bounded(rank: int) -> None:
    assert len(describe("x", torch.rand([7] * rank))) < 2000
    assert len(describe("x", torch.rand([2] * rank))) < 2000


SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 0, 3), (3, 4), (2, 3, 4, 2), (40,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", SHORT_DTYPES, ids=str)
def test_every_type_and_shape_is_described_and_left_alone(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = made(dtype, shape)
    before = checksum(tensor)
    assert describe("x", tensor).startswith(f"x: {SHORT_DTYPES[dtype]}[")
    statistics(tensor)
    assert difference(tensor, tensor) == ""
    assert checksum(tensor) == before


def made(dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if dtype in (torch.qint8, torch.quint8, torch.qint32):
        return torch.quantize_per_tensor(torch.rand(shape), 0.1, 0, dtype)
    size = torch.empty(shape, dtype=dtype).element_size()
    content = torch.arange(math.prod(shape) * size, dtype=torch.int64).mul(37).to(torch.uint8)
    if dtype is torch.bool:
        content &= 1
    return content.view(dtype).reshape(shape)


@given(st.floats(width=32))
def test_float32_extremes_read_back(value: float) -> None:
    text = number(value, torch.float32)
    assert text == "nan" or float(torch.tensor(float(text), dtype=torch.float32)) == value


@given(st.floats())
def test_float64_extremes_read_back(value: float) -> None:
    text = number(value, torch.float64)
    assert text == "nan" or float(text) == value


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=40))
def test_counts_and_places(values: list[float]) -> None:
    found = statistics(torch.tensor(values))
    nan = [i for i, v in enumerate(values) if math.isnan(v)]
    inf = [i for i, v in enumerate(values) if math.isinf(v)]
    finite = [v for v in values if math.isfinite(v)]
    assert (found.nan, found.inf) == (len(nan), len(inf))
    assert found.first_nan == ((nan[0],) if nan else None)
    assert found.first_inf == ((inf[0],) if inf else None)
    if finite:
        assert (found.minimum, found.maximum) == (min(finite), max(finite))


@pytest.mark.parametrize(
    ("got", "expected", "words"),
    [
        (torch.ones(3), torch.ones(3), ""),
        (torch.ones(3), torch.ones(3) + 1e-7, ""),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), ""),
        (torch.ones(2), torch.tensor([1.0, 2.0]), "1 of 2 elements differ, most at (1): 1, exp"),
        (torch.ones(2), torch.tensor([NAN, 3.0]), "2 of 2 elements differ, most at (0): 1, exp"),
        (
            torch.tensor([1, 2]),
            torch.tensor([1, 3]),
            "1 of 2 elements differ, most at (1): 2, expected 3",
        ),
        (torch.ones(2), torch.ones(3), "is f32[2], expected f32[3]"),
        (torch.ones(2), torch.ones(2).double(), "is f32[2], expected f64[2]"),
    ],
)
def test_differences(got: Tensor, expected: Tensor, words: str) -> None:
    found = difference(got, expected)
    assert found.startswith(words)
    assert bool(found) == bool(words)


def test_describing_keeps_the_generator_and_grad_mode() -> None:
    state: Any = torch.get_rng_state()
    x = torch.rand(4, requires_grad=True)
    torch.set_rng_state(state)
    describe("x", x)
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad_fn is None
