"""``-O key=value`` against the fields of a dataclass."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from wrapper_ir.cli.errors import OptionSyntaxError
from wrapper_ir.cli.files import read_options
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.options.schema import options_of, type_name


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class Emitter:
    name: ClassVar[str] = "sample"
    flag: bool = False
    count: int = 1
    ratio: float = 1.0
    label: str = ""
    mode: Literal["a", "b"] = "a"
    level: Level = Level.LOW
    limit: int | None = None
    names: tuple[str, ...] = ()
    object: Any = None
    derived: int = field(default=0, init=False)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("flag=true", True),
        ("flag", True),
        ("flag=Off", False),
        ("count=-3", -3),
        ("ratio=1e-3", 1e-3),
        ("label=a=b", "a=b"),
        ("label=", ""),
        ("mode=b", "b"),
        ("level=high", Level.HIGH),
        ("limit=7", 7),
        ("limit=none", None),
        ("names=x,y", ("x", "y")),
        ("names=", ()),
    ],
)
def test_value(word: str, value: object) -> None:
    (found,) = read_options(Emitter, [word]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("flag=perhaps", "true or false"),
        ("count=x", "a whole number"),
        ("ratio=x", "a number"),
        ("mode=c", "one of 'a', 'b'"),
        ("level=middle", "one of 'low', 'high'"),
        ("limit=x", "a whole number"),
        ("object=x", "only Python code"),
    ],
)
def test_bad_value(word: str, expected: str) -> None:
    with pytest.raises(OptionValueError, match=expected):
        read_options(Emitter, [word])


def test_later_words_win_and_dashes_are_underscores() -> None:
    assert read_options(Emitter, ["count=1", "count=2"]) == {"count": 2}


def test_unknown_option_names_the_nearest_and_the_emitter() -> None:
    with pytest.raises(OptionError, match=r"(?s)'sample' has no option 'cuont'.*'count'"):
        read_options(Emitter, ["cuont=1"])


@pytest.mark.parametrize("word", ["", "=1", " =1"])
def test_no_key(word: str) -> None:
    with pytest.raises(OptionSyntaxError):
        read_options(Emitter, [word])


def test_options_are_the_initialising_fields() -> None:
    names = [option.name for option in options_of(Emitter)]
    assert "derived" not in names
    assert "name" not in names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flag", "true | false"),
        ("count", "int"),
        ("mode", "a | b"),
        ("level", "low | high"),
        ("limit", "int | none"),
        ("names", "str,…"),
    ],
)
def test_types_as_users_say_them(name: str, said: str) -> None:
    assert type_name(next(o.kind for o in options_of(Emitter) if o.name == name)) == said
