"""What a storage stands for while the lines of a program are compared with a graph."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from wrapper_ir.lines import AnyLine, Layout


@dataclass(slots=True)
class State:
    """What a storage stands for.

    Attributes:
        root: The root of the graph, if it is known.
        version: The version of its contents, if it is known.
        made_for: The nodes of the lines that made it and wrote to it. What holds no node's value
            may hold a part of one, such as the sums of a softmax.
        is_filled: Whether a line has written to it, or the caller.
        writer: The last line that has written to it.
        parts: The parts that lines have written; None if the rest may hold values, too.
        written: The bytes of all parts.
    """

    root: Node | None = None
    version: int | None = None
    made_for: frozenset[Node] = frozenset()
    is_filled: bool = False
    writer: AnyLine | None = None
    parts: set[Layout] | None = None
    written: int = 0

    def lacks_part_of(self, layout: Layout) -> bool:
        """Return whether lines have written a part of it, and less than a dense view covers."""
        return bool(self.parts) and _bytes(layout) > self.written and layout.is_dense

    def write(self, layout: Layout, *, is_whole: bool) -> None:
        """Enter that a line has written what a view covers."""
        size = 0 if is_whole else _bytes(layout)
        if not size:
            self.parts = None
        elif self.parts is not None and layout not in self.parts:
            self.parts.add(layout)
            self.written += size


def _bytes(layout: Layout) -> int:
    """Return the bytes of a view's elements; 0 if that is not a number."""
    return layout.numel * layout.dtype.itemsize if layout.is_static else 0
