"""Writing output files: whole or not at all, and never over somebody else's file.

A writer declares the kind of file it writes, which decides what kind of file it may replace. Two
rules always hold, and a third holds within a command:

- A file beside an output (such as a program's constants) only replaces one made for the same
  output. Its name is derived, so the user never asked for it to be overwritten.
- A file appears by renaming a finished temporary file.
- A command never overwrites its inputs, and never writes twice to one name. It overwrites a file
  named by the user only if that is of the same kind, or with ``--force``.

A path passed from Python is overwritten without question, as with ``open``.
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

INDEX: Final = "wrapper_ir.json"
"""The index file of an export: its format, its requirements and its parts."""

PROGRAM_FILE: Final = "program.wir"
"""The program file in an exported folder."""

#: Bytes at the beginning of a file that are searched for markers.
_HEAD: Final = 4096

#: The largest valid header of a safetensors file, in bytes.
_MAX_HEADER: Final = 100 << 20


class OverwriteError(WrapperIRError):
    """Writing an output would destroy a file.

    Fields: ``file`` is its path, ``reason`` says why it must not be replaced.
    """

    code = "WIR0004"
    template = "{file!r} would be overwritten: {reason}"
    default_hint = "choose another name, or move the file away; commands overwrite it with --force"


class Kind(NamedTuple):
    """A kind of output file."""

    what: str  #: a description with its article: ``"a wrapper program"``
    is_ours: Callable[[Path], bool]  #: returns whether an existing file is of this kind
    made_up: bool = False  #: True if the file's name is derived from that of another output


@dataclass(eq=False)
class _Command:
    """The files that a command has read and written so far."""

    force: bool = False
    read: set[Path] = field(default_factory=set)
    written: set[Path] = field(default_factory=set)


_current: contextvars.ContextVar[_Command | None] = contextvars.ContextVar("command", default=None)


@contextlib.contextmanager
def command() -> Iterator[None]:
    """Apply the rules for commands to the files read and written in this block."""
    token = _current.set(_Command())
    try:
        yield
    finally:
        _current.reset(token)


def force() -> None:
    """Let the current command overwrite files of other kinds, except its inputs."""
    if at_work := _current.get():
        at_work.force = True


def reading(file: str | os.PathLike[str]) -> None:
    """Record that the current command, if any, reads a file."""
    if at_work := _current.get():
        at_work.read.add(Path(file).resolve())


def forced() -> bool:
    """Return whether the current command may overwrite files of other kinds."""
    at_work = _current.get()
    return at_work is not None and at_work.force


def is_read(folder: Path) -> bool:
    """Return whether the current command reads a file in a folder."""
    at_work, path = _current.get(), folder.resolve()
    return at_work is not None and any(path in file.parents for file in at_work.read)


def check(file: Path, kind: Kind, *, in_place: bool = False) -> None:
    """Check that an output may be written, before the work to produce it is done.

    With ``in_place``, a command may overwrite its input.

    Raises:
        OverwriteError: Another file would be lost.
        IsADirectoryError: The path is a directory.
    """
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not file.exists():
        return
    reason = _reason(file, kind, _current.get(), in_place=in_place)
    if reason is not None:
        hint = "choose another name, or move the file away" if forced() else None
        raise OverwriteError(file=str(file), reason=reason, hint=hint)


def _reason(file: Path, kind: Kind, at_work: _Command | None, *, in_place: bool) -> str | None:
    """Return the reason why an existing file may not be replaced, or None if it may."""
    if not file.is_file():
        return "it is not a regular file"
    path = file.resolve()
    if at_work is not None and not in_place:
        if path in at_work.read:
            return "this command reads it"
        if path in at_work.written:
            return "this command has two outputs with this name"
    if at_work.force if at_work is not None else not kind.made_up:
        return None
    if file.stat().st_size == 0 or kind.is_ours(file):
        return None
    return f"it is not {kind.what}"


@contextlib.contextmanager
def replacing(file: Path, kind: Kind, *, in_place: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same directory that replaces ``file`` when the block ends.

    If the block raises, ``file`` is unchanged and nothing is left behind.

    Raises:
        OverwriteError: Another file would be lost.
        OSError: The directory is missing or not writable.
    """
    check(file, kind, in_place=in_place)
    temporary = file.with_name(f".{file.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode  # follows the umask; some libraries write 0600
        yield temporary
        temporary.chmod(mode | (temporary.stat().st_mode & 0o111))
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    if at_work := _current.get():
        at_work.written.add(file.resolve())


def why(error: OSError) -> str:
    """Return the message of an error; of a ``shutil.Error`` with several reasons, the first."""
    if error.strerror is None and error.args and isinstance(error.args[0], list):
        return str(error.args[0][0][-1])  # shutil.Error lists (source, target, message) tuples
    return error.strerror or str(error)


def ending(path: str | os.PathLike[str]) -> str:
    """Return the suffix of an output path, which selects its format; empty for a folder."""
    return "" if os.fspath(path).endswith("/") else Path(path).suffix


def beside(file: Path) -> Path:
    """Return the file that holds the constants of an output.

    A program ``m.wir`` keeps them in ``m.safetensors``; any other file, such as ``m.py``, in
    ``m.py.safetensors``. So no two outputs share one.
    """
    suffix = ".safetensors"
    return file.with_suffix(suffix) if file.suffix == ".wir" else file.with_name(file.name + suffix)


def sidecar(owner: Path, owner_in: Callable[[Mapping[str, str]], str | None]) -> Kind:
    """Return the kind of a safetensors file that holds the constants of an output.

    ``owner_in`` returns the owner's name from a file's metadata: empty if an older version wrote
    the file without one, None if it is not a file of constants.
    """

    def is_ours(file: Path) -> bool:
        return owner_in(safetensors_metadata(file)) in (owner.name, "")

    return Kind(f"a file with the constants of '{owner.name}'", is_ours, made_up=True)


def safetensors_metadata(file: Path) -> Mapping[str, str]:
    """Return the metadata of a safetensors file, empty if the file is not one."""
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size)) if size <= _MAX_HEADER else None
    except (OSError, ValueError):  # ValueError covers JSON and UTF-8 errors
        return {}
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def begins_with(word: bytes) -> Callable[[Path], bool]:
    """Return a predicate for files that have this word near their beginning."""

    def is_there(file: Path) -> bool:
        with file.open("rb") as stream:
            return word in stream.read(_HEAD)

    return is_there


def contains(word: bytes) -> Callable[[Path], bool]:
    """Return a predicate for files, not empty, that contain these bytes anywhere."""

    def is_there(file: Path) -> bool:
        with (
            file.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(word) >= 0

    return is_there
