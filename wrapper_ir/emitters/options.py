"""Options of emitters and of the backend: one schema, read from the fields of a dataclass.

Everything that tells of options, or checks them, asks :func:`options_of`: keyword arguments,
``-O key=value``, ``wrapper-ir emitters``, completion, the table in the documents.

What a field's type and default say is not said again. Its metadata may hold ``help``, one line of
text; ``choices``, all values that there are; ``least``, the least number; ``expected``, what it
takes, in words.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from wrapper_ir.errors import OptionError, OptionValueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.base import Emitter

ORIGINS: Final = {"help": "say in comments where in the model the code comes from"}

ARENA: Final = {
    "help": "how long arenas last: for a call, or kept for the next one",
    "choices": ("call", "kept"),
}

KEEP_BUFFERS: Final = {
    "help": "bytes of scratch memory kept between calls; 0 for none",
    "least": 0,
    "expected": "a number of bytes",
}

OUT: Final = {"help": "let callers give memory for results: function(*inputs, out=[...])"}

CUDA_GRAPH: Final = {"help": "capture calls as CUDA graphs and replay them"}

CUDA_GRAPH_LIMIT: Final = {
    "help": "how many graphs are kept, one for each set of sizes",
    "least": 1,
    "expected": "a number from 1",
}

CUDA_GRAPH_BRANCHES: Final = {
    "help": "how many branches a graph may have besides its main one, where that is faster",
    "choices": tuple(range(9)),
}

CUDA_GRAPH_CUTS: Final = {
    "help": "capture the pieces between what cannot be captured, where the whole cannot be"
}

CUDA_GRAPH_RESULTS: Final = {
    "help": "memory of replayed calls' results: the caller's (fresh), or the graph's (shared)",
    "choices": ("fresh", "shared"),
}

PROFILE: Final = {"help": "show each call of a kernel or op as a range in PyTorch's profiler"}

REQUIRED: Final = dataclasses.MISSING
"""The default of an option that has none."""


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
        expected: What it takes, in words, where the type says too little.
    """

    name: str
    kind: object
    default: object = REQUIRED
    help: str = ""
    choices: tuple[object, ...] = ()
    least: int | None = None
    expected: str = ""

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

    def check(self, value: object) -> None:
        """Check a value.

        Raises:
            OptionValueError: It is not legal.
        """
        if self.choices:
            is_legal, expected = value in self.choices, _one_of(self.choices)
        else:
            is_legal, expected = _is_a(value, self.kind), self.expected or _expected(self.kind)
            if is_legal and self.least is not None and isinstance(value, int | float):
                is_legal = value >= self.least
        if not is_legal:
            raise OptionValueError(option=self.name, value=value, expected=expected)


def options_of(cls: type) -> tuple[Option, ...]:
    """The options that a dataclass has: its initialising fields, in their order."""
    if not dataclasses.is_dataclass(cls):
        return ()
    try:
        kinds = typing.get_type_hints(cls)
    except Exception:  # names that only type checkers see, and whatever annotations may raise
        kinds = {}
    return tuple(_option(field, kinds) for field in dataclasses.fields(cls) if field.init)


def _option(field: dataclasses.Field[object], kinds: Mapping[str, object]) -> Option:
    default: object = field.default
    if default is REQUIRED and field.default_factory is not REQUIRED:
        default = field.default_factory()
    by_default = object if default in (REQUIRED, None) else type(default)
    about = field.metadata
    return Option(
        field.name,
        kinds.get(field.name, by_default),
        default,
        str(about.get("help", "")),
        tuple(about.get("choices", ())),
        about.get("least"),
        str(about.get("expected", "")),
    )


def check_values(options: tuple[Option, ...], given: Mapping[str, object], *, owner: str) -> None:
    """Check values by the names of their options.

    Args:
        options: All options that there are.
        given: The values.
        owner: Whose options they are, such as ``emitter 'python'``.

    Raises:
        OptionError: There is no option of a name.
        OptionValueError: A value is not legal, or one that must be given is not there.
    """
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise OptionError(option=name, legal=known, owner=owner)
    for name, value in given.items():
        known[name].check(value)
    for option in options:
        if option.default is REQUIRED and option.name not in given:
            expected = f"a value: {owner} has no default for it"
            raise OptionValueError(option=option.name, value=None, expected=expected)


def check_options(emitter: Emitter) -> None:
    """Check the values of an emitter's fields.

    Raises:
        OptionValueError: One of them is not legal.
    """
    for option in options_of(type(emitter)):
        option.check(getattr(emitter, option.name))


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


def _expected(kind: object) -> str:
    """Describe the values that a type takes."""
    if typing.get_origin(kind) is Literal:
        return _one_of(typing.get_args(kind))
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(map(_expected, typing.get_args(kind)))
    words = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    return words.get(kind, "None" if kind is type(None) else type_name(kind))  # type: ignore[call-overload, no-any-return]  # any key may be asked for


def _one_of(choices: tuple[object, ...]) -> str:
    return "one of " + ", ".join(map(repr, choices))
