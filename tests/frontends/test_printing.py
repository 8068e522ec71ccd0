"""What a model prints while it runs is printed by its program too, in order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import statistics

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

say: Any = torch._higher_order_ops.print


def talks(x: Tensor) -> Tensor:
    say("{} and {{}} and {size} in {what}", x, what=x * 2, size=x.shape[0])
    say("no more")
    return x + 1


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_every_emitter_prints_what_eager_prints(
    emitter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch._dynamo.reset()
    statistics.reset()
    x = torch.arange(3.0)
    torch._dynamo.mark_dynamic(x, 0)
    compiled = torch.compile(
        talks, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
    )
    with wir.record() as programs:
        compiled(x)
    capsys.readouterr()
    for size in (3, 5):
        x = torch.arange(float(size))
        talks(x)
        expected = capsys.readouterr().out
        assert torch.equal(compiled(x), x + 1)
        assert capsys.readouterr().out == expected
        assert expected.count("\n") == 2
    wir.interpret(wir.plan_memory(programs[0]), *([5, x] if len(programs[0].inputs) == 2 else [x]))
    assert capsys.readouterr().out == expected
    assert (statistics.programs, statistics.fallbacks) == (1, 0)
