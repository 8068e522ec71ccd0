"""The conformance kit: what every emitter has to do, as a class of tests to inherit.

An emitter of one's own, registered under the entry point group ``wrapper_ir.emitters``, is held
against the whole corpus by this file of tests::

    from wrapper_ir.testing.conformance import EmitterConformance

    class TestMine(EmitterConformance):
        target = "mine"
        refused = frozenset({"cond", "while"})

What the emitter gives is compared bit by bit with the reference interpreter. A program that it
refuses has to be listed in ``refused``; one that is listed has to be refused, and in the way that
emitters refuse: one error, with every line that cannot be rendered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar, Final

import pytest
import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.api import emit
from wrapper_ir.debug_printer import DebugPrinter, insert_probes
from wrapper_ir.emitters import EmitError
from wrapper_ir.emitters.base import Artifact, LogicalProgramError
from wrapper_ir.emitters.registry import make_emitter
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.walk import walk
from wrapper_ir.testing.corpus import corpus_files, corpus_inputs, corpus_program
from wrapper_ir.testing.equivalence import assert_equivalent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wrapper_ir.lines.program import Program

__all__ = ["EmitterConformance"]

NAMES: Final = tuple(corpus_files())

_EMIT = """
import sys
from wrapper_ir.api import emit
from wrapper_ir.testing.corpus import corpus_program
for name in sys.argv[2:]:
    sys.stdout.write(emit(corpus_program(name), sys.argv[1]).source)
"""


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
class EmitterConformance:
    """Tests that every emitter has to pass; subclasses name the emitter.

    Attributes:
        target: Its name.
        options: Options to emit with.
        refused: Programs of the corpus that it cannot render.
        has_probes: Whether it shows values of programs that are debugged.
    """

    target: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()
    has_probes: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run in a folder of its own: programs that save values leave files."""
        monkeypatch.chdir(tmp_path)

    # What it computes.

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_results_are_the_interpreters(self, name: str, seed: int) -> None:
        """The same bits: results, layouts, and what becomes of inputs."""
        self._skip_refused(name)
        assert_equivalent(
            corpus_program(name), *corpus_inputs(name, seed=seed), targets=(self.target,)
        )

    @pytest.mark.parametrize("name", NAMES)
    def test_calls_do_not_disturb_each_other(self, name: str) -> None:
        """Check that the next call does not change what one call returned."""
        self._skip_refused(name)
        program = corpus_program(name)
        function = compile_program(program, self.target, debug="off", **self.options)
        with torch.no_grad():
            first = function(*corpus_inputs(name))
            before = [x.clone() if isinstance(x, torch.Tensor) else x for x in first]
            function(*corpus_inputs(name, seed=1))
        for got, wanted in zip(first, before, strict=True):
            if isinstance(got, torch.Tensor):
                torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)

    @pytest.mark.parametrize("name", NAMES)
    def test_boxed_calls_empty_their_list(self, name: str) -> None:
        """``load_boxed`` takes one list and leaves it empty, so that inputs die on time."""
        self._skip_refused(name)
        inputs = corpus_inputs(name)
        with torch.no_grad():
            self._artifact(corpus_program(name)).load_boxed()(inputs)
        assert inputs == []

    # How it emits.

    @pytest.mark.parametrize("name", NAMES)
    def test_it_renders_or_refuses(self, name: str) -> None:
        """A program comes out, or one error names every line that cannot."""
        program = corpus_program(name)
        if name not in self.refused:
            assert isinstance(self._artifact(program), Artifact)
            return
        with pytest.raises(EmitError) as caught:
            self._artifact(program)
        lines = {str(path): line for path, line in walk(program)}
        assert caught.value.problems
        for problem in caught.value.problems:
            assert lines[str(problem.path)] is problem.line
            assert problem.reason

    @pytest.mark.parametrize("name", NAMES)
    def test_emitting_is_pure(self, name: str) -> None:
        """The same program gives the same text, whatever was emitted before."""
        self._skip_refused(name)
        first = self._artifact(corpus_program(name)).source
        self._artifact(corpus_program(next(n for n in NAMES if n not in self.refused)))
        assert self._artifact(corpus_program(name)).source == first

    def test_text_does_not_depend_on_the_process(self, tmp_path: Path) -> None:
        """Other hash seeds and other folders give the same text."""
        names = [name for name in NAMES if name not in self.refused]
        found = set()
        for seed in ("1", "2"):
            folder = tmp_path / seed
            folder.mkdir()
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", _EMIT, self.target, *names],
                env={**os.environ, "PYTHONHASHSEED": seed},
                cwd=folder,
                capture_output=True,
                check=True,
            )
            found.add(done.stdout)
        assert len(found) == 1

    def test_logical_programs_are_refused(self) -> None:
        """An emitter takes programs whose memory is planned."""
        with pytest.raises(LogicalProgramError):
            make_emitter(self.target, dict(self.options)).emit(_logical())

    def test_options_it_has_not_are_refused(self) -> None:
        """An unknown option is an error that names those there are."""
        with pytest.raises(WrapperIRError, match="no_such_option"):
            make_emitter(self.target, {"no_such_option": 1})

    # What it checks.

    @pytest.mark.parametrize("name", [name for name in NAMES if name in ("views", "relu_twice")])
    def test_wrong_inputs_are_refused(self, name: str) -> None:
        """Another number of inputs, another type, another size: an error, not a wrong result."""
        self._skip_refused(name)
        function = compile_program(corpus_program(name), self.target, debug="off", **self.options)
        inputs = corpus_inputs(name)
        tensor = inputs[0]
        for wrong in ([], [*inputs, tensor], [tensor.to(torch.complex128), *inputs[1:]]):
            with pytest.raises((WrapperIRError, TypeError)):
                function(*wrong)
        larger = torch.cat([tensor, tensor])
        with pytest.raises((WrapperIRError, TypeError)):
            function(larger, *inputs[1:])

    # Debugging.

    @pytest.mark.parametrize("name", NAMES)
    def test_debugging_changes_nothing(self, name: str, capfd: pytest.CaptureFixture[str]) -> None:
        """With probes around every call, a program gives the same."""
        self._skip_refused(name)
        if not self.has_probes:
            pytest.skip("the emitter shows no values")
        program = corpus_program(name)
        if not any(type(line).__name__.endswith(("Call", "Kernel")) for _, line in walk(program)):
            pytest.skip("the program calls nothing")
        inputs = corpus_inputs(name)
        assert_equivalent(
            insert_probes(program, DebugPrinter("names")), *inputs, targets=(self.target,)
        )
        capfd.readouterr()

    def _artifact(self, program: Program) -> Artifact:
        return emit(program, self.target, **self.options)

    def _skip_refused(self, name: str) -> None:
        if name in self.refused:
            pytest.skip(f"{self.target} refuses it")


def _logical() -> Program:
    for name in NAMES:
        program = corpus_program(name, planned=False)
        if program.stage.value == "logical":
            return program
    raise AssertionError("no program of the corpus is logical")
