"""Made-up functions that write through views do what they do in eager: a sample."""

from __future__ import annotations

import pytest

from tests.fuzz.functions import difference, text_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*check. is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:a call of a compiled function runs op by op"),
]

#: Functions that stock compiles wrongly, and some that it does not.
SEEDS = (3, 7, 12, 28, 1007, 1032, 1171, 9319, 31006, *range(100_000, 100_005))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_function_does_what_it_does_in_eager(seed: int) -> None:
    assert not difference(seed, backend="wrapper_ir"), text_of(seed)
