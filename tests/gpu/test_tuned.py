"""What tuning chooses under ``torch.compile`` and not ahead of time: the bits of stock Inductor."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._inductor.utils import fresh_cache
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

import wrapper_ir as wir
from tests.gpu.cases import t
from tests.gpu.test_programs import same
from wrapper_ir.lines import KernelDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALF = torch.bfloat16


def _linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(b.expand(x.shape[0], b.shape[0]), x, w)


def _nearer_is_more(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    made = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)
    assert isinstance(made, Tensor)
    return made


def _pixels(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv2d(x, w)


#: What is called, what it is given, and the one choice that Inductor may take, so nothing is timed.
TUNED: dict[str, tuple[Callable[..., Tensor], Callable[[], tuple[Tensor, ...]], str, str]] = {
    "bias_of_rows": (
        _linear,
        lambda: (t(64, 128, dtype=HALF), t(128, 32, dtype=HALF), t(32, dtype=HALF)),
        "bias_addmm",
        "ATEN",
    ),
    "conv_of_pixels": (
        _pixels,
        lambda: (t(2, 16, 8, 8), t(32, 16, 1, 1)),
        "conv1x1_via_mm",
        "ATEN,TRITON",
    ),
    "product_of_parts": (
        lambda x, w: (x @ w).relu(),
        lambda: (t(32, 32768, dtype=HALF), t(32768, 32, dtype=HALF)),
        "decompose_k|bmm",
        "TRITON",
    ),
}


#: Stock (2.11) fails on graphs in its cache whose kernels are chosen among others.
NO_CACHE = {"fx_graph_cache": False}


@pytest.fixture(autouse=True)
def no_tuning_by_time() -> Iterator[None]:
    with torch._inductor.config.patch({"test_configs.force_filter_reduction_configs": True}):
        yield


def _run(name: str, backend: str, **options: Any) -> Tensor:
    function, inputs, choice, backends = TUNED[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    wanted = {
        "max_autotune_gemm": True,
        "max_autotune": name == "conv_of_pixels",
        "max_autotune_gemm_backends": backends,
        "max_autotune_conv_backends": backends,
        "triton.num_decompose_k_splits": 1,
        "layout_optimization": False,  # with channels last, it takes a convolution for a product
        "test_configs.autotune_choice_name_regex": choice,
    }
    with torch.no_grad(), torch._inductor.config.patch(wanted):
        made: Tensor = torch.compile(function, backend=backend, options=options)(*inputs())
    return made


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("name", TUNED)
def test_the_same_as_stock(name: str, emitter: str) -> None:
    assert same(_run(name, "wrapper_ir", emitter=emitter), _run(name, "inductor"))


def _rotary(x: Tensor) -> Tensor:
    heads = x.view(1, x.shape[1], 32, 64).transpose(1, 2)
    turned = torch.cat((-heads[..., 32:], heads[..., :32]), -1)
    return (heads.sin() + turned.cos()).contiguous()


@contextlib.contextmanager
def _noting_arguments() -> Iterator[dict[str, tuple[list[int], list[int]]]]:
    """Yield what kernels are tuned with: elements of tensors, and numbers."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    tune = CachingAutotuner.autotune_to_one_config

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [a.numel() for a in args if isinstance(a, Tensor)]
        found[self.fn.__name__] = tensors, [a for a in args if not isinstance(a, Tensor)]
        return tune(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, fresh_cache():
        patch.setattr(CachingAutotuner, "autotune_to_one_config", noting)
        yield found


@pytest.mark.parametrize("rows", [3, 777])
def test_kernels_are_tuned_with_the_sizes_that_stock_calls_them_with(rows: int) -> None:
    """Some of them are numbers that the program computes."""
    x, notes = t(1, rows, 2048), []
    for backend in ("inductor", "wrapper_ir"):
        torch._dynamo.reset()
        options = {"max_autotune_pointwise": True}
        with _noting_arguments() as found:
            run = torch.compile(_rotary, backend=backend, dynamic=True, options=options)
            torch.testing.assert_close(run(x), _rotary(x))
        notes.append(found)
    (stock, ours), *more = zip(*(each.values() for each in notes), strict=True)
    assert not more
    assert stock[1] == ours[1]
    assert 2048 * rows in ours[1]
    assert all(a <= b for a, b in zip(stock[0], ours[0], strict=True))


@pytest.mark.parametrize("way", ["slice", "narrow", "index"])
def test_kernels_are_tuned_with_memory_for_as_many_rows_as_data_asks_for(way: str) -> None:
    def first(x: Tensor, count: Tensor) -> Tensor:
        rows = int(count.item())
        torch._check(rows >= 0)
        torch._check(2 * rows <= x.shape[0])
        if way == "slice":
            part = x[:rows]
        elif way == "narrow":
            part = x.narrow(0, 0, rows)
        else:
            part = x[torch.arange(rows, device=x.device)]
        return part.sin() * 2

    torch._dynamo.reset()
    x, count = t(100, 128), torch.tensor(5)
    options = {"max_autotune_pointwise": True}
    with _noting_arguments() as found, torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = torch.compile(first, backend="wrapper_ir", dynamic=True, options=options)
        torch.testing.assert_close(run(x, count), first(x, count))
    if way == "index":  # places that a kernel computes, and checks
        assert not found
    else:
        (((source, result), (elements, *_)),) = found.values()
        assert min(source, result) >= elements


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_kernels_whose_places_zeros_do_not_fit_are_not_tried(emitter: str) -> None:
    """Offset 0 in a padded window of a pooling lies before the image."""
    torch._dynamo.reset()
    x = t(4, 8, 56, 56).requires_grad_()
    ids, table = torch.randint(100, 150, (64,), device="cuda"), t(50, 128)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        pooled = functional.max_pool2d(x.sin(), 3, 2, 1)
        return pooled.square().mean(), table[ids - 100].sin()

    options = {"emitter": emitter, "max_autotune_pointwise": True}
    loss, rows = torch.compile(step, backend="wrapper_ir", options=options)(x)
    torch.testing.assert_close(rows, table[ids - 100].sin())
    (found,) = torch.autograd.grad(loss, x)
    (wanted,) = torch.autograd.grad(step(x)[0], x)
    torch.testing.assert_close(found, wanted)


def _normalised(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return torch.softmax(x, -1) * w, functional.layer_norm(x, x.shape[-1:]).sum(-1)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("choice", [1, 2, 3])
def test_of_several_kernels_the_one_that_stock_would_take(choice: int, emitter: str) -> None:
    """1 lets time decide, of which stock keeps a note; 2 and 3 take the first and second.

    The first is a reduction in a loop, whose configuration is chosen by time: stock's next choice
    may have other bits.
    """

    def run(backend: str, **options: Any) -> tuple[Tensor, Tensor]:
        torch._dynamo.reset()
        wanted = {"triton.multi_kernel": choice, **(NO_CACHE if backend == "inductor" else {})}
        with torch._inductor.config.patch(wanted):
            made: tuple[Tensor, Tensor] = torch.compile(
                _normalised, backend=backend, options=options
            )(x, w)
        return made

    torch.manual_seed(0)
    x, w = t(512, 4096), t(512, 4096)
    with wir.record() as programs:
        ours = run("wrapper_ir", emitter=emitter)
    kernels = [line.name for line in programs[0].body if isinstance(line, KernelDefinition)]
    kinds = {name.split("_")[1] for name in kernels}
    assert kinds <= {1: {"red", "per", "poi"}, 2: {"red", "poi"}, 3: {"per", "poi"}}[choice]
    stock = run("inductor")
    torch.testing.assert_close(ours, stock, rtol=1e-3, atol=1e-3)
    assert choice < 3 or all(map(same, ours, stock))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("rows", [48, 2048])
def test_of_templates_the_one_tuned_for_the_nearest_sizes(rows: int, emitter: str) -> None:
    wanted = {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "multi_kernel_hints": [64, 4096],
    }

    def run(backend: str, **options: Any) -> Tensor:
        torch._dynamo.reset()
        with torch._inductor.config.patch(wanted | (NO_CACHE if backend == "inductor" else {})):
            made: Tensor = torch.compile(
                lambda x, w: x @ w, backend=backend, dynamic=True, options=options
            )(x, w)
        return made

    torch.manual_seed(0)
    x, w = t(rows, 1024, dtype=HALF), t(1024, 512, dtype=HALF)
    assert same(run("wrapper_ir", emitter=emitter), run("inductor"))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_graph_that_inductor_would_cut_for_cuda_graphs_is_whole(emitter: str) -> None:
    def mixed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.sin() @ y).cpu().sin(), (x @ y).cos()

    def run(backend: str, **options: Any) -> list[tuple[Tensor, Tensor]]:
        torch._dynamo.reset()
        wanted = {"graph_partition": True, "triton.cudagraphs": True}
        with torch._inductor.config.patch(wanted):
            compiled = torch.compile(mixed, backend=backend, options=options)
            return [tuple(each.clone() for each in compiled(x, y)) for _ in range(3)]

    torch.manual_seed(0)
    x, y = t(64, 64), t(64, 64)
    for ours, stock in zip(run("wrapper_ir", emitter=emitter), run("inductor"), strict=True):
        assert all(map(same, ours, stock))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_what_kernels_read_and_write_is_checked(emitter: str) -> None:
    torch._dynamo.reset()
    with torch._inductor.config.patch({"nan_asserts": True}):
        run = torch.compile(
            lambda x: x.log().sum(-1).nan_to_num(),
            backend="wrapper_ir",
            options={"emitter": emitter},
        )
        assert bool(run(torch.ones(8, 512, device="cuda")).eq(0).all())
        with pytest.raises(AssertionError, match="infinity"):
            run(torch.full((8, 512), torch.inf, device="cuda"))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_flex_attention_is_trained_with_the_same_bits(emitter: str) -> None:
    def gradients(backend: str, **options: Any) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        given = [t(1, 2, 256, 64, dtype=HALF).requires_grad_() for _ in range(3)]
        made = torch.compile(_nearer_is_more, backend=backend, options=options)(*given)
        made.square().mean().backward()
        return [made.detach(), *(each.grad for each in given if each.grad is not None)]

    found = gradients("wrapper_ir", emitter=emitter)
    assert len(found) == 4
    assert all(map(same, found, gradients("inductor")))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_parts_are_made_whole_where_they_belong(emitter: str) -> None:
    """Before torch 2.15 stock Inductor forgets the parts of a cat, before 2.13 kept dimensions."""

    def sums(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = x * y
        return torch.cat([z.sum(0), (x + y).sum(0)]), z.sum(-1), y.sum(0, keepdim=True)

    torch._dynamo.reset()
    x, y = t(8192, 768), t(8192, 768)
    made = torch.compile(sums, backend="wrapper_ir", options={"emitter": emitter})(x, y)
    torch.testing.assert_close(made, sums(x, y), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_norms_are_trained_with_the_same_bits(emitter: str) -> None:
    model = nn.Sequential(nn.LayerNorm(768), nn.Linear(768, 768), nn.RMSNorm(768)).cuda().bfloat16()
    x = t(8192, 768, dtype=HALF)

    def gradients(backend: str, **options: Any) -> list[Tensor]:
        torch._dynamo.reset()
        model.zero_grad()
        torch.compile(model, backend=backend, options=options)(x).square().mean().backward()
        return [
            parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
        ]

    found = gradients("wrapper_ir", emitter=emitter)
    assert len(found) == 5
    assert all(map(same, found, gradients("inductor")))
