"""Files that are written: whole or not at all, and never over what somebody else made.

Whoever writes a file says what kind of file it is, and by that what the file in its place may be.
Two rules hold everywhere, one more within a command:

- A file beside an output (constants beside a program) takes the place only of one that was made
  for the same output. Its name is made up, so nobody has asked for it to be written over.
- A file appears by renaming a finished one.
- A command never writes over what it reads, nor twice to one name; and what its user names is
  written over only if it is of the kind that is written, or with ``--force``.

From Python, a path that is given is the caller's word, as with ``open``.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import json
import mmap
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "INDEX",
    "PROGRAM_FILE",
    "Kind",
    "OverwriteError",
    "begins_with",
    "beside",
    "check",
    "command",
    "contains",
    "ending",
    "force",
    "forced",
    "is_read",
    "reading",
    "replacing",
    "safetensors_metadata",
    "sidecar",
    "why",
]

INDEX: Final = "wrapper_ir.json"
"""The file in an export that says what it is, what it needs, and what its parts are."""

PROGRAM_FILE: Final = "program.wir"
"""The program in a folder that was exported."""

#: Bytes of a file's beginning in which marks are looked for.
_HEAD: Final = 4096

#: A header of a safetensors file that is longer is none.
_MAX_HEADER: Final = 100 << 20


class OverwriteError(WrapperIRError):
    """A file would be lost if an output were written.

    Fields: ``file`` is its path, ``reason`` says whose it is.
    """

    code = "WIR0004"
    template = "{file!r} would be overwritten: {reason}"
    default_hint = "choose another name, or move it away; commands write over it with --force"


class Kind(NamedTuple):
    """A kind of file that is written.

    Attributes:
        what: What it is, with its article: ``"a wrapper program"``.
        is_ours: Whether a file that exists is of this kind.
        made_up: Whether its name was made up, from that of another output.
    """

    what: str
    is_ours: Callable[[Path], bool]
    made_up: bool = False


@dataclass(eq=False)
class _Command:
    """Files that a command has read and written so far."""

    force: bool = False
    read: set[Path] = field(default_factory=set)
    written: set[Path] = field(default_factory=set)


_current: contextvars.ContextVar[_Command | None] = contextvars.ContextVar("command", default=None)


@contextlib.contextmanager
def command() -> Iterator[None]:
    """Hold what is read and written to the rules of a command."""
    token = _current.set(_Command())
    try:
        yield
    finally:
        _current.reset(token)


def force() -> None:
    """Let the command at work write over files of other kinds; its inputs excepted."""
    found = _current.get()
    if found is not None:
        found.force = True


def reading(file: str | os.PathLike[str]) -> None:
    """Note that the command at work, if there is one, reads a file."""
    found = _current.get()
    if found is not None:
        found.read.add(Path(file).resolve())


def forced() -> bool:
    """Tell whether the command at work may write over what its user has named."""
    found = _current.get()
    return found is not None and found.force


def is_read(folder: Path) -> bool:
    """Tell whether the command at work reads something in a folder."""
    found = _current.get()
    place = folder.resolve()
    return found is not None and any(place in file.parents for file in found.read)


def check(file: Path, kind: Kind, *, in_place: bool = False) -> None:
    """Refuse to write a file; asked early, it costs no waiting.

    Args:
        file: The file to write.
        kind: What would be written.
        in_place: Whether a command is meant to write to what it read.

    Raises:
        OverwriteError: Something else would be lost.
        IsADirectoryError: It is a directory.
    """
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not file.exists():
        return
    reason = _reason(file, kind, _current.get(), in_place=in_place)
    if reason is not None:
        raise OverwriteError(file=str(file), reason=reason)


def _reason(file: Path, kind: Kind, at_work: _Command | None, *, in_place: bool) -> str | None:
    """Why a file that exists may not be replaced."""
    if not file.is_file():
        return "it is no regular file"
    place = file.resolve()
    if at_work is not None and not in_place:
        if place in at_work.read:
            return "this command reads it"
        if place in at_work.written:
            return "this command has two outputs of that name"
    if at_work.force if at_work is not None else not kind.made_up:
        return None
    if file.stat().st_size == 0 or kind.is_ours(file):
        return None
    return f"it is not {kind.what}"


@contextlib.contextmanager
def replacing(file: Path, kind: Kind, *, in_place: bool = False) -> Iterator[Path]:
    """Yield a path to write to, in the same directory, that takes ``file``'s place at the end.

    When the block raises, ``file`` is as it was and nothing is left behind.

    Args:
        file: The file to write.
        kind: What is written.
        in_place: Whether a command is meant to write to what it read.

    Raises:
        OverwriteError: Something else would be lost.
        OSError: The directory is missing or not writable.
    """
    check(file, kind, in_place=in_place)
    temporary = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # what the umask allows; some libraries write 0600
        yield temporary
        temporary.chmod(mode | (temporary.stat().st_mode & 0o111))
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    at_work = _current.get()
    if at_work is not None:
        at_work.written.add(file.resolve())


def why(error: OSError) -> str:
    """Return why a file cannot be written, in words: of several reasons the first."""
    if error.strerror is None and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][-1])  # shutil.Error lists a source, a target and words for each
    return error.strerror or str(error)


def ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a path, by which it is known what is written; a folder's is empty."""
    return "" if os.fspath(path).endswith("/") else Path(path).suffix


def beside(file: Path) -> Path:
    """Return where the constants of an output lie: another file for each output.

    A program ``m.wir`` has them in ``m.safetensors``, anything else (``m.py``) in a file of its
    whole name, ``m.py.safetensors``.
    """
    suffix = ".safetensors"
    return file.with_suffix(suffix) if file.suffix == ".wir" else file.with_name(file.name + suffix)


def sidecar(owner: Path, owner_in: Callable[[Mapping[str, str]], str | None]) -> Kind:
    """Return the kind of a safetensors file with the constants of an output.

    Args:
        owner: The output.
        owner_in: What a file's metadata calls its owner; empty where an older file names none, and
            ``None`` where it is no such file.
    """

    def is_ours(file: Path) -> bool:
        return owner_in(safetensors_metadata(file)) in (owner.name, "")

    return Kind(f"a file with the constants of '{owner.name}'", is_ours, made_up=True)


def safetensors_metadata(file: Path) -> Mapping[str, str]:
    """Return the metadata of a safetensors file; none where it is no such file."""
    try:
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(size)) if size <= _MAX_HEADER else None
    except (OSError, ValueError):  # JSON and UTF-8 errors among them
        return {}
    about = header.get("__metadata__") if isinstance(header, dict) else None
    return about if isinstance(about, dict) else {}


def begins_with(*words: bytes) -> Callable[[Path], bool]:
    """Return what tells whether one of these words stands near a file's beginning."""

    def is_there(file: Path) -> bool:
        with file.open("rb") as opened:
            head = opened.read(_HEAD)
        return any(word in head for word in words)

    return is_there


def contains(word: bytes) -> Callable[[Path], bool]:
    """Return what tells whether these bytes stand anywhere in a file that is not empty."""

    def is_there(file: Path) -> bool:
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(word) >= 0

    return is_there
