"""The rank of a process, and the names of what each rank writes for itself: ``NAME.rank3``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_NUMBERED: Final = re.compile(r"\.rank(\d+)")


def rank() -> str:
    """Return the rank of this process among several, as launchers such as torchrun say it.

    Empty if it is alone.
    """
    count, number = os.environ.get("WORLD_SIZE", ""), os.environ.get("RANK", "")
    return number if number.isdecimal() and count.isdecimal() and int(count) > 1 else ""


def of_rank(name: str | Path) -> str:
    """Return the name of a file or directory of which each rank has its own."""
    return f"{name}.rank{number}" if (number := rank()) else str(name)


def of_all_ranks(name: str | Path) -> dict[int, Path]:
    """Return the directories of that name that ranks have written, in the order of ranks."""
    path = Path(name)
    numbers = {
        each: _NUMBERED.fullmatch(each.name.removeprefix(path.name))
        for each in path.parent.glob("*")
        if each.name.startswith(path.name) and each.is_dir()
    }
    return dict(sorted((int(number[1]), each) for each, number in numbers.items() if number))
