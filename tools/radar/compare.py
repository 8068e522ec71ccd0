"""Differences between two releases in what we rely on: removed, changed and new."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal

from tools.radar.facts import Fact, Release
from tools.radar.modules import CALL, Definition
from tools.radar.ours import python_uses
from tools.radar.release import opened
from tools.radar.sources import Sources
from tools.radar.surface import surface, texts_of
from tools.radar.uses import Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from tools.radar.modules import Chain

__all__ = ["STEPS", "Finding", "drift", "gone"]

Severity = Literal["breaks", "changed", "new"]

STEPS = 11
"""The maximum number of steps."""

#: The least similarity, from 0 to 1, at which another thing is suggested as a replacement.
_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference.

    Attributes:
        severity: ``breaks``, ``changed`` or ``new``.
        kind: The kind of thing.
        name: Its name.
        what: The difference.
        old: Its place in the older release.
        new: Its place in the newer release.
        ours: The places where we rely on it, or have a form for it.
    """

    severity: Severity
    kind: str
    name: str
    what: str
    old: str = ""
    new: str = ""
    ours: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the finding as plain values."""
        return asdict(self)


def gone(old: Path, new: Path, ours: Path) -> list[Finding]:
    """Return what breaks in a newer release; an empty list means it may be worth a try.

    Args:
        old: A release that works; see :func:`tools.radar.release.opened` for the accepted paths.
        new: The newer one.
        ours: The folder of our package.
    """
    return [finding for finding in drift(old, new, ours) if finding.severity == "breaks"]


def drift(
    old: Path, new: Path, ours: Path, tick: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Return how the parts of a release we rely on differ in another, and what is new there.

    Args:
        old: A release that works; see :func:`tools.radar.release.opened` for the accepted paths.
        new: The other one.
        ours: The folder of our package.
        tick: Called before each step with its name.

    Raises:
        NoTorchError: There is no torch at a path.
    """
    with opened(old) as old_folder, opened(new) as new_folder, _uncollected():
        tick("our C++ and texts")
        sources = Sources.read(ours)
        before, after = (Release(f, sources.headers) for f in (old_folder, new_folder))
        tick("classes of the older release")
        names = {name: found.name for name, found in before.classes.items()}
        uses, settings = python_uses(sources.package, before.package, names, tick)
        uses = [*uses, *sources.native, *_completed(sources, before)]
        own = _own_attributes(before, sources)
        uses = [use for use in uses if use.kind != "attribute" or use.name not in own]
        tick("what is gone or changed")
        found = _differences(uses, before, after)
        tick("what is new")
        functions = {use.name for use in uses if use.kind in ("name", "member")}
        return [*_merged(found), *_news(before, after, sources, settings, sorted(functions))]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn off garbage collection: syntax trees stay, and scanning them takes half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _completed(sources: Sources, release: Release) -> Iterator[Use]:
    """Yield the functions whose names are completed by macros."""
    for name in release.native.functions:
        for prefix, file in sources.prefixes.items():
            if name.startswith(prefix):
                yield Use("C function", name, file)


def _own_attributes(release: Release, sources: Sources) -> set[str]:
    """Return attribute names of our own and Python's classes, to ignore where no type is known."""
    classes = (m for module in sources.package.modules() for m in module.members.values())
    own = {name for c in classes if c.kind == "class" for name in release.lookup.members(c)}
    return own.union(*map(dir, (str, list, dict, set, int, float, type)))


def _differences(uses: Iterable[Use], old: Release, new: Release) -> Iterator[Finding]:
    places: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for use in uses:
        if not use.name.endswith(CALL):
            places[use.kind, use.name].add(use.where)
    missing: set[str] = set()
    for (kind, name), wheres in sorted(places.items(), key=lambda item: item[0][::-1]):
        before = old.fact(kind, name)
        if not isinstance(before, Fact) or _is_below(name, missing):
            continue
        if kind == "symbol" and before.place.rpartition("/")[2] not in new.native.libraries:
            continue  # a different build: one for GPUs has libraries that others lack
        after = new.fact(kind, name)
        ours = tuple(sorted(wheres))
        if after is None and kind == "attribute" and _is_kept(name, old, new):
            continue
        if after is None:
            missing.add(name)
            what = "is gone" + _suggestion(kind, name, old, new)
            yield Finding("breaks", kind, name, what, before.place, "", ours)
        elif isinstance(after, Fact):
            for severity, what in _changes(kind, before, after):
                yield Finding(severity, kind, name, what, before.place, after.place, ours)


def _merged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings, with only one of those that say the same about the same definition."""
    groups: defaultdict[tuple[str, ...], list[Finding]] = defaultdict(list)
    for finding in findings:
        last = finding.name.rpartition(".")[2]
        groups[finding.old, finding.new, finding.what, last].append(finding)
    for group in groups.values():
        first = min(group, key=lambda f: (f.severity, len(f.name), f.kind != "override", f.kind))
        yield replace(first, ours=tuple(sorted({where for f in group for where in f.ours})))


def _is_kept(attribute: str, old: Release, new: Release) -> bool:
    """Check whether a class keeps an attribute in the module that Inductor imports it from."""
    named = [new.class_named(owner[-1]) for owner in old.attributes[attribute]]
    return any(new.lookup.find((*c.name, attribute)) is not None for c in named if c is not None)


def _is_below(name: str, missing: set[str]) -> bool:
    parts = name.replace(f".{CALL}", "").split(".")
    ends = range(1, len(parts))
    return any(".".join(parts[:end]) in missing or parts[end - 1] in missing for end in ends)


def _changes(kind: str, before: Fact, after: Fact) -> Iterator[tuple[Severity, str]]:
    for aspect, old in before.aspects.items():
        new = after.aspects.get(aspect)
        if isinstance(old, str) or isinstance(new, str):
            fatal = aspect in ("types", "kind", "argument")
            if new != old:
                yield "breaks" if fatal else "changed", f"{aspect}: {old} -> {new}"
        elif new is not None and list(old.items()) != list(new.items()):
            yield _table_change(kind, aspect, old, new)


def _table_change(
    kind: str, aspect: str, old: Mapping[str, str], new: Mapping[str, str]
) -> tuple[Severity, str]:
    """Describe how parameters or fields differ, and whether code written for the old ones fails."""
    lost = [name for name in old if name not in new]
    extra = [name for name in new if name not in old]
    other = [name for name in old if name in new and old[name] != new[name]]
    moved = [name for name in new if name in old] != [name for name in old if name in new]
    said = [f"-{name}" for name in lost] + [f"+{name}{new[name]}" for name in extra]
    said += [f"{name}{old[name]} -> {name}{new[name]}" for name in other]
    said += ["another order"] if moved else []
    # Our calls are checked against the parameters elsewhere; our overrides receive all arguments.
    wanted = aspect == "parameters" and any("=" not in new[n] and n[0] != "*" for n in extra)
    breaks = wanted or (lost and kind not in ("name", "member")) or (moved and kind == "override")
    return ("breaks" if breaks else "changed"), f"{aspect}: {', '.join(said)}"


def _suggestion(kind: str, name: str, old: Release, new: Release) -> str:
    """Suggest where a missing thing may have moved."""
    if kind in ("C function", "symbol"):
        known, there = (
            r.native.functions if kind == "C function" else r.native.symbols for r in (old, new)
        )
        similar = [n for n in there if n not in known and n[:12] == name[:12]]
        likest = max(similar, key=lambda n: _likeness(n, name), default="")
        return f"; perhaps {likest}" if _likeness(likest, name) > 0.8 else ""
    if kind not in ("name", "member", "override", "class"):
        return ""
    before = old.classes[name] if kind == "class" else old.lookup.find(tuple(name.split(".")))
    if not isinstance(before, Definition):
        return ""
    elsewhere = [
        member
        for module in new.package.modules(*before.name[1:2])
        if before.kind in ("class", "function") and before.name[:-1] == before.module.name
        for member in module.members.values()
        if member.name[-1] == before.name[-1] and member.kind == before.kind
    ]
    if elsewhere:
        return f"; it is in {'.'.join(elsewhere[0].name[:-1])} now"
    olds, news = (_siblings(r, before.name[:-1]) for r in (old, new))
    added = [d for n, d in news.items() if n not in olds and d.kind == before.kind]
    best_one = max(added, key=lambda d: _same(before, d), default=None)
    if best_one is None or _same(before, best_one) < _ALIKE:
        return ""
    return f"; perhaps {best_one.name[-1]}"


def _siblings(release: Release, scope: Chain) -> dict[str, Definition]:
    holder = release.lookup.find(scope)
    if not isinstance(holder, Definition):
        return {}
    return release.lookup.members(holder) if holder.kind == "class" else holder.module.members


def _same(one: Definition, other: Definition) -> float:
    """Return the similarity of two definitions, by name or by text."""
    texts = [ast.unparse(d.node) if d.node is not None else "" for d in (one, other)]
    named = _likeness(one.name[-1], other.name[-1])
    if one.kind not in ("class", "function") or not all(texts):
        return named
    return max(named, SequenceMatcher(None, *(text.split() for text in texts)).ratio())


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _news(
    old: Release, new: Release, sources: Sources, settings: list[Chain], functions: list[str]
) -> Iterator[Finding]:
    known = {(kind, name) for kind, name, _ in surface(old, settings, functions)}
    for kind, name, place in sorted(set(surface(new, settings, functions))):
        if (kind, name) in known:
            continue
        known.add((kind, name))
        plain, _, function = name.rpartition(" by " if kind == "raw text" else " in ")
        if kind == "hook" and plain in texts_of(old, function):
            continue
        plain = ast.literal_eval(plain) if kind == "raw text" else plain or name
        ours = () if kind == "setting" else sources.forms(kind, plain)
        what = "is there" if ours or kind == "setting" else "has no form yet"
        yield Finding("new", kind, name, what + _instead(kind, name, old, new), "", place, ours)


def _instead(kind: str, name: str, old: Release, new: Release) -> str:
    """Suggest what a new line may replace."""
    if kind != "line class":
        return ""
    file = new.classes[name].module.file
    added, lost = (
        [c for n, c in one.classes.items() if n not in other.classes and c.module.file == file]
        for one, other in ((new, old), (old, new))
    )
    best = {c.name[-1]: max(added, key=lambda d, c=c: _same(c, d)) for c in lost}
    came = [lost_one for lost_one, made in best.items() if made.name[-1] == name]
    return f", perhaps for {', '.join(came)}" if came else ""
