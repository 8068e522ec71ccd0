"""What becomes of faults put into programs of whole models: who finds them, and what is missed.

Whether a fault harms, the interpreter tells: it runs the program with and without it, on the inputs
that the model gave it and on two made-up sets, and compares results, inputs and constants
afterwards, and what shares memory. Made-up numbers alone are not enough: a sigmoid of large ones is
1, whatever was left out before it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.fuzz.compare import Outcome, compare, run
from tests.fuzz.streams import made
from tests.interpreter.support import copies
from tests.models.zoo import CASES, TRAINING, Case
from tests.seeded.changes import CHANGES, NO_ORDER, dropped_order, some
from tools.opinfo import interpreting
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor.contract import contract_of
from wrapper_ir.interpreter import InterleavingError, RaceError, made_up_inputs, run_interleaved
from wrapper_ir.lines import Stage
from wrapper_ir.verify.contract import Contract, breaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir import Program

#: Who finds a fault, in the order in which they are asked.
FINDERS = ("verifier", "contract", "validate", "validate, run")


@dataclass
class Survey:
    """Counts.

    Attributes:
        harmful: Of faults that harm, by kind and finder; ``missed`` if nobody finds them.
        harmless: The same of others; ``quiet`` if nobody says anything.
        lines: The number of lines and results of programs without faults.
        not_shown: How many of them are not shown, by reason.
        alarms: What is said of programs without faults.
        missed: The faults that nobody finds.
        only_run: The faults that a run alone finds.
        noise: Faults that do no harm, and what is said of them.
    """

    harmful: Counter[tuple[str, str]] = field(default_factory=Counter)
    harmless: Counter[tuple[str, str]] = field(default_factory=Counter)
    lines: int = 0
    not_shown: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    only_run: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)

    def enter(self, what: str, kind: str, who: str | None, words: str, *, is_harmful: bool) -> None:
        """Enter what became of a fault that the verifier does not refuse."""
        if not is_harmful:
            self.harmless[kind, who or "quiet"] += 1
            if who is not None:
                self.noise.append(f"{what}: {words}")
            return
        self.harmful[kind, who or "missed"] += 1
        if who is None:
            self.missed.append(what)
        elif who == FINDERS[-1]:
            self.only_run.append(f"{what}: {words}")

    def share(self, *finders: str) -> float:
        """The share of harmful faults that some finders find."""
        found = sum(n for (_, who), n in self.harmful.items() if who in finders)
        return found / max(1, self.harmful.total())

    def table(self) -> str:
        """A row for each kind of fault, with the numbers that each finder is the first to find."""
        heads = (*FINDERS, "missed")
        rows = [f"{'':24}{'harmful':>8}" + "".join(f"{each:>15}" for each in heads)]
        kinds = (*CHANGES, NO_ORDER)
        for kind in kinds:
            counts = [self.harmful[kind, who] for who in heads]
            rows.append(f"{kind:24}{sum(counts):>8}" + "".join(f"{n or '':>15}" for n in counts))
        counts = [sum(self.harmful[kind, who] for kind in kinds) for who in heads]
        rows.append(f"{'all':24}{sum(counts):>8}" + "".join(f"{n or '':>15}" for n in counts))
        return "\n".join(rows)


def survey(names: list[str], most: int, seed: int, into: Survey | None = None) -> Survey:
    """Put at most so many faults of each kind into each program of some models."""
    found = into or Survey()
    for name, program, graph, given in _programs(names):
        for stage, each in (("logical", program), ("planned", wir.plan_memory(program, "pool"))):
            _study(f"{name}, {stage}", each, graph, given, most, seed, found)
    return found


def survey_streams(count: int, found: Survey) -> None:
    """Leave out each wait and each event of made-up programs with streams.

    Whether that harms, the interpreter tells, which runs what streams do in random legal orders.
    """
    for seed in range(count):
        program = made(seed)
        for stage, each in (("logical", program), ("planned", wir.plan_memory(program, "pool"))):
            name = f"streams {seed}, {stage}"
            if faults := wir.diagnose(each):
                found.alarms.append(f"{name}: verifier: {faults[0]}")
            elif words := _told_by_orders(each):
                found.alarms.append(f"{name}: {FINDERS[-1]}: {words}")
            for what, changed in dropped_order(each):
                faults = wir.diagnose(changed)
                words = _told_by_orders(changed)
                who = FINDERS[0] if faults else FINDERS[-1] if words else None
                told = str(faults[0]) if faults else words
                found.enter(f"{name}: {what}", NO_ORDER, who, told, is_harmful=bool(words))


def _told_by_orders(program: Program) -> str:
    """Return what is said of a program with streams that runs in random orders."""
    try:
        run_interleaved(program, torch.arange(-4.0, 4.0), interleavings=20, verify=False)
    except (RaceError, InterleavingError) as error:
        return str(error)
    return ""


def _programs(names: list[str]) -> Iterator[tuple[str, Program, Any, list[Any]]]:
    """Yield the programs of models, forward and in training, with their graphs and inputs."""
    for case in CASES:
        if case.name in names:
            for training in (False, True):
                if not training or case in TRAINING:
                    yield from _of(case, training=training)


def _of(case: Case, *, training: bool) -> Iterator[tuple[str, Program, Any, list[Any]]]:
    torch.compiler.reset()
    model, args = case.make()
    with warnings.catch_warnings(), torch.set_grad_enabled(training), _calls() as calls:
        warnings.simplefilter("ignore")
        with wir.record() as programs:
            compiled = torch.compile(
                model.train(training), backend="wrapper_ir", options={"emitter": "interpreter"}
            )
            results = compiled(*args)
            leaves = [x for x in pytree.tree_leaves(results) if getattr(x, "requires_grad", False)]
            if leaves:
                torch.stack([x.sum() for x in leaves]).sum().backward()
    how = "training" if training else "inference"
    found = zip(
        programs, programs.graphs, calls, strict=True
    )  # each is called as soon as it is made
    for number, (program, graph, given) in enumerate(found):
        yield f"{case.name}, {how}, {number}", program, graph, given


@contextlib.contextmanager
def _calls() -> Iterator[list[list[Any]]]:
    """Collect copies of the inputs of each program that is interpreted meanwhile."""
    inputs: list[list[Any]] = []
    interpret = wir.interpret

    def noting(program: Program, *given: Any, **options: Any) -> Any:
        inputs.append([*copies(given)])
        return interpret(program, *given, **options)

    interpreting.register()
    with mock.patch.object(wir, "interpret", noting):
        yield inputs


def _study(
    name: str, program: Program, graph: Any, given: list[Any], most: int, seed: int, found: Survey
) -> None:
    made_up = made_up_inputs(program, seed), made_up_inputs(program, seed + 1, positive=True)
    inputs = [given, *made_up]
    expected = [_outcome(program, each) for each in inputs]
    contract = contract_of(graph.graph)
    validation = wir.validate(program, graph)
    found.lines += validation.lines
    found.not_shown.update(each.why.partition("%")[0].strip() for each in validation.not_shown)
    who, words = _told(program, graph, contract)
    words = words or _told_by_run(program, graph)
    if words:
        found.alarms.append(f"{name}: {who or FINDERS[-1]}: {words}")
        return
    for kind, change in CHANGES.items():
        for what, changed in some(program, change, most, f"{seed} {name} {kind}"):
            who, words = _told(changed, graph, contract)
            if who == "verifier":  # what it refuses is not run
                found.harmful[kind, who] += 1
                continue
            told, is_harmful = _apart(
                lambda p=changed: (
                    _told_by_run(p, graph),
                    _is_harmful(p, inputs, expected),
                )
            )
            if who is None and told:
                who, words = FINDERS[-1], told
            found.enter(f"{name}: {what}", kind, who, words, is_harmful=is_harmful)


def _told(program: Program, graph: Any, contract: Contract) -> tuple[str | None, str]:
    """Return who is the first to find a fault without running it, and what is said."""
    if faults := wir.diagnose(program):
        return "verifier", str(faults[0])
    is_alike = len(contract.inputs) == len(program.inputs)
    is_alike &= len(contract.results) == len(program.results)
    if is_alike and (faults := breaches(program, contract)):
        return "contract", str(faults[0])
    if faults := wir.validate(program, graph).faults:
        return "validate", str(faults[0])
    return None, ""


def _told_by_run(program: Program, graph: Any) -> str:
    """Return what is said of values, or the error that ends the run."""
    try:
        faults = wir.validate(program, graph, run=True).faults
    except WrapperIRError as error:
        return str(error)
    return str(faults[0]) if faults else ""


def _apart(call: Callable[[], tuple[str, bool]]) -> tuple[str, bool]:
    """Call a function in a copy of this process, which ends where unwritten memory is an index."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(call()))
    child.start()
    theirs.close()
    try:
        found: tuple[str, bool] = ours.recv()
    except EOFError:
        found = ("the process ended", True)
    child.join()
    return found


def _is_harmful(program: Program, inputs: list[Any], expected: list[list[Outcome]]) -> bool:
    pairs = zip(inputs, expected, strict=True)
    runs = [(_outcome(program, each), other) for each, other in pairs]
    if any(compare(program, *each) for each in runs):
        return True
    is_logical = program.stage is Stage.LOGICAL  # there are pools in others
    return is_logical and any(each[0].sharing != other[0].sharing for each, other in runs)


def _outcome(program: Program, inputs: Any) -> list[Outcome]:
    return run(program, lambda p: lambda *given: wir.interpret(p, *given, verify=False), inputs)
