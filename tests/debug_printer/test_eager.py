"""Programs beside eager execution of the graph that they were made of."""

from __future__ import annotations

import dataclasses
import runpy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.debug_printer.test_faults import FAULTS, Model, planted
from wrapper_ir.debug_printer import bisect, calls_of
from wrapper_ir.debugging import BisectResult, NoOriginsError, OtherGraphError
from wrapper_ir.errors import OptionValueError
from wrapper_ir.interpreter import made_up_inputs

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = "correspond to no single node"
RANDOM = "depend on random numbers"


@pytest.fixture(scope="module")
def made() -> tuple[wir.Program, Any]:
    with wir.record() as programs:
        program = wir.capture(Model(), (torch.randn(4, 8),))
    assert list(programs) == [program]
    return wir.plan_memory(program), programs.graphs[0]


@pytest.fixture(scope="module")
def inputs() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(4, 8)]


def test_a_right_program_does_not_differ(made: Any, inputs: list[Tensor]) -> None:
    program, graph = made
    found = bisect(program, inputs, b="eager", graph=graph)
    assert not found
    assert found.compared > 4
    written = sum(1 for _ in calls_of(program))
    assert found.compared + found.skipped.get(UNKNOWN, 0) >= written
    assert set(found.skipped) <= {UNKNOWN}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(
    fault: str, made: Any, inputs: list[Tensor], tmp_path: Path
) -> None:
    """From the program as text, as it was saved: origins say which nodes its buffers stand for."""
    program, graph = made
    wrong, kernel = planted(program, fault)
    wrong.save(tmp_path / "wrong.wir")
    read = wir.load(tmp_path / "wrong.wir")
    found = bisect(read, inputs, b="eager", graph=graph, folder=tmp_path / "repro")
    assert found.call is not None
    assert found.call.name == kernel
    assert f"wrote a different {found.buffer}: 1 of 32 elements differ" in str(found)
    assert found.folder is not None
    if fault != "uninitialised":  # that depends on what is in memory
        with pytest.raises(AssertionError, match="1 / 32"):
            runpy.run_path(str(found.folder / "test_call.py"))["test_call"]()


def test_the_kernels_after_a_wrong_one_are_not_blamed(made: Any, inputs: list[Tensor]) -> None:
    """The wrong value goes on into the reference, so the first fault is the only one."""
    program, graph = made
    first = next(call for call in calls_of(program) if call.name == "aten::addmm.out")
    args = list(first.line.kwargs)
    scaled = [(n, dataclasses.replace(a, value=2)) if n == "alpha" else (n, a) for n, a in args]
    line = dataclasses.replace(first.line, kwargs=tuple(scaled))
    body = tuple(line if each is first.line else each for each in program.body)
    found = bisect(program.replace(body=body), inputs, b="eager", graph=graph)
    assert found.call is not None
    assert found.call.number == first.number


class Several(nn.Module):
    """Statistics that are written, random numbers, several results of one op, integers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = nn.functional.dropout(self.norm(x).relu(), 0.5, training=True)
        values, places = self.linear(y).sort(-1)
        picked = torch.zeros_like(values).scatter_add(1, places, values.exp())
        return picked, (places + 1).argmax(-1)


def test_state_random_numbers_and_dynamic_sizes() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    with wir.record() as programs:
        model = Several()
        program = wir.capture(model, (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for size in (4, 7):
        found = bisect(program, [torch.randn(size, 8)], b="eager", graph=programs.graphs[0])
        assert not found
        assert found.compared > 6
        assert found.skipped[RANDOM] == 2  # the seed, and what was dropped with it
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_training() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 1))
    torch.compiler.reset()
    with wir.record() as programs:
        torch.compile(model, backend="wrapper_ir")(torch.randn(4, 8)).sum().backward()
    assert [program.role.value for program in programs] == ["forward", "backward"]
    for program, graph in zip(programs, programs.graphs, strict=True):
        found = bisect(program, made_up_inputs(program, 0), b="eager", graph=graph)
        assert not found, str(found)
        assert found.compared >= 4


def test_programs_of_aten_ops_are_compared_whole() -> None:
    exported = torch.export.export(Several().eval(), (torch.randn(4, 8),))
    program = wir.from_fx(exported)
    found = bisect(program, [torch.randn(4, 8)], b="eager", graph=exported)
    assert not found
    assert set(found.skipped) <= {RANDOM, UNKNOWN}
    assert found.compared >= 8


def test_what_cannot_be_compared_is_refused(
    made: Any, inputs: list[Tensor], tmp_path: Path
) -> None:
    program, graph = made
    with pytest.raises(OptionValueError, match="the program's source graph"):
        bisect(program, inputs, b="eager")
    with pytest.raises(OptionValueError, match="None, unless b='eager'"):
        bisect(program, inputs, graph=graph)
    with pytest.raises(NoOriginsError):
        bisect(program.replace(origins=()), inputs, b="eager", graph=graph)
    with wir.record() as programs:
        wir.capture(nn.Sequential(nn.Conv1d(4, 4, 1), nn.Sigmoid()), (torch.randn(2, 4, 8),))
    with pytest.raises(OtherGraphError, match="it has no node"):
        bisect(program, inputs, b="eager", graph=programs.graphs[0])
    with pytest.raises(OtherGraphError, match="it takes more inputs"):
        bisect(program, [], b="eager", graph=graph)
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        bisect(program, inputs, b="eager", graph=graph, folder=tmp_path / "there")


def test_a_tolerance_that_is_given_counts(made: Any, inputs: list[Tensor]) -> None:
    program, graph = made
    wrong, _ = planted(program, "off by one")
    assert not bisect(wrong, inputs, b="eager", graph=graph, tolerance=(0.0, 1.0))


def test_results_say_how_much_was_compared() -> None:
    result = BisectResult(None, "", "", 3, skipped={RANDOM: 2, UNKNOWN: 1})
    assert str(result) == f"no difference in 3 tensors; not compared: 2 {RANDOM}, 1 {UNKNOWN}"
