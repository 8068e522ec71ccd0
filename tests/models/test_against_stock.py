"""Every model of the zoo through stock Inductor and through us: the same to the last bit."""

from __future__ import annotations

import math
from typing import Any

import pytest

import wrapper_ir as wir
from tests.models import harness
from tests.models.harness import OURS, STOCK, Run
from tests.models.zoo import CASES, TRAINING, Case
from wrapper_ir.frontends.inductor.session import statistics

#: How much larger than stock's our error against double precision may be.
ERROR_BOUND = 1.5

#: What single precision can be expected to do on models of this size, relative to the results.
PLAUSIBLE_ERROR = 1e-5

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    # Dynamo looks at the gradients of what goes from one graph to the next.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


#: Those whose forward is compiled in seconds; `make test-long` has the others.
#: The others of these take long to train.
QUICK = ("mlp", "attention", "conv_net")


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if str(c) in QUICK else pytest.mark.long) for c in CASES],
    ids=str,
)
def test_inference(case: Case) -> None:
    """Three batch sizes with one compilation where the batch is dynamic, else two calls."""
    check(case, training=False, comparable=case.doubles and not case.random)


#: Those that take longest to compile; `make models` has them.
LONG = ("gpt2", "unet", "conv_net", "dlrm", "lstm", "experts")


def _marks(case: Case) -> Any:
    if str(case) in LONG:
        return pytest.mark.models
    return () if str(case) in QUICK[:3] else pytest.mark.long


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=_marks(c)) for c in TRAINING],
    ids=str,
)
def test_training(case: Case) -> None:
    """Two steps: results, gradients of parameters and arguments, statistics, random state."""
    check(case, training=True, comparable=case.doubles and not case.training_random)


def check(case: Case, *, training: bool, comparable: bool) -> None:
    """Run both and hold them against each other."""
    stock = harness.run(case, STOCK, training=training)
    statistics.reset()
    ours = harness.run(case, OURS, training=training)
    check_nothing_bypassed(ours, stock)
    assert harness.differences(ours, stock) == []
    assert ours.peak <= stock.peak
    if comparable:
        check_error(case, ours, stock, training=training)
    for program in ours.programs:
        check_program(program)


def check_nothing_bypassed(ours: Run, stock: Run) -> None:
    """Our programs are the graphs that Inductor lowered, and what runs is what we emitted."""
    assert ours.watch.lowered >= 1
    assert ours.watch.lowered == len(ours.programs)
    assert statistics.programs == len(ours.programs)
    assert statistics.fallbacks == 0
    assert len(ours.watch.graphs) == len(stock.watch.graphs)
    for source in ours.watch.sources:
        assert "wrapper_ir.runtime" in source
        assert "torch._inductor" not in source


def check_error(case: Case, ours: Run, stock: Run, *, training: bool) -> None:
    """Ours is as near to double precision as stock's, and near enough to be the same function."""
    exact = harness.reference(case, training=training)
    error = harness.error(ours.calls[0], exact)
    assert math.isfinite(error)
    assert error <= PLAUSIBLE_ERROR
    assert error <= ERROR_BOUND * harness.error(stock.calls[0], exact)


def check_program(program: wir.Program) -> None:
    """What must hold of each program by itself: no error, and no read of what nothing wrote."""
    assert not wir.diagnose(program, warnings=True)
    text = str(program)
    assert wir.parse(text) == program
    assert str(wir.parse(text)) == text
    planned = wir.plan_memory(program)
    assert not wir.diagnose(planned, warnings=True)
    assert wir.parse(str(planned)) == planned
    once = wir.emit(program, "python").source
    assert wir.emit(program, "python").source == once
    assert wir.emit(wir.parse(text), "python").source == once
