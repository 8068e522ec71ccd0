"""The conformance kit for emitters: the requirements on every emitter as a test class to inherit.

This test file checks a third-party emitter, registered under the entry point group
``wrapper_ir.emitters``, against the whole corpus::

    from wrapper_ir.testing.conformance import EmitterConformance

    class TestMine(EmitterConformance):
        target = "mine"
        refused = frozenset({"cond", "while"})

Results are compared bit by bit with those of the reference interpreter. The emitter must refuse
exactly the programs listed in ``refused``, each with a single error that lists every line that
cannot be rendered.
"""

from __future__ import annotations

import difflib
import itertools
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
import torch

from wrapper_ir.analysis.legality import illegal
from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.api import compile as compile_program
from wrapper_ir.api import emit, prepare
from wrapper_ir.debug_printer import DebugPrinter, insert_probes
from wrapper_ir.emitters import EmitError, Legal
from wrapper_ir.emitters.artifact import Artifact
from wrapper_ir.emitters.base import LogicalProgramError
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.program import Program, Stage
from wrapper_ir.lines.traits import shows
from wrapper_ir.lines.walk import walk
from wrapper_ir.passes import legalisation_for, lowering_for, plan_memory
from wrapper_ir.runtime.apart import span
from wrapper_ir.testing import corpus
from wrapper_ir.testing.equivalence import assert_equivalent, assert_same, run_on_copies
from wrapper_ir.testing.watched import WatchedPrograms, names_missing, poisoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path


__all__ = ["EmitterConformance"]

NAMES: Final = tuple(corpus.corpus_files())

_SHOWN: Final = 3000
"""Characters to show of another process's output."""

_EMIT = """
import importlib, sys
importlib.import_module(sys.argv.pop(1))
from wrapper_ir.api import emit
from wrapper_ir.testing.corpus import corpus_program
for name in sys.argv[2:]:
    sys.stdout.write(emit(corpus_program(name), sys.argv[1]).source)
"""


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
class EmitterConformance(WatchedPrograms):
    """Tests that every emitter must pass. A subclass names the emitter.

    Attributes:
        target: The name of the emitter.
        options: The options to emit with.
        refused: The corpus programs that it cannot render.
        has_probes: True if it renders probes.
        has_branches: True if it renders the streams of captured graphs. In calls that are not
            captured these are the caller's stream.
    """

    target: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()
    has_probes: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run each test in its own folder, since programs that save values write files."""
        monkeypatch.chdir(tmp_path)

    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[None]:
        """Fill new and freed memory with garbage."""
        with poisoned():
            yield

    @pytest.fixture(params=NAMES)
    def name(self, request: pytest.FixtureRequest) -> str:
        """Return the name of a program that the emitter renders."""
        if request.param in self.refused:
            pytest.skip(f"{self.target} refuses it")
        return str(request.param)

    # Results.

    @pytest.mark.parametrize("seed", [0, 1])
    def test_results_are_the_interpreters(self, name: str, seed: int) -> None:
        """Results, layouts and written inputs have the same bits."""
        assert_equivalent(
            corpus.corpus_program(name),
            *corpus.corpus_inputs(name, seed=seed),
            targets=(self.target,),
            options=self.options,
        )

    def test_calls_do_not_disturb_each_other(self, name: str) -> None:
        """A second call is correct and does not change the results of the first."""
        program, reference = corpus.corpus_program(name), corpus.corpus_program(name)
        function = self._function(program)
        runs = []
        for seed in (0, 1):
            inputs = corpus.corpus_inputs(name, seed=seed)
            results = run_on_copies(function, inputs)
            assert_same(results, run_on_copies(partial(interpret, reference), inputs))
            runs.append((results, _contents(results)))
        first, before = runs[0]
        assert_same(_contents(first), before)

    def test_results_share_memory_as_they_should(self, name: str) -> None:
        """Views are views, copies are copies, and the same random numbers are drawn."""
        outcomes = []
        for is_reference in (True, False):
            program, inputs = corpus.corpus_program(name), corpus.corpus_inputs(name)
            function = None if is_reference else self._function(program)
            torch.manual_seed(0)
            with torch.no_grad():
                results = interpret(program, *inputs) if function is None else function(*inputs)
            assert type(results) is tuple
            values = [*results, *inputs, *program.data.values()]
            outcomes.append((_overlaps(values), torch.get_rng_state().tolist()))
        (expected_overlaps, expected_state), (overlaps, state) = outcomes
        assert overlaps == expected_overlaps, "values share other memory than in the interpreter"
        assert state == expected_state, "the random state differs from the interpreter's"

    def test_calls_are_below_autograd(self, name: str) -> None:
        """Autograd and autocast are off inside, and autograd learns of writes to inputs."""
        program, inputs = corpus.corpus_program(name), corpus.corpus_inputs(name)
        expected = run_on_copies(self._function(program), inputs)
        function, args = self._function(corpus.corpus_program(name)), corpus.corpus_inputs(name)
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        for tensor in tensors:
            tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())
        mutated = [n for n in mutated_inputs(program) if args[n].requires_grad]
        saved = {n: (args[n] * args[n]).abs().sum() for n in mutated}
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
            torch.manual_seed(0)
            results = function(*args)
            assert torch.is_grad_enabled(), "autograd is off after the call"
        shared = {number for pair in _overlaps([*results, *args]) for number in pair}
        for number, result in enumerate(results):
            # To torch, any view of a tensor that requires gradients requires them too.
            if isinstance(result, torch.Tensor) and result.numel() and number not in shared:
                assert not result.requires_grad, "a result is part of an autograd graph"
        for value in saved.values():
            # The input that autograd saved has changed, so a backward would be wrong.
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                value.backward()
        names = [name for name, _ in expected]
        assert_same([*zip(names, (*results, *args), strict=True)], expected)

    def test_constants_are_the_programs(self, name: str) -> None:
        """Constants are not copied: the next call sees a change to a tensor of ``Program.data``."""
        program, inputs = corpus.corpus_program(name), corpus.corpus_inputs(name)
        if not program.constants:
            pytest.skip("the program has no constants")
        function = self._function(program)
        run_on_copies(function, inputs)
        for value in {id(value): value for value in program.data.values()}.values():
            value.copy_(value.clone().flip(0))
        kept = {name: value.clone() for name, value in program.data.items()}
        reference = program.replace(data=kept)
        expected = run_on_copies(partial(interpret, reference), inputs)
        assert_same(run_on_copies(function, inputs), expected)

    def test_boxed_calls_empty_their_list(self, name: str) -> None:
        """``load_boxed`` takes one list and empties it, so that inputs are freed early."""
        inputs = corpus.corpus_inputs(name)
        with torch.no_grad():
            self._artifact(corpus.corpus_program(name)).load_boxed()(inputs)
        assert inputs == []

    # Emitting.

    @pytest.mark.parametrize("name", NAMES)
    def test_it_renders_or_refuses(self, name: str) -> None:
        """A program is rendered, or one error lists every line that cannot be."""
        program = corpus.corpus_program(name)
        if name not in self.refused:
            assert isinstance(self._artifact(program), Artifact)
            return
        with pytest.raises(EmitError) as caught:
            self._artifact(program)
        rendered = prepare(program, self.target, debug=None, **self.options)
        lines: dict[str, object] = {str(path): line for path, line in walk(rendered)}
        assert caught.value.problems
        for problem in caught.value.problems:
            assert lines[str(problem.path)] == problem.line
            assert problem.reason

    def test_emitting_is_pure(self, name: str) -> None:
        """The same program gives the same text, regardless of earlier ones."""
        folder, state = os.listdir(), torch.get_rng_state()
        first = self._artifact(corpus.corpus_program(name)).source
        assert os.listdir() == folder, "emitting leaves files behind"
        assert torch.equal(torch.get_rng_state(), state), "emitting draws random numbers"
        self._artifact(corpus.corpus_program(next(n for n in NAMES if n not in self.refused)))
        assert self._artifact(corpus.corpus_program(name)).source == first

    def test_text_does_not_depend_on_the_process(self, tmp_path: Path) -> None:
        """Other hash seeds and other folders give the same text."""
        names = [name for name in NAMES if name not in self.refused]
        texts: list[str] = []
        # Importing the emitter's module in the other process registers the emitter there too.
        home = emitter_class(self.target).__module__
        for seed in ("1", "2"):
            folder = tmp_path / seed
            folder.mkdir()
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", _EMIT, home, self.target, *names],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                cwd=folder,
                capture_output=True,
                check=False,
                text=True,
            )
            output = f"{done.stdout[-_SHOWN:]}\n{done.stderr[-_SHOWN:]}"
            assert (
                done.returncode == 0
            ), f"the other process ended with {done.returncode}:\n{output}"
            texts.append(done.stdout)
        one, other = (text.splitlines() for text in texts)
        difference = difflib.unified_diff(one, other, lineterm="", n=0)
        assert not [*itertools.islice(difference, 20)], "the text depends on the process"

    def test_text_defines_what_it_names(self, name: str) -> None:
        """Python text has no undefined names except constants, which ``load`` may set."""
        program = corpus.corpus_program(name)
        undefined = names_missing(self._artifact(program).source)
        assert len(undefined) <= len({**program.constants, **program.objects}), undefined

    def test_logical_programs_are_refused(self) -> None:
        """An emitter accepts planned programs only."""
        programs = (corpus.corpus_program(name, planned=False) for name in NAMES)
        logical = next(program for program in programs if program.stage is Stage.LOGICAL)
        with pytest.raises(LogicalProgramError):
            make_emitter(self.target, dict(self.options)).emit(logical)

    def test_passes_obey_the_rules(self) -> None:
        """The passes that it names are pure, and a program that went through them is legal."""
        emitter = make_emitter(self.target, dict(self.options))
        names_some = emitter.lowering(probed=False) or emitter.legalisation()
        if not names_some and emitter.legal == Legal():
            pytest.skip("the emitter names no passes")
        for name in NAMES:
            program = corpus.logical_program(name)
            lowered = corpus.obeying(lowering_for(program, emitter), program)
            planned = plan_memory(lowered, arena=emitter.arena)
            legalised = corpus.obeying(legalisation_for(planned, emitter), planned)
            left = [] if name in self.refused else list(illegal(legalised, emitter.legal))
            assert not left, f"no pass makes it legal: {left[0][1]} at {left[0][0]}: {left[0][2]}"

    def test_options_it_has_not_are_refused(self) -> None:
        """An unknown option is an error."""
        with pytest.raises(WrapperIRError, match="no_such_option"):
            make_emitter(self.target, {"no_such_option": 1})

    # Checks.

    def test_wrong_inputs_are_refused(self, name: str) -> None:
        """Wrong counts, types, devices and layouts and out-of-range numbers are errors."""
        program, inputs = corpus.corpus_program(name), corpus.corpus_inputs(name)
        function = self._function(program)
        accepted = []
        for what, wrong in corpus.wrong_inputs(name, program, inputs):
            try:
                function(*wrong)
            except (WrapperIRError, TypeError):
                continue
            accepted.append(what)
        assert not accepted, f"invalid inputs were accepted: {', '.join(accepted)}"

    # Debugging.

    def test_debugging_changes_nothing(self, name: str, capfd: pytest.CaptureFixture[str]) -> None:
        """Probes around every call do not change the results."""
        if not self.has_probes:
            pytest.skip("the emitter shows no values")
        program = corpus.corpus_program(name)
        if not any(type(line).__name__.endswith(("Call", "Kernel")) for _, line in walk(program)):
            pytest.skip("the program calls nothing")
        results, shown = [], []
        for is_reference in (True, False):
            watched = insert_probes(corpus.corpus_program(name), DebugPrinter("print"))
            run = partial(interpret, watched) if is_reference else self._probed(watched)
            capfd.readouterr()
            results.append(run_on_copies(run, corpus.corpus_inputs(name)))
            shown.append("".join(capfd.readouterr()))
        assert_same(results[1], results[0])
        assert shown[1] == shown[0], "probes show different output than in the interpreter"

    def _artifact(self, program: Program) -> Artifact:
        return emit(program, self.target, **self.options)

    def _function(self, program: Program) -> Callable[..., tuple[Any, ...]]:
        return compile_program(program, self.target, debug="off", **self.options)

    def _probed(self, program: Program) -> Callable[..., tuple[Any, ...]]:
        try:
            return self._function(program)
        except EmitError as error:
            if not all(shows(each.line) for each in error.problems):
                raise
        pytest.fail("the emitter renders no probes; has_probes = False says so", pytrace=False)


def _contents(values: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return values with tensors cloned, so that they keep their present contents."""
    return [(n, x.clone() if isinstance(x, torch.Tensor) else x) for n, x in values]


def _overlaps(values: Sequence[object]) -> list[tuple[int, int]]:
    """Return the pairs of values, by position, whose memory overlaps."""
    spans = enumerate(span(x) if isinstance(x, torch.Tensor) else (0, 0) for x in values)
    pairs = itertools.combinations(spans, 2)
    return [(a, b) for (a, one), (b, two) in pairs if max(one[0], two[0]) < min(one[1], two[1])]
