"""Worker processes that are given batches, halved where something is amiss, and may be lost."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tools.workers import LostError, Worker

__all__ = ["Pool", "Request"]

#: How long a batch may take: some time to start with, and more for each op in it.
_SECONDS, _SECONDS_PER_OP = 300.0, 60.0

_COMMAND: Final = (sys.executable, "-W", "ignore", "-m", "tools.opinfo.worker")


@dataclass(frozen=True)
class Request:
    """What a worker is asked to try."""

    ops: tuple[str, ...]
    dtype: str
    samples: int
    emitters: tuple[str, ...]

    def halves(self) -> tuple[Request, Request]:
        """Return two requests for half of the ops each."""
        middle = len(self.ops) // 2
        return tuple(  # type: ignore[return-value]  # two of them
            Request(ops, self.dtype, self.samples, self.emitters)
            for ops in (self.ops[:middle], self.ops[middle:])
        )

    def line(self) -> str:
        """Return what is written to the worker."""
        return json.dumps(vars(self))


@dataclass
class Pool:
    """Tries requests in processes of their own.

    Args:
        requests: What to try.
        jobs: How many processes.
        until: When to begin nothing new, by ``time.monotonic``.
        found: Called with the request's element type and the verdicts on ops, as they come.
    """

    requests: deque[Request]
    jobs: int
    until: float
    found: Callable[[Request, dict[str, Any]], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: int = 0

    def run(self) -> None:
        """Try all requests, or as many as the time allows."""
        threads = [threading.Thread(target=self._serve) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _serve(self) -> None:
        worker = Worker(_COMMAND)
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
