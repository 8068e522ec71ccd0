"""Made-up programs by the thousand: a chunk at a time, whose C++ is compiled as one library."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import wrapper_ir as wir
from tests.fuzz import batch, reach
from tests.fuzz.compare import (
    PLANS,
    Outcome,
    Run,
    compare,
    emitted,
    interpreted,
    options,
    planned,
    run,
)
from tests.fuzz.maker import Made, make
from wrapper_ir.aot.emitter import CppArtifact
from wrapper_ir.debug_printer import DebugPrinter, insert_probes, remove_probes
from wrapper_ir.lines import KernelDefinition, Program, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache

#: What differs in each of so many programs in a row: its plan, and whether it has probes.
_PROBED_EVERY = 5


@dataclass
class Case:
    """One program on its way through all the ways.

    Attributes:
        plan: How its memory is planned.
        program: The planned program, with probes in some.
        lines: How many lines the program has before it is planned; kernels do not count.
        artifact: Its C++.
        failure: What differed: the way, and how; empty where nothing did.
    """

    seed: int
    made: Made
    plan: str
    program: Program
    lines: int
    artifact: CppArtifact | None = None
    expected: list[Outcome] = field(default_factory=list)
    failure: str = ""


@dataclass
class Tally:
    """What was done so far.

    Attributes:
        lines: Lines that were run, for each way.
        took: Processor seconds of this process, for each way and for what comes before.
    """

    programs: int = 0
    lines: Counter[str] = field(default_factory=Counter)
    took: Counter[str] = field(default_factory=Counter)
    reached: reach.Reach = field(default_factory=reach.Reach)

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        begin = time.thread_time()
        yield
        self.took[what] += time.thread_time() - begin


class Session:
    """Runs chunks of programs."""

    def __init__(
        self,
        targets: Sequence[str],
        cache: DiskCache | None = None,
        flags: tuple[str, ...] = batch.QUICK,
    ) -> None:
        self.tally = Tally()
        self._targets = targets
        self._cache = cache
        self._flags = flags

    def chunk(self, seed: int, lines: int) -> list[Case]:
        """Makes and runs programs of at least so many lines together, from a seed on."""
        cases: list[Case] = []
        while sum(case.lines for case in cases) < lines:
            cases.append(self._made(seed + len(cases)))
        good = [case for case in cases if not case.failure]
        with ThreadPoolExecutor(1) as pool:
            library = self._compiled(pool, good)
            for case in good:
                self._compare_all(case)
            if library is not None:
                self._compare_cpp(good, library)
        self.tally.programs += len(cases)
        return cases

    # Before anything runs.

    def _made(self, seed: int) -> Case:
        with self.tally.timing("making"):
            made = make(seed, long=True)
        plan = [*PLANS][seed % len(PLANS)]
        count = sum(not isinstance(line, KernelDefinition) for _, line in walk(made.program))
        case = Case(seed, made, plan, made.program, count)
        self.tally.lines["made"] += count
        try:
            with self.tally.timing("verifier"):
                wir.verify(made.program)
            with self.tally.timing("text and canonical form"):
                case.failure = forms(made.program)
            with self.tally.timing("planner"):
                case.program = planned(made.program, plan)
            if seed % _PROBED_EVERY == 0:
                case.program = probed(case.program)
            self.tally.reached.add(case.program)
            if "cpp" in self._targets:
                with self.tally.timing("emitting C++"):
                    artifact = wir.emit(case.program, "cpp", **options("cpp", plan))
                assert isinstance(artifact, CppArtifact)
                case.artifact = artifact
        except Exception as error:
            case.failure = f"{plan}: cannot be made: {_words(error)}"
        return case

    def _compiled(self, pool: ThreadPoolExecutor, cases: list[Case]) -> Future[Path] | None:
        artifacts = [case.artifact for case in cases if case.artifact is not None]
        if not artifacts:
            return None
        return pool.submit(batch.build, artifacts, cache=self._cache, flags=self._flags)

    # Runs.

    def _compare_all(self, case: Case) -> None:
        probed = case.program is not remove_probes(case.program)
        reference = case.program if probed else case.made.program
        with self.tally.timing("interpreter"):
            case.expected = run(reference, interpreted, case.made.inputs())
        errors = [outcome.error for outcome in case.expected if outcome.error]
        if errors:
            case.failure = f"interpreter: {errors[0]}"
            return
        self.tally.lines["interpreter"] += case.lines
        self._compare(case, "interpreter", interpreted)
        for target in self._targets:
            if target in ("python", "fx"):
                self._compare(case, target, lambda p, t=target: emitted(p, t, case.plan))

    def _compare_cpp(self, cases: list[Case], library: Future[Path]) -> None:
        begin = time.monotonic()
        found = library.result()
        self.tally.took["waiting for g++"] += time.monotonic() - begin
        numbered = enumerate(case for case in cases if case.artifact is not None)
        for number, case in numbered:
            if not case.failure:
                self._compare(case, "cpp", lambda p, n=number: batch.load(found, p, n))

    def _compare(self, case: Case, target: str, make: Callable[[Program], Run]) -> None:
        if case.failure:
            return
        way = f"{target}, {case.plan}"
        try:
            with self.tally.timing(way):
                outcomes = run(case.program, make, case.made.inputs())
            words = compare(case.made.program, outcomes, case.expected)
        except Exception as error:
            words = f"cannot be made: {_words(error)}"
        if words:
            case.failure = f"{way}: {words}"
        else:
            self.tally.lines[way] += case.lines


def forms(program: Program) -> str:
    """What of a program's other forms is wrong: its text, and its canonical form."""
    text = str(program)
    again = wir.parse(text)
    if str(again) != text or again != program.replace(data=again.data):
        return "text: what is parsed is not what was printed"
    plain = wir.canonical(program)
    if wir.canonical(plain) != plain:
        return "canonical: the canonical form of the canonical form is another"
    return ""


def probed(program: Program) -> Program:
    """A planned program whose calls report all that they read and write."""
    found = insert_probes(program, DebugPrinter("hook"))
    if remove_probes(found) != program:
        raise AssertionError("without its probes it is another program")
    return found


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:2000]}"
