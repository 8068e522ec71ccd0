"""Calls taken out of programs, and the first call that differs between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests import warm
from tests.debug_printer.test_running import SCALE, W, X, placed, same, scale
from tests.emitters.corpus import CASES, program
from wrapper_ir.debug_printer import bisect, calls_of, extract
from wrapper_ir.debugging import CallNotFoundError, CallNotReachedError, DifferentCallsError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name",
    ["arguments", "dynamic_shapes", "index_put", "multi_output", "views", "constants", "while"],
)
def test_every_call_gives_alone_what_it_gave_inside(name: str) -> None:
    made = program(name)
    for call in calls_of(made):
        torch.manual_seed(0)
        alone = extract(made, call.number, CASES[name].make())
        assert wir.parse(str(alone.program)) == alone.program
        copies = [x.clone() for x in alone.inputs]
        for ours, theirs in zip(wir.compile(alone.program)(*copies), alone.expected, strict=True):
            same(ours.contiguous(), theirs.contiguous())


def test_a_written_call_is_a_test_that_passes(tmp_path: Path) -> None:
    folder = extract(scale(), "aten::log.out", [X]).write(tmp_path / "repro")
    assert sorted(path.name for path in folder.iterdir()) == [
        "call.wir",
        "expected.pt",
        "inputs.pt",
        "test_call.py",
    ]
    done = warm.run(warm.PYTEST, "-q", "-p", "no:cacheprovider", folder, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    with pytest.raises(FileExistsError):
        extract(scale(), 0, [X]).write(folder)


def test_calls_are_found_by_number_name_and_path() -> None:
    for key in (1, "aten::log.out", "0001 aten::log.out", "body[6]"):
        assert extract(scale(), key, [X]).call.number == 1
    with pytest.raises(CallNotFoundError, match="it has '0000 scale'"):
        extract(scale(), "aten::exp", [X])


def test_a_call_that_is_not_reached() -> None:
    made = program("cond_nested")
    labels = []
    for call in calls_of(made):
        try:
            extract(made, call.number, [torch.randn(3)])
        except CallNotReachedError:
            labels.append(call.label)
    assert 0 < len(labels) < len(list(calls_of(made)))


def test_equal_programs_do_not_differ() -> None:
    found = bisect(scale(), [X])
    assert not found
    assert str(found) == "no difference in 3 tensors"


@pytest.mark.parametrize(
    ("planted", "call"),
    [
        (SCALE.replace("a[i] * b[i]", "a[i] * b[i > 2 ? 2 : i]"), 0),
        (SCALE.replace("aten::log.out", "aten::exp.out"), None),
    ],
)
def test_a_planted_fault_is_found(planted: str, call: int | None, tmp_path: Path) -> None:
    other = wir.parse(planted).replace(data={"w": W})
    if call is None:
        with pytest.raises(DifferentCallsError, match=r"0001 aten::log\.out"):
            bisect(scale(), [X], other=other)
        return
    found = bisect(scale(), [X], other=other, folder=tmp_path / "repro")
    assert found
    assert found.call is not None
    assert (found.call.number, found.buffer) == (call, "a")
    assert "0000 scale (body[4]) wrote a different a: 1 of 4 elements differ" in str(found)
    assert found.folder is not None
    inputs: list[Tensor] = torch.load(found.folder / "inputs.pt", weights_only=True)
    expected: list[Any] = torch.load(found.folder / "expected.pt", weights_only=True)
    assert torch.equal(expected[0], inputs[0] * inputs[1])


def test_inputs_are_not_changed() -> None:
    made = program("input_mutation")
    inputs = CASES["input_mutation"].make()
    copies = [x.clone() for x in inputs]
    assert not bisect(made, inputs)
    for one, other in zip(inputs, copies, strict=True):
        assert torch.equal(one, other)


def test_the_difference_has_its_place_in_the_model() -> None:
    other = wir.parse(SCALE.replace("a[i] * b[i]", "a[i] + b[i]")).replace(data={"w": W})
    found = bisect(placed(scale()), [X], other=placed(other))
    assert found.source == "net.py:12, layers.3"
    assert str(found).endswith("; from net.py:12, layers.3")
