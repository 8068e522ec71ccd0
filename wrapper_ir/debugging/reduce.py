"""Reduction of a failing program to a minimal one that still fails in the same way."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch

import wrapper_ir.lines as ir
from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.extract import copies, with_own_state
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.control import input_name
from wrapper_ir.lines.walk import rewrite_paths
from wrapper_ir.runtime.probes import difference
from wrapper_ir.verify import diagnose


class NoFailureError(WrapperIRError):
    """A program passed to the reducer does not fail. Field: ``program``."""

    code = "WIR1514"
    template = "program '{program}' does not fail, so there is nothing to reduce"
    default_hint = "a command fails if its status is not 0 and it writes the text of --says"


class CommandError(WrapperIRError):
    """The command that judges programs cannot be run. Fields: ``command`` and ``reason``."""

    code = "WIR1515"
    template = "cannot run {command!r}: {reason}"


# Judges: an external command, or a comparison of emitters with the interpreter.
#
# A judge names the kind of failure in a few words that stay the same while the program shrinks. A
# smaller program counts only if it fails in the same way; otherwise the search for one bug could
# end at another.

Judge: TypeAlias = Callable[[ir.Program], str]
"""A function that returns the kind of a program's failure, or an empty string if it succeeds."""

PLACE = "{}"
"""The placeholder for the file name in a command. Without one, the name is appended."""


def by_command(command: Sequence[str], *, says: str = "", seconds: float = 60.0) -> Judge:
    """Return a judge that runs a command on the program's file; a nonzero status is a failure.

    Args:
        command: The command and its arguments. No shell is involved.
        says: Text that the output or the error stream must contain for the failure to count.
        seconds: The time limit. A timeout does not count as a failure.

    Raises:
        CommandError: The command cannot be run. The judge raises it.
    """

    def judge(program: ir.Program) -> str:
        with tempfile.TemporaryDirectory(prefix="wir-reduce-") as folder:
            file = pathlib.Path(folder) / "program.wir"
            program.save(file)
            words = [word.replace(PLACE, str(file)) for word in command]
            words += [] if words != list(command) else [str(file)]
            try:
                done = subprocess.run(words, capture_output=True, check=False, timeout=seconds)
            except subprocess.TimeoutExpired:
                return ""
            except OSError as error:
                reason = error.strerror or str(error)
                raise CommandError(command=words[0], reason=reason) from error
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        return f"status {done.returncode}" if done.returncode and says in text else ""

    return judge


def by_difference(
    program: ir.Program,
    inputs: Sequence[Any],
    targets: Sequence[str],
    *,
    seed: int = 0,
    seconds: float = 60.0,
) -> Judge:
    """Return a judge that compares emitters with the interpreter; errors and other bits fail.

    Args:
        program: The original program.
        inputs: Its inputs. Smaller programs get those that they still take.
        targets: The emitters.
        seed: The random seed of each run.
        seconds: The time limit for all runs of a program together, since a loop may have lost its
            exit condition. It is checked in the main thread, between lines. A timeout does not
            count as a failure.
    """
    values = dict(zip(map(input_name, program.inputs), inputs, strict=True))

    def judge(candidate: ir.Program) -> str:
        try:
            with _at_most(seconds):
                return how(candidate)
        except _TooLongError:
            return ""

    def how(candidate: ir.Program) -> str:
        args = [values[input_name(item)] for item in candidate.inputs]
        expected, word = _outcome(lambda p: partial(interpret, p), candidate, args, seed)
        if word:
            return f"interpreter: {word}"
        over_zeros = partial(interpret, unwritten=b"\0\0")
        others, word = _outcome(lambda p: partial(over_zeros, p), candidate, args, seed)
        if word or _first_difference(others, expected):
            return "it reads uninitialized memory"  # no bug of an emitter
        for target in targets:
            make = partial(compile_program, target=target, debug="off")
            actual, word = _outcome(make, candidate, args, seed)
            word = word or _first_difference(actual, expected)
            if word:
                return f"{target}: {word}"
        return ""

    return judge


class _TooLongError(BaseException):
    """The time limit was reached; not an Exception, since those count as program failures."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise in the block when the time limit is reached; there is no limit outside the main thread.

    An alarm that was already set is restored afterwards with its remaining time on entry.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, over)
    alarm = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *alarm)


def _outcome(
    make: Callable[[ir.Program], Callable[..., Sequence[Any]]],
    program: ir.Program,
    inputs: Sequence[Any],
    seed: int,
) -> tuple[dict[str, list[Any]], str]:
    """Run a program; return its results, inputs and constants, or a word for the failure."""
    own, args = with_own_state(program), copies(inputs)
    gone = [isinstance(item, ir.BufferInput) and item.donated for item in program.inputs]
    kept = [value for value, is_gone in zip(args, gone, strict=True) if not is_gone]
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            results = list(make(own)(*args))
    except WrapperIRError as error:
        return {}, error.code
    except Exception as error:  # an emitted program may raise anything
        return {}, type(error).__name__
    return {"results": results, "inputs": kept, "constants": list(own.data.values())}, ""


def _first_difference(actual: dict[str, list[Any]], expected: dict[str, list[Any]]) -> str:
    for where, values in expected.items():
        for one, other in zip(actual[where], values, strict=True):
            if _differ(one, other):
                return f"different {where}"
    return ""


def _differ(one: Any, other: Any) -> bool:  # noqa: ANN401 - results are tensors or numbers
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bool(difference(one, other, (0.0, 0.0))) or (
            one.layout is torch.strided and bool(one.numel()) and one.stride() != other.stride()
        )
    return type(one) is not type(other) or repr(one) != repr(other)


def reduce(program: ir.Program, fails: Callable[[ir.Program], bool]) -> ir.Program:
    """Return a smaller program that is valid and still fails.

    Lines (including those of regions), results and inputs are dropped, first in large runs and then
    one by one, while the program still verifies, with no warning that the original does not have,
    and ``fails`` returns True. The result is minimal: no single one of them can be dropped from it.

    A program that reads what nothing has written may fail in the same words for another reason.

    Args:
        program: A program that fails.
        fails: A function that returns True if a program fails. It is called with valid programs
            only, whose inputs are a subset of the original ones.
    """
    known = {each.message for each in diagnose(program, warnings=True) if each.rule.is_warning}

    def holds(candidate: ir.Program) -> bool:
        found = diagnose(candidate, warnings=True)
        is_sound = all(each.rule.is_warning and each.message in known for each in found)
        return is_sound and fails(candidate)

    while True:
        before = program
        program = _fewer_lines(program, holds)
        program = _fewer(program, holds, "results")
        program = _fewer(program, holds, "inputs")
        if program == before:
            return program


def _fewer_lines(program: ir.Program, holds: Callable[[ir.Program], bool]) -> ir.Program:
    """Drop runs of lines, long ones first, starting from the end."""
    length = max(len(program.body) // 2, 1)
    while length:
        at = len(_paths(program)) - length
        while at >= -length:
            paths = _paths(program)
            run = paths[max(at, 0) : at + length]
            candidate = _tidy(_closed(_without(program, run)))
            if run and holds(candidate):
                program = candidate
                at = min(at, len(_paths(program)))
            at -= length
        length //= 2
    return program


def _fewer(program: ir.Program, holds: Callable[[ir.Program], bool], field: str) -> ir.Program:
    """Drop results or inputs, one by one."""
    for position in reversed(range(len(getattr(program, field)))):
        kept = getattr(program, field)
        fewer = (*kept[:position], *kept[position + 1 :])
        candidate = _tidy(program.replace(**{field: fewer}))
        ended = _tidy(_ending(candidate, kept[position]))
        program = next((each for each in (candidate, ended) if holds(each)), program)
    return program


def _paths(program: ir.Program) -> list[ir.Path]:
    """Return the paths of removable lines; kernel definitions go with their last call."""
    return [p for p, line in ir.walk(program) if not ir.effects(line).declares]


def _without(program: ir.Program, paths: Collection[ir.Path]) -> ir.Program:
    gone = set(paths)
    return rewrite_paths(program, lambda path, line: () if path in gone else (line,))


def _closed(program: ir.Program) -> ir.Program:
    """Drop the lines and results that use undefined names.

    So an allocation is dropped together with its uses and its free, wherever they are.
    """
    inputs = [ir.effects(item) for item in program.inputs]
    defined = {*program.constants, *(name for each in inputs for name in each.defines)}
    objects = {*program.objects, *(name for each in inputs for name in each.defines_objects)}
    body: list[ir.AnyLine] = []
    for line in program.body:
        line_effects = ir.effects(line, program)
        if defined.issuperset((*line_effects.touched, *line_effects.peeks)) and objects.issuperset(
            line_effects.objects
        ):
            defined.update(line_effects.defines)
            objects.update(line_effects.defines_objects)
            body.append(line)
    gone = [v for v in program.results if isinstance(v, ir.BufferValue) and v.buffer not in defined]
    results = tuple(value for value in program.results if value not in gone)
    return program.replace(body=tuple(body), results=results)


def _ending(program: ir.Program, gone: object) -> ir.Program:
    """Free a former result, if the program is planned and so frees explicitly."""
    if program.stage is not ir.Stage.PLANNED or not isinstance(gone, ir.BufferValue):
        return program
    return program.replace(body=(*program.body, ir.Free(gone.buffer)))


def _tidy(program: ir.Program) -> ir.Program:
    """Drop unused kernels, constants and objects, and the layouts of undefined names."""
    called = {name for _, line in ir.walk(program) for name in ir.effects(line).calls}
    body = tuple(line for line in program.body if called.issuperset(ir.effects(line).declares))
    program = program.replace(body=body)
    used: set[str] = {v.buffer for v in program.results if isinstance(v, ir.BufferValue)}
    defined = {item.name for item in program.inputs if isinstance(item, ir.BufferInput)}
    for _, line in ir.walk(program):
        line_effects = ir.effects(line, program)
        used.update(line_effects.touched)
        defined.update(line_effects.defines)
        for _, region in ir.regions_of(line):
            defined.update(p.name for p in region.params if isinstance(p, ir.BufferInput))
            used.update(v.buffer for v in region.results if isinstance(v, ir.BufferValue))
    folding = program.folding if used.intersection(program.folded) else None
    if folding is not None:
        used.update(program.folded, program.folding_sources.values())
    for name, constant in program.constants.items():
        if name in used and constant.packing is not None:
            used.update(constant.packing.sources)
    used.update(each.tied_to for each in program.constants.values() if each.tied_to)
    constants = {name: each for name, each in program.constants.items() if name in used}
    defined |= constants.keys()
    layouts = {name: layout for name, layout in program.buffers.items() if name in defined}
    handed = {name for _, line in ir.walk(program) for name in ir.effects(line, program).objects}
    objects = {name: item for name, item in program.objects.items() if name in handed}
    kept = constants.keys() | objects.keys()
    return program.replace(
        constants=ir.FrozenMap(constants),
        objects=ir.FrozenMap(objects),
        buffers=ir.FrozenMap(layouts),
        tangents=(),  # they describe the last inputs, some of which may be gone
        unread=(),
        folding=folding,
        data={name: value for name, value in program.data.items() if name in kept},
    )
