"""Reads of memory through another name than the one under which it is written.

Inductor computes elementwise ops where their values are needed. Before a buffer is written, it has
what was read from it computed. A view that an op returns, such as ``x.view(torch.int32)``, is a
buffer of its own; what was read from it would be computed after a write to ``x``.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class _Families:
    """Names of buffers that share memory, as far as a graph has been lowered."""

    seen: int = 0  #: the number of buffers that were looked at
    base: dict[str, str] = field(default_factory=dict)  #: of each view, what it is a view of
    views: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def learn(self, buffers: list[Any]) -> None:
        """Add the buffers that have come since the last time."""
        for buffer in buffers[self.seen :]:
            for source in buffer.get_inputs_that_alias_output():
                base = self.base.get(source, source)
                self.base[buffer.get_name()] = base
                self.views[base].append(buffer.get_name())
        self.seen = len(buffers)

    def of(self, name: str) -> list[str]:
        """Return the names of the memory of a buffer, if it has others than this one."""
        base = self.base.get(name, name)
        return [base, *self.views[base]] if base in self.views else []


_families: weakref.WeakKeyDictionary[Any, _Families] = weakref.WeakKeyDictionary()


def computing_reads(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's method that prepares a write to a buffer, to think of the buffer's views."""

    @wraps(stock)
    def mark_buffer_mutated(self: Any, name: str) -> None:
        stock(self, name)
        if not is_ours():
            return
        found = _families.setdefault(self, _Families())
        found.learn(self.buffers)
        for other in found.of(name):
            for user in self.name_to_users.get(other, ()):
                user.realize()

    return mark_buffer_mutated
