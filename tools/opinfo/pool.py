"""Worker processes that are given batches, halved where something is amiss, and may be lost."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from tools.opinfo.mode import Mode
from tools.workers import LostError, Worker

__all__ = ["Pool", "Request"]

#: How long a batch may take: some time to start with, and more for each op in it.
_SECONDS, _SECONDS_PER_OP = 300.0, 60.0

#: How long what was begun may take when nothing new is begun.
_GRACE = 15.0

_COMMAND: Final = (sys.executable, "-W", "ignore", "-m", "tools.opinfo.worker")


@dataclass(frozen=True)
class Request:
    """What a worker is asked to try."""

    ops: tuple[str, ...]
    mode: Mode
    samples: int
    emitters: tuple[str, ...]

    def halves(self) -> tuple[Request, Request]:
        """Return two requests for half of the ops each."""
        middle = len(self.ops) // 2
        return replace(self, ops=self.ops[:middle]), replace(self, ops=self.ops[middle:])

    def line(self) -> str:
        """Return what is written to the worker."""
        return json.dumps(asdict(self))


@dataclass
class Pool:
    """Tries requests in processes of their own.

    Args:
        requests: What to try.
        jobs: How many processes.
        until: When to begin nothing new, by ``time.monotonic``.
        found: Called with the request and the verdicts on its ops, as they come.
    """

    requests: deque[Request]
    jobs: int
    until: float
    found: Callable[[Request, dict[str, Any]], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: int = 0

    def run(self) -> None:
        """Try all requests, or as many as the time allows."""
        with _environments(self.jobs) as environments:
            workers = [Worker(_COMMAND, environment) for environment in environments]
            threads = [
                threading.Thread(target=self._serve, args=(worker,), daemon=True)
                for worker in workers
            ]
            try:
                for thread in threads:
                    thread.start()
                self._wait(threads)
            finally:
                self.until = float("-inf")
                for worker in workers:
                    worker.kill()

    def _wait(self, threads: list[threading.Thread]) -> None:
        """Wait for the threads, but not for what is late."""
        for thread in threads:
            left = self.until + _GRACE - time.monotonic()
            thread.join(None if left == float("inf") else max(left, 0))

    def _serve(self, worker: Worker) -> None:
        try:
            while (request := self._next()) is not None:
                answer = _ask(worker, request)
                with self._lock:
                    self._take(request, answer)
                    self._busy -= 1
        finally:
            worker.stop()

    def _next(self) -> Request | None:
        while time.monotonic() < self.until:
            with self._lock:
                if self.requests:
                    self._busy += 1
                    return self.requests.popleft()
                if not self._busy:
                    return None
            time.sleep(0.2)  # what others are at may yet be halved
        return None

    def _take(self, request: Request, answer: dict[str, Any]) -> None:
        lost = answer.get("lost")
        if lost and time.monotonic() > self.until:
            return  # it was stopped, and nothing is known about it
        if len(request.ops) > 1 and (lost or answer.get("split")):
            self.requests.extendleft(reversed(request.halves()))
        elif lost:
            self.found(request, {request.ops[0]: {"stock": f"the process is lost: {lost}"}})
        else:
            self.found(request, answer["verdicts"])


def _ask(worker: Worker, request: Request) -> dict[str, Any]:
    """Return a worker's answer, or why there is none."""
    try:
        line = worker.ask(request.line(), _SECONDS + _SECONDS_PER_OP * len(request.ops))
    except LostError as error:
        return {"lost": str(error)}
    answer: dict[str, Any] = json.loads(line)
    return answer


@contextlib.contextmanager
def _environments(jobs: int) -> Iterator[list[dict[str, str]]]:
    """Make what workers run in: one thread each, and several have each a cache of Inductor's.

    Ours is made to be shared, and what it holds of torch's headers takes longest to compile.
    """
    single = os.environ | {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if jobs == 1:
        yield [single]
        return
    with tempfile.TemporaryDirectory(prefix="opinfo-", ignore_cleanup_errors=True) as top:
        folders = (os.path.join(top, str(number)) for number in range(jobs))
        yield [single | {"TORCHINDUCTOR_CACHE_DIR": folder} for folder in folders]
