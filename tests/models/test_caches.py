"""What we compile is never taken for stock Inductor's, nor for what other options would give.

AOTAutogradCache and FxGraphCache answer before any code of ours runs. A confusion gives right
results from the wrong code, so each test looks at the code. Each has a constant of its own in its
model: the caches on disk are shared by all.
"""

from __future__ import annotations

import pytest

from tests.models.caching import compile_apart, compile_once
from tests.models.harness import OURS, STOCK

both = pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])

#: Option sets that must give different code for one and the same graph.
OPTION_SETS = ({"strategy": "reuse"}, {"strategy": "none"}, {"strategy": "none", "origins": True})


def graphs(training: bool) -> int:
    return 2 if training else 1


@pytest.mark.long
@both
def test_stock_first(training: bool) -> None:
    stock = compile_once(STOCK, 1.1, training=training)
    ours = compile_once(OURS, 1.1, training=training)
    assert not stock.is_ours
    assert ours.is_ours
    assert ours.lowered == graphs(training)
    assert ours.result == stock.result


@pytest.mark.long
@both
def test_ours_first(training: bool) -> None:
    ours = compile_once(OURS, 1.2, training=training)
    stock = compile_once(STOCK, 1.2, training=training)
    assert ours.is_ours
    assert not stock.is_ours
    assert stock.lowered == graphs(training)
    assert ours.result == stock.result


@pytest.mark.long
@both
def test_each_finds_its_own_again(training: bool) -> None:
    """Taking turns: the second compilation of each side comes from a cache, its own."""
    first = [compile_once(side, 1.3, training=training) for side in (STOCK, OURS)]
    again = [compile_once(side, 1.3, training=training) for side in (STOCK, OURS)]
    assert [outcome.lowered for outcome in first] == [graphs(training)] * 2
    assert [outcome.lowered for outcome in again] == [0, 0]
    assert [outcome.sources for outcome in again] == [outcome.sources for outcome in first]
    assert [outcome.is_ours for outcome in again] == [False, True]


def test_options_are_part_of_the_key() -> None:
    found = [compile_once(OURS, 1.4, training=True, options=dict(o)) for o in OPTION_SETS]
    assert [outcome.lowered for outcome in found] == [2] * len(OPTION_SETS)
    again = [compile_once(OURS, 1.4, training=True, options=dict(o)) for o in OPTION_SETS]
    assert [outcome.lowered for outcome in again] == [0] * len(OPTION_SETS)
    assert [outcome.sources for outcome in again] == [outcome.sources for outcome in found]
    assert found[2].sources != found[1].sources
    assert all(outcome.result == found[0].result for outcome in (*found, *again))


def test_the_default_options_said_aloud_are_the_same_options() -> None:
    first = compile_once(OURS, 1.5, training=False)
    again = compile_once(OURS, 1.5, training=False, options={"emitter": "python"})
    assert (first.lowered, again.lowered) == (1, 0)
    assert again.sources == first.sources


@pytest.mark.slow
@pytest.mark.long
def test_second_process() -> None:
    """A second process starts warm, runs our code, and finds the same numbers; stock's does not."""
    first = compile_apart(OURS, 1.6, training=True)
    second = compile_apart(OURS, 1.6, training=True)
    stock = compile_apart(STOCK, 1.6, training=True)
    assert (first.lowered, second.lowered, stock.lowered) == (2, 0, 2)
    assert (first.is_ours, second.is_ours, stock.is_ours) == (True, True, False)
    assert second.sources == first.sources
    assert first.result == second.result == stock.result
