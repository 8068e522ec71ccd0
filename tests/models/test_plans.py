"""Every way of planning memory computes the same to the last bit, through every emitter.

Held against the Python emitter with line reuse, which other tests hold against stock Inductor.
"""

from __future__ import annotations

import pytest

from tests.models import harness
from tests.models.harness import OURS
from tests.models.zoo import CASES, TRAINING, Case

#: Those that `make test` compiles; `make models` compiles all.
FEW = {"mlp"}
FEW_TRAINING: set[str] = set()

#: Options of ours, each run against reuse in Python.
PLANS = (
    {"strategy": "pool"},
    {"arena": "kept"},
    {"strategy": "pool", "emitter": "cpp"},
    {"arena": "kept", "emitter": "cpp"},
    {"strategy": "pool", "emitter": "fx"},
)

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    # Dynamo looks at the gradients of what goes from one graph to the next.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


def marked(cases: tuple[Case, ...], few: set[str]) -> list[object]:
    return [
        pytest.param(case, marks=[] if case.name in few else [pytest.mark.models], id=case.name)
        for case in cases
    ]


@pytest.mark.parametrize("case", marked(CASES, FEW))
def test_inference(case: Case) -> None:
    """Three batch sizes with one compilation where the batch is dynamic, else two calls."""
    check(case, training=False)


@pytest.mark.parametrize("case", marked(TRAINING, FEW_TRAINING))
def test_training(case: Case) -> None:
    """Two steps: results, gradients of parameters and arguments, statistics, random state."""
    check(case, training=True)


def check(case: Case, *, training: bool) -> None:
    reused = harness.run(case, OURS, training=training)
    for options in PLANS:
        run = harness.run(case, OURS, training=training, **options)
        assert harness.differences(run, reused) == [], options
        assert run.watch.lowered == len(run.programs) == len(reused.programs) >= 1
