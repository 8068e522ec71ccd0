"""Declaring options, collecting those of a class, and checking and parsing their values.

A class that takes options is a dataclass, and its initialising fields are its options. A field made
by :meth:`Option.field` refers to a declared option. Any other field defines an option by its type
and default; its metadata may hold ``help`` (one line), ``choices`` (all legal values), ``least``
(the minimum) and ``expected`` (a description of legal values).
"""

from __future__ import annotations

import dataclasses
import enum
import os
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from wrapper_ir.errors import OptionError, OptionValueError

T = TypeVar("T")

REQUIRED: Final = dataclasses.MISSING
"""The default of an option that must be given."""

#: The spellings of truth values.
_TRUTH: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


#: Environment variable -> the value assigned in this process, which overrides it.
ASSIGNED: Final[dict[str, object]] = {}

NO_OPTION: Final[Mapping[str, object]] = {"option": None}
"""The metadata of an initialising field that is not an option."""


class Exclusion(NamedTuple):
    """A value of an option that restricts another option.

    Attributes:
        value: The value.
        other: The other option's name.
        allowed: The values that the other option may then have.
        expected: What the first option must be if the other has a value ``{}`` not allowed here.
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
        kind: The type of its values, or ``object`` if unknown.
        default: The default value, or ``REQUIRED``.
        help: One line of help.
        choices: All legal values, if they can be listed.
        least: The minimum of a number.
        expected: A description of legal values, if the type and the choices say too little.
        accepts: Returns whether a value is legal; replaces the check of type and choices.
        excludes: Restrictions that its values impose on other options.
        variable: The environment variable that sets its default; empty if there is none.
        formerly: An older name, which still works, with a warning.
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
    formerly: str = ""

    def field(self, default: object = REQUIRED) -> Any:  # noqa: ANN401 - as dataclasses.field
        """Return a dataclass field for this option, optionally with a different default."""
        value = self.default if default is REQUIRED else default
        return dataclasses.field(default=value, metadata={"option": self})

    @property
    def takes(self) -> str:
        """The legal values as written on the command line: ``call | kept``."""
        return " | ".join(map(str, self.choices)) or type_name(self.kind)

    @property
    def default_text(self) -> str:
        """The default as written on the command line."""
        if self.default is REQUIRED:
            return "none, it must be given"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    @property
    def legal(self) -> str:
        """The legal values as errors describe them."""
        return self.expected or (_one_of(self.choices) if self.choices else _expected_of(self.kind))

    def check(self, value: object, name: str = "") -> None:
        """Check a value; ``name`` is the one to use in the error instead of the option's.

        Raises:
            OptionValueError: The value is not legal.
        """
        if not self._is_legal(value):
            raise OptionValueError(option=name or self.name, value=value, expected=self.legal)

    def check_beside(self, value: object, others: Mapping[str, object]) -> None:
        """Check that a legal value is compatible with the values of other options, by name.

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
        too_small = self.least is not None and isinstance(value, int | float) and value < self.least
        return _is_a(value, self.kind) and not too_small

    def read(self, word: str, variable: str = "") -> object:
        """Convert a word to a value of the option's type; :meth:`check` checks if it is legal.

        Raises:
            OptionValueError: The word cannot be converted. The error names the environment variable
                that holds it, if any, or else the option.
        """
        try:
            return _convert(word, self.kind)
        except _NotLegalError as error:
            expected = self.expected if variable and self.expected else str(error)
            name = variable or self.name
            raise OptionValueError(option=name, value=word, expected=expected) from error

    def from_environment(self) -> object:
        """Return the value assigned in this process, or else the variable's, or else the default.

        Raises:
            OptionValueError: The variable's value is not legal. The error names the variable.
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
    """Return the options of a dataclass: its initialising fields, in order."""
    if not dataclasses.is_dataclass(cls):
        return ()
    try:
        kinds = typing.get_type_hints(cls)
    except Exception:  # names defined for type checkers only; annotations may raise anything
        kinds = {}
    fields = (each for each in dataclasses.fields(cls) if each.init)
    return tuple(_option(each, kinds) for each in fields if each.metadata.get("option", each))


def _option(field: dataclasses.Field[object], kinds: Mapping[str, object]) -> Option:
    default: object = field.default
    if default is REQUIRED and field.default_factory is not REQUIRED:
        default = field.default_factory()
    metadata = field.metadata
    declared = metadata.get("option")
    if isinstance(declared, Option):
        return dataclasses.replace(declared, name=field.name, default=default)
    by_default = object if default in (REQUIRED, None) else type(default)
    return Option(
        field.name,
        kinds.get(field.name, by_default),
        default,
        str(metadata.get("help", "")),
        tuple(metadata.get("choices", ())),
        metadata.get("least"),
        str(metadata.get("expected", "")),
    )


def renamed(options: Iterable[Option], values: Mapping[str, T]) -> dict[str, T]:
    """Return values by the current names of their options, with a warning for each older name."""
    current = {option.formerly: option.name for option in options if option.formerly}
    result = dict(values)
    for old in current.keys() & values.keys():
        text = f"the option {old!r} is called {current[old]!r} now"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
        result.setdefault(current[old], result.pop(old))
    return result


def check_values(options: Iterable[Option], values: Mapping[str, object], *, owner: str) -> None:
    """Check values by the names of their options, which are all of an owner, say "emitter 'fx'".

    Raises:
        OptionError: There is no option of some name.
        OptionValueError: A value is not legal or excludes another one, or a required one is
            missing.
    """
    known = {option.name: option for option in options}
    for name in values:
        if name not in known:
            raise OptionError(option=name, legal=known, owner=owner)
    for name, value in values.items():
        known[name].check(value)
    for option in known.values():
        if option.default is REQUIRED and option.name not in values:
            expected = f"a value: {owner} has no default for it"
            raise OptionValueError(option=option.name, value=None, expected=expected)
    for name, value in values.items():
        known[name].check_beside(value, values)


def check_options(owner: object) -> None:
    """Check the field values of a dataclass instance, such as an emitter.

    Raises:
        OptionValueError: One of them is not legal.
    """
    for option in options_of(type(owner)):
        option.check(getattr(owner, option.name))


def made_with(cls: Callable[..., T], values: Mapping[str, object], *, owner: str) -> T:
    """Return an instance of a dataclass made with options, which are checked first.

    Raises:
        OptionError: It has no option of some name.
        OptionValueError: A value is not legal.
    """
    check_values(options_of(typing.cast("type", cls)), values, owner=owner)
    return cls(**values)


def _is_a(value: object, kind: object) -> bool:
    """Return whether a value is of a type; true if that cannot be checked."""
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
    except TypeError:  # isinstance does not take Any or protocols
        return True


# Parsing words.


class _NotLegalError(Exception):
    """A word is not a value of a type. The message describes the legal values."""


def read_options(
    options: Iterable[Option], words: Iterable[tuple[str, str]], *, owner: str
) -> dict[str, object]:
    """Parse pairs of names and words into values of an owner's options; the last for a name wins.

    A dash in a name stands for an underscore.

    Raises:
        OptionError: There is no option of some name.
        OptionValueError: A word cannot be converted to its option's type.
    """
    known = {option.name: option for option in options}
    values: dict[str, object] = {}
    names = ((key.replace("-", "_"), word) for key, word in words)
    for name, word in renamed(known.values(), dict(names)).items():
        if name not in known:
            raise OptionError(option=name, legal=known, owner=owner)
        values[name] = known[name].read(word)
    return values


def _convert(word: str, kind: object) -> object:
    """Convert a word to a value of a type, or raise _NotLegalError."""
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
    raise _NotLegalError("a value that only Python code can pass")


def _choose(word: str, choices: Mapping[str, object], expected: str) -> object:
    if word in choices:
        return choices[word]
    raise _NotLegalError(expected)


def type_name(kind: object) -> str:
    """Describe a type as on the command line."""
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
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a string"}
    return words.get(kind, "None" if kind is type(None) else type_name(kind))  # type: ignore[call-overload, no-any-return]  # any key may be asked for


def _one_of(choices: Iterable[object]) -> str:
    """Describe a list of values, as errors do."""
    return "one of " + ", ".join(map(repr, choices))
