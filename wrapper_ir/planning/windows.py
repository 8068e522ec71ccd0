"""Windows: stretches of the program in which an arena does not raise the peak.

An arena is held as a whole from its first storage to its last. While less is alive in it than fits,
the rest is lost to others, and where the program's peak lies in something that no arena can hold (a
result, or what a library op allocates), an arena over all of the program raises it. So look for
windows of time such that an arena for what begins and ends inside holds, beside all else, never
more than the peak. What crosses a window's end stays as it is, or goes into a later window.

The search is greedy and counted in lines: from each storage on the longest of a few lengths that
does. It is made at the hints where sizes are symbolic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import Dim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FEW: Final = 400
"""Storages: with more, windows are at most ``_LONGEST`` lines."""

_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Tenant:
    """A storage that can lie in an arena, from its allocation to its end under the last name."""

    name: str
    """The buffer that is allocated."""
    start: int
    """The line that allocates it."""
    end: int
    """The line that frees it."""
    nbytes: Dim


class Windows:
    """The room that is left beside the peak, line by line.

    Args:
        held: Bytes that are held while each line runs, when storage is freed after its last use.
    """

    def __init__(self, held: Sequence[int]) -> None:
        peak = max(held, default=0)
        self.room = [peak - nbytes for nbytes in held]

    def cut(self, tenants: Sequence[Tenant], nbytes: dict[Tenant, int]) -> list[list[Tenant]]:
        """Groups of storages that can have an arena each; those left over are in none."""
        waiting = sorted(tenants, key=lambda tenant: (tenant.start, tenant.end))
        longest = len(self.room) if len(waiting) <= _FEW else _LONGEST
        groups = []
        while waiting:
            begin = waiting[0].start
            near = [t for t in waiting if t.end <= begin + longest] if longest else waiting
            group = self._longest(begin, near, nbytes)
            if group:
                groups.append(group)
                taken = set(group)
                waiting = [tenant for tenant in waiting if tenant not in taken]
            else:
                waiting = waiting[1:]
        return groups

    def _longest(
        self, begin: int, tenants: list[Tenant], nbytes: dict[Tenant, int]
    ) -> list[Tenant]:
        """Return the longest run of tenants from ``begin`` on that fits into the window."""
        for end in _ends(begin, max((t.end for t in tenants), default=begin)):
            group = [tenant for tenant in tenants if tenant.end <= end]
            if len(group) < 2:
                return []
            lost = self._lost(group, nbytes)
            first = group[0].start
            if all(more <= self.room[first + n] for n, more in enumerate(lost)):
                for n, more in enumerate(lost):
                    self.room[first + n] -= more
                return group
        return []

    def _lost(self, group: list[Tenant], nbytes: dict[Tenant, int]) -> list[int]:
        """Bytes of an arena that are not in use, for each line in which it is there."""
        first, last = group[0].start, max(tenant.end for tenant in group)
        changes = [0] * (last - first + 1)
        for tenant in group:
            changes[tenant.start - first] += nbytes[tenant]
            changes[tenant.end - first] -= nbytes[tenant]
        alive, used = 0, []
        for change in changes[:-1]:
            alive += change
            used.append(alive)
        height = max(used)
        return [height - now for now in used]


def _ends(begin: int, end: int) -> Iterator[int]:
    """Ends of windows to try, the last first, each time a quarter less."""
    length = end - begin
    while length > 1:
        yield begin + length
        length = length * 3 // 4
