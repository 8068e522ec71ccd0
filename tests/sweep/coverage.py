"""What of Inductor's code that writes wrappers was reached, against what its sources have."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch

from tests.sweep.traced import KINDS
from tools.radar.facts import Release
from wrapper_ir.lines import AnyLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["report"]

_PAGE = Path(__file__).resolve().parents[2] / "docs/wrapper-text.md"


def report(rows: Iterable[Mapping[str, Any]], device: str) -> Iterator[str]:
    """Yield lines that say what was reached and what was not.

    Args:
        rows: The results of a sweep.
        device: Where it ran.
    """
    rows = list(rows)
    release = Release(Path(torch.__file__).parent, ())
    places = {place for row in rows for place in row.get("places", ())}
    yield "Places that write text, as docs/wrapper-text.md lists them:"
    for heading, there in _by_heading(release.writing).items():
        yield _share(heading, {_short(p) for p in there}, {_short(p) for p in places & there})
    lines = _summed(rows, "lines")
    classes = {
        name
        for name, found in release.classes.items()
        if release.derives(found, "WrapperLine") and _is_written(found.name[-1])
    }
    yield _share("Classes of Inductor's lines", classes, set(lines))
    kernels = _summed(rows, "kernels")
    if device == "cuda":
        yield _share("Kinds of kernels", set(KINDS), set(kernels))
    yield "  Kernels: " + ", ".join(f"{kind} {count}" for kind, count in kernels.most_common())
    ours = {line.mnemonic for line in get_args(AnyLine)}
    yield _share("Kinds of lines in our programs", ours, set(_summed(rows, "ours")))


def _summed(rows: Iterable[Mapping[str, Any]], key: str) -> Counter[str]:
    total = Counter[str]()
    for row in rows:
        total.update(row.get(key, {}))
    return total


def _is_written(name: str) -> bool:
    """Whether lines of a class are written themselves, and not those of classes below it."""
    return name not in ("WrapperLine", "MemoryPlanningLine", "PoolMemoryPlanningLine")


def _by_heading(writing: Iterable[str]) -> dict[str, set[str]]:
    """Sort the functions that write text by the part of the page that names them."""
    found: dict[str, set[str]] = {}
    heading = ""
    left = set(writing)
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        for name in re.findall(r"`([\w.]+)`", line):
            here = {place for place in left if place.endswith(f".{name}")}
            left -= here
            if here:
                found.setdefault(heading, set()).update(here)
    return {**found, **({"On no page": left} if left else {})}


def _short(place: str) -> str:
    """Name a function without its module, and without the class that most are in."""
    return re.sub(r"^[a-z_0-9.]*\.(?=[A-Z])", "", place).removeprefix("PythonWrapperCodegen.")


def _share(title: str, there: set[str], reached: set[str]) -> str:
    missing = sorted(there - reached)
    words = f"  {title}: {len(there & reached)} of {len(there)}"
    return words + (f"; not {', '.join(missing)}" if missing else "")
