"""Compilers that run, and how they are ended: with the threads that wait for them, at once.

Each process leads a session of its own, so that what a compiler's driver has started ends with it.
Threads of a pool share a :class:`Running`; when the block of :func:`pool` is left by an exception,
Ctrl-C among them, what they run is killed and nothing is begun any more. What threads outside a
pool run ends with the thread's wait, or with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
