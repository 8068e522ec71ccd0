"""What Inductor schedules on NVIDIA GPUs if it is asked to, compared with stock Inductor.

Products are of small whole numbers, so they are exact, whichever configuration tuning takes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

import wrapper_ir as wir
from tests.frontends.no_gpu import tuned_to
from tests.gpu.cases import t
from tests.gpu.test_programs import same
from tests.release import TORCH
from wrapper_ir.frontends.inductor import StockFallbackWarning

pytestmark = pytest.mark.skipif(TORCH < (2, 15), reason="these are the ways of torch 2.15")

HALF = torch.bfloat16
EIGHT = torch.float8_e4m3fn
BEFORE_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0)


def whole(*size: int, dtype: torch.dtype = HALF) -> Tensor:
    """Small whole numbers."""
    return torch.randint(-3, 4, size, device="cuda").to(dtype)


def some(*sizes: tuple[int, ...], dtype: torch.dtype = HALF) -> Callable[[], list[Tensor]]:
    return lambda: [whole(*size, dtype=dtype) for size in sizes]


@dataclass(frozen=True)
class Way:
    """A function, what it is given, and a pattern that the program has only if it went this way.

    Attributes:
        function: What is compiled.
        inputs: Makes what it is given.
        sign: The pattern.
        config: Settings of Inductor's.
        choice: What tuning takes, by name; "" where nothing is tuned.
        backends: Backends of products that may be chosen.
        dynamic: Sizes of the first input that are dynamic.
        hopper: Whether it takes a GPU of capability 9.
    """

    function: Callable[..., Any]
    inputs: Callable[[], Sequence[Tensor]]
    sign: str
    config: Mapping[str, Any] = field(default_factory=dict)
    choice: str = ""
    backends: str = "TRITON"
    dynamic: tuple[int, ...] = ()
    hopper: bool = False


def _scaled(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    made: Tensor = torch._scaled_mm(x, w.t(), scale_a=a, scale_b=b, out_dtype=HALF)
    return made


def _grouped(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    return torch._grouped_mm(x, w, offs=ends)


def _grouped_scaled(x: Tensor, w: Tensor, a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    made: Tensor = torch._scaled_grouped_mm(
        x, w.transpose(-2, -1), a, b, offs=ends, out_dtype=HALF, use_fast_accum=False
    )
    return made


def _ends() -> Tensor:
    return torch.tensor([64, 96, 192, 256], dtype=torch.int32, device="cuda")


def _scales(*sizes: tuple[int, ...]) -> list[Tensor]:
    """Powers of two."""
    return [torch.randint(0, 3, size, device="cuda").float().exp2() for size in sizes]


flex_gemm: Any = None
if importlib.util.find_spec("torch._higher_order_ops.flex_gemm"):
    flex_gemm = importlib.import_module("torch._higher_order_ops.flex_gemm").flex_gemm


def _with_epilogue(x: Tensor, w: Tensor) -> Any:
    return flex_gemm(torch.mm, (x, w), lambda product: (product * 2).relu())


def quantised(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """A norm of rows, and the largest numbers of blocks of it."""
    blocks = functional.rms_norm(x, (x.shape[-1],), w).view(x.shape[0], -1, 128)
    largest = blocks.abs().amax(-1, keepdim=True)
    return (blocks / largest).to(EIGHT), largest


def _scattered(x: Tensor, index: Tensor, values: Tensor) -> Tensor:
    return x.index_put((index,), values, accumulate=True)


def _distance(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score - (i - j).abs() * 0.1


def _attention(**options: Any) -> Callable[..., Any]:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=_distance, kernel_options=options)

    return attention


def _shuffled(rows: int, columns: int) -> list[Tensor]:
    return [torch.stack([torch.randperm(columns, device="cuda") for _ in range(rows)]).float()]


def _real(*sizes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], Any]:
    return lambda: [t(*size, dtype=dtype) for size in sizes]


MATRICES = some((256, 512), (512, 256))
NATIVE = {"triton.native_matmul": True}
TMA = {"triton.enable_persistent_tma_matmul": True}
TMA_STORE = {**TMA, "triton.enable_template_tma_store": True}
DESCRIPTORS = "language.make_tensor_descriptor"

WAYS: dict[str, Way] = {
    "native": Way(lambda x, w: (x @ w).relu(), MATRICES, r"(?s)tl\.dot.*call @triton_red", NATIVE),
    "native_batched": Way(
        lambda x, w: torch.bmm(x, w) + 1,
        some((4, 64, 128), (4, 128, 64)),
        r"(?s)tl\.dot.*call @triton_red",
        NATIVE,
    ),
    "native_bias": Way(
        lambda x, w, b: torch.addmm(b, x, w).relu(),
        some((256, 512), (512, 256), (256,)),
        r"(?s)tl\.dot.*call @triton_red",
        NATIVE,
    ),
    "native_dynamic": Way(
        lambda x, w: (x @ w).relu(),
        MATRICES,
        r"(?s)tl\.dot.*call @triton_red",
        NATIVE,
        dynamic=(0,),
    ),
    "native_float32": Way(
        lambda x, w: x @ w,
        some((100, 70), (70, 30), dtype=torch.float32),
        r"(?s)tl\.dot.*call @triton_red",
        NATIVE,
    ),
    "tma": Way(lambda x, w: (x @ w).relu(), MATRICES, DESCRIPTORS, TMA, "tma", hopper=True),
    "tma_dynamic": Way(
        lambda x, w: x @ w, MATRICES, DESCRIPTORS, TMA, "tma", dynamic=(0,), hopper=True
    ),
    "tma_stores": Way(
        lambda x, w: (x @ w).relu(), MATRICES, DESCRIPTORS, TMA_STORE, "tma", hopper=True
    ),
    "tma_loads_in_epilogue": Way(
        lambda x, w, z: x @ w + z,
        some((256, 512), (512, 256), (256, 256)),
        DESCRIPTORS,
        {**TMA_STORE, "triton.enable_tma_load_for_template_epilogue": True},
        "tma",
        hopper=True,
    ),
    "tma_eight_bits": Way(
        _scaled,
        lambda: [*some((256, 512), (256, 512), dtype=EIGHT)(), *_scales((), ())],
        DESCRIPTORS,
        TMA,
        "tma",
        hopper=True,
    ),
    "eight_bits_of_rows": Way(
        _scaled,
        lambda: [*some((256, 512), (256, 512), dtype=EIGHT)(), *_scales((256, 1), (1, 256))],
        "call @triton_tem",
        choice="triton",
        hopper=True,
    ),
    "descriptors": Way(
        lambda x, y: x.t() + y,
        _real((512, 1024), (1024, 512)),
        "tl.make_tensor_descriptor",
        {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
        hopper=True,
    ),
    "grouped": Way(
        _grouped,
        lambda: [*some((256, 512), (4, 512, 256))(), _ends()],
        "call @triton_tem",
        choice="triton",
        hopper=True,
    ),
    "grouped_eight_bits": Way(
        _grouped_scaled,
        lambda: [
            *some((256, 512), (4, 256, 512), dtype=EIGHT)(),
            *_scales((256,), (4, 256)),
            _ends(),
        ],
        "call @triton_tem",
        choice="triton",
        hopper=True,
    ),
    "split_product": Way(
        lambda x, w: (x @ w).relu(),
        some((32, 16384), (16384, 32)),
        r"aten::bmm\.dtype_out",
        choice="decompose_k|bmm",
        backends="ATEN,TRITON",
    ),
    "product_with_epilogue": Way(_with_epilogue, MATRICES, r"aten::mm|call @triton_tem"),
    "product_of_another_type": Way(
        lambda x, w: torch.mm(x, w, out_dtype=torch.float32) + 1,
        MATRICES,
        r"aten::mm\.dtype_out",
        choice="mm_dtype",
        backends="ATEN",
    ),
    "tuned_beside": Way(
        lambda x, w: (x @ w).relu(),
        MATRICES,
        "call @triton_tem_fused_mm_relu",
        {"pipeline_max_autotune_gemm": True},
        "triton_mm",
    ),
    "padded": Way(
        lambda x, w: x @ w,
        some((255, 513), (513, 257)),
        r"call @triton_poi[^\n]*\n(?:.*\n)*.*aten::mm\.out",
        {"force_shape_pad": True},
    ),
    "shared_matrix": Way(
        lambda x, w: torch.bmm(x.expand(4, 64, 128), w),
        some((1, 64, 128), (4, 128, 64)),
        r"aten::(?:b?mm)",
        {"bmm_shared_a": True},
    ),
    "cooperative": Way(
        lambda x: (torch.softmax(x, -1), x.amax(-1)),
        _real((2, 1 << 20)),
        "launch_cooperative_grid",
        {"triton.cooperative_reductions": True},
    ),
    "nested": Way(
        quantised,
        _real((256, 1024), (1024,)),
        r"(?s)call @triton_per\w+\((?!.*call @)",
        {"triton.nested_reduction": True},
    ),
    "online_softmax": Way(
        lambda x: torch.log_softmax(x, -1),
        _real((4096, 32000), dtype=HALF),
        "call @triton_red",
        {"triton.scalar_accumulators": True},
    ),
    "combo_of_own_blocks": Way(
        lambda x, w: (x.sin(), w.cos(), x[:7] + 1, w.amax(-1)),
        _real((64, 64), (64, 32)),
        "call @triton",
        {
            "combo_kernels": True,
            "combo_kernel_per_subkernel_blocks": True,
            "combo_kernel_autotune_grouping": True,
            "combo_kernels_autotune": 2,
        },
    ),
    "long_sort": Way(
        lambda x: x.sort(-1),
        lambda: _shuffled(8, 4096),
        "call @triton",
        {"triton.decompose_sort_ops": True},
    ),
    "median": Way(
        lambda x: x.median(-1),
        lambda: _shuffled(8, 512),
        "call @triton",
        {"triton.decompose_sort_ops": True},
    ),
    "scatter_in_parts": Way(
        _scattered,
        lambda: [
            whole(64, 64, dtype=torch.float32),
            torch.randint(0, 64, (100000,), device="cuda"),
            whole(100000, 64, dtype=torch.float32),
        ],
        "call @triton",
        {"partitioned_scatter_enabled": True, "partitioned_scatter_force": True},
    ),
    "largest": Way(lambda x: x.topk(5), lambda: _shuffled(64, 1024), "aten::topk"),
    "flex_tma": Way(
        _attention(USE_TMA=True), _real(*[(1, 2, 256, 64)] * 3, dtype=HALF), "call @triton_tem"
    ),
    "flex_decoding": Way(
        _attention(),
        _real((1, 2, 1, 64), *[(1, 2, 4096, 64)] * 2, dtype=HALF),
        "call @triton_tem",
    ),
    "flex_dynamic": Way(
        _attention(),
        _real(*[(2, 2, 256, 64)] * 3, dtype=HALF),
        "call @triton_tem",
        dynamic=(0,),
    ),
    "tuned_at_compile_time": Way(
        lambda x: torch.softmax(x + 1, -1),
        _real((256, 512)),
        "call @triton",
        {"triton.autotune_at_compile_time": True},
    ),
    "fast_launcher": Way(
        lambda x: torch.softmax(x + 1, -1),
        _real((256, 511)),
        "call @triton",
        {"use_fast_triton_launcher": True},
    ),
    "launcher_of_triton": Way(
        lambda x: torch.softmax(x + 1, -1),
        _real((256, 510)),
        "call @triton",
        {"use_static_triton_launcher": False},
    ),
    "numbers_of_eager": Way(
        lambda x, y: (x / y, x.half() * y.half() + 1, (x * 1e-39).exp()),
        _real((256, 512), (256, 512)),
        "call @triton",
        {
            "emulate_precision_casts": True,
            "eager_numerics.disable_ftz": True,
            "eager_numerics.division_rounding": True,
        },
    ),
    "kernels_waited_for": Way(
        lambda x, y: (x @ y).sin() + 1,
        some((64, 64), (64, 64), dtype=torch.float32),
        r"call @triton[^\n]*\n +synchronize @cuda:0",
        {"triton.debug_sync_kernel": True},
    ),
}

#: Emitters that reject them, in words of the error.
REJECTED = {("kernels_waited_for", "fx"): "it puts streams in order"}


@pytest.fixture(autouse=True)
def _exactly() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False


def compiled(way: Way, backend: str, **options: Any) -> list[Tensor]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = way.inputs()
    for size in way.dynamic:
        for value in inputs[: 3 if "flex" in way.function.__qualname__ else 1]:
            torch._dynamo.maybe_mark_dynamic(value, size)
    settings = {
        "fx_graph_cache": False,
        "test_configs.force_filter_reduction_configs": True,
        "joint_graph_constant_folding": False,
        **way.config,
    }
    tuning = tuned_to(way.choice, way.backends) if way.choice else contextlib.nullcontext()
    with torch.no_grad(), torch._inductor.config.patch(settings), tuning:
        made = torch.compile(way.function, backend=backend, options=options, fullgraph=True)(
            *inputs
        )
    return list(made) if isinstance(made, (tuple, list)) else [made]


@functools.cache
def expected(name: str) -> list[Tensor]:
    """What stock gives, and where it fails, its error."""
    return compiled(WAYS[name], "inductor")


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("name", WAYS)
def test_the_same_as_stock(name: str, emitter: str) -> None:
    if WAYS[name].hopper and BEFORE_HOPPER:
        pytest.skip("this GPU has no descriptors of tensors")
    if (name, emitter) in REJECTED:
        with pytest.raises(BackendCompilerFailed, match=REJECTED[name, emitter]):
            compiled(WAYS[name], "wrapper_ir", emitter=emitter)
        return
    wanted = expected(name)
    with wir.record() as programs:
        found = compiled(WAYS[name], "wrapper_ir", emitter=emitter)
    assert re.search(WAYS[name].sign, "\n".join(map(str, programs)))
    assert len(found) == len(wanted)
    assert all(map(same, found, wanted))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("name", ["with_registers", "with_epilogue", "with_warps_of_its_own"])
def test_kernels_of_users(name: str, emitter: str) -> None:
    kernels = pytest.importorskip("tests.gpu.user_kernels")
    way = Way(
        getattr(kernels, name),
        some((64, 64), (64, 64), dtype=torch.float32),
        {"with_registers": "maxnreg: 64"}.get(name, "call @"),
        {"epilogue_fusion_user_defined_triton_kernel": True},
    )
    wanted = compiled(way, "inductor")
    with wir.record() as programs:
        found = compiled(way, "wrapper_ir", emitter=emitter)
    assert re.search(way.sign, "\n".join(map(str, programs)))
    assert all(map(same, found, wanted))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_a_way_that_tuning_took_for_a_users_op(emitter: str) -> None:
    tuning = pytest.importorskip("torch._inductor.kernel.custom_op")
    name = f"wir_gpu_tests::product_for_{emitter}"

    @torch.library.custom_op(name, mutates_args=())
    def product(x: Tensor, w: Tensor) -> Tensor:
        return x @ w

    @product.register_fake
    def _(x: Tensor, w: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], w.shape[1])

    def in_parts(x: Tensor, w: Tensor, parts: int = 2) -> Tensor:
        size = x.shape[1] // parts
        rows = x.view(x.shape[0], parts, size).transpose(0, 1)
        return torch.bmm(rows, w.view(parts, size, w.shape[1])).sum(0)

    tuning.register_custom_op_autotuning(
        product, configs=[tuning.CustomOpConfig(in_parts, parts=4)], include_fallback=False
    )
    way = Way(
        lambda x, w: product(x, w).relu(),
        some((64, 512), (512, 64), dtype=torch.float32),
        r"aten::bmm",
    )
    wanted = compiled(way, "inductor")
    with wir.record() as programs:
        found = compiled(way, "wrapper_ir", emitter=emitter)
    assert re.search(way.sign, "\n".join(map(str, programs)))
    assert all(map(same, found, wanted))


# What has no typed form is rejected by name, and stock stands in where that is asked for.

REFUSED: dict[str, tuple[Way, str]] = {
    "dependent_launches": (
        Way(lambda x: (x + 1).sum(-1), _real((256, 512)), "", {"triton.enable_pdl": True}),
        r"Triton kernel .* launched with launch_pdl=True",
    ),
    "descriptors_of_the_host": (
        Way(
            lambda x, y: x.t() + y,
            _real((512, 1024), (1024, 512)),
            "",
            {
                "triton.use_tensor_descriptor": True,
                "triton.enable_host_side_tma": True,
                "assume_aligned_inputs": True,
            },
        ),
        r"tensor descriptor .* made on the host",
    ),
}
if importlib.util.find_spec("triton"):
    from tests.gpu import user_kernels

    REFUSED["dependent_launches_of_users"] = (
        Way(user_kernels.with_a_dependent_launch, _real(*[(64, 64)] * 2), ""),
        r"Triton kernel .* launched with launch_pdl=True",
    )
if importlib.util.find_spec("cutlass") and importlib.util.find_spec("cutlass.operators"):
    REFUSED["nvgemm"] = (
        Way(lambda x, w: x @ w, MATRICES, "", choice="nv_universal", backends="NVGEMM"),
        r"kernel in CuTe DSL, by NVGEMM",
    )
if importlib.util.find_spec("cutlass_library"):
    REFUSED["cutlass"] = (
        Way(lambda x, w: x @ w, MATRICES, "", choice="cutlass", backends="CUTLASS"),
        r"kernel in CUTLASS",
    )
if importlib.util.find_spec("flash_attn"):
    REFUSED["flash_attention"] = (
        Way(_attention(BACKEND="FLASH"), _real(*[(1, 2, 256, 64)] * 3, dtype=HALF), ""),
        r"kernel in CuTe DSL",
    )


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_rejected_by_name_and_stock_stands_in(name: str) -> None:
    way, told = REFUSED[name]
    if BEFORE_HOPPER:
        pytest.skip("this GPU has neither")
    with pytest.raises(BackendCompilerFailed, match=told):
        compiled(way, "wrapper_ir")
    wanted = compiled(way, "inductor")
    with pytest.warns(StockFallbackWarning, match=told):
        found = compiled(way, "wrapper_ir", on_unsupported="stock")
    assert all(map(same, found, wanted))


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_kernels_in_helion_are_kernels_of_users(emitter: str) -> None:
    added = pytest.importorskip("tests.gpu.helion_kernels").added
    way = Way(lambda x, y: added(x, y).relu(), some((64, 64), (64, 64)), "call @_helion_added")
    with wir.record() as programs:
        (found,) = compiled(way, "wrapper_ir", emitter=emitter)
    assert re.search(way.sign, "\n".join(map(str, programs)))
    torch.manual_seed(0)
    x, y = way.inputs()
    assert same(found, (x + y).relu())
