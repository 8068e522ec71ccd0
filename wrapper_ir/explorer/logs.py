"""Reading torch's structured logs, which ``TORCH_TRACE=DIR`` leaves: a file for each process.

A record is a row that ends in a JSON object. Rows after it that begin with a tab are its payload,
whose MD5 the object has. Logs come from anywhere, and from processes that died while they wrote: a
record that is cut at the end of a file is left out and told, other damage is an error.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

#: The most bytes of a row, and of the payloads that are kept of a folder.
_ROW: Final = 16 << 20
_KEPT: Final = 64 << 20

#: What stands before the object: rank, level and date, time, process, and the place in torch.
_BEFORE: Final = re.compile(rb"(?:\[rank\d+\]:)?[VDIWEC]\d{4} [\d:.]+ +\d+ .*?:\d+\] (?=\{)")

_UNKNOWN: Final = "(unknown)"


class TraceError(WrapperIRError):
    """A folder has no logs of torch that can be read.

    Fields: ``where`` is the folder or a file in it, ``reason`` says why not.
    """

    code = "WIR1602"
    template = "cannot read {where!r} as logs of torch: {reason}"
    default_hint = "run the program with TORCH_TRACE=DIR in its environment, and name DIR"


@dataclass(frozen=True, slots=True)
class Record:
    """One record that somebody asked for."""

    kind: str
    """The name of the event; of an artifact, the artifact's."""
    about: dict[str, Any]
    """What the event says besides its payload."""
    compile_id: str
    """As torch prints it, such as ``0/1``; empty outside of a compilation."""
    attempt: int
    payload: str


@dataclass(slots=True)
class Log:
    """The log of one process."""

    file: str
    records: list[Record] = field(default_factory=list)
    strings: dict[int, str] = field(default_factory=dict)
    """Strings that records name by a number, such as those of files."""
    rank: int | None = None
    faults: list[str] = field(default_factory=list)
    """What is missing of it, in words."""

    def string(self, number: object) -> str:
        """Return a string by its number."""
        return self.strings.get(number, _UNKNOWN) if isinstance(number, int) else _UNKNOWN


def read_logs(folder: str | os.PathLike[str], kinds: Iterable[str]) -> list[Log]:
    """Return the logs in a folder, by rank and name, with the records of some kinds.

    Raises:
        TraceError: There are none, or one is damaged.
    """
    path, wanted = Path(folder), frozenset(kinds)
    try:
        files = sorted(each for each in path.glob("*.log") if each.is_file())
    except OSError as error:
        raise TraceError(where=str(path), reason=error.strerror or str(error)) from error
    if not files:
        raise TraceError(where=str(path), reason="no file in it ends in .log")
    room = _Room(_KEPT)
    logs = [_read(file, wanted, room) for file in files]
    return sorted(logs, key=lambda log: (log.rank is None, log.rank or 0, log.file))


class _Row(NamedTuple):
    number: int
    text: bytes


@dataclass(slots=True)
class _Room:
    """How many bytes of payloads may still be kept."""

    left: int

    def takes(self, payload: bytes) -> bool:
        self.left -= len(payload)
        return self.left >= 0


def _read(file: Path, wanted: frozenset[str], room: _Room) -> Log:
    log = Log(file.name)
    try:
        with file.open("rb") as stream:
            for head, payload, is_last in _parts(stream, file):
                fault = _add(log, head.text, payload, wanted, room)
                if fault and not is_last:
                    raise TraceError(where=str(file), reason=f"row {head.number} {fault}")
                if fault:
                    log.faults.append(f"{file.name} ends in the middle of a record")
    except OSError as error:
        raise TraceError(where=str(file), reason=error.strerror or str(error)) from error
    return log


def _parts(stream: BinaryIO, file: Path) -> Iterator[tuple[_Row, bytes, bool]]:
    """Yield the first row of each record, its payload, and whether it is the last."""
    head: _Row | None = None
    payload: list[bytes] = []
    for number, row in enumerate(iter(lambda: stream.readline(_ROW), b""), start=1):
        if len(row) == _ROW:
            raise TraceError(where=str(file), reason=f"row {number} has more than {_ROW} bytes")
        if head is not None and row.startswith(b"\t"):
            payload.append(row[1:])
            continue
        if head is not None:
            yield head, b"".join(payload).removesuffix(b"\n"), False
        head, payload = _Row(number, row), []
    if head is not None:
        yield head, b"".join(payload).removesuffix(b"\n"), True


def _add(log: Log, head: bytes, payload: bytes, wanted: frozenset[str], room: _Room) -> str:
    """Add a record to a log if it is wanted; return what is wrong with it, if anything is."""
    before = _BEFORE.match(head)
    try:
        found = json.loads(head[before.end() :]) if before else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return "is not a record"
    kind, about = next(iter(found.items()), ("", None))
    if kind == "str":
        return _learn(log, about)
    if kind == "artifact" and isinstance(about, dict):
        kind = str(about.get("name", ""))
    if isinstance(found.get("rank"), int):
        log.rank = found["rank"]
    if kind not in wanted:
        return ""
    digest = found.get("has_payload")
    if digest and hashlib.md5(payload, usedforsecurity=False).hexdigest() != digest:
        return "has another payload than it says"
    if not room.takes(payload):
        words = f"only the first {_KEPT >> 20} MiB of texts are shown"
        log.faults += [] if words in log.faults else [words]
        return ""
    where, attempt = _compile_id(found), found.get("attempt")
    about = about if isinstance(about, dict) else {}
    number = attempt if isinstance(attempt, int) else 0
    log.records.append(Record(kind, about, where, number, payload.decode("utf-8", "replace")))
    return ""


def _learn(log: Log, about: object) -> str:
    match about:
        case [str(text), int(number)]:
            log.strings[number] = text
            return ""
        case _:
            return "is not a record"


def _compile_id(found: dict[str, Any]) -> str:
    """Return the id of a compilation, as torch prints it."""
    frame, again = found.get("frame_id"), found.get("frame_compile_id")
    parts = [] if frame is None else [str(frame), str(again)]
    autograd = found.get("compiled_autograd_id")
    return "/".join(parts if autograd is None else [f"!{autograd}", *parts])
