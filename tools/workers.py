"""Worker processes that answer one line with one line, and that may crash or hang."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LostError", "Worker"]


class LostError(Exception):
    """A worker ended without an answer; the message says how."""


class Worker:
    """A process that is started on demand, and restarted after it was lost or stopped.

    Args:
        command: The command line.
        environment: The environment; by default that of this process.

    Attributes:
        answered: The number of requests that the current process has answered.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self.answered = 0

    def ask(self, request: str, seconds: float) -> str:
        """Send a line and return the reply.

        Args:
            request: The line, without the newline.
            seconds: The time limit; the process is killed when it is exceeded.

        Raises:
            LostError: The process ended or timed out without an answer.
        """
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(seconds, _kill, (process,))
        late.start()
        try:
            process.stdin.write(f"{request}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        late.cancel()
        if answer.endswith("\n"):
            self.answered += 1
            return answer
        status = process.wait()
        self.stop()
        raise LostError(_words(status))

    def kill(self) -> None:
        """Kill the process from another thread; a pending ``ask`` raises :class:`LostError`."""
        if self._process is not None:
            _kill(self._process)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            _kill(self._process)
            self._process.communicate()
            self._process = None
            self.answered = 0

    def _started(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environment,
            start_new_session=True,  # so that its children end with it
        )
        atexit.register(_kill, process)  # a keyboard interrupt does not reach the new session
        return process


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and the compilers it waits for, since one of them could keep a pipe open."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _words(status: int) -> str:
    if status == -signal.SIGKILL:
        return "took too long, or too much memory"
    if status < 0:
        return f"the process ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"
