"""Numbers of bytes and of seconds, as people write and read them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(text: str) -> int | None:
    """Return the bytes that ``500M``, ``2GiB`` or ``1024`` mean, or None for anything else.

    A unit is a power of 1024, with or without the ``i``.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    return int(float(match[1]) * _UNITS[match[2].upper()])


def human(size: int) -> str:
    """Return a number of bytes in the largest unit that leaves a number of at least one."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, three digits of it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
