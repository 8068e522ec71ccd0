"""``record``: look at the programs that compilations make."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.frontends.inductor.session import Recorder, use_recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines.program import Program

__all__ = ["record"]


@contextlib.contextmanager
def record() -> Iterator[list[Program]]:
    """Collect every program that compilations in this block make, in order.

    Forward, backward and the graphs between breaks are programs of their own. Caches are passed by
    in the block, so a program is made also of what was compiled before by another process.

    Yields:
        The list, which grows while the block runs.
    """
    programs: list[Program] = []
    with use_recorder(Recorder(programs)):
        yield programs
