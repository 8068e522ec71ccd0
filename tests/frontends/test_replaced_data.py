"""Tensors of the caller's that a function gives other memory: ``x.data = y``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.lines import Reuse

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

EMITTERS = ["python", "cpp", "fx"]


def replaced(x: Tensor, y: Tensor) -> Tensor:
    x.data = y
    return x + 1


def given_a_product(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = y.sin()
    x.data = torch.mm(z, z)
    w = torch.mm(z + 2, z)
    return torch.mm(w, w + 1), torch.mm(w, w + 2)


def check(function: Any, emitter: str, *inputs: Tensor) -> wir.Program:
    """Compares with eager what a function returns and what becomes of its inputs."""
    torch._dynamo.reset()
    ours = [each.clone() for each in inputs]
    expected = function(*inputs)
    with wir.record() as programs:
        compiled = torch.compile(function, backend="wrapper_ir", options={"emitter": emitter})
        found = compiled(*ours)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours, list(inputs))
    (program,) = programs
    return program


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("sizes", [(0, 6), (6, 0), (4, 6), (6, 6)])
def test_data_is_replaced_by_more_or_fewer_elements(emitter: str, sizes: tuple[int, int]) -> None:
    check(replaced, emitter, torch.rand(sizes[0]), torch.rand(sizes[1]))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_size_that_nothing_reads_may_be_any(emitter: str) -> None:
    # Dynamo's guards tell the size that the tensor has in the end: the third call comes here, too.
    torch._dynamo.reset()
    compiled = torch.compile(replaced, backend="wrapper_ir", options={"emitter": emitter})
    with wir.record() as programs:
        for size in (6, 4, 0, 1):
            x, y = torch.rand(size), torch.rand(6)
            torch.testing.assert_close(compiled(x, y), y + 1)
            torch.testing.assert_close(x, y)
    assert len(programs) == 2


@pytest.mark.parametrize("emitter", EMITTERS)
def test_memory_that_a_tensor_of_the_callers_holds_is_not_reused(emitter: str) -> None:
    program = check(given_a_product, emitter, torch.rand(4, 4), torch.rand(4, 4))
    (call,) = [line for line in program.body if getattr(line, "op", "").startswith("aten::set_")]
    source = call.args[1].buffer
    planned = wir.plan_memory(program)
    assert source not in {line.donor for line in planned.body if isinstance(line, Reuse)}
