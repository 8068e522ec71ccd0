"""What several runs of the fuzzer did, one line a chunk of programs; so a run can go on later."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.fuzz.session import Case


class Log:
    """A file of JSON lines, or nothing.

    Attributes:
        lines: Lines that agreed in the runs that the file knew of when it was opened.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        is_there = file is not None and file.exists()
        texts = file.read_text().splitlines() if file is not None and is_there else []
        self._records = [json.loads(text) for text in texts]
        self.lines = sum(record["lines"] for record in self._records)

    def after(self, seed: int) -> int:
        """The seed that follows all that the file knows, but no smaller one than given."""
        return max([seed, *(record["last"] + 1 for record in self._records)])

    def add(self, cases: Sequence[Case], ways: str) -> None:
        """Notes a chunk."""
        if self._file is None:
            return
        record = {
            "first": cases[0].seed,
            "last": cases[-1].seed,
            "programs": len(cases),
            "lines": sum(case.lines for case in cases if not case.failure),
            "failed": [case.seed for case in cases if case.failure],
            "ways": ways,
        }
        with self._file.open("a") as out:
            out.write(json.dumps(record) + "\n")
