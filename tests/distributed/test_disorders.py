"""Disorders of collectives are found before launch, where they do harm; good programs are not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.distributed.disorders import DISORDERS, survey

#: `make disorders` surveys sixty schedules: more than five hundred disorders.
SAMPLE = range(4)


@pytest.mark.parametrize(
    "seeds", [SAMPLE, pytest.param(range(4, 40), marks=pytest.mark.long)], ids=["sample", "more"]
)
def test_every_disorder_that_does_harm_is_found(seeds: range) -> None:
    seen = survey(seeds)
    assert seen["none", "no objection"] == len(seeds)
    kinds = Counter[str]()
    for (kind, verdict), count in seen.items():
        assert verdict not in ("missed", "false alarm", "runs differ"), (kind, verdict)
        kinds[kind] += count if verdict == "found" else 0
    assert sum(kinds.values()) > 6 * len(seeds)
    assert {kind for kind in DISORDERS if not kinds[kind]} <= {"swap", "rows", "peer"}
