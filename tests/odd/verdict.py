"""What an answer is worth beside stock's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.odd.kit import differences

__all__ = ["Verdict", "by_eager", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """Whether something is wrong, and the words for it."""

    is_bad: bool
    text: str


def verdict(way: str, stock: dict[str, Any], ours: dict[str, Any]) -> Verdict:
    """Judge what one way gave by what stock gave."""
    if "lost" in (lost := ours["said"]):
        return Verdict(is_bad=True, text=f"lost: {lost['lost']}")
    if way == "export":
        return _of_export(stock["said"], ours["said"])
    found = list(differences(stock["said"], ours["said"]))
    if found:
        return Verdict(is_bad=True, text=f"{found[0]} ({len(found)} in all)")
    if way.startswith("stock") or way == "eager":
        return Verdict(is_bad=False, text="same")
    # How often threads compile is up to them, so graphs are not counted one by one.
    is_lost = bool(ours["programs"]) != bool(stock["lowered"]) and not _raised(stock["said"])
    if is_lost or ours.get("fallbacks"):
        counts = f"{ours['lowered']} lowered, {ours['programs']} ours, {stock['lowered']} stock's"
        return Verdict(is_bad=True, text=f"bypassed: {counts}")
    return Verdict(is_bad=False, text=f"same, {ours['programs']} programs")


def by_eager(found: Verdict, eager: dict[str, Any], ours: dict[str, Any]) -> Verdict:
    """Judge what is not as in stock by what eager gives."""
    is_same = "said" in eager and not list(differences(eager["said"], ours["said"]))
    return (
        Verdict(is_bad=False, text=f"as in eager, not as in stock: {found.text}")
        if is_same
        else found
    )


def _raised(said: Any) -> str:
    """Return the class of the error, where each call ended with one."""
    calls = said if isinstance(said, list) else [said]
    errors = {call["inner"] for call in calls if isinstance(call, dict) and "raised" in call}
    return ", ".join(sorted(errors)) if len(errors) and all("raised" in c for c in calls) else ""


def _of_export(stock: Any, ours: dict[str, Any]) -> Verdict:
    """Compare values alone: loaders return lists, and gradients are no part of a package."""
    words = []
    is_bad = False
    for kind, said in ours.items():
        if isinstance(said, dict):
            words.append(f"{kind}: {said['inner']}: {said['text']}")
            is_bad |= not said["inner"].startswith(("Unsupported", "UserError", "Guard"))
            continue
        a, b = (_values(s[0]) for s in (stock, said))
        if a != b:
            is_bad = True
            words.append(f"{kind}: {[y for x, y in zip(a, b, strict=False) if x != y] or (a, b)}")
        else:
            words.append(f"{kind}: same")
    return Verdict(is_bad, "; ".join(words))


def _values(call: dict[str, Any]) -> Any:
    """Element type, shape and bytes of each result, in order; or the class of the error."""
    if "raised" in call:
        return [call["inner"]]
    results = (value for _, value in call["out"] if isinstance(value, list))
    return [[value[1], value[2], value[-1]] for value in results]
