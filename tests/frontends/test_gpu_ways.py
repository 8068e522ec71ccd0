"""Ways that Inductor takes on a GPU, each lowered to a program on a machine without one."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._guards import TracingContext, tracing
from torch._higher_order_ops.flex_attention import flex_attention_backward
from torch._inductor.compile_fx import compile_fx_inner
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.nn.attention.flex_attention import _create_empty_block_mask, flex_attention

import wrapper_ir as wir
from tests.frontends.no_gpu import (
    body,
    compiled_for_gpu,
    pretended_gpu,
    program_of,
    tuned_to,
)
from tests.gpu.test_schedules import REJECTED, quantised
from tests.gpu.test_schedules import WAYS as NEWER
from tests.release import TORCH
from wrapper_ir.analysis.cuda_graphs import why_not_captured
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor import install
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.lines import ExternKernel

if TYPE_CHECKING:

    from wrapper_ir.lines import Program

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="there is no Triton"),
    # Triton asks of its next release how products are to be rounded.
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.filterwarnings("ignore:CUDA libdevice not found"),
]

HALF = torch.bfloat16


def t(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(size, device="cuda:0", dtype=dtype)


def some(*sizes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], list[Tensor]]:
    return lambda: [t(*size, dtype=dtype) for size in sizes]


@dataclass(frozen=True)
class Way:
    """A function, what it is given, and a pattern that the program has only if it went this way.

    Attributes:
        function: What is compiled.
        inputs: Makes what it is given.
        sign: The pattern.
        config: Settings of Inductor's.
        choice: What tuning takes, by name.
        traced: Whether Dynamo traces the function.
    """

    function: Callable[..., Any]
    inputs: Callable[[], list[Tensor]]
    sign: str
    config: Mapping[str, Any] = field(default_factory=dict)
    choice: str = ""
    traced: bool = True


def _adam(*tensors: Tensor) -> None:
    """A step of Adam for six parameters of three sizes, with foreach ops as its optimiser has."""
    parameters, gradients, means, squares = (list(tensors[i::4]) for i in range(4))
    torch._foreach_mul_(means, 0.9)
    torch._foreach_add_(means, gradients, alpha=0.1)
    torch._foreach_mul_(squares, 0.99)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.01)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(parameters, means, roots, -1e-3)


def _counted(*tensors: Tensor) -> None:
    """A step of an optimiser that counts its steps on the GPU: what it writes is read as items."""
    parameters, gradients, steps = (list(tensors[i::3]) for i in range(3))
    torch._foreach_add_(steps, 1)
    scaled = torch._foreach_mul(gradients, torch._foreach_pow(0.9, steps))
    torch._foreach_sub_(parameters, scaled)


def _distance(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score - (i - j).abs() * 0.1


def _distance_backward(score: Tensor, b: Any, h: Any, i: Any, j: Any, gradient: Tensor) -> Any:
    return [gradient * 1, None, None, None, None]


def _flex_backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, gradient: Tensor
) -> Any:
    """What autograd runs; fake tensors of a GPU that is not there have no autograd."""
    mask = _create_empty_block_mask(q, k).as_tuple()
    given = (q, k, v, out, sums, gradient, torch.zeros_like(sums))
    graphs = (_distance, _distance_backward, mask, 0.125, {}, (), ())
    return flex_attention_backward(*given, *graphs)[:3]


def _scaled(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    made: Tensor = torch._scaled_mm(x, w.t(), scale_a=a, scale_b=b, out_dtype=HALF)
    return made


def _eight_bits() -> list[Tensor]:
    matrices = some((256, 512), (256, 512), dtype=torch.float8_e4m3fn)
    return [*matrices(), *some((), ())()]


HEADS = [(1, 2, 256, 64)] * 3
NOT_FOLDED = {"joint_graph_constant_folding": False}  # to fold is to run on the GPU
MATRICES = some((256, 512), (512, 256), dtype=HALF)

WAYS: dict[str, Way] = {
    "inplace_padding": Way(
        lambda x, y, z: functional.pad(x @ y, (0, 1)) @ z,
        some((2048, 2048), (2048, 2047), (2048, 64)),
        r"%buf2 = allocate : f32\[2048, 2048\]\n%buf0 = reinterpret %buf2 : f32\[2048, 2047\]",
        {"inplace_padding": True, "shape_padding": False},
    ),
    "foreach": Way(
        _adam, some(*[(64, 64)] * 8, *[(128,)] * 8, *[(32, 7)] * 8), "call @triton_for_fused"
    ),
    "foreach_counted": Way(
        _counted,
        some(*[(64, 64), (64, 64), ()] * 4),
        r"(?s)call @triton_for_fused_0\(.*call @triton_for_fused_1\(",
    ),
    "nested": Way(
        quantised,
        some((256, 1024), (1024,)),
        r"(?s)call @triton_per\w+\((?!.*call @)",
        {"triton.nested_reduction": True},
    ),
    "combo": Way(
        lambda x, w: (x.sin(), w.cos(), x[:7] + 1, w.amax(-1)),
        some((64, 64), (64, 32)),
        r"num_xblocks_1",
        {"combo_kernels": True},
    ),
    "cooperative": Way(
        lambda x: torch.softmax(x, -1),
        some((4, 1 << 16)),
        "triton_helpers.x_grid_barrier",
        {"triton.force_cooperative_reductions": True},
    ),
    "split": Way(lambda x: (x * 2).sum(), some((1 << 24,)), r"call @triton_red.*\n.*\n.*call @"),
    "scan": Way(lambda x: x.cumsum(-1), some((4, 1 << 16)), "call @triton_spl_fused_cumsum"),
    "64_bits": Way(lambda x: x + 1, some((1 << 16, 1 << 16), dtype=torch.int8), r"to\(tl.int64\)"),
    "block_pointers": Way(
        lambda x: (x + 1).sum(-1),
        some((512, 1024)),
        "tl.make_block_ptr",
        {"triton.use_block_ptr": True},
    ),
    "descriptors": Way(
        lambda x, y: x.t() + y,
        some((512, 1024), (1024, 512)),
        "tl.make_tensor_descriptor",
        {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
    ),
    "template": Way(
        lambda x, w: (x @ w).relu(), MATRICES, "call @triton_tem_fused_mm_relu", choice="triton_mm"
    ),
    "prologue": Way(
        lambda x, w: x.to(HALF) @ w,
        lambda: [t(256, 512, dtype=torch.int8), t(512, 256, dtype=HALF)],
        "call @triton_tem_fused__to_copy_mm",
        {"prologue_fusion": True},
        choice="triton_mm",
    ),
    "persistent_tma": Way(
        lambda x, w: (x @ w).relu(),
        MATRICES,
        r"(?s)language.make_tensor_descriptor.*tl.range\(start_pid.*call @triton_tem_fused_mm_relu",
        {"triton.enable_persistent_tma_matmul": True},
        choice="tma",
    ),
    "eight_bits": Way(_scaled, _eight_bits, "aten::_scaled_mm"),
    "eight_bits_template": Way(_scaled, _eight_bits, "call @triton_tem_fused__sc", choice="triton"),
    "grouped": Way(
        lambda x, w, ends: torch._grouped_mm(x, w, offs=ends),
        lambda: [*some((256, 512), (4, 512, 256), dtype=HALF)(), t(4, dtype=torch.int32)],
        "aten::_grouped_mm",
    ),
    "convolution": Way(
        lambda x, w: functional.conv2d(x, w, padding=1).relu(),
        some((8, 64, 32, 32), (64, 64, 3, 3)),
        "call @triton_tem_fused_convolution_relu",
        choice="convolution2d",
    ),
    "two_products": Way(
        lambda x, w, v: torch.relu(x @ w) @ v,
        some((256, 32), (32, 256), (256, 32), dtype=HALF),
        r"call @triton_tem_\w+\(%arg0_1, %arg1_1, %arg2_1, out %buf0\)",
        {"b2b_gemm_pass": True},
        choice="b2b",
    ),
    "flex_attention": Way(
        lambda q, k, v: flex_attention(q, k, v, score_mod=_distance),
        some(*HEADS, dtype=HALF),
        r"call @triton_tem_\w*flex_attention",
        NOT_FOLDED,
    ),
    "flex_decoding": Way(
        lambda q, k, v: flex_attention(q, k, v),
        some((1, 2, 1, 64), *[(1, 2, 4096, 64)] * 2, dtype=HALF),
        r"call @triton_tem_\w*flex_attention[^\n]*\n[^\n]*\n.*call @triton_(red|per)",
        NOT_FOLDED,
    ),
    "flex_backward": Way(
        _flex_backward,
        lambda: [*some(*HEADS, HEADS[0], dtype=HALF)(), t(1, 2, 256), t(*HEADS[0], dtype=HALF)],
        r"call @triton_tem_\w*flex_attention_backward",
        NOT_FOLDED,
        traced=False,
    ),
}


def lowered(way: Way) -> str:
    tuning = tuned_to(way.choice) if way.choice else contextlib.nullcontext()
    with tuning, inductor_config.patch(dict(way.config)):
        program = program_of(way.function, inputs=way.inputs, traced=way.traced)
    return "\n".join([str(program), *body(program)])


#: Those of ``tests/gpu`` that ask the driver, or start processes.
TAKE_A_GPU = {"native_float32", "tuned_beside"}


@pytest.mark.models
@pytest.mark.skipif(TORCH < (2, 15), reason="these are the ways of torch 2.15")
@pytest.mark.parametrize("name", sorted(NEWER.keys() - TAKE_A_GPU))
def test_newer_ways_are_lowered(name: str) -> None:
    way = NEWER[name]
    tuning = tuned_to(way.choice, way.backends) if way.choice else contextlib.nullcontext()
    with tuning, inductor_config.patch({**NOT_FOLDED, **way.config}):
        (program,) = compiled_for_gpu(way.function, inputs=way.inputs)
    assert re.search(way.sign, str(program))
    for emitter in ("python", "cpp", "fx"):
        if (name, emitter) not in REJECTED:
            wir.emit(wir.plan_memory(program), emitter)


#: Those that take seconds.
LONG = {"flex_attention", "flex_decoding", "convolution", "eight_bits_template", "inplace_padding"}


#: Those that some releases do not take.
MISSING = {
    "nested": (TORCH < (2, 15), "2.15 brought nested reductions"),
    "block_pointers": (TORCH >= (2, 15), "Triton 3.9 has no block pointers"),
    "inplace_padding": (TORCH < (2, 12), "2.11 leaves this product no room"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.models) if n in LONG else n for n in WAYS]
)
def test_it_is_lowered(name: str) -> None:
    is_missing, reason = MISSING.get(name, (False, ""))
    if is_missing:
        pytest.skip(reason)
    assert re.search(WAYS[name].sign, lowered(WAYS[name]))


@pytest.mark.parametrize(
    ("name", "calls"), [("users_kernel", 2), ("users_kernel_tuned", 2), ("users_kernel_options", 7)]
)
def test_kernels_of_users_are_lowered(name: str, calls: int) -> None:
    from tests.gpu.user_kernels import USERS

    with inductor_config.patch(NOT_FOLDED):
        lines = body(program_of(USERS[name], (64, 64), (64, 64)))
    assert sum(line.startswith("call @") for line in lines) == calls


@pytest.mark.models
def test_a_graph_that_inductor_would_cut_for_cuda_graphs_is_whole() -> None:
    """Stock looks for the parts in the module that is made, to put a CUDA graph around each."""

    def mixed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.sin() @ y).cpu().sin(), (x @ y).cos()

    with inductor_config.patch({"graph_partition": True, "triton.cudagraphs": True}):
        lines = body(program_of(mixed, (64, 64), (64, 64)))
    assert sum(line.startswith("call @") for line in lines) == 3
    assert sum(line.startswith("aten::copy_(") for line in lines) == 1


def test_what_kernels_read_and_write_is_checked_where_that_is_asked_for() -> None:
    with inductor_config.patch({"nan_asserts": True}):
        lines = body(program_of(lambda x: ((x + 1).log().sum(-1), x + 1), (256, 512)))
    (call,) = (index for index, line in enumerate(lines) if line.startswith("call @"))
    checked = [re.match(r"\S*::assert_finite\(%(\w+), \"'\1' after 'triton_", x) for x in lines]
    assert [found[1] for found in checked if found] == ["arg0_1", "buf0", "buf1"]
    assert all(checked[call + 1 : call + 4])


@pytest.mark.skipif(TORCH < (2, 13), reason="until 2.13 the choice is a function of Python's")
def test_two_products_that_are_not_fused_are_a_graph_that_tuning_chose() -> None:
    way = WAYS["two_products"]
    with tuned_to("^mm$|unoptimized", "ATEN"), inductor_config.patch(dict(way.config)):
        lines = body(program_of(way.function, inputs=way.inputs))
    assert sum(line.startswith("aten::mm.out(") for line in lines) == 2


def refused(function: Callable[..., Any], inputs: Callable[[], list[Tensor]], name: str) -> None:
    with pytest.raises(WrapperIRError, match=rf"WIR3001.* extern_kernels\.{name} "):
        compiled_for_gpu(function, inputs=inputs)


@pytest.mark.skipif(TORCH >= (2, 13), reason="since 2.13 the choice is a graph")
def test_two_products_that_are_not_fused_are_refused_by_name() -> None:
    way = WAYS["two_products"]
    with tuned_to("unoptimized", "ATEN"), inductor_config.patch(dict(way.config)):
        refused(way.function, way.inputs, "unoptimized_b2b_gemm")


@pytest.mark.skipif(TORCH < (2, 15), reason="2.15 brought the op")
def test_a_product_with_its_own_transpose_by_a_library_is_refused_by_name() -> None:
    op = torch.ops.inductor.quack_symmetric_mm if TORCH >= (2, 15) else None
    refused(lambda x: op(x), some((256, 512), dtype=HALF), "_quack_symmetric_mm")


@pytest.mark.skipif(TORCH != (2, 13), reason="2.13 alone tunes these on GPUs of NVIDIA")
def test_gradients_of_convolutions_that_stock_cannot_call_are_refused_by_name() -> None:
    """Stock names results that the op has not; so tuning takes it only where it is the only one."""

    def gradients(gradient: Tensor, x: Tensor, w: Tensor) -> Any:
        sizes = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
        return torch.ops.aten.convolution_backward(gradient, x, w, None, *sizes)

    inputs = some((8, 64, 32, 32), (8, 64, 32, 32), (64, 64, 3, 3))
    with tuned_to("call_aten", "ATEN,TRITON"):
        refused(gradients, inputs, "call_aten_d[wx]")


def random_calls(program: Program) -> list[str]:
    """Ops that draw, and those for the state of the generator, in order."""
    pattern = (
        r"(?:wrapper_ir_inductor|aten)::(\w*(?:random_state|bernoulli|dropout|attention|rand\b)\w*)"
    )
    return re.findall(pattern, "\n".join(body(program)))


def program_of_graph(
    module: torch.fx.GraphModule, given: Sequence[Any], mode: FakeTensorMode
) -> Program:
    """The program of a graph as a partitioner leaves it, which every emitter renders."""
    with pretended_gpu(), mode, tracing(TracingContext(mode)), wir.record() as programs, install():
        compile_fx_inner(module, given)
    (program,) = programs
    assert wir.parse(str(wir.verify(program))) == program
    planned = wir.plan_memory(program)
    for emitter in ("python", "cpp", "fx"):
        wir.emit(planned, emitter)
    return program


#: Random ops by name: with one result, two, some that are no tensors, and without a tensor to read.
RANDOM: dict[str, Callable[[Tensor], tuple[Any, ...]]] = {
    "bernoulli": lambda x: (torch.ops.aten.bernoulli.p, x, 0.5),
    "native_dropout": lambda x: (torch.ops.aten.native_dropout.default, x, 0.5, True),
    "_scaled_dot_product_flash_attention": lambda x: (
        *(torch.ops.aten._scaled_dot_product_flash_attention.default, x, x, x, 0.3),
    ),
    "rand": lambda x: (torch.ops.aten.rand.default, x.shape),
}


@pytest.mark.parametrize("name", RANDOM)
def test_checkpointed_random_ops_save_the_state_and_set_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda *_: torch.zeros(16, dtype=torch.uint8))
    hops = torch.ops.higher_order
    named = {"device": torch.device("cuda", 0)} if name == "rand" else {}

    def twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        saved, first = hops.run_and_save_rng_state(*RANDOM[name](x.sin()), **named)
        second = hops.run_with_rng_state(saved, *RANDOM[name](x.sin()), **named)
        if isinstance(first, tuple):
            first, second = first[0], second[0]
        return saved, first.cos() * x, second

    with FakeTensorMode() as mode:
        given = [t(2, 4, 16, 16).bfloat16()]
        module = make_fx(twice)(*given)
    program = program_of_graph(module, given, mode)
    assert random_calls(program) == [
        *("random_state_of", name, "random_state_of", "set_random_state_of"),
        *(name, "set_random_state_of"),
    ]
    # The state lies on the host; what draws runs on the GPU all the same.
    calls = [line for line in program.body if isinstance(line, ExternKernel)]
    drawing = [str(line.device) for line in calls if line.op.startswith(f"aten::{name}")]
    assert drawing == ["cuda:0", "cuda:0"]


class Generator(torch.Generator):
    """A generator of the first GPU, for a machine without one."""

    device = torch.device("cuda", 0)


def test_checkpointed_random_ops_draw_from_a_generator_that_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "default_generators", (Generator(),))
    name = "_accelerator_getDefaultGenerator"  # since 2.13
    monkeypatch.setattr(torch._C, name, lambda _: Generator(), raising=False)
    graph = torch.fx.Graph()
    x, generator = (graph.placeholder(each) for each in ("x", "fwd_rng_state_0"))
    hop, op = torch.ops.higher_order.graphsafe_run_with_rng_state, torch.ops.aten.bernoulli.p
    y = graph.call_function(hop, (op, x, 0.5), {"rng_state": generator})
    graph.output((graph.call_function(torch.ops.aten.cos.default, (y,)),))
    with FakeTensorMode() as mode:
        given = [t(8, 8), Generator()]
    for node, value in zip(graph.nodes, (*given, given[0], given[0]), strict=False):
        node.meta["val"] = value
    module = torch.fx.GraphModule({}, graph)
    program = program_of_graph(module, given, mode)
    assert str(program.inputs[1]).count("torch::Generator") == 1
    assert random_calls(program) == ["exchange_random_state", "bernoulli", "exchange_random_state"]
    assert "generator that the program is given" in " ".join(why_not_captured(program))
