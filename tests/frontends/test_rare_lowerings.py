"""What Inductor makes on machines that are not here; a test's own op has it made."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._inductor import lowering

import wrapper_ir as wir
from tests.frontends.no_gpu import body, program_of
from tests.frontends.test_control_flow import same
from tests.release import TORCH
from wrapper_ir.frontends.inductor.compat import inductor_config, ir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HALF = torch.bfloat16
EIGHT_BITS = torch.float8_e4m3fn


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("wrapper_ir_tests", "DEF") as made:
        yield made


@pytest.fixture
def product(
    library: torch.library.Library, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[..., Any]], list[str]]:
    """Gives the lines of a product of matrices of 8 bits, by what its lowering binds."""
    library.define("scaled(Tensor x, Tensor w, Tensor a, Tensor b, Tensor c) -> Tensor")
    op: Any = torch.ops.wrapper_ir_tests.scaled.default
    torch.library.register_fake(
        op, lambda x, w, *_: x.new_empty((x.shape[0], w.shape[1]), dtype=HALF), lib=library
    )

    def lines(bind: Callable[..., Any]) -> list[str]:
        def lower(*args: Any) -> Any:
            x, w, *scales = importlib.import_module("torch._inductor.kernel.mm").realize_inputs(
                *args
            )
            size = [x.get_size()[0], w.get_size()[1]]
            layout = ir.FixedLayout(x.get_device(), HALF, size, [size[1], 1])
            return bind([x, w, *scales], layout).output_node()

        def inputs() -> list[Tensor]:
            sizes: list[tuple[int, ...]] = [(64, 128), (32, 128)]
            made = [torch.empty(size, device="cuda:0", dtype=EIGHT_BITS) for size in sizes]
            return [*made, *(torch.empty((), device="cuda:0") for _ in range(3))]

        monkeypatch.setitem(lowering.lowerings, op, lower)
        return body(program_of(lambda x, w, *scales: op(x, w.t(), *scales), inputs=inputs))

    return lines


@pytest.mark.skipif(TORCH < (2, 15), reason="2.15 brought these")
@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all")
class TestProductsOfEightBits:
    """Stock offers them where NVGEMM or ROCm has products of its own to compare with."""

    def test_the_scale_of_a_result_is_multiplied_in_place(self, product: Any) -> None:
        mm: Any = importlib.import_module("torch._inductor.kernel.mm")
        *_, scaled, multiplied = product(
            lambda nodes, layout: mm.aten__scaled_mm_with_output_scale.bind(
                nodes, layout, out_dtype=HALF, use_fast_accum=False
            )
        )
        assert scaled.startswith("aten::_scaled_mm.out(%arg1_1, %arg0_1_view, %arg2_1, %arg3_1, ")
        assert scaled.endswith(", out=out %buf0)")
        assert multiplied == "aten::mul.out(%buf0, %arg4_1, out=out %buf0)"

    def test_scales_are_passed_in_lists(self, product: Any) -> None:
        mm: Any = importlib.import_module("torch._inductor.kernel.mm")
        *_, call = product(
            lambda nodes, layout: mm.aten__fp8_mm_v2.bind(
                nodes[:4], layout, recipe_a=0, recipe_b=1, out_dtype=HALF, use_fast_accum=False
            )
        )
        assert "aten::_scaled_mm_v2(" in call
        assert ", [%arg2_1], [0], [0], [%arg3_1], [1], [0], none, bf16, [], false)" in call


def test_memory_that_peers_address_is_captured(
    library: torch.library.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.define("shared(Tensor x) -> Tensor")
    op: Any = torch.ops.wrapper_ir_tests.shared.default
    torch.library.register_fake(op, torch.empty_like, lib=library)
    comms: Any = importlib.import_module("torch._inductor.comm_lowering")

    def lower(x: Any) -> Any:
        comms.realize_as_comm_buffer(x, ir.CommBufferType.SYMM_MEM, "0")
        return x

    monkeypatch.setitem(lowering.lowerings, op, lower)
    if TORCH < (2, 12):
        with pytest.raises(wir.WrapperIRError, match=r"WIR3001.*peers address it"):
            wir.capture(lambda x: op(x.sin()) @ x, (torch.ones(8, 8),))
        return
    program = wir.capture(lambda x: op(x.sin()) @ x, (torch.ones(8, 8),))
    assert " = allocate symmetric : f32[8, 8] @cpu" in str(program)


def test_inductors_debug_printer_leaves_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Its text stands in lines that are not printed; the option ``debug`` shows values."""
    run = torch.compile(lambda x: (x.sin() @ x).cos(), backend="wrapper_ir")
    with inductor_config.patch({"aot_inductor.debug_intermediate_value_printer": "2"}):
        torch._dynamo.reset()
        x = torch.linspace(-1, 1, 16).view(4, 4)
        torch.testing.assert_close(run(x), (x.sin() @ x).cos())
    assert capfd.readouterr().out == ""


@pytest.mark.models
@pytest.mark.skipif(not hasattr(inductor_config, "auto_chunker"), reason="2.12 brought it")
def test_a_loss_in_chunks_has_the_bits_of_stock() -> None:
    """Inductor cuts what a large product is used for; the loop is written out in the graph."""
    weight = torch.randn(8192, 16, requires_grad=True)
    x, labels = torch.randn(256, 16, requires_grad=True), torch.randint(0, 8192, (256,))

    def run(backend: str) -> list[Tensor]:
        torch._dynamo.reset()
        x.grad = weight.grad = None
        loss = torch.compile(
            lambda x, y: torch.nn.functional.cross_entropy(x @ weight.t(), y), backend=backend
        )(x, labels)
        loss.backward()
        assert x.grad is not None
        assert weight.grad is not None
        return [loss.detach(), x.grad, weight.grad]

    with inductor_config.patch({"auto_chunker.enable": True}):
        with wir.record() as programs:
            ours = run("wrapper_ir")
        assert same(ours, run("inductor"))
    kernels = str(programs[0]).count("\n  aten::mm.out(")
    assert kernels > 4  # each chunk has its own products
