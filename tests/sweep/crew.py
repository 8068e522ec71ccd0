"""Worker processes that share a device's memory, and may be lost."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sweep.workload import Workload
from tools.workers import LostError, Worker

__all__ = ["Crew", "asked"]

_COMMAND: Final = (sys.executable, "-W", "ignore", "-m", "tests.sweep.worker")

#: Workloads after which a process is replaced: it keeps what it loads.
_SHIFT: Final = 12

#: The part of the memory that is free at the start that workloads may take together.
_SHARE: Final = 0.8


class _Budget:
    """Memory that workloads take and give back."""

    def __init__(self, free: int) -> None:
        self._total = self._left = int(free * _SHARE)
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, need: int) -> Iterator[bool]:
        """Wait until there is as much as is needed; False where there never is."""
        if need > self._total:
            yield False
            return
        with self._changed:
            self._changed.wait_for(lambda: self._left >= need)
            self._left -= need
        try:
            yield True
        finally:
            with self._changed:
                self._left += need
                self._changed.notify_all()


@dataclass
class Crew:
    """Tries workloads in processes of their own.

    Args:
        device: ``cuda`` or ``cpu``.
        ways: Emitters.
        work: What to try, each with its number.
        until: When to begin nothing new, by ``time.monotonic``.
        grace: How many seconds what was begun may take after that.
        timeout: How many seconds a workload may take.
        found: Called with what came of each.
    """

    device: str
    ways: list[str]
    work: Iterator[tuple[int, Workload]]
    until: float
    grace: float
    timeout: float
    found: Callable[[int, Workload, dict[str, Any]], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, jobs: int, gpus: int) -> None:
        """Try workloads in a number of processes until the time is over, or the work."""
        workers = [Worker(_COMMAND, _environment(n, gpus, self.device)) for n in range(jobs)]
        budgets = [_Budget(_free(workers[n], self.device)) for n in range(max(gpus, 1))]
        threads = [
            threading.Thread(
                target=self._serve, args=(worker, budgets[n % len(budgets)]), daemon=True
            )
            for n, worker in enumerate(workers)
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive() and time.monotonic() < self.until + self.grace:
                    thread.join(0.2)
        finally:
            self.until = float("-inf")
            for worker in workers:
                worker.kill()

    def _serve(self, worker: Worker, budget: _Budget) -> None:
        while (next_ := self._next()) is not None:
            number, workload = next_
            with budget.taken(workload.need) as fits:
                answer: dict[str, Any] = {"stock": "does not fit", "ways": {}}
                if fits:
                    answer = asked(worker, workload, self.device, self.ways, self.timeout)
            with self._lock:
                if time.monotonic() < self.until + self.grace:
                    self.found(number, workload, answer)
            if worker.answered >= _SHIFT:
                worker.stop()
        worker.stop()

    def _next(self) -> tuple[int, Workload] | None:
        with self._lock:
            return next(self.work, None) if time.monotonic() < self.until else None


def asked(
    worker: Worker, workload: Workload, device: str, ways: list[str], timeout: float
) -> dict[str, Any]:
    """Return what comes of a workload; where the process is lost, each way is asked by itself."""

    def ask(some: list[str]) -> dict[str, Any]:
        request = {"workload": str(workload), "device": device, "ways": some}
        answer: dict[str, Any] = json.loads(worker.ask(json.dumps(request), timeout))
        return answer

    try:
        return ask(ways)
    except LostError as error:
        lost = str(error)
    try:
        answer = ask([])
    except LostError:
        return {"stock": f"lost: {lost}", "ways": {}}
    for way in ways:
        try:
            answer["ways"] |= ask([way])["ways"]
        except LostError as error:
            answer["ways"][way] = f"lost: {error}"
    return answer


def _environment(number: int, gpus: int, device: str) -> dict[str, str]:
    """Return the variables of a worker: one thread, one GPU."""
    single = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if device == "cuda" and gpus > 1:
        single["CUDA_VISIBLE_DEVICES"] = str(number % gpus)
    return {**os.environ, **single}


def _free(worker: Worker, device: str) -> int:
    answer: dict[str, int] = json.loads(worker.ask(json.dumps({"device": device}), 300))
    return answer["free"]
