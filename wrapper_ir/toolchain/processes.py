"""Compilers that run, and how they are ended: with the threads that wait for them, at once.

Each process leads a session of its own, so that what a compiler's driver has started ends with it.
Threads of a pool share a :class:`Running`; when the block of :func:`pool` is left by an exception,
Ctrl-C among them, what they run is killed and nothing is begun any more. What threads outside a
pool run ends with the thread's wait, or with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


class StoppedError(Exception):
    """Whoever waits for this work has given up: internal, seen by nobody."""


class Running:
    """Processes that are ended together."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: dict[subprocess.Popen[bytes], Path | None] = {}
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> tuple[int, bytes]:
        """Run a command and return its exit status and what it said.

        Args:
            command: Its words.
            cwd: The directory that it runs in.
            env: Its environment; by default ours.
            output: A file to remove unless it ends well.

        Raises:
            StoppedError: It was ended by :meth:`stop`, or not begun after that.
            OSError: It cannot be started.
        """
        with self._guard:
            self.check()
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running[process] = output
        try:
            said, _ = process.communicate()
        except BaseException:
            _kill(process)
            process.wait()
            raise
        finally:
            with self._guard:
                del self._running[process]
            if process.returncode != 0 and output is not None:
                output.unlink(missing_ok=True)
        self.check()
        return process.returncode, said

    def check(self) -> None:
        """Raise StoppedError after :meth:`stop`; what waits without a process asks now and then."""
        if self._stopped:
            raise StoppedError

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        with self._guard:
            self._stopped = True
            for process, output in self._running.items():
                _kill(process)
                if output is not None:
                    output.unlink(missing_ok=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def in_background(name: str, work: Callable[[], object]) -> None:
    """Begin work that somebody will need, in a thread of its own that no process waits for.

    What goes wrong is left to whoever needs it to find.

    Args:
        name: What the thread is called.
        work: The work. It ends early where the process does.
    """

    def run() -> None:
        with contextlib.suppress(WrapperIRError, StoppedError):
            work()

    threading.Thread(target=run, name=f"wrapper_ir {name}", daemon=True).start()


_EVERYWHERE = Running()
atexit.register(_EVERYWHERE.stop)

_thread = threading.local()


def current() -> Running:
    """Return what the processes of this thread belong to."""
    found: Running = getattr(_thread, "running", _EVERYWHERE)
    return found


def is_pooled() -> bool:
    """Return whether this thread is one of a pool, which has to notice that it is to stop."""
    return current() is not _EVERYWHERE


@contextlib.contextmanager
def pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that run processes; an exception in the block ends all of them."""
    running = Running()

    def enter() -> None:
        _thread.running = running

    with ThreadPoolExecutor(threads, initializer=enter) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            running.stop()
            raise


# Locks between processes: many small locks in one file.
#
# Each lock is one byte of the file, at an offset made from the key. On Linux they are "open file
# description" locks: they also keep threads of one process apart, need one descriptor however many
# keys are held, and vanish with the process. Elsewhere the whole file is locked.


#: ``struct flock``: type, whence, start, length, process (which must be 0 for this kind of lock).
_FLOCK = "hhqqi0q"
_SET_AND_WAIT = getattr(fcntl, "F_OFD_SETLKW", None)
_SET = getattr(fcntl, "F_OFD_SETLK", None)

#: How long a thread of a pool waits before it asks whether it is to stop (seconds).
_LOOK_UP = 0.02


@contextlib.contextmanager
def hold(file: Path, keys: Iterable[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the locks of all ``keys`` for the length of a ``with`` block.

    Args:
        file: The lock file; made when absent, never removed.
        keys: Hexadecimal digests; taken in sorted order, so that two holders cannot wait for
            each other.
        wait: Whether to wait for whoever holds one of them.

    Yields:
        True, or False when ``wait`` is false and somebody holds one of the locks.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _take_all(descriptor, sorted({_offset(key) for key in keys}), wait=wait)
    finally:
        os.close(descriptor)  # which lets go of everything


def _offset(key: str) -> int:
    return int(key[:15], 16)


def _take_all(descriptor: int, offsets: list[int], *, wait: bool) -> bool:
    try:
        for offset in offsets:
            _take(descriptor, offset, wait=wait)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES) and not wait:
            return False
        raise
    return True


def _take(descriptor: int, offset: int, *, wait: bool) -> None:
    if not (wait and is_pooled()):
        _take_byte(descriptor, offset, wait=wait)
        return
    # A signal interrupts the wait of the main thread alone: others look up from it.
    while True:
        try:
            _take_byte(descriptor, offset, wait=False)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return
        time.sleep(_LOOK_UP)
        current().check()


def _take_byte(descriptor: int, offset: int, *, wait: bool) -> None:
    operation = _SET_AND_WAIT if wait else _SET
    if operation is not None:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        try:
            fcntl.fcntl(descriptor, operation, request)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOLCK, errno.ENOSYS):
                raise
        else:
            return
    # An old kernel or an odd file system: one lock for all keys, which is slower, never wrong.
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
