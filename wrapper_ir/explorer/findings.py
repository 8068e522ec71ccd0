"""Findings about a program's lines: recorded runs, first differences, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.explorer.document import NONE, Finding

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from wrapper_ir.explorer.document import View


class RecordError(WrapperIRError):
    """A file is not a record of a run.

    Fields: ``file`` is its path, ``reason`` says why it is not.
    """

    code = "WIR1601"
    template = "{file!r} is not a record of a run: {reason}"
    default_hint = "the debug printer's level 'stats' writes one, stats.jsonl"


class Labelled(Protocol):
    """A call of a program, such as :class:`wrapper_ir.passes.probed.Call`."""

    @property
    def label(self) -> str:
        """Its number and what it calls."""


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


class Validated(Protocol):
    """A result of :func:`wrapper_ir.validate`."""

    @property
    def faults(self) -> Iterable[Any]:
        """Diagnostics, each with a path."""

    @property
    def not_shown(self) -> Iterable[Any]:
        """Lines of which nothing can be said, each with a path and a reason."""


def add_run(view: View, file: str | os.PathLike[str]) -> None:
    """Add the statistics that the debug printer wrote during a run.

    Raises:
        RecordError: The file is not such a record, or that of another program.
    """
    for entry in _entries(file):
        number = view.labels.get(str(entry.pop("call")))
        if number is None:
            reason = f"the program '{view.name}' makes other calls"
            raise RecordError(file=str(file), reason=reason)
        view.recorded.setdefault(number, []).append(entry)
        for what in ("nan", "inf"):
            if entry.get(what) and entry.get("when") == "after":
                words = f"{entry['buffer']} holds {entry[what]} {what}"
                view.findings.append(
                    Finding("values", number, words, _buffer(view, entry["buffer"]))
                )


def _entries(file: str | os.PathLike[str]) -> list[dict[str, Any]]:
    try:
        rows = Path(file).read_text(encoding="utf-8").splitlines()
        entries = [json.loads(row) for row in rows]
    except OSError as error:
        raise RecordError(file=str(file), reason=error.strerror or str(error)) from error
    except ValueError as error:
        raise RecordError(file=str(file), reason="it is not JSON, line by line") from error
    if not all(isinstance(each, dict) and {"call", "buffer"} <= each.keys() for each in entries):
        raise RecordError(file=str(file), reason="a line names no call and buffer")
    return entries


def add_difference(view: View, label: str, buffer: str, words: str) -> None:
    """Add the first difference of two runs, at the call with this label."""
    number = view.labels.get(label, NONE)
    text = f"first difference: {label} wrote a different {buffer}: {words}"
    view.findings.insert(0, Finding("difference", number, text, _buffer(view, buffer)))


def add_validation(view: View, found: Validated, numbers: Mapping[str, int]) -> None:
    """Add faults, and lines that are not shown to do what the graph says.

    ``numbers`` are those of lines by their paths in the program that was validated.
    """
    for fault in found.faults:
        view.findings.append(Finding("fault", numbers.get(str(fault.path), NONE), str(fault)))
    for each in found.not_shown:
        number = numbers.get(str(each.path), NONE)
        view.findings.append(Finding("not shown", number, f"not shown: {each}"))


def _buffer(view: View, name: str) -> int:
    names = view.buffers.name
    return names.index(name) if name in names else NONE
