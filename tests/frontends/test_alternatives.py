"""Kernels of which Inductor's wrapper would choose one when it is called: a program holds that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._inductor import ir
from torch._inductor.utils import fresh_cache
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.frontends.no_gpu import body, program_of
from wrapper_ir.frontends.inductor import triton_tuning
from wrapper_ir.frontends.inductor.compat import inductor_config

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all"),
]


@pytest.fixture(autouse=True)
def empty_caches() -> Iterator[None]:
    """No answer of an earlier test is found."""
    with fresh_cache():
        yield


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def kernel_of(choice: int) -> str:
    """The line of the only kernel's call; choices are as Inductor counts them in its setting."""
    with inductor_config.patch({"triton.multi_kernel": choice}):
        *_, call = body(program_of(softmax, (512, 4096)))
    return call


def test_a_setting_chooses() -> None:
    assert kernel_of(2).startswith("call @triton_red_fused_")  # a loop over each row
    assert kernel_of(3).startswith("call @triton_per_fused_")  # a row at once


@pytest.mark.parametrize(("milliseconds", "kind"), [((2.0, 1.0), "per"), ((1.0, 2.0), "red")])
def test_times_choose_and_are_taken_once(
    monkeypatch: pytest.MonkeyPatch, milliseconds: tuple[float, ...], kind: str
) -> None:
    asked: list[Any] = []

    def times(call: Any, device: torch.device, examples: Any) -> list[float]:
        with FakeTensorMode():
            *tensors, rows, columns = examples()
        asked.append((device, [each.numel() for each in tensors], rows, columns))
        assert len(call.kernels) == 2
        return list(milliseconds)

    monkeypatch.setattr(triton_tuning, "times", times)
    for _ in range(2):  # then Inductor's cache knows the answer
        assert kernel_of(1).startswith(f"call @triton_{kind}_fused_")
    assert asked == [(torch.device("cuda:0"), [512 * 4096] * 2, 512, 4096)]


def test_what_only_one_kernel_would_keep_is_kept_by_both() -> None:
    """A loop over rows reads again what it has written, so it is not only in registers."""

    def norm(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = x * y + 1
        return (z - z.mean(-1, keepdim=True)) * z.var(-1, keepdim=True).rsqrt(), z.amax(-1)

    found = []
    for choice in (2, 3):
        with inductor_config.patch({"triton.multi_kernel": choice}):
            lines = body(program_of(norm, (512, 4096), (512, 4096)))
        found.append([line.replace("triton_red", "triton_per") for line in lines])
    assert [line for line in found[0] if "call" not in line] == [
        line for line in found[1] if "call" not in line
    ]


def test_kernels_that_wait_for_each_other_get_their_workspace() -> None:
    """Of four kernels, two split a row among blocks, whose parts lie in a workspace."""
    settings = {"triton.force_cooperative_reductions": True, "triton.multi_kernel": 2}
    with inductor_config.patch(settings):
        lines = body(program_of(softmax, (4, 4096)))
    assert any(" = allocate zeroed : u32[" in line for line in lines)
    assert any(" = allocate : u8[" in line for line in lines)


@pytest.mark.parametrize(("rows", "block"), [(64, 64), (5000, 32)])
def test_sizes_choose_among_templates(
    monkeypatch: pytest.MonkeyPatch, rows: int, block: int
) -> None:
    """With sizes that are hinted at, Inductor tunes a product for each; here one is made to win."""

    def timings(node: Any, hint_override: int | None = None) -> dict[Any, float]:
        block = 64 if hint_override == 64 else 32
        wanted = f"BLOCK_M={block}, BLOCK_N={block}"
        templates = [c for c in node.choices if isinstance(c, ir.TritonTemplateCallerBase)]
        return {each: float(wanted not in each.description) for each in templates}

    monkeypatch.setattr(ir.MultiTemplateBuffer, "choice_timings", timings)
    settings = {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "multi_kernel_hints": [64, 4096],
    }
    anything = torch._dynamo.config.patch(assume_static_by_default=False)
    with anything, inductor_config.patch(settings):
        *_, call = body(program_of(torch.mm, (rows, rows), (rows, rows)))
    assert f" + {block - 1}) // {block})" in call
