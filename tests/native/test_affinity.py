"""Streams that have a runner of their own, on addresses that stand for streams."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING

import pytest
import torch

from tests.native import calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.native.conftest import Toolbox

X = torch.linspace(-3, 5, 24).reshape(3, 8)
OFF, NONE = -2, -1
ONE, TWO, THREE = 0x1000, 0x2000, 0x3000


class Model(calls.Native):
    """A container with two runners."""

    def __init__(self, library: Path, device: str = "cuda") -> None:
        super().__init__(library, 2, device)

    def affinity(self, on: bool) -> None:
        self("SetUseStreamAffinity", ctypes.c_bool(on))

    def runner_of(self, stream: int | None) -> int:
        number = ctypes.c_int64()
        where = ctypes.c_void_p(stream)
        self("GetStreamAffinityModelIndexForTesting", where, ctypes.byref(number))
        return number.value

    def check(self, stream: int | None) -> None:
        y = self.run(calls.inputs(X), stream=stream)[0]
        assert y is not None
        assert torch.equal(y, calls.expected(X))

    def begin(self, stream: int | None) -> tuple[threading.Thread, torch.Tensor]:
        """Begin a call that lasts until its x[0, 0] is set."""
        x = torch.zeros(3, 8)
        given = calls.inputs(x, mode=calls.MEET)
        thread = threading.Thread(target=lambda: self.run(given, stream=stream))
        thread.start()
        while x[0, 1] == 0:
            pass
        return thread, x


def end(call: tuple[threading.Thread, torch.Tensor]) -> None:
    call[1][0, 0] = 1
    call[0].join()


@pytest.fixture(scope="module")
def streamed(toolbox: Toolbox) -> Path:
    return toolbox.build("streamed", "EMBEDDED", "STREAMS")


@pytest.fixture
def model(streamed: Path) -> Iterator[Model]:
    with Model(streamed) as container:
        yield container


def test_each_stream_keeps_its_runner(model: Model) -> None:
    model.check(ONE)
    assert model.runner_of(ONE) == OFF
    model.affinity(True)
    assert model.runner_of(ONE) == NONE
    for stream in (ONE, TWO, ONE, TWO, TWO, None):
        model.check(stream)
    numbers = model.runner_of(ONE), model.runner_of(TWO)
    assert sorted(numbers) == [0, 1]
    for stream in (TWO, ONE, None, ONE):
        model.check(stream)
    assert (model.runner_of(ONE), model.runner_of(TWO)) == numbers
    assert (model.runner_of(None), model.runner_of(THREE)) == (NONE, NONE)
    model.affinity(False)
    assert model.runner_of(ONE) == OFF


def test_a_stream_too_many_takes_the_runner_of_another(model: Model) -> None:
    model.affinity(True)
    for stream in (ONE, TWO, THREE):
        model.check(stream)
    found = [model.runner_of(stream) for stream in (ONE, TWO, THREE)]
    assert sorted(found) == [NONE, 0, 1]
    assert found[2] != NONE


def test_a_call_waits_for_the_runner_of_its_stream_alone(model: Model) -> None:
    model.affinity(True)
    model.check(ONE)
    first = model.begin(ONE)
    second = threading.Thread(target=lambda: model.check(ONE))
    second.start()
    model.check(TWO)  # another stream, another runner
    second.join(0.1)
    assert second.is_alive()  # though a runner is free
    assert model.runner_of(ONE) != model.runner_of(TWO)
    end(first)
    second.join()


def test_a_stream_waits_for_whoever_borrowed_its_runner(model: Model) -> None:
    model.affinity(True)
    model.check(ONE)
    model.check(TWO)
    numbers = model.runner_of(ONE), model.runner_of(TWO)
    borrowed = [model.begin(None), model.begin(None)]
    waiting = [threading.Thread(target=model.check, args=(stream,)) for stream in (ONE, TWO)]
    for thread in waiting:
        thread.start()
    for call in borrowed:
        end(call)
    for thread in waiting:
        thread.join()
    assert (model.runner_of(ONE), model.runner_of(TWO)) == numbers


def test_a_call_that_fails_frees_its_stream(model: Model) -> None:
    model.affinity(True)
    model.check(ONE)
    with pytest.raises(calls.NativeError, match="out of luck"):
        model.run(calls.inputs(X, mode=calls.STANDARD), stream=ONE)
    assert model.runner_of(ONE) == NONE
    model.check(ONE)
    assert model.runner_of(ONE) != NONE


def test_it_is_set_while_nothing_runs_and_on_gpus_alone(model: Model, library: Path) -> None:
    call = model.begin(ONE)
    for on in (True, False):
        with pytest.raises(calls.NativeError, match="WIR2163: calls are running"):
            model.affinity(on)
    end(call)
    with Model(library, "cpu") as other:
        with pytest.raises(calls.NativeError, match="runs on the CPU, where there are no streams"):
            other.affinity(True)
        other.affinity(False)
        assert other.runner_of(ONE) == OFF
        other.check(None)
