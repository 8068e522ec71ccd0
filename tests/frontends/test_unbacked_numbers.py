"""Numbers that are known only at run time: checks of them, and infinities beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.frontends.flows import UNBACKED
from wrapper_ir.frontends.inductor import record

# What a check of sizes raises: what stock Inductor does.


def checked(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    size: Any = n.sum().item()  # of a tensor that was computed, so Dynamo knows nothing of it
    torch._check(size >= 2)
    torch._check(size <= 6)
    return x.new_zeros(size).sin() + x.sum()


@pytest.mark.parametrize("emitter", ["stock", "python", "cpp", "fx"])
def test_a_failed_check_is_a_runtime_error(emitter: str) -> None:
    torch._dynamo.reset()
    how = {"backend": "inductor"} if emitter == "stock" else {"backend": "wrapper_ir"}
    options = {} if emitter == "stock" else {"options": {"emitter": emitter}}
    given = (torch.ones(3), torch.tensor([1, 3])), (torch.ones(3), torch.tensor([4, 5]))
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        with record() as programs:
            function = torch.compile(checked, fullgraph=True, **how, **options)
            assert function(*given[0]).shape == (4,)
        assert bool(programs) == (emitter != "stock")
        with pytest.raises(RuntimeError):
            function(*given[1])
        if emitter != "stock":  # as released code may expect
            with pytest.raises(AssertionError):
                function(*given[1])


# Numbers beside infinities, which sympy takes no real number to reach.

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
