"""Execution of ``Probe`` lines.

A probe writes to no tensor and keeps none alive. It raises nothing, except at the levels ``check``
and ``check_nan``, where that is the purpose, and for exceptions of a hook.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.probes.describe import (
    SHORT_DTYPES,
    Statistics,
    checksum,
    describe,
    describe_layout,
    difference,
    number,
    private_copy,
    statistics,
    value_ranges,
)
from wrapper_ir.runtime.probes.session import DebugSession, current, line_writer

#: A probe function. Its arguments are the probe's buffers, then its scalars.
ProbeCall = Callable[..., None]


class NonFiniteError(WrapperIRError, ArithmeticError):
    """A call wrote a NaN or an infinite value, found at the level ``check`` or ``check_nan``.

    Fields: ``call``, its number and name; ``buffer``, the buffer it wrote; ``what``, ``NaN`` or
    ``inf``; ``count``, the number of them; ``index``, the index of the first; ``inputs``, a
    description of the buffers that the call read.
    """

    code = "WIR1502"
    template = "call {call} wrote {what} to {buffer}, first at {index}, {count} in all; {inputs}"


def make_probe(
    label: str,
    when: str,
    level: str,
    buffers: Sequence[str] = (),
    scalars: Sequence[str] = (),
    source: str = "",
) -> ProbeCall:
    """Return the function that emitted code calls at a probe ``before`` or ``after`` a call.

    The label is the number and the name of the call. The levels are ``names``, ``print``, ``save``,
    ``check``, ``check_nan``, ``stats``, ``compare`` and ``hook``. The names of buffers, and of
    scalars after them, are in the order in which these will be passed. ``source`` is the model's
    source line and module of the call.
    """
    if level == "names":
        return line_writer(f"{label} {when}")
    probe = _Probe(label, when, tuple(buffers), tuple(scalars), source)
    if level == "hook":
        return probe.hook
    action: Callable[[DebugSession, Sequence[Any]], None] = getattr(probe, level)

    def run(*values: object) -> None:
        session = current()
        try:
            with torch.no_grad():
                action(session, values)
        except NonFiniteError:
            raise
        except Exception as error:
            session.line(f"{label} {when}: cannot be shown: {_one_line(error)}")

    return run


@dataclass(frozen=True, slots=True)
class _Probe:
    """The actions of one probe, one method per level."""

    label: str
    when: str
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    source: str

    @property
    def head(self) -> str:
        """The beginning of each printed line."""
        return f"{self.label} {self.when}"

    def _tensors(self, values: Sequence[Any]) -> list[tuple[str, Tensor]]:
        return list(zip(self.buffers, values, strict=False))

    def _numbers(self, values: Sequence[Any]) -> list[tuple[str, Any]]:
        return list(zip(self.scalars, values[len(self.buffers) :], strict=True))

    def print(self, session: DebugSession, values: Sequence[Any]) -> None:
        """Print a line for each tensor, and one for all scalars."""
        for name, tensor in self._tensors(values):
            session.line(f"{self.head} {_guarded(name, tensor)}")
        numbers = [
            text if (text := number(value)) == name else f"{name}={text}"
            for name, value in self._numbers(values)
        ]
        if numbers:
            session.line(f"{self.head} scalars: {', '.join(numbers)}")

    def save(self, session: DebugSession, values: Sequence[Any]) -> None:
        """Save each tensor to its own file, in its own layout, and the scalars to the index."""
        numbers = self._numbers(values)
        if numbers:
            session.list_numbers({**self._entry(""), "scalars": [_json(v) for _, v in numbers]})
        for name, tensor in self._tensors(values):
            call = self.label.replace(" ", "-", 1).split("-", 1)[-1]
            stem = f"{_file_name(call)}-{self.when}-{_file_name(name)}"
            entry = {**self._entry(name), **_layout(tensor)}
            try:
                session.save(private_copy(tensor), entry, stem)
            except Exception as error:
                session.line(f"{self.head} {name}: cannot be saved: {_one_line(error)}")

    def stats(self, session: DebugSession, values: Sequence[Any]) -> None:
        """Write a JSON line for each tensor."""
        for name, tensor in self._tensors(values):
            try:
                session.note({**self._entry(name), **_layout(tensor), **_statistics(tensor)})
            except Exception as error:
                session.line(f"{self.head} {name}: no statistics: {_one_line(error)}")

    def check(
        self, session: DebugSession, values: Sequence[Any], *, allow_inf: bool = False
    ) -> None:
        """Record the ranges of the inputs before the call; raise for NaN and inf after it.

        Raises:
            NonFiniteError: A tensor holds such a value.
        """
        tensors = self._tensors(values)
        if self.when != "before":
            tensors = [(n, t) for n, t in tensors if t.is_floating_point() or t.is_complex()]
        ranges = value_ranges([tensor for _, tensor in tensors])
        found = [(*pair, stats) for pair, stats in zip(tensors, ranges, strict=True)]
        if self.when == "before":
            session.inputs.of = (self.label, [_range_words(*each) for each in found])
            return
        for name, _, stats in found:
            if stats.nan or (stats.inf and not allow_inf):
                raise self._non_finite(session, name, stats)

    def check_nan(self, session: DebugSession, values: Sequence[Any]) -> None:
        """Check like ``check``, but allow infinite values, which attention masks consist of."""
        self.check(session, values, allow_inf=True)

    def _non_finite(self, session: DebugSession, name: str, stats: Statistics) -> NonFiniteError:
        label, words = getattr(session.inputs, "of", ("", []))
        inputs = "; ".join(words) if label == self.label and words else "nothing"
        return NonFiniteError(
            call=self.label,
            buffer=name,
            what="NaN" if stats.nan else "inf",
            count=stats.nan or stats.inf,
            index=stats.first_nan if stats.nan else stats.first_inf,
            inputs=f"it read {inputs}",
            origin=self.source or None,
        )

    def compare(self, session: DebugSession, values: Sequence[Any]) -> None:
        """Print the differences from the tensors that another run saved."""
        if not session.has_reference:
            session.line(f"{self.head}: nothing to compare with: name the directory of a saved run")
            return
        for name, tensor in self._tensors(values):
            try:
                expected = session.expected(self.label, self.when, name)
                words = "not saved there" if expected is None else difference(tensor, expected)
            except Exception as error:
                words = f"cannot be compared: {_one_line(error)}"
            if words:
                session.line(f"{self.head} {name}: {words}")

    def hook(self, *values: object) -> None:
        """Call the user's hooks in the order of registration."""
        event = ProbeEvent(
            call=self.label,
            when=self.when,
            tensors={name: tensor.detach() for name, tensor in self._tensors(values)},
            scalars=tuple(self._numbers(values)),
            source=self.source,
        )
        for function in (*_of_process, *_of_thread.hooks):
            function(event)

    def _entry(self, name: str) -> dict[str, Any]:
        entry = {"call": self.label, "when": self.when, "buffer": name}
        return {**entry, "source": self.source} if self.source else entry


def _guarded(name: str, tensor: Tensor) -> str:
    try:
        return describe(name, tensor)
    except Exception as error:
        return f"{name}: {describe_layout(tensor)} cannot be shown: {_one_line(error)}"


def _range_words(name: str, tensor: Tensor, stats: Statistics) -> str:
    words = f"{name} {describe_layout(tensor)}"
    if stats.minimum is not None and stats.maximum is not None:
        low, high = (number(v, tensor.dtype) for v in (stats.minimum, stats.maximum))
        words += f" in [{low}, {high}]"
    words += f" with {stats.nan} NaN" if stats.nan else ""
    return words + (f" with {stats.inf} inf" if stats.inf else "")


def _layout(tensor: Tensor) -> dict[str, Any]:
    return {
        "dtype": SHORT_DTYPES.get(tensor.dtype, str(tensor.dtype)),
        "size": list(tensor.shape),
        "stride": list(tensor.stride()) if tensor.layout is torch.strided else None,
        "device": str(tensor.device),
    }


def _json(value: complex) -> complex | str:
    """Return a finite number as it is, and a value that JSON cannot represent as a string."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return value
    return str(value)


def _statistics(tensor: Tensor) -> dict[str, Any]:
    tensor = tensor.detach().cpu()  # once, for the statistics and for the checksum
    stats = statistics(tensor)
    return {
        "min": stats.minimum,
        "max": stats.maximum,
        "mean": None if stats.mean is None else _json(stats.mean),
        "std": None if stats.std is None else _json(stats.std),
        "nan": stats.nan,
        "inf": stats.inf,
        **({} if stats.first_nan is None else {"first_nan": list(stats.first_nan)}),
        **({} if stats.first_inf is None else {"first_inf": list(stats.first_inf)}),
        "checksum": checksum(tensor),
    }


_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.]+")


def _file_name(name: str) -> str:
    return _UNFIT.sub("_", name)[:80]


def _one_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


# User hooks.
#
# A program contains no functions: probes of the level ``hook`` call the hooks that are registered
# when the probe runs.


@dataclass(frozen=True, slots=True)
class ProbeEvent:
    """The moment before or after a call.

    Attributes:
        call: The call's number in four digits, in the order of the program's text, and its name.
        when: ``before`` or ``after``.
        tensors: Before: the tensors that the call reads; after: those it wrote. Keys are buffer
            names, or qualified names for constants. The tensors belong to the program and must not
            be modified. They hold these values until the hook returns; clone them to keep them.
        scalars: Before: the call's scalar arguments in order, each with its expression.
        source: The model's source line and module of the call, ``file.py:12, layers.0``; empty if
            unknown.
    """

    call: str
    when: str
    tensors: Mapping[str, Tensor]
    scalars: tuple[tuple[str, Any], ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """The name of the kernel or op."""
        return self.call.partition(" ")[2]


Hook: TypeAlias = Callable[[ProbeEvent], object]


class _Registered(threading.local):
    """The hooks of the program call in progress on this thread, given to ``compile``."""

    hooks: tuple[Hook, ...] = ()


_of_thread = _Registered()
_of_process: list[Hook] = []


@contextlib.contextmanager
def hook(function: Hook) -> Iterator[None]:
    """Call a function at every probe of the level ``hook`` while the block runs.

    It is called in all threads. Its exceptions propagate to the caller of the program.

    Args:
        function: The function. It takes a :class:`ProbeEvent`.
    """
    if not callable(function):
        raise TypeError(f"a hook must be callable, not {type(function).__name__}")
    _of_process.append(function)
    try:
        yield
    finally:
        _of_process.remove(function)


class Hooked:
    """A loaded program whose probes call a function, in calls made through this object."""

    def __init__(self, program: Callable[..., tuple[Any, ...]], function: Hook) -> None:
        self._program = program
        self._function = function

    def __call__(self, *inputs: object) -> tuple[Any, ...]:
        """Call the program."""
        before = _of_thread.hooks
        _of_thread.hooks = (*before, self._function)
        try:
            return self._program(*inputs)
        finally:
            _of_thread.hooks = before

    def __getattr__(self, name: str) -> object:
        """Delegate to the loaded program."""
        return getattr(self._program, name)
