"""Judges of programs that may fail: a command, or emitters beside the interpreter.

A judge tells not only whether a program fails but how, in a word or two that stay the same while
the program gets smaller. A smaller program counts if it fails in the same way: otherwise a search
for one fault ends at another.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.errors import CommandError
from wrapper_ir.debugging.extract import copies, with_own_state
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.control import BufferInput, input_name
from wrapper_ir.runtime.probes import difference

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program

Judge: TypeAlias = Callable[["Program"], str]
"""Tells how a program fails; empty if it does not."""

PLACE = "{}"
"""In a command, the place of the file's name; its end where it has none of these."""

_EXACT = (0.0, 0.0)


def by_command(command: Sequence[str], *, says: str = "", seconds: float = 60.0) -> Judge:
    """A program fails if a command on its file ends with another status than 0.

    Args:
        command: The command and its arguments; no shell reads them.
        says: Words that the command has to say on either stream, for the failure to count.
        seconds: How long it may take. What takes longer does not count as a failure.

    Raises:
        CommandError: It cannot be run; raised by the judge.
    """

    def judge(program: Program) -> str:
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
    program: Program,
    inputs: Sequence[Any],
    targets: Sequence[str],
    *,
    seed: int = 0,
    seconds: float = 60.0,
) -> Judge:
    """A program fails if an emitter gives other bits than the interpreter, or an error.

    Args:
        program: The first one, whose inputs are given.
        inputs: Its inputs; smaller programs get those that they still have.
        targets: The emitters.
        seed: The seed of random numbers, in each run.
        seconds: How long a program may take in all ways together, seen in the main thread between
            its lines: a loop that lost what ends it runs for ever. What takes longer does not
            count as a failure.
    """
    names = map(input_name, program.inputs)
    values = dict(zip(names, inputs, strict=True))

    def judge(candidate: Program) -> str:
        try:
            with _at_most(seconds):
                return how(candidate)
        except _TooLongError:
            return ""

    def how(candidate: Program) -> str:
        given = inputs_of(candidate, values)
        expected, word = _outcome(_interpreted, candidate, given, seed)
        if word:
            return f"interpreter: {word}"
        others, word = _outcome(_interpreted_over_zeros, candidate, given, seed)
        if word or _first_difference(others, expected):
            return "it reads what nothing has written"  # which may be anything: no emitter's fault
        for target in targets:

            def make(p: Program, target: str = target) -> Callable[..., Sequence[Any]]:
                return compile_program(p, target, debug="off")

            found, word = _outcome(make, candidate, given, seed)
            word = word or _first_difference(found, expected)
            if word:
                return f"{target}: {word}"
        return ""

    return judge


class _TooLongError(BaseException):
    """The time is over; no Exception, as those are what a program's failures are known by."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise in the block once the time is over; in other threads it may take as long as it does.

    An alarm that was set before is set again afterwards, for what was left of it at the beginning.
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


def inputs_of(program: Program, values: Mapping[str, Any]) -> list[Any]:
    """Return the inputs of a program, of all that there are by name."""
    return [values[input_name(item)] for item in program.inputs]


def _interpreted(program: Program) -> Callable[..., Sequence[Any]]:
    return lambda *inputs: interpret(program, *inputs)


def _interpreted_over_zeros(program: Program) -> Callable[..., Sequence[Any]]:
    return lambda *inputs: interpret(program, *inputs, unwritten=b"\0\0")


def _outcome(
    make: Callable[[Program], Callable[..., Sequence[Any]]],
    program: Program,
    inputs: Sequence[Any],
    seed: int,
) -> tuple[dict[str, list[Any]], str]:
    """Return what came of a run: results, inputs and constants; or the word for how it failed."""
    own, given = with_own_state(program), copies(inputs)
    kept = [
        value
        for item, value in zip(program.inputs, given, strict=True)
        if not (isinstance(item, BufferInput) and item.donated)
    ]
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            results = list(make(own)(*given))
    except WrapperIRError as error:
        return {}, error.code
    except Exception as error:  # whatever an emitted program raises
        return {}, type(error).__name__
    return {"results": results, "inputs": kept, "constants": list(own.data.values())}, ""


def _first_difference(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> str:
    for where, values in expected.items():
        for one, other in zip(found[where], values, strict=True):
            if _differ(one, other):
                return f"other {where}"
    return ""


def _differ(one: Any, other: Any) -> bool:  # noqa: ANN401 - results are tensors or numbers
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return bool(difference(one, other, _EXACT)) or (
            one.layout is torch.strided and bool(one.numel()) and one.stride() != other.stride()
        )
    return type(one) is not type(other) or repr(one) != repr(other)
