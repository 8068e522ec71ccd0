"""Objects that are found as long as they live."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from wrapper_ir.runtime.living import Living

if TYPE_CHECKING:
    from collections.abc import Iterator


class Thing:
    pass


def test_what_has_died_is_not_found() -> None:
    living = Living[Thing]()
    kept, dropped = Thing(), Thing()
    living.add(kept)
    living.add(dropped)
    assert {*living.all()} == {kept, dropped}
    del dropped
    assert living.all() == [kept]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_add_while_others_list() -> None:
    living = Living[Thing]()
    things = [[Thing() for _ in range(10_000)] for _ in range(2)]
    adders = [
        threading.Thread(target=lambda own=own: [living.add(thing) for thing in own])
        for own in things
    ]
    for adder in adders:
        adder.start()
    while any(adder.is_alive() for adder in adders):
        assert len(living.all()) <= 20_000
    assert {*living.all()} == {thing for own in things for thing in own}
