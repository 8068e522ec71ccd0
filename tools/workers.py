"""Processes that answer a line with a line, and may crash or hang over it."""

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
    """A worker ended without an answer; the text says how."""


class Worker:
    """One process, started when it is needed, and again when it was lost or stopped.

    Args:
        command: Starts it.
        environment: Its variables; by default those of this process.

    Attributes:
        answered: How many requests the process that runs has answered.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self.answered = 0

    def ask(self, request: str, seconds: float) -> str:
        """Send a line and return the line that comes back.

        Args:
            request: The line, without its end.
            seconds: How long the answer may take; then the process is killed.

        Raises:
            LostError: There is no answer.
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
        """End the process from another thread; the one that asks is told that it is lost."""
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
            start_new_session=True,  # so that what it starts ends with it
        )
        atexit.register(_kill, process)  # an interrupt from the keyboard does not reach it there
        return process


def _kill(process: subprocess.Popen[str]) -> None:
    """End a process and the compilers that it waits for; one of them could keep a pipe open."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _words(status: int) -> str:
    if status == -signal.SIGKILL:
        return "took too long, or too much memory"
    if status < 0:
        return f"the process ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"
