"""Compiler processes, and how they are killed together with the threads that wait for them.

Each process leads a session of its own, so that killing a compiler driver also kills its children.
The threads of a pool share a :class:`Running`. When an exception, such as Ctrl-C, leaves the block
of :func:`pool`, their processes are killed and no more are started. A process started outside a
pool is killed when the wait for it is interrupted, or when this process exits.
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
    """Nobody waits for this work any more. Internal: users never see it."""


class Running:
    """A group of processes that are killed together."""

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
        """Run a command and return its exit status and its output (stdout and stderr together).

        Args:
            command: The command's words.
            cwd: The directory that it runs in.
            env: Its environment; by default ours.
            output: A file to remove if the command fails.

        Raises:
            StoppedError: :meth:`stop` killed it, or kept it from starting.
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
            text, _ = process.communicate()
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
        return process.returncode, text

    def check(self) -> None:
        """Raise StoppedError after :meth:`stop`. Waits for anything but a process poll this."""
        if self._stopped:
            raise StoppedError

    def stop(self) -> None:
        """Kill the running processes, and start no more."""
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
    """Start work in a daemon thread, ahead of the code that will need its result.

    Errors are dropped: the code that needs the result does the work again and reports them.

    Args:
        name: The thread's name.
        work: The work. It is cut short when the process exits.
    """

    def run() -> None:
        with contextlib.suppress(WrapperIRError, StoppedError):
            work()

    threading.Thread(target=run, name=f"wrapper_ir {name}", daemon=True).start()


_EVERYWHERE = Running()
atexit.register(_EVERYWHERE.stop)

_thread = threading.local()


def current() -> Running:
    """Return the group that processes of this thread belong to."""
    running: Running = getattr(_thread, "running", _EVERYWHERE)
    return running


@contextlib.contextmanager
def pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that run processes; an exception in the block kills all of these."""
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
# Each lock is one byte of the file, at an offset derived from the key. On Linux these are "open
# file description" locks: they also exclude threads of one process, need one descriptor for any
# number of keys, and vanish with the process. Elsewhere the whole file is locked.


#: ``struct flock``: type, whence, start, length, pid (which must be 0 for this kind of lock).
_FLOCK = "hhqqi0q"
_SET_AND_WAIT = getattr(fcntl, "F_OFD_SETLKW", None)
_SET = getattr(fcntl, "F_OFD_SETLK", None)

#: Seconds between the checks by which a waiting pool thread notices that it must stop.
_POLL = 0.02


@contextlib.contextmanager
def hold(file: Path, keys: Iterable[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the locks of all ``keys`` for the length of a ``with`` block.

    Args:
        file: The lock file; created if absent, never removed.
        keys: Hexadecimal digests. They are locked in sorted order, so that two holders cannot
            deadlock.
        wait: Whether to wait for locks that are held elsewhere.

    Yields:
        True, or False if ``wait`` is false and one of the locks is held elsewhere.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _take_all(descriptor, sorted({int(key[:15], 16) for key in keys}), wait=wait)
    finally:
        os.close(descriptor)  # releases all locks


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
    if not wait or current() is _EVERYWHERE:
        _take_byte(descriptor, offset, wait=wait)
        return
    # Signals interrupt only the main thread, so a pool thread polls whether it must stop.
    while True:
        try:
            _take_byte(descriptor, offset, wait=False)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return
        time.sleep(_POLL)
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
    # An old kernel or an unusual file system: one lock for all keys, slower but still correct.
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
