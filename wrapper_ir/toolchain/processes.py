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
import functools
import os
import queue
import signal
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


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

        It is done when the command itself ends: a process that it leaves behind, such as the server
        of a compiler's cache, may keep its output open. The environment is ours by default.
        ``output`` is a file to remove if the command fails.

        Raises:
            StoppedError: :meth:`stop` killed it, or kept it from starting.
            OSError: It cannot be started.
        """
        with tempfile.TemporaryFile() as said:
            with self._guard:
                self.check()
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._running[process] = output
            try:
                process.wait()
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
            said.seek(0)
            return process.returncode, said.read()

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


def in_background(name: str, work: Callable[[], object]) -> threading.Thread:
    """Start work in a daemon thread, ahead of the code that will need its result; return it.

    Errors are dropped: the code that needs the result does the work again and reports them. The
    work is cut short when the process exits.
    """

    def run() -> None:
        with contextlib.suppress(WrapperIRError, StoppedError):
            work()

    thread = threading.Thread(target=run, name=f"wrapper_ir {name}", daemon=True)
    _BEHIND.add(thread)
    thread.start()
    return thread


_EVERYWHERE = Running()

#: The groups of the pools that are open.
_POOLS: Final[weakref.WeakSet[Running]] = weakref.WeakSet()


#: Threads in the background.
_BEHIND: Final[weakref.WeakSet[threading.Thread]] = weakref.WeakSet()

#: How long the end of this process waits, in seconds, for them to remove what they have begun.
_PATIENCE: Final = 1.0


@atexit.register
def _end() -> None:
    for running in (*_POOLS, _EVERYWHERE):
        running.stop()
    limit = time.monotonic() + _PATIENCE
    for thread in list(_BEHIND):
        thread.join(max(0.0, limit - time.monotonic()))


_thread = threading.local()


def current() -> Running:
    """Return the group that processes of this thread belong to."""
    running: Running = getattr(_thread, "running", _EVERYWHERE)
    return running


class Pool:
    """Daemon threads that do work, and whose processes form one group.

    Unlike a ``ThreadPoolExecutor``, it does not keep the interpreter from exiting: that joins the
    threads of all executors before it runs any exit handler, and so waits for their compilers.
    """

    def __init__(self, threads: int) -> None:
        self.running: Running = Running()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._futures: list[Future[Any]] = []
        self._limit = threads
        self._threads: list[threading.Thread] = []
        _POOLS.add(self.running)

    def submit(self, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Have a thread do some work, and return its future result."""
        future: Future[T] = Future()

        def do() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*args, **options))
            except BaseException as error:
                future.set_exception(error)

        self._futures.append(future)
        self._work.put(do)
        if len(self._threads) < self._limit:
            thread = threading.Thread(target=self._serve, name="wrapper_ir worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def map(self, work: Callable[[S], T], items: Iterable[S]) -> list[T]:
        """Do the same with many items; return the results in their order."""
        futures = [self.submit(work, item) for item in items]
        return [each.result() for each in futures]

    def _serve(self) -> None:
        _thread.running = self.running
        while (do := self._work.get()) is not None:
            do()

    def close(self) -> None:
        """Wait until all work is done."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Kill the group's processes, and do no more work."""
        for future in self._futures:
            future.cancel()
        self.running.stop()
        for _ in self._threads:
            self._work.put(None)


@contextlib.contextmanager
def pool(threads: int) -> Iterator[Pool]:
    """Yield threads that run processes; an exception in the block kills all of these."""
    made = Pool(threads)
    try:
        yield made
        made.close()
    except BaseException:
        made.stop()
        raise


class Steps:
    """A thread-safe counter of finished steps that reports them."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self.total: int = total
        self._done = 0
        self._progress = progress
        self._guard = threading.Lock()

    def advance(self, count: int = 1) -> None:
        """Count and report further finished steps."""
        with self._guard:
            self._done += count
            if self._progress is not None and count:
                self._progress(self._done, self.total)


# Locks between processes: many small locks in one file.
#
# Each lock is one byte of the file, at an offset derived from the key. On Linux these are "open
# file description" locks: they also exclude threads of one process, need one descriptor for any
# number of keys, and vanish with the process. Elsewhere each lock is a file of its own. Both kinds
# are unlocked, not just closed: a process that was forked meanwhile has the descriptor as well.


#: ``struct flock``: type, whence, start, length, pid (which must be 0 for this kind of lock).
_FLOCK = "hhqqi0q"
_SET_AND_WAIT = getattr(fcntl, "F_OFD_SETLKW", None)
_SET = getattr(fcntl, "F_OFD_SETLK", None)

#: Seconds between the checks by which a waiting pool thread notices that it must stop.
_POLL = 0.02


@contextlib.contextmanager
def hold(file: Path, keys: Iterable[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the locks of all ``keys``, hexadecimal digests, for the length of a ``with`` block.

    The lock file is created if absent, never removed. The locks are taken in sorted order, so that
    two holders cannot deadlock. The block gets False if one is held elsewhere and ``wait`` is
    false.
    """
    with contextlib.ExitStack() as held:
        lock = functools.partial(_lock, file, _opened(file, held), held)
        yield _take_all(lock, sorted({int(key[:15], 16) for key in keys}), wait=wait)


def _opened(file: Path, held: contextlib.ExitStack) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    held.callback(os.close, descriptor)
    return descriptor


def _take_all(lock: Callable[..., None], offsets: list[int], *, wait: bool) -> bool:
    try:
        for offset in offsets:
            _take(lock, offset, wait=wait)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES) and not wait:
            return False
        raise
    return True


def _take(lock: Callable[..., None], offset: int, *, wait: bool) -> None:
    if not wait or current() is _EVERYWHERE:
        lock(offset, wait=wait)
        return
    # Signals interrupt only the main thread, so a pool thread polls whether it must stop.
    while True:
        try:
            lock(offset, wait=False)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return
        time.sleep(_POLL)
        current().check()


def _lock(
    file: Path, descriptor: int, held: contextlib.ExitStack, offset: int, *, wait: bool
) -> None:
    operation = _SET_AND_WAIT if wait else _SET
    if operation is not None:
        try:
            _request(descriptor, operation, fcntl.F_WRLCK, offset)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOLCK, errno.ENOSYS):
                raise
        else:
            held.callback(_request, descriptor, operation, fcntl.F_UNLCK, offset)
            return
    # An old kernel or an unusual file system, which locks whole files: one for each key, since who
    # holds a lock may take others.
    folder = file.with_name(f"{file.name}s")
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as taken:
        own = _opened(folder / f"{offset:015x}", taken)
        fcntl.flock(own, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        taken.callback(fcntl.flock, own, fcntl.LOCK_UN)
        held.push(taken.pop_all())


def _request(descriptor: int, operation: int, kind: int, offset: int) -> None:
    fcntl.fcntl(descriptor, operation, struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0))
