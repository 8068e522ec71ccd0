"""Equivalence of a program's results across emitters, the interpreter and eager PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from wrapper_ir.analysis.borders import example_symbols
from wrapper_ir.api import compile as compile_program
from wrapper_ir.debugging.bisect import bisect
from wrapper_ir.errors import UnsupportedError, WrapperIRError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, ScalarInput
from wrapper_ir.lines.expr import substitute
from wrapper_ir.lines.fields import as_program
from wrapper_ir.runtime.main import random_tensor
from wrapper_ir.runtime.probes import difference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.lines.program import Program


REFERENCE: Final = "python"
"""The target that others are compared with."""

TARGETS: Final = (REFERENCE, "cpp", "fx")


class NotEquivalentError(WrapperIRError, AssertionError):
    """A program gives different results in two places.

    Fields: ``program``; ``target`` and ``reference``, the two places; ``what``, the name of the
    value; ``words``, the difference; ``call``, the first call that differs, if known.
    """

    code = "WIR5001"
    template = "program '{program}': {what} of {target} {words} (compared with {reference}){call}"


def assert_equivalent(
    program: Program,
    *inputs: Any,  # noqa: ANN401 - tensors and numbers
    targets: Sequence[str] = TARGETS,
    eager: Callable[..., Any] | None = None,
    tolerance: tuple[float, float] | None = None,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
) -> None:
    """Run a program with every emitter and fail at the first value that differs.

    The reference interpreter runs it first. Each emitter must produce the same bits for the results
    and for inputs that the program writes. All runs start from the same random state.

    Args:
        program: The program.
        *inputs: Its inputs, which are not modified. If there are none, ``example_inputs`` makes
            them.
        targets: The emitters.
        eager: A function of the inputs that computes the same. It is compared with a tolerance.
        tolerance: Relative and absolute, for ``eager``. The default depends on the element type as
            in ``torch.testing.assert_close``.
        seed: The random seed.
        options: Options of the emitters.

    Raises:
        NotEquivalentError: A value differs. It is an AssertionError.
        WrapperIRError: The program cannot be rendered or run.
    """
    given = list(inputs) if inputs else example_inputs(program, seed=seed)
    reference = run_on_copies(lambda *args: interpret(program, *args), given, seed)
    for target in targets:
        function = compile_program(program, target, debug="off", **(options or {}))
        actual = run_on_copies(function, given, seed)
        mismatch = _first_difference(actual, reference, (0.0, 0.0))
        if mismatch:
            call = _first_call(program, given, target)
            raise _error(program, target, "the interpreter", mismatch, call)
    if eager is not None:
        expected = run_on_copies(_as_tuple(eager), given, seed)
        mismatch = _first_difference(reference, expected, tolerance)
        if mismatch:
            raise _error(program, "the interpreter", "eager PyTorch", mismatch, "")


def example_inputs(program: Program, *, seed: int = 0) -> list[Any]:
    """Return inputs with a program's layouts and random contents; symbols take their hints.

    Floating-point elements are normally distributed, integers are 0 or 1.

    Args:
        program: The program.
        seed: The random seed. The global generator keeps its state.
    """
    as_program(program, "example_inputs")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        numbers = example_symbols(program)
        return [_example(program, each, numbers) for each in program.inputs]


def _example(
    program: Program, item: Input, numbers: Mapping[str, int | float | None]
) -> Any:  # noqa: ANN401 - whatever a program takes
    match item:
        case BufferInput():
            layout = program.layout(item.name)
            known = {name: int(number or 0) for name, number in numbers.items()}
            size, stride = (
                tuple(int(substitute(each, known)) for each in row)
                for row in (layout.size, layout.stride)
            )
            dtype: torch.dtype = getattr(torch, layout.dtype.torch_name)
            return random_tensor(dtype, size, stride, str(layout.device))
        case ScalarInput():
            return numbers[item.symbol]
        case ObjectInput():
            what = f"an object of class {item.class_name}"
            hint = "it has state that cannot be made up: give inputs of your own"
            raise UnsupportedError(what=what, where="example inputs", hint=hint)


def _as_tuple(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    def run(*args: Any) -> tuple[Any, ...]:  # noqa: ANN401 - tensors and numbers
        results = function(*args)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    return run


def run_on_copies(
    function: Callable[..., tuple[Any, ...]], inputs: Sequence[Any], seed: int = 0
) -> list[tuple[str, Any]]:
    """Run a function on copies of the inputs; return its results and the inputs, by name."""
    copies = [copy_of(value) for value in inputs]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        results = function(*copies)
    named = [(f"result {n}", value) for n, value in enumerate(results)]
    return [*named, *((f"input {n} after the call", value) for n, value in enumerate(copies))]


def assert_same(actual: Sequence[tuple[str, Any]], expected: Sequence[tuple[str, Any]]) -> None:
    """Fail if the outcomes of two runs differ in any bit."""
    mismatch = _first_difference(actual, expected, (0.0, 0.0))
    assert mismatch is None, " ".join(mismatch)


def copy_of(value: Any, device: str = "") -> Any:  # noqa: ANN401 - tensors and numbers
    """Copy a tensor with its strides, optionally to a device; return other values as they are."""
    if not isinstance(value, Tensor):
        return value
    place = device or value.device
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=place)
    return copy.copy_(value.detach())


def _first_difference(
    actual: Sequence[tuple[str, Any]],
    expected: Sequence[tuple[str, Any]],
    tolerance: tuple[float, float] | None,
) -> tuple[str, str] | None:
    """Return the name of the first value that differs, and the difference."""
    if len(actual) != len(expected):
        return "the number of results", f"is {len(actual)}, not {len(expected)}"
    for (name, actual_value), (_, expected_value) in zip(actual, expected, strict=True):
        words = _difference(actual_value, expected_value, tolerance)
        if words:
            return name, words
    return None


def _difference(
    actual: Any, expected: Any, tolerance: tuple[float, float] | None  # noqa: ANN401 - any result
) -> str:
    if isinstance(actual, Tensor) and isinstance(expected, Tensor):
        if tolerance == (0.0, 0.0) and actual.stride() != expected.stride() and actual.numel():
            return f"has strides {tuple(actual.stride())}, not {tuple(expected.stride())}"
        return difference(actual, expected, tolerance)
    same = type(actual) is type(expected) and (
        actual == expected or (actual != actual and expected != expected)
    )
    return "" if same else f"is {actual!r}, not {expected!r}"


def _first_call(program: Program, inputs: Sequence[Any], target: str) -> str:
    """Describe the first call that differs from emitted Python; empty if unknown."""
    if target == REFERENCE:
        return ""
    try:
        result = bisect(program, inputs, REFERENCE, target)
    except WrapperIRError:
        return ""
    return f"; the first call that differs from Python: {result}" if result else ""


def _error(
    program: Program, target: str, reference: str, mismatch: tuple[str, str], call: str
) -> NotEquivalentError:
    what, words = mismatch
    return NotEquivalentError(
        program=program.name, target=target, reference=reference, what=what, words=words, call=call
    )
