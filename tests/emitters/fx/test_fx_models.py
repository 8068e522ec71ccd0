"""Models through torch.compile with graphs: forward, backward, dynamic sizes, to the last bit."""

from __future__ import annotations

import pytest

import wrapper_ir as wir
from tests.models import harness
from tests.models.harness import OURS
from tests.models.zoo import CASES, TRAINING, Case
from wrapper_ir.frontends.inductor.session import statistics

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    # Dynamo looks at the gradients of what goes from one graph to the next.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

#: Models that the ordinary suite runs; the others take minutes.
QUICK = ("mlp", "views_and_duplicates", "mixed_dtypes")
QUICK_TRAINING = ("mlp",)


def cases(found: tuple[Case, ...], quick: tuple[str, ...]) -> list[object]:
    marks = [() if case.name in quick else (pytest.mark.models,) for case in found]
    return [pytest.param(c, marks=m, id=c.name) for c, m in zip(found, marks, strict=True)]


@pytest.mark.parametrize("case", cases(CASES, QUICK))
def test_inference(case: Case) -> None:
    check(case, training=False)


@pytest.mark.parametrize("case", cases(TRAINING, QUICK_TRAINING))
def test_training(case: Case) -> None:
    check(case, training=True)


def check(case: Case, *, training: bool) -> None:
    python = harness.run(case, OURS, training=training)
    statistics.reset()
    graphs = harness.run(case, OURS, training=training, emitter="fx")
    assert graphs.watch.lowered == len(graphs.programs) >= 1
    assert statistics.programs == len(graphs.programs)
    assert statistics.fallbacks == 0
    assert harness.differences(graphs, python) == []
    for program in graphs.programs:
        source = wir.emit(program, "fx").source
        assert wir.emit(wir.parse(str(program)), "fx").source == source
