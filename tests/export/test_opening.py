"""Libraries are opened once, or once for each device that they are loaded for."""

from __future__ import annotations

import pytest

from wrapper_ir.aot.opening import OncePerDevice
from wrapper_ir.runtime import current_device


class Opened:
    """What stands for a library that is bound to a device when it is first asked."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number

    def bound_device(self) -> str:
        if self.number is None:
            self.number = current_device("cuda").index
        return f"cuda:{self.number}"


def test_a_library_for_one_device_is_opened_once() -> None:
    libraries: OncePerDevice[object] = OncePerDevice(lambda _: "")
    first = libraries.opened("a", object, pytest.fail)
    assert libraries.opened("a", pytest.fail, pytest.fail) is first
    assert libraries.opened("b", object, pytest.fail) is not first


def test_one_that_is_bound_elsewhere_is_opened_again_once() -> None:
    here = current_device("cuda").index
    libraries = OncePerDevice(Opened.bound_device)
    elsewhere = libraries.opened("a", lambda: Opened(here + 1), Opened)
    assert elsewhere.number == here
    assert libraries.opened("a", pytest.fail, pytest.fail) is elsewhere
    first = libraries.opened("b", Opened, pytest.fail)
    assert first.number == here
    assert libraries.opened("b", pytest.fail, pytest.fail) is first
