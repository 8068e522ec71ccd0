"""Debug sessions: the destination and the reference of probes, chosen when the program runs.

They come from a ``debug_session`` block or from the environment (``WRAPPER_IR_DEBUG_DIR``,
``WRAPPER_IR_DEBUG_REFERENCE``, ``WRAPPER_IR_DEBUG_OUTPUT``, ``WRAPPER_IR_DEBUG_LIMIT``). No two
sessions write to the same directory: a second session or process takes the next free name. Of
several ranks, each adds its number to the names of files and directories, and to each line.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.errors import OptionValueError
from wrapper_ir.runtime.probes.ranks import of_rank, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

_DEFAULT_DIR: Final = "wrapper_ir_debug"
_INDEX: Final = "index.jsonl"
_STATS: Final = "stats.jsonl"
_LIMIT_VARIABLE: Final = "WRAPPER_IR_DEBUG_LIMIT"
_DEFAULT_LIMIT: Final = 1 << 30


def _reference(name: str | Path) -> Path:
    """Return the directory of another run: that of this rank, if ranks had their own."""
    mine = Path(of_rank(name))
    return mine if mine.is_dir() else Path(name)


def _start() -> str:
    """Return what each line begins with."""
    return f"rank {number}: " if (number := rank()) else ""


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


class DebugSession:
    """The files and the output of one run, with the arguments of :func:`debug_session`.

    The directory is created on the first write. Lines of the level ``names`` do not count for the
    limit, since the last one must never be missing.

    Raises:
        OptionValueError: The limit is not a number of bytes.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        reference: str | Path | None = None,
        output: str | Path | None = None,
        limit: int | None = None,
    ) -> None:
        environ = os.environ
        self._left: float = _limit(limit)
        named = environ.get("WRAPPER_IR_DEBUG_DIR") or environ.get("AOTI_TORCH_SAVE_DIR")
        self._wanted = Path(of_rank(directory or named or _DEFAULT_DIR))
        compared = reference or environ.get("WRAPPER_IR_DEBUG_REFERENCE")
        self._reference = _reference(compared) if compared else None
        self._lock = threading.RLock()
        self._directory: Path | None = None
        self._entries: dict[tuple[str, str, str], list[str]] | None = None
        self._seen: dict[tuple[str, str, str], int] = {}
        self._events = 0
        self.fd: int = _open_output(
            str(output or environ.get("WRAPPER_IR_DEBUG_OUTPUT") or "stderr")
        )
        #: A description of the input ranges of the call in progress, per thread.
        self.inputs: threading.local = threading.local()

    # Lines.

    def line(self, text: str) -> None:
        """Write a line unbuffered, so that it is not lost if the program crashes next."""
        data = _encoded(f"{_start()}{text}\n")
        if not self._spend(len(data)):
            return
        with contextlib.suppress(OSError):  # a closed pipe must not make the program fail
            os.write(self.fd, data)

    def _spend(self, size: int) -> bool:
        """Take bytes from the limit and return whether they fit; report an exceeded limit once."""
        with self._lock:
            if self._left >= size:
                self._left -= size
                return True
            if self._left >= 0:
                self._left = -1
                words = (
                    f"debug: the limit is reached, the rest is not written ({_LIMIT_VARIABLE})\n"
                )
                with contextlib.suppress(OSError):
                    os.write(self.fd, words.encode())
            return False

    # Files.

    @property
    def directory(self) -> Path:
        """The directory of this run, created on first use.

        Raises:
            OSError: It cannot be created.
        """
        with self._lock:
            if self._directory is None:
                self._directory = _new_directory(self._wanted)
            return self._directory

    def save(self, tensor: Tensor, entry: dict[str, Any], stem: str) -> None:
        """Save a tensor as ``NNNN-stem.pt`` and add it to the index.

        Raises:
            OSError: The file cannot be written.
        """
        size = tensor.numel() * tensor.element_size()
        with self._lock:
            if not self._spend(size):
                return
            file = f"{self._events:04d}-{stem}.pt"
            self._events += 1
            unfinished = self.directory / f"{file}.unfinished"
            torch.save(tensor, unfinished)
            unfinished.replace(self.directory / file)
            self._append(_INDEX, {"file": file, **entry})

    def list_numbers(self, entry: dict[str, Any]) -> None:
        """Add the scalars of a call to the index of saved tensors."""
        with self._lock, contextlib.suppress(OSError):
            self._append(_INDEX, entry)

    def note(self, entry: dict[str, Any]) -> None:
        """Append a line to the statistics file.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            self._append(_STATS, entry)

    def _append(self, name: str, entry: dict[str, Any]) -> None:
        text = json.dumps(entry) + "\n"
        if self._spend(len(text)):
            with (self.directory / name).open("a", encoding="utf-8") as file:
                file.write(text)

    # The other run.

    @property
    def has_reference(self) -> bool:
        """True if there is another run to compare with."""
        return self._reference is not None

    def expected(self, label: str, when: str, buffer: str) -> Tensor | None:
        """Return the tensor that the other run saved at the same point, or None.

        Repeated visits of a point are matched in order.

        Raises:
            OSError: A file is missing or cannot be read.
        """
        assert self._reference is not None
        key = (label, when, buffer)
        with self._lock:
            if self._entries is None:
                self._entries = _read_index(self._reference / _INDEX)
            files = self._entries.get(key, [])
            position = self._seen.get(key, 0)
            self._seen[key] = position + 1
        if position >= len(files):
            return None
        tensor: Tensor = torch.load(self._reference / files[position], weights_only=True)
        return tensor


def _read_index(file: Path) -> dict[tuple[str, str, str], list[str]]:
    files: dict[tuple[str, str, str], list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "file" not in entry:  # numbers
            continue
        key = (entry["call"], entry["when"], entry["buffer"])
        files.setdefault(key, []).append(entry["file"])
    return files


def _new_directory(wanted: Path) -> Path:
    """Create a directory that holds no run yet: ``wanted``, or ``wanted.1``, ``wanted.2``, ..."""
    candidate, number = wanted, 0
    while True:
        candidate.mkdir(parents=True, exist_ok=True)
        try:
            (candidate / _INDEX).touch(exist_ok=False)
        except FileExistsError:
            number += 1
            candidate = wanted.with_name(f"{wanted.name}.{number}")
        else:
            return candidate.absolute()


def _limit(limit: object) -> float:
    """Return the limit in bytes.

    Only a bad argument raises. A bad environment variable must not end the running program.
    """
    if limit is None:
        named = os.environ.get(_LIMIT_VARIABLE, "")
        limit = int(named) if named.isdecimal() else _DEFAULT_LIMIT
        if named and not named.isdecimal():
            os.write(2, f"debug: {_LIMIT_VARIABLE} is no number of bytes: {named!r}\n".encode())
    elif not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise OptionValueError(option="limit", value=limit, expected="a number of bytes, or 0")
    return limit or math.inf


def _open_output(name: str) -> int:
    if name in ("stdout", "stderr"):
        return 1 if name == "stdout" else 2
    name = of_rank(name)
    try:
        return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        os.write(2, f"debug: cannot write to {name!r} ({error}); writing here\n".encode())
        return 2


class _Current:
    """The process's current session and its output."""

    def __init__(self) -> None:
        self.session: DebugSession | None = None
        self.fd = -1
        #: What each line begins with.
        self.start = b""
        #: The same file descriptor for code that does not hold the GIL; -1 if that has to ask for
        #: each line, to which a rank adds its number.
        self.shared_fd = ctypes.c_int(-1)
        self.lock = threading.Lock()

    def set(self, session: DebugSession | None) -> DebugSession | None:
        """Make a session the current one and return the previous one."""
        before, self.session = self.session, session
        self.fd = -1 if session is None else session.fd
        self.start = _encoded(_start())
        self.shared_fd.value = -1 if self.start else self.fd
        return before


_current = _Current()


def current() -> DebugSession:
    """Return the current session; create one from the environment if none is open."""
    session = _current.session
    if session is None:
        with _current.lock:
            session = _current.session or DebugSession()
            _current.set(session)
    return session


def output_address() -> int:
    """Return the address of the ``int`` output file descriptor, which is -1 before a session."""
    return ctypes.addressof(_current.shared_fd)


def line_writer(text: str) -> Callable[..., None]:
    """Return a function that writes one fixed line in less than a microsecond."""
    data, write = _encoded(f"{text}\n"), os.write

    def run(*_: object) -> None:
        try:
            write(_current.fd, _current.start + data)
        except OSError:  # no session yet; or a closed pipe, which must not raise
            if _current.session is None:
                current().line(text)

    return run


@contextlib.contextmanager
def debug_session(
    directory: str | Path | None = None,
    *,
    reference: str | Path | None = None,
    output: str | Path | None = None,
    limit: int | None = None,
) -> Iterator[DebugSession]:
    """Send the output of all probes in the process to a new session while the block runs.

    Args:
        directory: The directory for saved tensors and statistics; the session's ``.directory`` is
            the one actually used. The default is ``WRAPPER_IR_DEBUG_DIR``, then
            ``AOTI_TORCH_SAVE_DIR``, as for Inductor's own printer, then ``wrapper_ir_debug``.
        reference: A directory with the saved tensors of another run, for the level ``compare``. The
            default is ``WRAPPER_IR_DEBUG_REFERENCE``.
        output: A file to append printed lines to, ``stderr`` or ``stdout``. The default is
            ``WRAPPER_IR_DEBUG_OUTPUT``, then ``stderr``.
        limit: The maximum number of bytes in lines and files, or 0 for no limit. A last line says
            that the limit was reached. The default is ``WRAPPER_IR_DEBUG_LIMIT``, then 1 GiB.

    Raises:
        OptionValueError: The limit is not a number of bytes.
    """
    session = DebugSession(directory, reference, output, limit)
    before = _current.set(session)
    try:
        yield session
    finally:
        _current.set(before)
        if session.fd > 2:
            os.close(session.fd)
