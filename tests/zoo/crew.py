"""Workers that share out the tasks, each a process that is started anew when it dies."""

from __future__ import annotations

import json
import queue
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.zoo.check import Outcome
from tests.zoo.toys import Architecture
from tools.workers import LostError, Worker

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
    worker = Worker(command)
    while True:
        try:
            task = waiting.get_nowait()
        except queue.Empty:
            break
        done.put((task, _do(worker, task, timeout)))
    worker.stop()


def _do(worker: Worker, task: Task, timeout: float) -> list[Outcome]:
    """Have a task done; whatever becomes of the worker, there is an answer."""
    if worker.answered >= TASKS_EACH:
        worker.stop()
    request = json.dumps([task.architecture.name, task.mode, task.emitters])
    try:
        return [Outcome(**fields) for fields in json.loads(worker.ask(request, timeout))]
    except LostError as error:
        name, kind = task.architecture.name, task.architecture.kind
        return [
            Outcome(name, kind, task.mode, emitter, "failed", str(error))
            for emitter in task.emitters
        ]
