"""Printers and parsers of classes, made of what the classes declare.

A class says in ``syntax`` how it is written (:mod:`wrapper_ir.lines.syntax`), and in the types of
its fields what they hold. Each type has one :class:`Kind` here: how a value of it is printed, and
how it is read. From both come, once a class, a function that prints and one that reads.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args

from wrapper_ir.lines import (
    Arg,
    BufferArg,
    Device,
    Dim,
    Line,
    NamedArg,
    Param,
    ResultObject,
    Role,
    Scalar,
    ScalarArg,
)
from wrapper_ir.lines.per_class import PerClass
from wrapper_ir.lines.roles import NAMED_FIELDS, REGION_FIELDS, hints_of
from wrapper_ir.lines.syntax import SYNTAX, Group, Part, Slot, Words, default_of
from wrapper_ir.text.escape import quote, rest_of_line
from wrapper_ir.text.tokens import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wrapper_ir.text.item_parse import ItemParser
    from wrapper_ir.text.item_print import ItemPrinter
    from wrapper_ir.text.tokens import Cursor

Value: TypeAlias = Any
"""What a field holds; its kind knows its type."""

Show: TypeAlias = "Callable[[ItemPrinter, Value], str]"
Read: TypeAlias = "Callable[[ItemParser, Cursor, str], Value]"
"""Reads a value; the string is what messages call it."""


class Kind(NamedTuple):
    """How values of one type are written, and how one can tell that a value comes next."""

    show: str
    """The expression that prints a value: a template, in which ``p`` is the printer of parts."""
    read: Read
    sign: str = ""
    """The character that the first token of a value begins with, if that tells."""
    words: Mapping[str, object] = {}
    """The words that a value is, if it is one of them."""

    def is_next(self, token: str) -> bool:
        """Return whether a value begins with a token; yes where nothing tells."""
        if self.sign:
            return token[:1] == self.sign
        return token in self.words if self.words else True


# Kinds of names, by the first of a field's roles.

_BUFFER: Final = Kind("p.buffer({})", lambda p, c, w: c.buffer(), "%")
_KERNEL: Final = Kind("p.kernel({})", lambda p, c, w: c.kernel(), "@")
_OBJECT: Final = Kind("p.object({})", lambda p, c, w: c.object(), "&")
_NAMES: Final[dict[Role, Kind]] = {
    Role.DEFINE_SYMBOL: Kind("p.symbol({})", lambda p, c, w: c.symbol()),
    Role.OBJECT: _OBJECT,
    Role.DEFINE_OBJECT: _OBJECT,
    Role.CALL: _KERNEL,
    Role.DECLARE: _KERNEL,
    Role.CALL_OP: Kind("p.op({})", lambda p, c, w: c.take()),
}

# Kinds of values, by type.


def _bracketed(read: Read) -> Read:
    """Return what reads values in square brackets."""

    def read_all(parser: ItemParser, cursor: Cursor, what: str) -> tuple[Any, ...]:
        cursor.expect("[")
        return tuple([read(parser, cursor, what) for _ in listed(cursor, "]")])

    return read_all


def _read_selector(parser: ItemParser, cursor: Cursor, what: str) -> BufferArg | ScalarArg:
    at = cursor.at
    found = parser.arg(cursor)
    if not isinstance(found, (BufferArg, ScalarArg)):
        cursor.fail(f"{what} is a buffer or a number", at=at)
    return found


def _read_types(parser: ItemParser, cursor: Cursor, _: str) -> tuple[tuple[str, str], ...]:
    at = cursor.at - 1
    rows = parser.table(cursor)
    types = tuple([(key, value) for key, value in rows if isinstance(value, str)])
    if len(types) != len(rows):
        cursor.fail("the types of a signature are strings", at=at)
    return types


def _read_options(
    parser: ItemParser, cursor: Cursor, _: str
) -> tuple[tuple[str, Scalar | str], ...]:
    at = cursor.at - 1
    rows = parser.table(cursor)
    options = tuple([(key, value) for key, value in rows if value is not None])
    if len(options) != len(rows):
        cursor.fail("an option cannot be none", at=at)
    return options


_TYPES: Final[tuple[tuple[Any, Kind], ...]] = (
    (
        int,
        Kind(
            "p.scalar({})",
            lambda p, c, w: p.integer(c, w),
        ),
    ),
    (str, Kind("quote({})", lambda p, c, w: c.string(w), '"')),
    (Dim, Kind("p.scalar({})", lambda p, c, w: p.exprs.dim(c))),
    (Scalar, Kind("p.scalar({})", lambda p, c, w: p.exprs.scalar(c))),
    (
        Device,
        Kind(
            "p.device({})",
            lambda p, c, w: p.device(c),
            "@",
        ),
    ),
    (tuple[Arg, ...], Kind("p.args({})", lambda p, c, w: p.args(c))),
    (tuple[Param, ...], Kind("p.params({})", lambda p, c, w: p.params(c))),
    (BufferArg | ScalarArg, Kind("p.arg({})", _read_selector)),
    (
        tuple[str, ...],
        Kind(
            "p.strings({})",
            _bracketed(lambda p, c, w: c.string(w)),
        ),
    ),
    (
        tuple[int, ...],
        Kind(
            "p.numbers({})",
            _bracketed(lambda p, c, w: p.integer(c, w)),
        ),
    ),
    (
        tuple[Dim, ...],
        Kind(
            "p.numbers({})",
            _bracketed(lambda p, c, w: p.exprs.dim(c)),
        ),
    ),
    (tuple[tuple[str, str], ...], Kind("p.table({})", _read_types)),
    (tuple[tuple[str, Scalar | str], ...], Kind("p.table({})", _read_options)),
    (
        tuple[tuple[str, Scalar | str | None], ...],
        Kind("p.table({})", lambda p, c, w: p.table(c)),
    ),
)


def _kind(cls: type, name: str) -> Kind:
    """Return how a field of a class is written."""
    for field in NAMED_FIELDS[cls]:
        if field.name == name and field.roles:
            role = field.roles[0]
            return _NAMES.get(role if isinstance(role, Role) else role.role, _BUFFER)
    hint = hints_of(cls)[name]
    for known, kind in _TYPES:
        if hint == known:
            return kind
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _word_kind(hint)
    if not _choices(hint):
        raise TypeError(f"{cls.__name__}.{name} is of no type that the text form knows")
    found = Choices.of(hint)
    return Kind("SHOWERS[type({0})](p, {0})", lambda p, c, w: found.read(p, c))


def _word(member: enum.Enum) -> str:
    return str(getattr(member, "word", member.value))


def _word_kind(cls: type[enum.Enum], default: object = None) -> Kind:
    """Return how members of an enumeration are written, but for one that is left out."""
    words = {_word(member): member for member in cls if member is not default}
    return Kind(
        "{}.word" if hasattr(cls, "word") else "{}.value",
        lambda p, c, what: c.word(words, what),
        words=words,
    )


# Forms that a class asks for by name.


def _read_rest(parser: ItemParser, cursor: Cursor, what: str) -> str:
    raise TypeError("a comment is read before a line is cut into tokens")


def _identifier(noun: str) -> Kind:
    return Kind(
        f"p.identifier({{}}, {noun!r})", lambda p, c, w: c.identifier(f"the name of {noun}")
    )


#: Forms of one field's value; layouts and results are written with what is defined.
_FORMS: Final[dict[str, Kind]] = {
    "class": Kind("p.class_name({})", lambda p, c, w: c.class_name()),
    "list": Kind("p.arg_list({})", lambda p, c, w: p.arg_list(c), "["),
    "call": Kind("p.args({}, {})", lambda p, c, w: p.all_args(c)),
    "mixed": Kind("p.mixed({}, {})", lambda p, c, w: p.mixed(c)),
    "layout": Kind("p.layout_of({})", lambda p, c, w: None),
    "targets": Kind("p.targets({})", lambda p, c, w: None),
    "types": Kind("p.result_types({})", lambda p, c, w: None),
    "source": Kind("''", lambda p, c, w: p.lines.code(c)),
    "rest": Kind("rest_of_line({})", _read_rest),
}


# Printing.


def _shower(cls: type) -> Show:
    """Return what prints a class: one function of one expression, as if written by hand."""
    known = {"quote": quote, "rest_of_line": rest_of_line, "SHOWERS": SHOWERS}
    text = _expression(cls, SYNTAX[cls], known)
    # Nothing from outside is in it: words are literals, the rest stands in this file.
    made: Show = eval(f"lambda p, v: {text}", known)
    return made


def _expression(cls: type, parts: tuple[Part, ...], known: dict[str, object]) -> str:
    """Return the expression that prints parts of the value ``v``."""
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, Words):
            pieces.append(repr(part.text))
        elif isinstance(part, Slot):
            values = [f"v.{name}" for name in part.fields]
            show = _slot_kind(cls, part).show if len(values) == 1 else _pair(cls, part).show
            pieces.append(show.format(*values))
        else:
            inner = _expression(cls, part.parts, known)
            pieces.append(inner if part.always else _unless_default(cls, part, inner, known))
    return " + ".join(pieces)


def _unless_default(cls: type, group: Group, inner: str, known: dict[str, object]) -> str:
    value = f"v.{group.field}"
    default = False if group.is_flag else default_of(cls, group.field)
    if not default:
        return f"({inner} if {value} else '')"
    known[f"default_{group.field}"] = default
    test = "is not" if isinstance(default, enum.Enum) else "!="
    return f"({inner} if {value} {test} default_{group.field} else '')"


def _slot_kind(cls: type, slot: Slot) -> Kind:
    if slot.form == "identifier":
        return _identifier(_noun(cls, slot.fields[0]))
    return _FORMS[slot.form] if slot.form else _kind(cls, slot.fields[0])


def _pair(cls: type, slot: Slot) -> Kind:
    """Return how two fields are written as one list."""
    is_call = hints_of(cls)[slot.fields[1]] == tuple[NamedArg, ...]
    return _FORMS["call" if is_call else "mixed"]


SHOWERS: Final = PerClass(_shower)
"""By class, what prints a line, or the first line of its text, or a part of one."""


# Reading.

Values: TypeAlias = list[Value]
_Step: TypeAlias = "Callable[[ItemParser, Cursor, Values], None]"
Reader: TypeAlias = "Callable[[ItemParser, Cursor, Value], Value]"
"""Reads what stands right of ``=``, given what stands left of it, or all of a line."""

_TOKEN: Final = re.compile(r"\w+|//|\S")


def tokens_of(text: str) -> list[str]:
    """Return the tokens in the words of a syntax."""
    return _TOKEN.findall(text)


def first_word(cls: type) -> str:
    """Return the word that the text of a part opens with."""
    first = SYNTAX[cls][0]
    assert isinstance(first, Words)
    return tokens_of(first.text)[0]


def left_side(cls: type) -> Slot | None:
    """Return what stands before ``=``, if anything does."""
    parts = SYNTAX[cls]
    first = parts[0].parts[0] if isinstance(parts[0], Group) else parts[0]
    if not isinstance(first, Slot):
        return None
    after = parts[1] if first is parts[0] and len(parts) > 1 else None
    is_one = isinstance(after, Words) and after.text.startswith(" = ")
    return first if is_one or first.form == "targets" else None


def right_side(cls: type) -> tuple[Part, ...]:
    """Return the parts behind ``=``, or all of them where nothing is defined."""
    parts = SYNTAX[cls]
    if left_side(cls) is None:
        return parts
    after = parts[1]
    if isinstance(parts[0], Slot) and isinstance(after, Words):
        rest = after.text.removeprefix(" = ")
        return (Words(rest), *parts[2:]) if rest else parts[2:]
    return parts[1:]


def opening_words(cls: type) -> tuple[str, ...]:
    """Return the words that tell a line, or its right side, from others; none for a library op."""
    first = right_side(cls)[0]
    if isinstance(first, Words):
        return (tokens_of(first.text)[0],)
    assert isinstance(first, Slot)
    choices = _choices(hints_of(cls)[first.fields[0]])
    return tuple(word for choice in choices for word in opening_words(choice))


def _choices(hint: Value) -> list[type]:
    """Return the classes of a union that say how they are written."""
    return [choice for choice in get_args(hint) if hasattr(choice, "syntax")]


def _reader(cls: Value, *, is_bare: bool = False) -> Reader:
    """Return what reads a class; with ``is_bare`` where what may be left out first is."""
    regions = REGION_FIELDS[cls]
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name != "origin"]
    places = {name: place for place, name in enumerate(names)}
    parts = right_side(cls)[is_bare:]
    steps = list(_steps(cls, parts, places))
    written = {name for part in parts for name in _fields_in(part)}
    blank = [default_of(cls, n) if n in written and _may_miss(cls, n) else None for n in names]
    left = left_side(cls)
    defined = None if left is None else places[left.fields[0]]
    is_line = issubclass(cls, Line)

    if len(steps) == 1 and isinstance(parts[0], Slot) and parts[0].fields[0] == names[0]:
        only, what = _slot_kind(cls, parts[0]).read, _noun(cls, names[0])
        return lambda parser, cursor, targets: cls(only(parser, cursor, what))

    def read(parser: ItemParser, cursor: Cursor, targets: Value) -> Value:
        values = blank.copy()
        if defined is not None:
            values[defined] = targets
        for step in steps:
            step(parser, cursor, values)
        if regions:
            cursor.end()
            for field in regions:
                values[places[field.name]] = parser.lines.regions(field.block, many=field.many)
        return cls(*values, origin=cursor.origin) if is_line else cls(*values)

    return read


def _fields_in(part: Part) -> Iterable[str]:
    if isinstance(part, Slot):
        return part.fields
    return (part.field,) if isinstance(part, Group) else ()


def _may_miss(cls: type, name: str) -> bool:
    parts = SYNTAX[cls]
    return any(isinstance(part, Group) and part.field == name for part in parts)


def _steps(cls: type, parts: tuple[Part, ...], places: dict[str, int]) -> Iterable[_Step]:
    for part in parts:
        if isinstance(part, Words):
            yield from map(_expecting, tokens_of(part.text))
        elif isinstance(part, Slot):
            yield _slot_read(cls, part, places)
        elif part.is_flag:
            yield _flag_read(part.field, places[part.field])
        else:
            yield _group_read(cls, part, places)


def _expecting(token: str) -> _Step:
    return lambda parser, cursor, values: cursor.expect(token)


def _flag_read(word: str, place: int) -> _Step:
    def read(parser: ItemParser, cursor: Cursor, values: Values) -> None:
        values[place] = cursor.accept(word)

    return read


def _slot_read(cls: type, slot: Slot, places: dict[str, int]) -> _Step:
    place = places[slot.fields[0]]
    if len(slot.fields) == 2:
        return _pair_read(_pair(cls, slot).read, place, places[slot.fields[1]])
    if slot.form == "layout":
        return lambda parser, cursor, values: parser.define(cursor, values[place])
    what = _noun(cls, slot.fields[0])
    read = _slot_kind(cls, slot).read

    def step(parser: ItemParser, cursor: Cursor, values: Values) -> None:
        values[place] = read(parser, cursor, what)

    return step


def _noun(cls: type, name: str) -> str:
    return str(getattr(cls, "nouns", {}).get(name, f"a {name}"))


def _pair_read(read: Read, one: int, two: int) -> _Step:
    def step(parser: ItemParser, cursor: Cursor, values: Values) -> None:
        values[one], values[two] = read(parser, cursor, "")

    return step


def _group_read(cls: type, group: Group, places: dict[str, int]) -> _Step:
    """Return what reads a part that may be missing."""
    place = places[group.field]
    slot = next(part for part in group.parts if isinstance(part, Slot))
    if slot.form == "types":
        has_objects = ResultObject in get_args(get_args(hints_of(cls)[group.field])[0])
        return lambda parser, cursor, values: _read_results(
            parser, cursor, values, place, has_objects=has_objects
        )
    tokens = [t for part in group.parts if isinstance(part, Words) for t in tokens_of(part.text)]
    kind, what = _slot_kind(cls, slot), _noun(cls, slot.fields[0])
    default = default_of(cls, group.field)
    if isinstance(default, enum.Enum):
        kind = _word_kind(type(default), default)
    read = kind.read
    if not tokens:

        def read_bare(parser: ItemParser, cursor: Cursor, values: Values) -> None:
            if kind.is_next(cursor.tokens[cursor.at]):
                values[place] = read(parser, cursor, what)

        return read_bare
    word = tokens[0]
    takes_args = hints_of(cls)[group.field] == tuple[Arg, ...]

    def read_after_word(parser: ItemParser, cursor: Cursor, values: Values) -> None:
        if cursor.accept(word):
            at = cursor.at
            found = values[place] = read(parser, cursor, what)
            if takes_args and not found:
                cursor.fail(f"'{word} ()' is left out where nothing is taken in", at=at)

    return read_after_word


def _read_results(
    parser: ItemParser, cursor: Cursor, values: Values, place: int, *, has_objects: bool
) -> None:
    read = parser.results if has_objects else parser.region_results
    values[place] = read(cursor, values[place])


READERS: Final = PerClass(_reader)
"""By class, what reads a line, or its right side, or a part of one."""


# Choices: which of several classes a text is of, by its first tokens.


class Choices:
    """What reads one of several classes."""

    @classmethod
    def of(cls, union: Value) -> Choices:
        """Return what reads one of the classes of a union."""
        return cls(_choices(union))

    def __init__(self, classes: list[type]) -> None:
        self.by_sign: dict[str, Reader] = {}
        self.by_word: dict[str, tuple[Reader, Kind | None]] = {}
        self.otherwise: Reader | None = None
        for cls in classes:
            self._add(cls, READERS[cls], SYNTAX[cls])

    def _add(self, cls: type, read: Reader, parts: tuple[Part, ...]) -> None:
        first, second = parts[0], parts[1] if len(parts) > 1 else None
        if isinstance(first, Words):
            token = tokens_of(first.text)[0]
            if token.isidentifier():
                self.by_word[token] = (read, None)
            else:
                self.by_sign[token] = read
            return
        behind = None if second is None else _part_kind(cls, second)
        kind = _part_kind(cls, first)
        self.by_word.update(dict.fromkeys(kind.words, (read, behind)))
        if isinstance(first, Group):
            self._add(cls, _reader(cls, is_bare=True), parts[1:])
        elif kind.sign:
            self.by_sign[kind.sign] = read
        elif not kind.words:
            self.otherwise = read

    def read(self, parser: ItemParser, cursor: Cursor) -> Value:
        """Read a value of one of the classes."""
        token = cursor.tokens[cursor.at]
        read = self.by_sign.get(token[:1])
        if read is None:
            known = self.by_word.get(token)
            if known is None:
                read = self.otherwise
            else:
                read, behind = known
                if behind is not None and not behind.is_next(cursor.tokens[cursor.at + 1]):
                    read = self.otherwise
        if read is None:
            words = list(self.by_word)
            cursor.fail_word(words, " or ".join(f"'{word}'" for word in words))
        return read(parser, cursor, None)


def _part_kind(cls: type, part: Part) -> Kind:
    """Return the kind of what a part begins with."""
    if isinstance(part, Words):
        return Kind("", lambda p, c, w: None, sign=part.text.strip()[:1])
    if isinstance(part, Slot):
        return _slot_kind(cls, part)
    default = default_of(cls, part.field)
    if isinstance(default, enum.Enum):
        return _word_kind(type(default), default)
    return _part_kind(cls, part.parts[0])
