"""``record``: look at the programs that compilations make."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.frontends.inductor.session import Recorder, Recording, use_recorder

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def record() -> Iterator[Recording]:
    """Collect every program that compilations in this block make, in order, and their graphs.

    Forward, backward and the graphs between breaks are programs of their own. Caches are passed by
    in the block, so a program is made also of what was compiled before by another process.

    Yields:
        The list, which grows while the block runs; its ``graphs`` are what the programs were made
        of, for ``bisect(..., b="eager", graph=...)``.
    """
    programs = Recording()
    with use_recorder(Recorder(programs)):
        yield programs
