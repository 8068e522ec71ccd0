"""Models of the zoo through both emitters: the same to the last bit.

What the Python emitter does is held against stock Inductor elsewhere (``tests/models``).
"""

from __future__ import annotations

import pytest

from tests.models import harness
from tests.models.zoo import CASES, TRAINING, Case

#: Those that `make test` compiles; `make models` compiles all.
FEW = {"mlp", "input_mutation", "views_and_duplicates"}
FEW_TRAINING = {"mlp"}

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
    in_python = harness.run(case, harness.OURS, training=training)
    in_cpp = harness.run(case, harness.OURS, training=training, emitter="cpp")
    assert in_cpp.watch.lowered >= 1
    assert len(in_cpp.watch.graphs) == len(in_python.watch.graphs)
    for graph in in_cpp.watch.graphs:
        assert "boxed_call(" in graph.source_code
    assert harness.differences(in_cpp, in_python) == []
    # What is saved for a backward goes as soon, and nothing else is held longer.
    assert in_cpp.peak <= in_python.peak
