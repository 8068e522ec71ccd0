"""The rules as values: ``rules.USE_AFTER_FREE`` is the one that ``rules.txt`` calls use-after-free.

The table in ``docs/verifier.md`` is made from that file too, and a test asks for an invalid program
for each rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is checked.

    ``checks`` states the rule, as Markdown: what holds of a program that keeps to it. ``template``
    and ``hint`` are format strings; the fields come with each violation. A warning may be about
    something intended: it is reported on request only, and does not make the program invalid.
    """

    code: str
    name: str
    checks: str
    template: str
    hint: str = ""
    is_warning: bool = False


def _read() -> Iterator[Rule]:
    """Yield the rules of ``rules.txt``: blocks of a head and three labelled lines."""
    text = files("wrapper_ir.verify").joinpath("rules.txt").read_text(encoding="utf-8")
    for block in text.split("\n\n"):
        if not block.startswith("#"):
            head, *parts = block.strip().split("\n")
            code, name, *is_warning = head.split(" ", 2)
            checks, template, hint = (part.partition(": ")[2] for part in parts)
            yield Rule(code, name, checks, template, hint, bool(is_warning))


#: Every rule by its code, in the order of the codes.
RULES: Final[dict[str, Rule]] = {rule.code: rule for rule in _read()}

_BY_NAME: Final = {rule.name.upper().replace("-", "_"): rule for rule in RULES.values()}


def __getattr__(name: str) -> Rule:
    """The rule of a name, written as a constant.

    Raises:
        AttributeError: There is no such rule.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"the verifier has no rule {name}") from None
