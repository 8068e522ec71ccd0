"""Who asks whether a line is of a class: emitters and front ends, and few others with a reason.

Others ask effects, traits and regions, or are visitors: then a new line needs no edit in them.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

from tests.pages import ROOT
from wrapper_ir.lines import AnyLine

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES: Final = frozenset(cls.__name__ for cls in get_args(AnyLine))

#: What a target or a source has for each class of lines is theirs to know.
EXEMPT: Final = ("wrapper_ir/emitters/", "wrapper_ir/frontends/")

#: Where else classes are told apart: how often at most, and why.
ALLOWED: Final = {
    "wrapper_ir/verify/control.py": (2, "a predicate and a selector have rules of their own"),
}


def asked(tree: ast.AST) -> Iterator[int]:
    """Yield the number of each line of a file that tells a class of lines from others."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, classes]) if LINES & ids(
                classes
            ):
                yield node.lineno
            case ast.MatchClass(cls=cls) if LINES & ids(cls):
                yield node.lineno
            case ast.Compare(left=ast.Call(func=ast.Name(id="type"), args=[what])) if ids(what) != {
                "other"
            } and any(  # as equality does
                LINES & ids(each) for each in node.comparators
            ):
                yield node.lineno


def ids(node: ast.AST) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def test_nobody_asks_for_the_class_of_a_line_without_a_reason() -> None:
    found: Counter[str] = Counter()
    places = []
    for path in sorted((ROOT / "wrapper_ir").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(EXEMPT):
            continue
        numbers = list(asked(ast.parse(path.read_text(encoding="utf-8"))))
        room = next((room for room in ALLOWED if name.startswith(room)), name)
        found[room] += len(numbers)
        places += [f"{name}:{number}" for number in numbers if room not in ALLOWED]
    hint = "ask effects(), line.traits or regions_of(), or be a visitor: docs/add-a-line.md"
    assert places == [], hint
    assert all(found[room] <= most for room, (most, _) in ALLOWED.items()), (found, hint)


def test_each_way_of_asking_is_found() -> None:
    text = """
isinstance(line, Free)
isinstance(line, (ir.Free, Reuse))
isinstance(line, BufferArg)
type(line) is Free
type(other) is not Free
type(a) is type(b)
match line:
    case Free() | Reuse():
        pass
    case BufferArg():
        pass
"""
    assert sorted(asked(ast.parse(text))) == [2, 3, 5, 9, 9]
