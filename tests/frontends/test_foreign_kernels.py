"""Kernels in other languages, and launches that programs do not have, are refused by name.

Nothing of those languages is installed: Inductor writes such kernels without them.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._inductor import lowering, select_algorithm

import wrapper_ir as wir
from tests.frontends import no_gpu
from tests.frontends.no_gpu import body, compiled_for_gpu, tuned_to
from tests.release import TORCH
from wrapper_ir.frontends.inductor import UnsupportedLineError
from wrapper_ir.frontends.inductor.compat import inductor_config, ir
from wrapper_ir.frontends.inductor.convert.cpp_and_triton import convert_kernel_call
from wrapper_ir.frontends.inductor.devices import noting
from wrapper_ir.frontends.inductor.notes import ForeignNote, NotingForeign
from wrapper_ir.frontends.inductor.triton import NotingTriton

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="there is no Triton"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.filterwarnings("ignore:config.triton.enable_host_side_tma"),
]
since_2_15 = pytest.mark.skipif(TORCH < (2, 15), reason="2.15 brought it")

HALF = torch.bfloat16
NOT_FOLDED = {"joint_graph_constant_folding": False}  # to fold is to run on the GPU


def matrices(*size: int, dtype: torch.dtype = torch.float32) -> Callable[[], list[Tensor]]:
    return lambda: [torch.empty(size, device="cuda:0", dtype=dtype) for _ in range(2)]


@pytest.fixture
def lowered_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., Any]], Any]]:
    """Gives an op of two matrices for what its lowering makes."""
    with torch.library._scoped_library("wrapper_ir_tests", "DEF") as library:
        library.define("joined(Tensor x, Tensor y) -> Tensor")
        op: Any = torch.ops.wrapper_ir_tests.joined.default
        torch.library.register_fake(op, lambda x, y: torch.empty_like(x), lib=library)

        def lower_with(make: Callable[..., Any]) -> Any:
            def lower(*args: Any) -> Any:
                realized = [ir.ExternKernel.realize_input(arg) for arg in args]
                size = realized[0].get_size()
                layout = ir.FixedLayout(torch.device("cuda:0"), torch.float32, size)
                return make(ir.InputsKernel.unwrap_storage(realized), layout)

            monkeypatch.setitem(lowering.lowerings, op, lower)
            return op

        yield lower_with


def test_a_kernel_in_cute_dsl(lowered_by: Callable[..., Any]) -> None:
    cutedsl = pytest.importorskip("torch._inductor.codegen.cutedsl")
    source = "{{gen_defines()}}\n{{def_kernel('x', 'y')}}\n    return {{get_output()}}\n"
    template = cutedsl.CuteDSLTemplate("joined", source)
    op = lowered_by(
        lambda nodes, layout: template.generate(input_nodes=nodes, layout=layout).output_node()
    )
    with pytest.raises(UnsupportedLineError, match=r"WIR3001.*kernel in CuTe DSL.*: cutedsl_fused"):
        compiled_for_gpu(lambda x, y: op(x.sin(), y), inputs=matrices(64, 64))


@pytest.mark.skipif(
    not hasattr(select_algorithm, "ExternalTritonTemplateKernel"), reason="it came later"
)
def test_a_kernel_of_an_external_template(lowered_by: Callable[..., Any]) -> None:
    """As Helion has them where torch.compile fuses into them: a function of Python launches."""

    class ExternalBuffer(ir.TemplateBuffer):
        def __init__(self, nodes: Any, layout: Any) -> None:
            def make_kernel_render(out: Any, hint_override: Any = None) -> Any:
                kernel: Any = select_algorithm.ExternalTritonTemplateKernel(out)

                def render() -> Any:
                    kernel._setup_fusion_hooks()
                    return select_algorithm.PartialRender("", kernel.render_hooks)

                return kernel, render

            named = dict(zip(("x", "y"), nodes, strict=True))
            super().__init__(layout, nodes, make_kernel_render, named_inputs=named)

        def should_allocate(self) -> bool:
            return False

        def _finalize_codegen(self, hook_outputs: Any) -> Any:
            function = "def KERNEL_NAME(x, y):\n    return x + y\n"
            args = [node.get_name() for node in self._named_inputs.values()]
            return ir.FinalizeCodegenResult(function, [], [], args)

    op = lowered_by(lambda nodes, layout: ir.TensorBox.create(ExternalBuffer(nodes, layout)))
    with pytest.raises(
        UnsupportedLineError,
        match=r"WIR3001.*external template.*: ExternalBuffer buf\d.*\n.*Helion",
    ):
        compiled_for_gpu(lambda x, y: op(x.sin(), y.cos()), inputs=matrices(64, 64))


def test_every_language_of_gpus_is_known_by_name() -> None:
    combined: Any = importlib.import_module("torch._inductor.codegen.cuda_combined_scheduling")
    scheduling = noting(combined.CUDACombinedScheduling(None), None)
    parts = [part for name, part in vars(scheduling).items() if name.endswith("_scheduling")]
    assert isinstance(scheduling._triton_scheduling, NotingTriton)
    foreign = [part for part in parts if not isinstance(part, NotingTriton)]
    assert len(foreign) >= 3
    assert all(isinstance(part, NotingForeign) for part in foreign)
    for part in foreign:
        assert not part.language.endswith("Scheduling")  # a new one has no name for people yet
        with pytest.raises(UnsupportedLineError) as caught:
            convert_kernel_call(None, None, ForeignNote("a_kernel", part.language))
        assert f"kernel in {part.language}" in str(caught.value)
        assert "max_autotune_gemm_backends" in str(caught.value)


@since_2_15
@pytest.mark.parametrize("name", ["halide", "pallas"])
def test_backends_for_all_kernels_are_known_by_name(name: str) -> None:
    module: Any = importlib.import_module(f"torch._inductor.codegen.{name}")
    scheduling = noting(getattr(module, f"{name.title()}Scheduling")(None), None)
    assert isinstance(scheduling, NotingForeign)
    assert scheduling.language == name.title()


# Triton kernels that are launched in ways that programs do not have.


def test_dependent_launches() -> None:
    with (
        inductor_config.patch({"triton.enable_pdl": True}),
        pytest.raises(UnsupportedLineError, match=r"Triton kernel.* launched with launch_pdl=True"),
    ):
        compiled_for_gpu(lambda x, y: x + y, inputs=matrices(64, 64))


@since_2_15
def test_dependent_launches_of_users() -> None:
    from tests.gpu.user_kernels import with_a_dependent_launch

    with (
        inductor_config.patch(NOT_FOLDED),
        pytest.raises(UnsupportedLineError, match=r"Triton kernel.* launched with launch_pdl=True"),
    ):
        compiled_for_gpu(with_a_dependent_launch, inputs=matrices(64, 64))


@since_2_15
def test_a_limit_of_registers_is_an_option_of_the_kernel() -> None:
    from tests.gpu.user_kernels import with_registers

    with inductor_config.patch(NOT_FOLDED):
        (program,) = compiled_for_gpu(with_registers, inputs=matrices(64, 64))
    assert "maxnreg: 64" in str(program)
    assert '"maxnreg": 64' in wir.emit(program).source
    wir.emit(program, "cpp")


@since_2_15
def test_descriptors_made_on_the_host() -> None:
    settings = {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True}
    with inductor_config.patch(settings):
        (program,) = compiled_for_gpu(lambda x, y: x.t() + y, inputs=matrices(512, 512))
        assert "tl.make_tensor_descriptor" in str(program)
        with (
            inductor_config.patch({"triton.enable_host_side_tma": True}),
            pytest.raises(UnsupportedLineError, match=r"tensor descriptor.* made on the host"),
        ):
            compiled_for_gpu(lambda x, y: x.t() + y, inputs=matrices(512, 512))


@pytest.fixture
def blackwell(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    env: Any = importlib.import_module("torch._inductor.codegen.cuda.cuda_env")
    monkeypatch.setattr(no_gpu.PROPERTIES, "major", 10)
    caches = (env.get_cuda_arch, env.is_datacenter_blackwell_arch)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@since_2_15
def test_templates_of_blackwell_give_warps_work_of_their_own(blackwell: None) -> None:
    inputs = matrices(1024, 1024, dtype=HALF)
    with inductor_config.patch(TMA), tuned_to("blackwell"):
        (program,) = compiled_for_gpu(lambda x, y: (x @ y).relu(), inputs=inputs)
        assert "warp_specialize=WARP_SPECIALIZE" in str(program)
        *_, call = body(program)
        assert call.startswith("call @triton_tem_fused_mm_relu")
        for emitter in ("python", "cpp", "fx"):
            wir.emit(wir.plan_memory(program), emitter)
        with (
            inductor_config.patch({"triton.enable_host_side_tma": True}),
            pytest.raises(UnsupportedLineError, match=r"tensor descriptor.* made on the host"),
        ):
            compiled_for_gpu(lambda x, y: (x @ y).relu(), inputs=inputs)


TMA = {"triton.enable_persistent_tma_matmul": True}


# Waiting for each kernel.


def test_kernels_that_are_waited_for() -> None:
    with inductor_config.patch({"triton.debug_sync_kernel": True}):
        (program,) = compiled_for_gpu(lambda x, y: (x @ y).sin() + 1, inputs=matrices(64, 64))
    lines = body(program)
    assert [line.split("(")[0] for line in lines if "synchronize" in line] == ["synchronize"] * 2
    assert lines[-1] == "synchronize"
    planned = wir.plan_memory(program)
    assert wir.parse(str(planned)) == planned
    assert wir.emit(planned).source.count("torch.cuda.synchronize(") == 2
    assert wir.emit(planned, "cpp").source.count("call.queues->synchronize();") == 2
    with pytest.raises(wir.WrapperIRError, match="it puts streams in order"):
        wir.emit(planned, "fx")
