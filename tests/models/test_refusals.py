"""The emitted function looks at its inputs in every call, not only where Dynamo's guards stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.models.harness import OURS
from tests.models.watch import watch_inductor
from tests.models.zoo import CASES
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def entry() -> tuple[Callable[[list[Any]], Any], list[Any]]:
    """Return ``current_callable`` of the compiled MLP, called twice already, and its inputs."""
    torch._dynamo.reset()
    module, args = next(case for case in CASES if case.name == "mlp").make()
    with watch_inductor() as seen, torch.no_grad():
        compiled = torch.compile(module, backend=OURS)
        compiled(*args)
        (graph,) = seen.graphs
        function = graph.current_callable
        inputs: list[Any] = []

        def noting(passed: list[Any]) -> Any:
            inputs[:] = passed
            return function(passed)

        graph.current_callable = noting
        compiled(*args)
    return function, inputs


def count() -> int:
    module, _ = next(case for case in CASES if case.name == "mlp").make()
    return len(list(module.parameters())) + 1


WRONG: dict[str, Callable[[torch.Tensor], object]] = {
    "a row too many": lambda t: torch.cat([t, t[:1]]),
    "a dimension too many": lambda t: t.unsqueeze(0),
    "another dtype": lambda t: t.double(),
    "a gap between elements": lambda t: torch.empty(*t.shape, 2)[..., 0],
    "no tensor": lambda t: t.tolist(),
}


@pytest.mark.parametrize("position", range(count()))
@pytest.mark.parametrize("mistake", WRONG)
@torch.no_grad()
def test_a_wrong_input_fails_on_a_later_call(
    entry: tuple[Callable[[list[Any]], Any], list[Any]], position: int, mistake: str
) -> None:
    function, inputs = entry
    function(inputs.copy())
    wrong: list[Any] = inputs.copy()
    wrong[position] = WRONG[mistake](inputs[position])
    with pytest.raises(WrapperIRError):
        function(wrong)


@torch.no_grad()
def test_a_wrong_number_of_inputs_fails(
    entry: tuple[Callable[[list[Any]], Any], list[Any]],
) -> None:
    function, inputs = entry
    for wrong in (inputs[:-1], [*inputs, inputs[0]], []):
        with pytest.raises(WrapperIRError):
            function(wrong)
