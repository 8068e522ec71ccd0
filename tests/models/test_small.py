"""Tiny graphs of every kind, through stock Inductor and through every emitter: bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch._inductor import config as inductor_config

import wrapper_ir as wir
from tests.models import harness
from tests.models.harness import OURS, STOCK
from tests.models.small import KERNEL_FREE, WITH_KERNELS, Small
from wrapper_ir.frontends.inductor.session import statistics
from wrapper_ir.text.files import save

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    # Of complex numbers, and of quantised tensors.
    pytest.mark.filterwarnings("ignore:Torchinductor does not support code gen:UserWarning"),
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning"),
    # Dynamo looks at the gradients of what goes from one graph to the next.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


@pytest.mark.parametrize("small", KERNEL_FREE, ids=str)
def test_library_calls(small: Small) -> None:
    check(small, "python", "fx")


@pytest.mark.models
@pytest.mark.parametrize("small", KERNEL_FREE, ids=str)
def test_library_calls_in_cpp(small: Small) -> None:
    check(small, "cpp")


@pytest.mark.models
@pytest.mark.parametrize("small", WITH_KERNELS, ids=str)
def test_kernels(small: Small) -> None:
    check(small, "python", "fx", "cpp")


def check(small: Small, *emitters: str) -> None:
    """Hold every emitter against stock, and count that nothing went past it."""
    with inductor_config.patch(dict(small.config)):
        stock = harness.run(small.case, STOCK, training=small.training)
        for emitter in emitters:
            statistics.reset()
            ours = harness.run(small.case, OURS, training=small.training, emitter=emitter)
            assert harness.differences(ours, stock) == []
            assert ours.watch.lowered == len(ours.programs) == statistics.programs >= 1
            for program in ours.programs:
                assert wir.parse(str(program)) == program


@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="oneDNN packs no bfloat16 weights for this processor",
)
@torch.no_grad()
def test_packed_weights_do_not_go_into_files(tmp_path: Path) -> None:
    (small,) = (each for each in KERNEL_FREE if each.name == "packed_linear")
    torch._dynamo.reset()
    with inductor_config.patch(dict(small.config)), wir.record() as programs:
        module, args = small.case.make()
        torch.compile(module, backend=OURS)(*args)
    (program,) = programs
    assert 'packed "' in str(program)
    with pytest.raises(wir.WrapperIRError, match="packed"):
        save(program, tmp_path / "program.wir")
