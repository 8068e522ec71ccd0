"""``-O key=value``: words become values of an emitter's options."""

from __future__ import annotations

import enum
import types
import typing
from typing import TYPE_CHECKING, Literal

from wrapper_ir.cli.errors import OptionSyntaxError
from wrapper_ir.emitters.options import options_of
from wrapper_ir.errors import OptionError, OptionValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class _NotLegalError(Exception):
    """A word is no value of a type; says what is one."""


def read_options(emitter: type, words: Iterable[str]) -> dict[str, object]:
    """Return keyword arguments for an emitter from ``key=value`` words; ``key`` alone means true.

    Args:
        emitter: A dataclass; its initialising fields are the options.
        words: What stood behind each ``-O``.

    Raises:
        OptionSyntaxError: A word has no key.
        OptionError: The emitter has no such option.
        OptionValueError: The option has, but not with this value.
    """
    kinds = {option.name: option.kind for option in options_of(emitter)}
    owner = f"emitter {getattr(emitter, 'name', emitter.__name__)!r}"
    found: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not key:
            raise OptionSyntaxError(text=word)
        if key not in kinds:
            raise OptionError(option=key, legal=kinds, owner=owner)
        try:
            found[key] = _convert(value if equals else "true", kinds[key])
        except _NotLegalError as error:
            raise OptionValueError(option=key, value=value, expected=str(error)) from error
    return found


def read_pairs(words: Iterable[str]) -> dict[str, str]:
    """Return what ``key=value`` words say, as text.

    Raises:
        OptionSyntaxError: A word has no key or no value.
    """
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise OptionSyntaxError(text=word)
        found[key] = value
    return found


def _convert(word: str, kind: object) -> object:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return _choose(word, {str(choice): choice for choice in inner})
    if origin in (typing.Union, types.UnionType):
        return _convert_union(word, inner)
    if origin is tuple:
        return tuple(_convert(part, inner[0]) for part in word.split(",") if part)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _choose(word, {str(member.value): member for member in kind})
    return _convert_plain(word, kind)


def _convert_union(word: str, choices: tuple[object, ...]) -> object:
    if type(None) in choices and word.lower() == "none":
        return None
    expected = []
    for choice in choices:
        if choice is not type(None):
            try:
                return _convert(word, choice)
            except _NotLegalError as error:
                expected.append(str(error))
    raise _NotLegalError(" or ".join(expected))


def _convert_plain(word: str, kind: object) -> object:
    if kind is bool:
        return _choose(word.lower(), _BOOLEANS, "true or false")
    if kind is int or kind is float:
        try:
            return int(word) if kind is int else float(word)
        except ValueError as error:
            raise _NotLegalError("a whole number" if kind is int else "a number") from error
    if kind is str:
        return word
    raise _NotLegalError("something that only Python code can give")


def _choose(word: str, choices: Mapping[str, object], expected: str | None = None) -> object:
    if word in choices:
        return choices[word]
    raise _NotLegalError(expected or "one of " + ", ".join(choices))
