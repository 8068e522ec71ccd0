"""Options: their declaration, the classes that have them, and checks of their values.

A class that takes options is a dataclass, and its initialising fields are its options. A field made
by :meth:`Option.field` has a declared option. Of any other field the type and the default count,
and its metadata may hold ``help``, one line of text; ``choices``, all values that there are;
``least``, the least number; ``expected``, what it takes, in words.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from wrapper_ir.errors import OptionError, OptionValueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")

REQUIRED: Final = dataclasses.MISSING
"""The default of an option that has none."""

#: Words of a shell, a variable or a pipeline for truth values.
_TRUTH: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


#: What this process assigned, by the names of environment variables, which count less.
ASSIGNED: Final[dict[str, object]] = {}

NO_OPTION: Final[Mapping[str, object]] = {"option": None}
"""Metadata of an initialising field that is no option."""


class Exclusion(NamedTuple):
    """A value of an option that leaves another option few values.

    Attributes:
        value: The value.
        other: The other option's name.
        allowed: The values that it may have then.
        expected: What the first option has to be otherwise, in words; ``{}`` is the other's value.
    """

    value: object
    other: str
    allowed: tuple[object, ...]
    expected: str


@dataclass(frozen=True, slots=True)
class Option:
    """An option.

    Attributes:
        name: Its name.
        kind: The type of its values; ``object`` where that is not known.
        default: Its value where none is given; ``REQUIRED`` where one must be.
        help: What it does, in one line.
        choices: All its values, where they can be listed.
        least: The least number that it can be.
        expected: What it takes, in words, where type and choices say too little.
        accepts: Says of a value whether it is legal, where type and choices do not.
        excludes: What its values leave to other options.
        variable: The environment variable that gives its default; empty where there is none.
    """

    name: str
    kind: object
    default: object = REQUIRED
    help: str = ""
    choices: tuple[object, ...] = ()
    least: int | None = None
    expected: str = ""
    accepts: Callable[[object], bool] | None = None
    excludes: tuple[Exclusion, ...] = ()
    variable: str = ""

    def field(self, default: object = REQUIRED) -> Any:  # noqa: ANN401 - as dataclasses.field
        """Return a field of a dataclass that has this option, perhaps with a default of its own."""
        value = self.default if default is REQUIRED else default
        return dataclasses.field(default=value, metadata={"option": self})

    @property
    def takes(self) -> str:
        """Values that it takes, as a user of the command line would write them: ``call | kept``."""
        return " | ".join(map(str, self.choices)) or type_name(self.kind)

    @property
    def default_text(self) -> str:
        """Its default, likewise."""
        if self.default is REQUIRED:
            return "none, it must be given"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    @property
    def legal(self) -> str:
        """Its legal values, as errors describe them."""
        return self.expected or (_one_of(self.choices) if self.choices else _expected_of(self.kind))

    def check(self, value: object, name: str = "") -> None:
        """Check a value.

        Args:
            value: The value.
            name: What an error calls the option, where not by its name.

        Raises:
            OptionValueError: It is not legal.
        """
        if not self._is_legal(value):
            raise OptionValueError(option=name or self.name, value=value, expected=self.legal)

    def check_beside(self, value: object, others: Mapping[str, object]) -> None:
        """Check a legal value beside those of other options, by name.

        Raises:
            OptionValueError: It excludes one of them.
        """
        for rule in self.excludes:
            other = others.get(rule.other)
            if value == rule.value and other is not None and other not in rule.allowed:
                expected = rule.expected.format(repr(other))
                raise OptionValueError(option=self.name, value=value, expected=expected)

    def _is_legal(self, value: object) -> bool:
        if self.accepts is not None:
            return self.accepts(value)
        if self.choices:
            return value in self.choices or (value is None and self.default is None)
        is_number = isinstance(value, int | float)
        least = self.least
        return _is_a(value, self.kind) and not (least is not None and is_number and value < least)  # type: ignore[operator]  # it is a number

    def read(self, word: str, variable: str = "") -> object:
        """Return the value that a word stands for; :meth:`check` says whether it is legal.

        Args:
            word: The word.
            variable: The environment variable that holds it, if one does.

        Raises:
            OptionValueError: It stands for none. The error names the variable, or the option.
        """
        try:
            return _convert(word, self.kind)
        except _NotLegalError as error:
            expected = self.expected if variable and self.expected else str(error)
            name = variable or self.name
            raise OptionValueError(option=name, value=word, expected=expected) from error

    def from_environment(self) -> object:
        """Return what the process assigned, else what the variable says, else the default.

        Raises:
            OptionValueError: The variable holds no legal value. The error names the variable.
        """
        if self.variable in ASSIGNED:
            return ASSIGNED[self.variable]
        word = os.environ.get(self.variable, "").strip()
        if not word:
            return self.default
        value = self.read(word, self.variable)
        self.check(value, self.variable)
        return value


def options_of(cls: type) -> tuple[Option, ...]:
    """The options that a dataclass has: its initialising fields, in their order."""
    if not dataclasses.is_dataclass(cls):
        return ()
    try:
        kinds = typing.get_type_hints(cls)
    except Exception:  # names that only type checkers see, and whatever annotations may raise
        kinds = {}
    fields = (each for each in dataclasses.fields(cls) if each.init)
    return tuple(_option(each, kinds) for each in fields if each.metadata.get("option", each))


def _option(field: dataclasses.Field[object], kinds: Mapping[str, object]) -> Option:
    default: object = field.default
    if default is REQUIRED and field.default_factory is not REQUIRED:
        default = field.default_factory()
    about = field.metadata
    declared = about.get("option")
    if isinstance(declared, Option):
        return dataclasses.replace(declared, name=field.name, default=default)
    by_default = object if default in (REQUIRED, None) else type(default)
    return Option(
        field.name,
        kinds.get(field.name, by_default),
        default,
        str(about.get("help", "")),
        tuple(about.get("choices", ())),
        about.get("least"),
        str(about.get("expected", "")),
    )


def check_values(options: Iterable[Option], given: Mapping[str, object], *, owner: str) -> None:
    """Check values by the names of their options.

    Args:
        options: All options that there are.
        given: The values.
        owner: Whose options they are, such as ``emitter 'python'``.

    Raises:
        OptionError: There is no option of a name.
        OptionValueError: A value is not legal, excludes another one, or one that must be given is
            not there.
    """
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise OptionError(option=name, legal=known, owner=owner)
    for name, value in given.items():
        known[name].check(value)
    for option in known.values():
        if option.default is REQUIRED and option.name not in given:
            expected = f"a value: {owner} has no default for it"
            raise OptionValueError(option=option.name, value=None, expected=expected)
    for name, value in given.items():
        known[name].check_beside(value, given)


def check_options(owner: object) -> None:
    """Check the values of a dataclass's fields: an emitter's, say.

    Raises:
        OptionValueError: One of them is not legal.
    """
    for option in options_of(type(owner)):
        option.check(getattr(owner, option.name))


def made_with(cls: Callable[..., T], given: Mapping[str, object], *, owner: str) -> T:
    """Return a dataclass made with options, checked by name and by value.

    Raises:
        OptionError: It has no option of a name.
        OptionValueError: A value is not legal.
    """
    check_values(options_of(typing.cast("type", cls)), given, owner=owner)
    return cls(**given)


def _is_a(value: object, kind: object) -> bool:
    """Return whether a value is of a type; where that cannot be told it is taken to be."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, each) for each in inner)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    plain = origin or kind
    try:
        return not isinstance(plain, type) or isinstance(value, plain)
    except TypeError:  # Any, and protocols, cannot be asked
        return True


# Words.


class _NotLegalError(Exception):
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


def _convert(word: str, kind: object) -> object:
    """Return the value of a type that a word stands for.

    Raises:
        _NotLegalError: It stands for none.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return _choose(word, {str(choice): choice for choice in inner}, _one_of(inner))
    if origin in (typing.Union, types.UnionType):
        return _convert_union(word, inner)
    if origin is tuple:
        return tuple(_convert(part, inner[0]) for part in word.split(",") if part)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = {str(member.value): member for member in kind}
        return _choose(word, values, _one_of(values))
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
        return _choose(word.lower(), _TRUTH, "true or false")
    if kind is int or kind is float:
        try:
            return int(word) if kind is int else float(word)
        except ValueError as error:
            raise _NotLegalError(_expected_of(kind)) from error
    if kind is str:
        return word
    raise _NotLegalError("something that only Python code can give")


def _choose(word: str, choices: Mapping[str, object], expected: str) -> object:
    if word in choices:
        return choices[word]
    raise _NotLegalError(expected)


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


def _expected_of(kind: object) -> str:
    """Describe the values that a type takes, as errors do."""
    if typing.get_origin(kind) is Literal:
        return _one_of(typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(map(_expected_of, typing.get_args(kind)))
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    return words.get(kind, "None" if kind is type(None) else type_name(kind))  # type: ignore[call-overload, no-any-return]  # any key may be asked for


def _one_of(choices: Iterable[object]) -> str:
    """Describe values that can be listed, as errors do."""
    return "one of " + ", ".join(map(repr, choices))
