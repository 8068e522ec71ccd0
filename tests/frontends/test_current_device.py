"""What torch compiles for other ranks names no number of this rank's GPU, nor do its keys."""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._inductor.codecache import FxGraphCachePickler
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.compiler import config as compiler_config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import wrapper_ir as wir
from tests.frontends.no_gpu import pretended_gpu
from wrapper_ir.backend import wrapper_ir as our_backend
from wrapper_ir.frontends.common.origins import origin_of
from wrapper_ir.frontends.inductor import one_rank

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = [
    pytest.mark.skipif(
        not hasattr(compiler_config, "compile_on_one_rank"), reason="torch 2.15 brings the setting"
    ),
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="there is no Triton"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
    pytest.mark.filterwarnings("ignore:CUDA libdevice not found"),
]


def step(x: Tensor, y: Tensor) -> Tensor:
    product = functional.softmax(x @ y, -1)
    return product + torch.arange(8, device=x.device)


def compiled_on(number: int, *, for_others: bool = True) -> wir.Program:
    with (
        compiler_config.patch(compile_on_one_rank=for_others),  # type: ignore[attr-defined]  # of 2.15
        FakeTensorMode() as mode,
        pretended_gpu(number),
        wir.record() as programs,
    ):
        given = [torch.empty(8, 8, device=f"cuda:{number}") for _ in range(2)]
        with mode:
            our_backend(make_fx(step)(*given), given, options={})
    (program,) = programs
    return wir.verify(program)


def test_ranks_have_one_program() -> None:
    first, second = compiled_on(0), compiled_on(1)
    assert str(first) == str(second)
    assert "cuda:" not in str(first)
    assert "@cuda\n" in str(first)
    for emitter in ("python", "cpp", "fx"):
        sources = {wir.emit(each, emitter).source for each in (first, second)}
        assert len(sources) == 1


def test_the_number_stays_if_nobody_else_takes_the_program() -> None:
    assert "@cuda:1" in str(compiled_on(1, for_others=False))


@pytest.mark.parametrize(("for_others", "shown"), [(True, "cuda'"), (False, "cuda', index=1")])
def test_what_is_said_of_a_line_names_no_number_either(*, for_others: bool, shown: str) -> None:
    node = torch.fx.Graph().call_function(
        torch.ops.aten.scalar_tensor.default, (0,), {"device": torch.device("cuda:1")}
    )
    with compiler_config.patch(compile_on_one_rank=for_others):  # type: ignore[attr-defined]  # of 2.15
        (said,) = origin_of([node]).calls
    assert f"device=device(type='{shown})" in said


def key(value: Any, number: int, *, for_others: bool = True) -> bytes:
    class Pickler(FxGraphCachePickler):
        __init__ = one_rank._with_current_device(lambda: True, FxGraphCachePickler.__init__)

    setting = partial(compiler_config.patch, compile_on_one_rank=for_others)  # type: ignore[attr-defined]  # of 2.15
    with setting(), pretended_gpu(number):
        return bytes(Pickler(torch.fx.GraphModule({}, torch.fx.Graph())).dumps(value))


def test_keys_hold_no_number_of_the_current_device() -> None:
    with FakeTensorMode():
        tensors = [torch.empty(4, device=f"cuda:{number}") for number in range(2)]
    for values in (tensors, [tensor.device for tensor in tensors]):
        assert key(values[0], 0) == key(values[1], 1)
        assert key(values[0], 0) != key(values[1], 0)
        assert key(values[0], 0, for_others=False) != key(values[1], 1, for_others=False)
