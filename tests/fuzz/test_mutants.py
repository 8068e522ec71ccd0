"""Wrong programs are caught: by the verifier, or, what it cannot know, by the interpreter."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz import kernels
from tests.fuzz.mutation import CAUGHT, missed, survey, table

pytestmark = [
    pytest.mark.filterwarnings("ignore:An output with one or more elements was resized"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
]


def test_what_breaks_the_rules_of_memory_is_caught_before_it_runs() -> None:
    kernels.warm()
    seen = survey(range(4, 11))
    assert missed(seen) == {}, table(seen)
    assert seen["none", "no objection"] == 7
    for kind in ("drop", "duplicate", "swap", "retarget", "resize", "re-dtype"):
        assert seen[kind, CAUGHT]
    # Of what ops return and how far kernels write the verifier knows nothing.
    assert {"WIR2406", "WIR2407", "WIR2408"} & {verdict for _, verdict in seen}


def test_harm_that_is_not_caught_is_missed() -> None:
    seen: Counter[tuple[str, str]] = Counter()
    seen.update({("drop", CAUGHT): 7, ("drop", "WIR2402"): 1, ("swap", "same"): 3})
    seen.update({("swap", "unheard of"): 1, ("none", "no objection"): 1})
    seen["none", "false alarm"] += 2
    assert missed(seen) == {
        ("drop", "WIR2402"): 1,
        ("swap", "unheard of"): 1,
        ("none", "false alarm"): 2,
    }
    assert "WIR2402" in table(seen)
    assert "used after its end" in table(seen)
