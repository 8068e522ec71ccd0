"""What was found out about a program: recorded runs, first differences, faults.

It comes as files or as the objects that functions return. Both are read as one form of data:
``rows`` of a run, the ``difference`` of two runs, or ``faults`` and what is ``not_shown``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.explorer.document import NONE, Finding, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wrapper_ir.explorer.document import View


class RecordError(WrapperIRError):
    """A file or an object says nothing of a run or a comparison of the program.

    Fields: ``file`` is its path or its type, ``reason`` says why not.
    """

    code = "WIR1601"
    template = "{file!r} says nothing of a run of this program: {reason}"
    default_hint = (
        "give what `run --record` or the debug printer's level 'stats' wrote,"
        " or what `bisect --json` or `validate --json` printed"
    )


@runtime_checkable
class Recorded(Protocol):
    """A recorded run, such as :class:`wrapper_ir.debugging.RecordedRun`."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the record."""


class Labelled(Protocol):
    """A call of a program, such as :class:`wrapper_ir.passes.probed.Call`."""

    @property
    def label(self) -> str:
        """Its number and what it calls."""


@runtime_checkable
class Difference(Protocol):
    """The first difference of two runs: what :func:`wrapper_ir.debugging.bisect` returns."""

    @property
    def call(self) -> Labelled | None:
        """The call whose output differs."""

    @property
    def buffer(self) -> str:
        """The buffer that differs."""

    @property
    def words(self) -> str:
        """How it differs."""


@runtime_checkable
class Validated(Protocol):
    """A result of :func:`wrapper_ir.validate`."""

    @property
    def not_shown(self) -> Iterable[Any]:
        """Lines of which nothing can be said."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``validate --json`` prints it."""


def add_found(view: View, found: object, numbers: Mapping[str, int]) -> None:
    """Add what was found out about a program to its view.

    Args:
        view: The view.
        found: A file, or an object that a function returned.
        numbers: The numbers of lines by their paths in the program that was given.

    Raises:
        RecordError: It says nothing of such a program.
    """
    name, data = _data(found)
    try:
        if isinstance(data, list):
            _add_rows(view, data)
        elif "difference" in data:
            _add_difference(view, data)
        else:
            _add_validation(view, data, numbers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"it has another form ({type(error).__name__}: {error})"
        raise RecordError(file=name, reason=reason) from error
    except _OtherProgramError as error:
        reason = f"the program '{view.name}' makes no call {error.args[0]!r}"
        raise RecordError(file=name, reason=reason) from error


class _OtherProgramError(Exception):
    """A call is named that the program does not make."""


def _data(found: object) -> tuple[str, Any]:
    """Return the name of what was found, and its data: rows, or an object."""
    if isinstance(found, (str, os.PathLike)):
        return str(found), _read(Path(found))
    name = type(found).__name__
    if isinstance(found, Recorded):
        return name, found.rows()
    if isinstance(found, Difference):
        call = None if found.call is None else found.call.label
        return name, {"call": call, "buffer": found.buffer, "difference": found.words}
    if isinstance(found, Validated):
        return name, found.as_data()
    raise RecordError(file=name, reason="it is neither a file nor a result of the debugging tools")


def _read(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RecordError(file=str(file), reason=reason) from error
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and whole.keys() & {"difference", "faults"}:
        return whole
    try:
        return [json.loads(row) for row in text.splitlines()]
    except (ValueError, RecursionError) as error:
        raise RecordError(file=str(file), reason="it is not JSON, line by line") from error


def _add_rows(view: View, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if "format" in row:
            view.facts |= _about(row)
            continue
        number = _line(view, row["call"])
        if "seconds" in row:
            values = {name: row[name] for name in Time.__slots__}
            if not all(isinstance(value, (int, float)) for value in values.values()):
                raise ValueError("a time is no number")
            view.times[number] = Time(**values)
        else:
            _add_values(view, number, row)


def _about(row: dict[str, Any]) -> dict[str, str]:
    if row["format"] != "wrapper_ir.run":
        raise ValueError(f"the format is {row['format']!r}")
    how = f"{row['runs']:d} runs with the target '{row['target']}'"
    return {"recorded": f"{how}, {1e6 * row['seconds']:,.1f} us each without probes"}


def _line(view: View, label: object) -> int:
    if label not in view.labels:
        raise _OtherProgramError(label)
    return view.labels[str(label)]


def _add_values(view: View, number: int, row: dict[str, Any]) -> None:
    buffer = row["buffer"]
    view.recorded.setdefault(number, []).append({k: v for k, v in row.items() if k != "call"})
    for what in ("nan", "inf"):
        if row.get(what) and row.get("when") == "after":
            words = f"{buffer} holds {row[what]} {what}"
            view.findings.append(Finding("values", number, words, _buffer(view, buffer)))


def _add_difference(view: View, data: dict[str, Any]) -> None:
    """Add the first difference of two runs, if there was one."""
    label, buffer = data["call"], data["buffer"]
    if label is None:
        return
    text = f"first difference: {label} wrote a different {buffer}: {data['difference']}"
    finding = Finding("difference", _line(view, label), text, _buffer(view, buffer))
    view.findings.insert(0, finding)


def _add_validation(view: View, data: dict[str, Any], numbers: Mapping[str, int]) -> None:
    """Add faults, and lines that are not shown to do what the graph says.

    Their paths are those of the program that was given; the page has those of what it shows.
    """
    for fault in data["faults"]:
        text = f"{fault['code']}: {fault['message']}"
        view.findings.append(Finding("fault", numbers.get(fault["path"], NONE), text))
    for each in data["not_shown"]:
        number = numbers.get(each["path"], NONE)
        place = f"{each['part']}: " if each["part"] else ""
        view.findings.append(Finding("not shown", number, f"not shown: {place}{each['why']}"))


def _buffer(view: View, name: str) -> int:
    names = view.buffers.name
    return names.index(name) if name in names else NONE
