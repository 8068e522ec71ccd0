"""What ``make odd`` sees of a call, and what it takes for a difference."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.odd.kit import differences, observe
from tests.odd.verdict import verdict


def seen(function: Any) -> list[str]:
    """Say how a function differs from one that returns a view of what it writes to."""

    def stock(x: Tensor) -> Tensor:
        return x.add_(1)[1:]

    calls = [observe(f, torch.zeros(3)) for f in (stock, function)]
    return [line.split(":")[0] for line in differences(*calls)]


def test_copies_values_writes_and_random_numbers_are_seen() -> None:
    assert seen(lambda x: x.add_(1).narrow(0, 1, 2)) == []
    assert any(".alias" in path for path in seen(lambda x: x.add_(1)[1:].clone()))
    assert any(path.startswith(".args") for path in seen(lambda x: (x + 1)[1:]))
    assert any(path.startswith(".out") for path in seen(lambda x: x.add_(2)[1:]))
    assert ".random" in seen(lambda x: (torch.rand(1), x.add_(1)[1:])[1])


def test_classes_of_errors_are_compared_and_their_words_are_not() -> None:
    def failing(error: Exception) -> Any:
        def function() -> None:
            raise error

        return observe(function)

    assert not list(differences(failing(ValueError("a")), failing(ValueError("b"))))
    assert list(differences(failing(ValueError("a")), failing(KeyError("a"))))


def test_a_graph_that_is_not_ours_is_no_success() -> None:
    said = [observe(lambda: 1)]
    stock = {"said": said, "lowered": 1, "programs": 0, "fallbacks": 0}
    assert "bypassed" in verdict("python", stock, stock).text
    assert not verdict("python", stock, {**stock, "programs": 1}).is_bad
    assert verdict("python", stock, {**stock, "programs": 1, "fallbacks": 1}).is_bad
