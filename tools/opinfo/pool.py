"""A pool of worker processes for batches: failing batches are halved, lost workers replaced."""

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

#: The time limit of a batch: a fixed startup time plus some for each op.
_SECONDS, _SECONDS_PER_OP = 300.0, 60.0

#: The time that running requests get once no new ones are started.
_GRACE = 15.0

_COMMAND: Final = (sys.executable, "-W", "ignore", "-m", "tools.opinfo.worker")


@dataclass(frozen=True)
class Request:
    """A request to a worker."""

    ops: tuple[str, ...]
    mode: Mode
    samples: int
    emitters: tuple[str, ...]

    def halves(self) -> tuple[Request, Request]:
        """Return two requests for half of the ops each."""
        middle = len(self.ops) // 2
        return replace(self, ops=self.ops[:middle]), replace(self, ops=self.ops[middle:])

    def line(self) -> str:
        """Return the line to send to the worker."""
        return json.dumps(asdict(self))


@dataclass
class Pool:
    """A pool that runs requests in separate processes.

    Args:
        requests: The requests.
        jobs: The number of processes.
        until: When to stop starting requests, by ``time.monotonic``.
        found: Called with each request and the verdicts on its ops as they arrive.
    """

    requests: deque[Request]
    jobs: int
    until: float
    found: Callable[[Request, dict[str, Any]], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: int = 0

    def run(self) -> None:
        """Run all requests, or as many as the time allows."""
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
        """Wait for the threads, except those that are overdue."""
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
            time.sleep(0.2)  # requests that are still running may be halved
        return None

    def _take(self, request: Request, answer: dict[str, Any]) -> None:
        lost = answer.get("lost")
        if lost and time.monotonic() > self.until:
            return  # the worker was stopped, so there is no verdict
        if len(request.ops) > 1 and (lost or answer.get("split")):
            self.requests.extendleft(reversed(request.halves()))
        elif lost:
            self.found(request, {request.ops[0]: {"stock": f"the process is lost: {lost}"}})
        else:
            self.found(request, answer["verdicts"])


def _ask(worker: Worker, request: Request) -> dict[str, Any]:
    """Return a worker's answer, or the reason why there is none."""
    try:
        line = worker.ask(request.line(), _SECONDS + _SECONDS_PER_OP * len(request.ops))
    except LostError as error:
        return {"lost": str(error)}
    answer: dict[str, Any] = json.loads(line)
    return answer


@contextlib.contextmanager
def _environments(jobs: int) -> Iterator[list[dict[str, str]]]:
    """Yield the workers' environments: one thread each, and separate Inductor caches if several.

    Our own cache is safe to share, and compiling torch's headers for it takes the longest.
    """
    single = os.environ | {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if jobs == 1:
        yield [single]
        return
    with tempfile.TemporaryDirectory(prefix="opinfo-", ignore_cleanup_errors=True) as top:
        folders = (os.path.join(top, str(number)) for number in range(jobs))
        yield [single | {"TORCHINDUCTOR_CACHE_DIR": folder} for folder in folders]
