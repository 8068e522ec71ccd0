"""From words to values: of a shell, of an environment variable, of a pipeline of passes."""

from __future__ import annotations

import enum
import types
import typing
from typing import TYPE_CHECKING, Final, Literal

from wrapper_ir.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wrapper_ir.options.schema import Option

_TRUTH: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class NotLegalError(Exception):
    """A word is no value of a type. Its text says what is one."""


def read_options(
    options: Iterable[Option], words: Iterable[tuple[str, str]], *, owner: str
) -> dict[str, object]:
    """Return the values that pairs of words name; of a name that stands twice, the last.

    Args:
        options: All options that there are.
        words: Names and values. A dash in a name is an underscore.
        owner: Whose options they are, such as ``emitter 'python'``.

    Raises:
        OptionError: There is no option of a name.
        OptionValueError: There is, but a word is no value of its type.
    """
    known = {option.name: option for option in options}
    found: dict[str, object] = {}
    for key, word in words:
        name = key.replace("-", "_")
        if name not in known:
            raise OptionError(option=name, legal=known, owner=owner)
        found[name] = known[name].read(word)
    return found


def convert(word: str, kind: object) -> object:
    """Return the value of a type that a word stands for.

    Raises:
        NotLegalError: It stands for none.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return _choose(word, {str(choice): choice for choice in inner}, one_of(inner))
    if origin in (typing.Union, types.UnionType):
        return _convert_union(word, inner)
    if origin is tuple:
        return tuple(convert(part, inner[0]) for part in word.split(",") if part)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = {str(member.value): member for member in kind}
        return _choose(word, values, one_of(values))
    return _convert_plain(word, kind)


def _convert_union(word: str, choices: tuple[object, ...]) -> object:
    if type(None) in choices and word.lower() == "none":
        return None
    expected = []
    for choice in choices:
        if choice is not type(None):
            try:
                return convert(word, choice)
            except NotLegalError as error:
                expected.append(str(error))
    raise NotLegalError(" or ".join(expected))


def _convert_plain(word: str, kind: object) -> object:
    if kind is bool:
        return _choose(word.lower(), _TRUTH, "true or false")
    if kind is int or kind is float:
        try:
            return int(word) if kind is int else float(word)
        except ValueError as error:
            raise NotLegalError(expected_of(kind)) from error
    if kind is str:
        return word
    raise NotLegalError("something that only Python code can give")


def _choose(word: str, choices: Mapping[str, object], expected: str) -> object:
    if word in choices:
        return choices[word]
    raise NotLegalError(expected)


def type_name(kind: object) -> str:
    """Return a type as a user of the command line would say it."""
    origin = typing.get_origin(kind)
    if origin is Literal:
        return " | ".join(map(str, typing.get_args(kind)))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(type_name(choice) for choice in typing.get_args(kind))
    if kind is type(None):
        return "none"
    if origin is tuple:
        return f"{type_name(typing.get_args(kind)[0])},…"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " | ".join(str(member.value) for member in kind)
    return "true | false" if kind is bool else str(getattr(kind, "__name__", kind))


def expected_of(kind: object) -> str:
    """Describe the values that a type takes, as errors do."""
    if typing.get_origin(kind) is Literal:
        return one_of(typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(map(expected_of, typing.get_args(kind)))
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    return words.get(kind, "None" if kind is type(None) else type_name(kind))  # type: ignore[call-overload, no-any-return]  # any key may be asked for


def one_of(choices: Iterable[object]) -> str:
    """Describe values that can be listed, as errors do."""
    return "one of " + ", ".join(map(repr, choices))
