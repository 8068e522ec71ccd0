"""The interpreter does what the Python emitter's code does, on every program of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import CASES, FILES, PEERS, PROBED, constants, program
from tests.interpreter.support import copies, same

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", sorted({**CASES, **PROBED}))
def test_corpus(
    name: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # what probes save goes to the working directory
    case = {**CASES, **PROBED}[name]
    inputs = case.make()
    for stage in ("planned", "as it is"):
        one = program(name)
        two = wir.parse(FILES[name].read_text())
        two = program(name) if stage == "planned" else two.replace(data=constants(two))
        ours, theirs = copies(inputs), copies(inputs)
        found = wir.interpret(two, *ours)
        shown = capfd.readouterr().err
        expected = wir.compile(one)(*theirs)
        assert capfd.readouterr().err == shown
        assert len(found) == len(expected)
        pairs = enumerate(zip(found, expected, strict=True))
        assert [n for n, (a, b) in pairs if not same(a, b)] == []
        for position, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert getattr(one.inputs[position], "donated", False) or same(a, b)
        for constant, value in one.data.items():
            assert same(two.data[constant], value)


@pytest.mark.parametrize("name", PEERS)
def test_what_it_cannot_run_it_refuses(name: str) -> None:
    found = wir.parse(FILES[name].read_text())
    found = found.replace(data=constants(found))
    inputs = [torch.empty(0) for _ in found.inputs]
    with pytest.raises(wir.WrapperIRError):
        wir.interpret(found, *inputs)
