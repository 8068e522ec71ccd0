"""Worker processes that are given batches, halved where something is amiss, and may be lost."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Pool", "Request"]

#: How long a batch may take: some time to start with, and more for each op in it.
_SECONDS, _SECONDS_PER_OP = 300.0, 60.0


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
        return json.dumps(vars(self)) + "\n"


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
        worker = _Worker()
        try:
            while (request := self._next()) is not None:
                answer = worker.ask(request)
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


class _Worker:
    """One process, started when it is needed, and again when it is lost."""

    def __init__(self) -> None:
        self._process: Any = None
        self._answers: queue.Queue[str] = queue.Queue()

    def ask(self, request: Request) -> dict[str, Any]:
        """Return the worker's answer, or why there is none."""
        if self._process is None:
            self._start()
        try:
            self._process.stdin.write(request.line())
            self._process.stdin.flush()
            limit = _SECONDS + _SECONDS_PER_OP * len(request.ops)
            line = self._answers.get(timeout=limit)
        except queue.Empty:
            self.stop()
            return {"lost": "it takes too long"}
        except OSError:
            line = ""
        if not line:
            code = self._process.wait()
            self.stop()
            return {"lost": f"it ended with {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tools.opinfo.worker"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answers = queue.Queue()
        arguments = (self._process.stdout, self._answers)
        threading.Thread(target=_forward, args=arguments, daemon=True).start()


def _forward(stream: Any, answers: queue.Queue[str]) -> None:
    """Hand on lines, and an empty one at the end."""
    for line in stream:
        answers.put(line)
    answers.put("")
