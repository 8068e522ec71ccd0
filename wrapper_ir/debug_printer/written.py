"""How much of a storage has been written, as calls write it view by view.

A result put together of parts is one storage; its parts are written by different calls, each
through a view. What has no part unwritten can be shown, the rest holds whatever was there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

if TYPE_CHECKING:
    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.layout import Layout

__all__ = ["Written"]


class Written:
    """The written part of one storage.

    Args:
        layout: The whole storage's.
        all_: Whether all of it is written from the start.
    """

    def __init__(self, layout: Layout, *, all_: bool = False) -> None:
        self._layout = layout
        self._all = all_
        self._runs: list[tuple[int, int]] = []
        """What is written in one piece: starts and ends in bytes, sorted, apart from each other."""
        self._others: set[Layout] = set()
        """Views that were written and have gaps, or sizes that are not known."""

    @property
    def nothing(self) -> bool:
        """Whether not a byte of it is written."""
        return not (self._all or self._runs or self._others)

    def covers(self, layout: Layout) -> bool:
        """Whether all of a view is written."""
        if self._all or layout in self._others:
            return True
        run = _run(layout)
        return run is not None and any(a <= run[0] and run[1] <= b for a, b in self._runs)

    def write(self, layout: Layout) -> None:
        """Take note that all of a view is written."""
        if self._all:
            return
        run = _run(layout)
        if run is None:
            self._others.add(layout)
        else:
            self._runs = _joined([*self._runs, run])
        self._all = layout == self._layout or self._is_covered()

    def _is_covered(self) -> bool:
        """Whether the parts make up the whole; views with gaps are taken to lie apart."""
        parts = [b - a for a, b in self._runs] + [_bytes(layout) for layout in self._others]
        return bool(sympy.expand(sum(parts) - self._layout.nbytes) == 0)


def _bytes(layout: Layout) -> Dim:
    """Bytes of a view's elements, without gaps."""
    return layout.numel * layout.dtype.itemsize


def _run(layout: Layout) -> tuple[int, int] | None:
    """Where a view lies that is one piece of a known size."""
    if not layout.is_static or layout.extent != layout.numel:
        return None
    start = int(layout.offset) * layout.dtype.itemsize
    return start, start + int(layout.nbytes)


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(runs):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
