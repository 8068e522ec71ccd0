"""Numbers read from tensors beside infinities, which sympy takes no real number to reach."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.frontends.flows import UNBACKED

#: Less than or equal to infinity is left out: it holds for NaN too if torch is asked.
NUMBERS = (3.0, math.inf, -math.inf, math.nan)


def compared(x: Tensor) -> tuple[bool, ...]:
    n, inf = x.item(), math.inf
    return n == inf, n == -inf, n != inf, n != -inf, n < inf, n > -inf, n >= inf, n <= -inf


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_numbers_are_compared_with_infinities(emitter: str) -> None:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(UNBACKED):
        function = torch.compile(
            compared, backend="wrapper_ir", options={"emitter": emitter}, fullgraph=True
        )
        for number in NUMBERS:
            assert function(torch.tensor(number)) == compared(torch.tensor(number))
