"""Pending snapshots: texts that failing tests leave beside the snapshots, for a review.

Convention: the new text of ``x.wir`` is in ``x.wir.wir-new``, and the new texts of calls in
``test_x.py`` are in ``test_x.py.wir-inline``, as JSON. Nothing but tests writes such files, and no
other file is ever read, replaced or removed by a review.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import Kind, OverwriteError, begins_with, replacing, why
from wrapper_ir.testing.comparisons import Comparison
from wrapper_ir.testing.rewriting import (
    Edit,
    InlineSnapshotError,
    Site,
    relocated,
    rewritten,
    write_edits,
)
from wrapper_ir.testing.texts import normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

NEW: Final = ".wir-new"
"""What the name of a new text has after that of its snapshot."""

INLINE: Final = ".wir-inline"
"""What the name of the new texts of calls has after that of the test."""

_NEW_TEXT: Final = Kind("a pending snapshot", lambda _: True, made_up=True)
_INLINE: Final = Kind("pending inline snapshots", begins_with(b'"calls"'), made_up=True)

#: Folders that are not searched.
_LEFT_OUT: Final = ("node_modules", "__pycache__")


class PendingError(WrapperIRError):
    """A pending snapshot cannot be read, accepted or rejected. Fields: ``file``, ``reason``."""

    code = "WIR5003"
    template = "the pending snapshot {file!r} cannot be reviewed: {reason}"
    default_hint = "remove the file, and run the test again"


@dataclass(frozen=True)
class Pending:
    """A change that waits for a decision.

    Attributes:
        path: The pending file.
        target: The emitter of the text or the suffix of its file, ``wir`` or ``structure``.
        before: The text of the snapshot, without what indents it; None if there is none.
        after: The text to accept.
        edit: For an inline snapshot, the change to the test.
    """

    path: Path
    target: str
    before: str | None
    after: str
    edit: Edit | None = None

    @property
    def place(self) -> str:
        """The snapshot, for people: a file, or the line of a call."""
        file = os.path.relpath(_snapshot(self.path))
        return file if self.edit is None else f"{file}:{self.edit.site.line}"

    @property
    def comparison(self) -> Comparison:
        """What is to be decided."""
        return Comparison(self.place, self.target, self.before, self.after)


def _snapshot(path: Path) -> Path:
    """Return the snapshot or the test that a pending file belongs to."""
    return path.with_name(path.name.removesuffix(NEW).removesuffix(INLINE))


def _beside(file: str, suffix: str) -> Path:
    return Path(f"{file}{suffix}")


# Leaving and dropping them, in tests.


def leave(file: str, text: str) -> bool:
    """Leave a new text beside a snapshot; return whether it could be written."""
    path = _beside(file, NEW)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, _NEW_TEXT) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, OverwriteError):
        return False
    return True


def drop(file: str) -> None:
    """Remove the new text beside a snapshot that is settled, if there is one."""
    with contextlib.suppress(OSError):  # nothing can be done about it here
        _beside(file, NEW).unlink(missing_ok=True)


def leave_inline(file: str, compared: Set[Site], new: Iterable[tuple[str, Edit]]) -> bool:
    """Leave new texts of calls beside a test, with those of calls that were not compared now.

    Args:
        file: The test.
        compared: The calls that were compared.
        new: Those that need another text, each with its target.

    Returns:
        Whether they could be written.
    """
    path = _beside(file, INLINE)
    found = [_pending(path, target, edit) for target, edit in new]
    try:
        others = [each for each in _inline(path) if each.edit and each.edit.site not in compared]
    except (PendingError, OSError):
        others = []
    try:
        source = Path(file).read_bytes()
        _write_inline(path, [*(each for each in others if _fits(source, each)), *found])
    except (OSError, OverwriteError):
        return False
    return True


def _pending(path: Path, target: str, edit: Edit) -> Pending:
    before = None if edit.before is None else normal(edit.before)
    return Pending(path, target, before, edit.after, edit)


def _fits(source: bytes, pending: Pending) -> bool:
    """Return whether the call of a pending text is still where it was."""
    assert pending.edit is not None
    try:
        rewritten(source, (pending.edit,))
    except InlineSnapshotError:
        return False
    return True


def _write_inline(path: Path, pending: Iterable[Pending]) -> None:
    rows = [
        {**each.edit.site._asdict(), "file": _snapshot(path).name, "target": each.target}
        | {"before": each.edit.before, "after": each.after}
        for each in pending
        if each.edit is not None
    ]
    if not rows:
        path.unlink(missing_ok=True)
        return
    with replacing(path, _INLINE, in_place=True) as temporary:
        temporary.write_text(json.dumps({"calls": rows}, indent=2) + "\n", encoding="utf-8")


# Finding, accepting and rejecting them.


def pending_in(paths: Iterable[Path]) -> list[Pending]:
    """Return the pending snapshots in folders, or of the snapshots and tests given, in order.

    Raises:
        PendingError: A file of pending snapshots is not one.
    """
    files = dict.fromkeys(file for path in paths for file in _files(path))
    found: list[Pending] = []
    for file in files:
        try:
            found += _inline(file) if file.name.endswith(INLINE) else _new(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = why(error) if isinstance(error, OSError) else "it is not UTF-8"
            raise PendingError(file=str(file), reason=reason) from error
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.name.endswith((NEW, INLINE)) and path.is_file():
        yield path
    elif not path.is_dir():
        both = (_beside(str(path), suffix) for suffix in (NEW, INLINE))
        yield from (each for each in both if each.is_file())
    else:
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(n for n in folders if n[0] != "." and n not in _LEFT_OUT)
            yield from (Path(folder, n) for n in sorted(names) if n.endswith((NEW, INLINE)))


def _new(path: Path) -> list[Pending]:
    snapshot = _snapshot(path)
    before = _text(snapshot) if snapshot.is_file() else None
    return [Pending(path, snapshot.suffix.removeprefix("."), before, _text(path))]


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def _inline(path: Path) -> list[Pending]:
    if not path.is_file():
        return []
    try:
        return [_call(path, row) for row in json.loads(_text(path))["calls"]]
    except (ValueError, KeyError, TypeError) as error:
        reason = "it is not what a test leaves"
        raise PendingError(file=str(path), reason=reason) from error


def _call(path: Path, row: Any) -> Pending:  # noqa: ANN401 - what JSON holds
    numbers = [row[name] for name in ("line", "column", "end_line", "end_column")]
    target, before, after = row["target"], row["before"], row["after"]
    texts = [target, after, *([] if before is None else [before])]
    if not all(type(n) is int for n in numbers) or not all(type(t) is str for t in texts):
        raise TypeError
    return _pending(
        path, target, Edit(Site(os.path.abspath(_snapshot(path)), *numbers), before, after)
    )


def accept(pending: Iterable[Pending]) -> None:
    """Make new texts the snapshots. Those of a test are written at once, or none of them.

    Raises:
        PendingError: A snapshot cannot be written. Those before it are.
        InlineSnapshotError: A test has changed.
    """
    for path, chosen in _by_file(pending).items():
        with _errors(path):
            if chosen[0].edit is None:
                _accept_file(chosen[0])
            else:
                _accept_calls(path, chosen)


def _by_file(pending: Iterable[Pending]) -> dict[Path, list[Pending]]:
    found: dict[Path, list[Pending]] = defaultdict(list)
    for each in pending:
        found[each.path].append(each)
    return found


def _accept_file(pending: Pending) -> None:
    path, snapshot = pending.path, _snapshot(pending.path).resolve()
    if snapshot.exists() and not snapshot.is_file():
        raise PendingError(file=str(path), reason=f"{snapshot.name} is no regular file")
    if _text(path) != pending.after:
        reason = "a test has left another text since it was shown"
        raise PendingError(file=str(path), reason=reason, hint="review it again")
    path.replace(snapshot)


def _accept_calls(path: Path, chosen: list[Pending]) -> None:
    test = _snapshot(path)
    left = [each for each in _inline(path) if each not in chosen]
    before = test.read_bytes()
    write_edits(str(test), [each.edit for each in chosen if each.edit is not None])
    move = relocated(before, test.read_bytes())
    moved = [replace(e, edit=replace(e.edit, site=move(e.edit.site))) for e in left if e.edit]
    _write_inline(path, moved)


def reject(pending: Iterable[Pending]) -> None:
    """Remove new texts, and leave the snapshots as they are.

    Raises:
        PendingError: A file cannot be removed or written.
    """
    for path, chosen in _by_file(pending).items():
        with _errors(path):
            if chosen[0].edit is None:
                path.unlink(missing_ok=True)
            else:
                _write_inline(path, [each for each in _inline(path) if each not in chosen])


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PendingError(file=str(path), reason=why(error)) from error
