"""Workers that share out the tasks, each a process that is started anew when it dies."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.zoo.check import Outcome
from tests.zoo.toys import Architecture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Task", "results"]

WORKER = (sys.executable, "-m", "tests.zoo.worker")

TASKS_EACH = 20
"""How many tasks a worker does before a fresh one takes its place: it keeps what it loads."""


@dataclass(frozen=True)
class Task:
    """One architecture in one mode."""

    architecture: Architecture
    mode: str
    emitters: tuple[str, ...]


def results(
    tasks: Sequence[Task], jobs: int, timeout: float, command: Sequence[str] = WORKER
) -> Iterator[tuple[Task, list[Outcome]]]:
    """Yield what each task gave, as they end.

    Args:
        tasks: What to do.
        jobs: How many at once.
        timeout: Seconds for one task; what takes longer has failed.
        command: Starts a worker.
    """
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Task, list[Outcome]]] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    for _ in range(min(jobs, len(tasks))):
        arguments = (waiting, done, timeout, command)
        threading.Thread(target=_serve, args=arguments, daemon=True).start()
    for _ in tasks:
        yield done.get()


def _serve(
    waiting: queue.SimpleQueue[Task],
    done: queue.SimpleQueue[tuple[Task, list[Outcome]]],
    timeout: float,
    command: Sequence[str],
) -> None:
    worker: _Worker | None = None
    while True:
        try:
            task = waiting.get_nowait()
        except queue.Empty:
            break
        worker = worker if worker is not None and worker.is_fit else _Worker(command)
        done.put((task, worker.do(task, timeout)))
    if worker is not None:
        worker.end()


class _Worker:
    """A process, and the line to it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._left = TASKS_EACH

    @property
    def is_fit(self) -> bool:
        """Whether it may be given another task; it is ended if not."""
        if self._left and self._process.poll() is None:
            return True
        self.end()
        return False

    def do(self, task: Task, timeout: float) -> list[Outcome]:
        """Have a task done; whatever becomes of the worker, there is an answer."""
        self._left -= 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(timeout, self._process.kill)
        late.start()
        try:
            request = json.dumps([task.architecture.name, task.mode, task.emitters])
            self._process.stdin.write(f"{request}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        late.cancel()
        if answer.endswith("\n"):
            return [Outcome(**fields) for fields in json.loads(answer)]
        return [_lost(task, emitter, self._process.wait()) for emitter in task.emitters]

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _lost(task: Task, emitter: str, status: int) -> Outcome:
    """Say of a task that its worker died, or was ended for taking too long."""
    why = f"the process ended with status {status}"
    if status == -signal.SIGKILL:
        why = "took too long, or too much memory"
    elif status < 0:
        why = f"the process ended by {signal.Signals(-status).name}"
    return Outcome(
        task.architecture.name, task.architecture.kind, task.mode, emitter, "failed", why
    )
