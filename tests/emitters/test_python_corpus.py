"""Every program of the corpus: its text, and that it computes what plain torch computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import black
import pytest
import torch
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, FILES, PROBED, TEXT_ONLY, program
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.lines import Free, Program, Stage, rewrite_lines
from wrapper_ir.passes import legalisation_for, run_passes
from wrapper_ir.planning import kept_pools

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from wrapper_ir.emitters import Artifact


pytestmark = pytest.mark.usefixtures("corpus_kernels")


class PythonFile(SingleFileSnapshotExtension):
    """Snapshots are files that Python can run."""

    _write_mode = WriteMode.TEXT
    file_extension = "py"


@pytest.fixture
def snapshot(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(PythonFile)


def test_every_program_has_a_case() -> None:
    assert FILES.keys() == CASES.keys() | PROBED.keys() | set(TEXT_ONLY)


def emit(made: Program, **options: Any) -> Artifact:
    """Render a planned program as it is, but for what the emitter needs."""
    emitter = PythonEmitter(**options)
    return emitter.emit(run_passes(made, legalisation_for(made, emitter)))


@pytest.mark.parametrize("name", [*CASES, *PROBED, *TEXT_ONLY])
def test_text(name: str, snapshot: SnapshotAssertion) -> None:
    source = emit(program(name)).source
    assert source == snapshot(name=name)


@pytest.mark.parametrize("name", [*CASES, *PROBED, *TEXT_ONLY])
@pytest.mark.parametrize("origins", [False, True])
def test_black_changes_nothing(name: str, origins: bool) -> None:
    source = emit(program(name), origins=origins).source
    assert black.format_str(source, mode=black.Mode()) == source


def kept(name: str) -> Program:
    """A program planned for kept arenas, if it has no pools of its own."""
    made = program(name)
    if kept_pools(made):
        return made
    logical = rewrite_lines(made.body, lambda line: () if isinstance(line, Free) else (line,))
    return wir.plan_memory(made.replace(body=logical, stage=Stage.LOGICAL), arena="kept")


@pytest.mark.parametrize("name", ["pools", "pools_symbolic", "relu_twice", "dynamic_shapes"])
def test_text_with_kept_arenas(name: str, snapshot: SnapshotAssertion) -> None:
    assert emit(kept(name), arena="kept").source == snapshot(name=name)


@pytest.mark.parametrize("name", ["results", "dynamic_shapes", "unbacked", "planned"])
def test_text_that_takes_memory_for_results(name: str, snapshot: SnapshotAssertion) -> None:
    assert emit(program(name), out=True).source == snapshot(name=name)


@pytest.mark.parametrize("name", CASES)
def test_black_changes_nothing_of_arenas_and_given_memory(name: str) -> None:
    source = emit(kept(name), arena="kept", out=True).source
    assert black.format_str(source, mode=black.Mode()) == source


def equal(actual: Any, expected: Any) -> None:
    if not isinstance(expected, Tensor):
        assert type(actual) is type(expected)
        assert actual == expected
        return
    assert isinstance(actual, Tensor)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("checks", ["always", "never"])
@pytest.mark.parametrize("name", CASES)
def test_computes(name: str, checks: str) -> None:
    case, made = CASES[name], program(name)
    function = wir.compile(made, checks=checks)
    for _ in range(3):  # what is kept from call to call must not show
        inputs = case.make()
        reference = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
        if name in ("symbols", "asserts"):
            reference = list(inputs)  # a clone would not have the same strides and offset
        fixed = {constant: made.data[constant].clone() for constant in case.constants}
        expected = case.run(*reference, **fixed)
        actual = function(*inputs)
        assert isinstance(actual, tuple)
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            if not (theirs is None and isinstance(ours, Tensor)):
                equal(ours, theirs)
        if name not in ("reuse", "backward"):  # those are given their inputs' memory
            for ours, theirs in zip(inputs, reference, strict=True):
                equal(ours, theirs)
        for constant, value in fixed.items():
            equal(made.data[constant], value)


def test_views_of_results_are_views() -> None:
    flat, maybe, dense = wir.compile(program("aliases"))(torch.randn(4, 6))
    flat.zero_()
    assert not maybe.any() or maybe.data_ptr() != flat.data_ptr()
    view = wir.compile(program("results"))(torch.randn(3, 4))
    view[0].fill_(5)
    assert view[0] is view[1]
    assert (view[2] == 5).all()
    assert dense.shape == (6, 4)


@pytest.mark.parametrize("size", [2, 3, 7, 8])
def test_nested_choices(size: int) -> None:
    x = torch.randn(size)
    for ours, theirs in zip(
        wir.compile(program("cond_nested"))(x), CASES["cond_nested"].run(x), strict=True
    ):
        equal(ours, theirs)


def test_a_loop_that_never_runs_gives_tensors_of_its_own() -> None:
    count, total = wir.compile(program("while"))(torch.tensor(9), x := torch.randn(4), x)
    assert count.item() == 9
    assert torch.equal(total, x)
    assert total.data_ptr() != x.data_ptr()
    y = torch.randn(3)
    counts, rounds = wir.compile(program("while_stacked"))(torch.tensor(9), y)
    assert counts.tolist() == [9]
    assert torch.equal(rounds, y[None])
