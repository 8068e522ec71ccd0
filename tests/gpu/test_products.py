"""Products of matrices that C++ calls cuBLAS for itself: the bits of ATen's, whatever is set."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from benchmarks.gpu import TOKENS, WIDTH, Block
from tests.gpu.cases import t
from tests.gpu.products import (
    Multiplied,
    Strided,
    dynamic_program,
    every_layout,
    products_program,
)
from tests.gpu.test_programs import captured, no_tuning_by_time, same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

__all__ = ["no_tuning_by_time"]

TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def few(dtype: torch.dtype) -> list[Multiplied]:
    """Products that all are cuBLAS's to make."""
    return [
        Multiplied(dtype, Strided((16, 512), (512, 1)), Strided((512, 1536), (1, 512))),
        Multiplied(dtype, Strided((130, 4096), (1, 130)), Strided((4096, 72), (72, 1))),
        Multiplied(
            dtype, Strided((6, 24, 160), (3840, 160, 1)), Strided((6, 160, 40), (6400, 1, 160))
        ),
    ]


def direct(program: wir.Program, **options: Any) -> Callable[..., tuple[Any, ...]]:
    return wir.compile(program, "cpp", gpu_matmul="cublas", **options)


def operands(products: Iterable[Multiplied]) -> list[Tensor]:
    torch.manual_seed(0)
    return [each.filled(one.dtype) for one in products for each in (one.left, one.right)]


def expected(inputs: Sequence[Tensor]) -> list[Tensor]:
    pairs = zip(inputs[::2], inputs[1::2], strict=True)
    return [torch.mm(a, b) if a.dim() == 2 else torch.bmm(a, b) for a, b in pairs]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_layout(dtype: torch.dtype) -> None:
    products = list(every_layout(dtype))
    inputs = operands(products)
    found = direct(products_program(products))(*inputs)
    triples = zip(products, found, expected(inputs), strict=True)
    assert not [each for each, actual, wanted in triples if not same(actual, wanted)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sizes_that_change(dtype: torch.dtype) -> None:
    function = direct(dynamic_program(dtype))
    for m, k, n in [(16, 512, 48), (1, 64, 1), (0, 8, 8), (8, 0, 8), (33, 17, 9), (8, 1, 8)]:
        b = t(k, n, dtype=dtype)
        for a in (
            t(m, k, dtype=dtype),
            t(k, m, dtype=dtype).t(),
            t(m, k + 8, dtype=dtype)[:, :k],
            t(m, 2 * k, dtype=dtype)[:, ::2],
            t(1, k, dtype=dtype).expand(m, k),
        ):
            (found,) = function(a, b)
            assert same(found, torch.mm(a, b))


@contextlib.contextmanager
def tf32() -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@contextlib.contextmanager
def set_to(name: str, value: object, default: object) -> Iterator[None]:
    setattr(torch.backends.cuda.matmul, name, value)
    try:
        yield
    finally:
        setattr(torch.backends.cuda.matmul, name, default)


@contextlib.contextmanager
def cublaslt() -> Iterator[None]:
    before = torch.backends.cuda.preferred_blas_library()
    torch.backends.cuda.preferred_blas_library("cublaslt")
    try:
        yield
    finally:
        torch.backends.cuda.preferred_blas_library(before)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=False)


@contextlib.contextmanager
def carveout() -> Iterator[None]:
    torch._C._set_sm_carveout_experimental(16)
    try:
        yield
    finally:
        torch._C._set_sm_carveout_experimental(None)


SETTINGS = {
    "TF32": tf32,
    "bfloat16 sums in float32": lambda: set_to(
        "allow_bf16_reduced_precision_reduction", value=False, default=True
    ),
    "float16 sums in float32": lambda: set_to(
        "allow_fp16_reduced_precision_reduction", value=False, default=True
    ),
    "float16 throughout": lambda: set_to("allow_fp16_accumulation", value=True, default=False),
    "cuBLASLt": cublaslt,
    "deterministic": deterministic,
    "fewer processors": carveout,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_followed(name: str) -> None:
    # Types in turn within a call: none may leave anything behind for the next one.
    products = [each for dtype in (*TYPES, *reversed(TYPES)) for each in few(dtype)]
    function, inputs = direct(products_program(products)), operands(products)

    def check() -> None:
        triples = zip(products, function(*inputs), expected(inputs), strict=True)
        assert not [each for each, actual, wanted in triples if not same(actual, wanted)]

    check()
    with SETTINGS[name]():
        check()
    check()


@pytest.mark.parametrize("options", [{}, {"gpu_matmul": "cublas"}, {"gpu_matmul": "aten"}], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_stays_on_the_stream(count: int, options: dict[str, Any]) -> None:
    """Each stream is kept busy first, so that work piles up and then runs side by side."""
    function = wir.compile(products_program(few(torch.bfloat16)), "cpp", **options)
    inputs = operands(few(torch.bfloat16))
    for _ in range(5):
        wanted = expected(inputs)
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in range(count)]
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
        found = []
        for turn in range(12):
            with torch.cuda.stream(streams[turn % count]):
                found.append(function(*inputs))
        torch.cuda.synchronize()
        assert all(all(map(same, actual, wanted)) for actual in found)


def test_a_thread_of_its_own() -> None:
    function, inputs = direct(products_program(few(torch.float32))), operands(few(torch.float32))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(function(*inputs))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(threads)
    for actual in found:
        assert all(map(same, actual, expected(inputs)))


@pytest.mark.parametrize("arena", ["call", "kept"])
def test_a_decoder(arena: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(), Block()).to("cuda", torch.bfloat16).eval()
    x = torch.randn(1, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        program = wir.capture(model, (x,))
        stock = torch.compile(model)(x)
        for options in ({}, {"cuda_graph": True}, {"debug": "check"}):
            function = direct(program, arena=arena, **options)
            for _ in range(4):
                assert same(function(x)[0], stock)


@pytest.mark.parametrize("name", ["pointwise", "dynamic", "mlp", "attention"])
def test_captured_programs(name: str, tmp_path: Path) -> None:
    _, program, inputs = captured(name)
    wanted = wir.compile(program, "cpp")(*inputs)
    function = direct(program)
    for _ in range(2):
        assert all(map(same, function(*inputs), wanted))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = function(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(same, actual, wanted))
    file = wir.export(program, tmp_path / "model.pt2", gpu_matmul="cublas")
    found = torch._inductor.aoti_load_package(str(file))(*inputs)
    assert all(map(same, found if isinstance(found, (list, tuple)) else [found], wanted))
