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
    MemoryKind,
    NamedArg,
    Param,
    ResultObject,
    Role,
    Scalar,
    ScalarArg,
)
from wrapper_ir.lines.roles import hints_of, named_fields, region_fields
from wrapper_ir.lines.syntax import Group, Part, Slot, Words, default_of, syntax_of
from wrapper_ir.text.escape import quote, rest_of_line
from wrapper_ir.text.item_parse import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wrapper_ir.text.item_print import ItemPrinter
    from wrapper_ir.text.line_parse import LineParser
    from wrapper_ir.text.tokens import Cursor

Value: TypeAlias = Any
"""What a field holds; its kind knows its type."""

Show: TypeAlias = "Callable[[ItemPrinter, Value], str]"
Read: TypeAlias = "Callable[[LineParser, Cursor, str], Value]"
"""Reads a value; the string is what messages call it."""


class Kind(NamedTuple):
    """How values of one type are written."""

    show: Show
    read: Read
    starts: Callable[[str], bool] | None = None
    """Tells whether a value may begin with a token, where it can be left out without a word."""


# Kinds of names, by the first of a field's roles.

_BUFFER: Final = Kind(lambda p, v: p.buffer(v), lambda p, c, w: c.buffer())
_NAMES: Final[dict[Role, Kind]] = {
    Role.DEFINE_SYMBOL: Kind(lambda p, v: p.symbol(v), lambda p, c, w: c.symbol()),
    Role.OBJECT: Kind(lambda p, v: p.object(v), lambda p, c, w: c.object()),
    Role.DEFINE_OBJECT: Kind(lambda p, v: p.object(v), lambda p, c, w: c.object()),
    Role.CALL: Kind(lambda p, v: p.kernel(v), lambda p, c, w: c.kernel()),
    Role.DECLARE: Kind(lambda p, v: p.kernel(v), lambda p, c, w: c.kernel()),
    Role.CALL_OP: Kind(lambda p, v: p.op(v), lambda p, c, w: c.take()),
}

# Kinds of values, by type.


def _bracketed(read: Read) -> Read:
    """Return what reads values in square brackets."""

    def read_all(parser: LineParser, cursor: Cursor, what: str) -> tuple[Any, ...]:
        cursor.expect("[")
        return tuple([read(parser, cursor, what) for _ in listed(cursor, "]")])

    return read_all


def _read_selector(parser: LineParser, cursor: Cursor, what: str) -> BufferArg | ScalarArg:
    at = cursor.at
    found = parser.items.arg(cursor)
    if not isinstance(found, (BufferArg, ScalarArg)):
        cursor.fail(f"{what} is a buffer or a number", at=at)
    return found


def _read_types(parser: LineParser, cursor: Cursor, _: str) -> tuple[tuple[str, str], ...]:
    at = cursor.at - 1
    rows = parser.items.table(cursor)
    types = tuple([(key, value) for key, value in rows if isinstance(value, str)])
    if len(types) != len(rows):
        cursor.fail("the types of a signature are strings", at=at)
    return types


def _read_options(
    parser: LineParser, cursor: Cursor, _: str
) -> tuple[tuple[str, Scalar | str], ...]:
    at = cursor.at - 1
    rows = parser.items.table(cursor)
    options = tuple([(key, value) for key, value in rows if value is not None])
    if len(options) != len(rows):
        cursor.fail("an option cannot be none", at=at)
    return options


_TYPES: Final[tuple[tuple[Any, Kind], ...]] = (
    (
        int,
        Kind(
            lambda p, v: p.scalar(v),
            lambda p, c, w: p.items.integer(c, w),
        ),
    ),
    (str, Kind(lambda p, v: quote(v), lambda p, c, w: c.string(w))),
    (Dim, Kind(lambda p, v: p.scalar(v), lambda p, c, w: p.items.exprs.dim(c))),
    (Scalar, Kind(lambda p, v: p.scalar(v), lambda p, c, w: p.items.exprs.scalar(c))),
    (
        Device,
        Kind(
            lambda p, v: p.device(v),
            lambda p, c, w: p.items.device(c),
            lambda token: token[:1] == "@",
        ),
    ),
    (tuple[Arg, ...], Kind(lambda p, v: p.args(v), lambda p, c, w: p.items.args(c))),
    (tuple[Param, ...], Kind(lambda p, v: p.params(v), lambda p, c, w: p.items.params(c))),
    (BufferArg | ScalarArg, Kind(lambda p, v: p.arg(v), _read_selector)),
    (
        tuple[str, ...],
        Kind(
            lambda p, v: f"[{', '.join(map(quote, v))}]",
            _bracketed(lambda p, c, w: c.string(w)),
        ),
    ),
    (
        tuple[int, ...],
        Kind(
            lambda p, v: f"[{p.scalars(v)}]",
            _bracketed(lambda p, c, w: p.items.integer(c, w)),
        ),
    ),
    (
        tuple[Dim, ...],
        Kind(
            lambda p, v: f"[{p.scalars(v)}]",
            _bracketed(lambda p, c, w: p.items.exprs.dim(c)),
        ),
    ),
    (tuple[tuple[str, str], ...], Kind(lambda p, v: p.table(v), _read_types)),
    (tuple[tuple[str, Scalar | str], ...], Kind(lambda p, v: p.table(v), _read_options)),
    (
        tuple[tuple[str, Scalar | str | None], ...],
        Kind(lambda p, v: p.table(v), lambda p, c, w: p.items.table(c)),
    ),
)

#: Words for values of enumerations that have none: they are the defaults.
_WORDLESS: Final = (MemoryKind.DEFAULT,)


def _kind(cls: type, name: str) -> Kind:
    """Return how a field of a class is written."""
    for field in named_fields(cls):
        if field.name == name and field.roles:
            role = field.roles[0]
            return _NAMES.get(role if isinstance(role, Role) else role.role, _BUFFER)
    hint = hints_of(cls)[name]
    for known, kind in _TYPES:
        if hint == known:
            return kind
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _word_kind(hint)
    choices = [choice for choice in get_args(hint) if hasattr(choice, "syntax")]
    if not choices:
        raise TypeError(f"{cls.__name__}.{name} is of no type that the text form knows")
    return _choice_kind(choices)


def _word_kind(words: type[enum.Enum]) -> Kind:
    table = {member.value: member for member in words if member not in _WORDLESS}
    return Kind(
        lambda p, v: str(v.value),
        lambda p, c, what: c.word(table, what),
        lambda token: token in table,
    )


def _choice_kind(choices: list[type]) -> Kind:
    """Return how a value of one of several classes is written, each of which opens with a word."""
    words = {first_word(choice): choice for choice in choices}
    what = " or ".join(f"'{word}'" for word in words)

    def read(parser: LineParser, cursor: Cursor, _: str) -> Value:
        chosen = words.get(cursor.next)
        if chosen is None:
            cursor.fail_word(words, what)
        return reader(chosen)(parser, cursor, None)

    return Kind(lambda p, v: shower(type(v))(p, v), read)


# Forms that a class asks for by name.


def _read_rest(parser: LineParser, cursor: Cursor, what: str) -> str:
    raise TypeError("a comment is read before a line is cut into tokens")


#: Forms of one field's value; layouts and results are written with what is defined.
_FORMS: Final[dict[str, Kind]] = {
    "layout": Kind(lambda p, v: p.layout_of(v), lambda p, c, w: None),
    "targets": Kind(lambda p, v: p.targets(v), lambda p, c, w: None),
    "types": Kind(lambda p, v: p.result_types(v), lambda p, c, w: None),
    "source": Kind(lambda p, v: "", lambda p, c, w: p.code(c)),
    "rest": Kind(lambda p, v: rest_of_line(v), _read_rest),
}


# Printing.


def shower(cls: type) -> Show:
    """Return what prints the first line of the text of a class."""
    show = _SHOWERS.get(cls)
    if show is None:
        show = _SHOWERS[cls] = _joined(cls, syntax_of(cls))
    return show


_SHOWERS: Final[dict[type, Show]] = {}


def _joined(cls: type, parts: tuple[Part, ...]) -> Show:
    steps: list[Show] = []
    before = ""
    for part in parts:
        if isinstance(part, Words):
            before += part.text
        else:
            steps.append(_shown(cls, part, before))
            before = ""
    if before:
        steps.append(lambda p, v, text=before: text)  # type: ignore[misc]
    if len(steps) == 1:
        return steps[0]
    return lambda p, v: "".join([step(p, v) for step in steps])


def _shown(cls: type, part: Slot | Group, before: str) -> Show:
    """Return what prints a part with the words before it."""
    if isinstance(part, Slot):
        if len(part.fields) == 2:
            return _pair_shown(cls, part.fields, before)
        name, show = part.fields[0], _slot_kind(cls, part).show
        return lambda p, v: before + show(p, getattr(v, name))
    inner, name = _joined(cls, part.parts), part.field
    if part.always:
        return lambda p, v: before + inner(p, v)
    default = False if part.is_flag else default_of(cls, name)
    return lambda p, v: before if getattr(v, name) == default else before + inner(p, v)


def _slot_kind(cls: type, slot: Slot) -> Kind:
    return _FORMS[slot.form] if slot.form else _kind(cls, slot.fields[0])


def _pair_shown(cls: type, fields: tuple[str, ...], before: str) -> Show:
    one, two = fields
    if hints_of(cls)[two] == tuple[NamedArg, ...]:
        return lambda p, v: before + p.args(getattr(v, one), getattr(v, two))
    return lambda p, v: before + p.mixed(getattr(v, one), getattr(v, two))


# Reading.

Values: TypeAlias = list[Value]
_Step: TypeAlias = "Callable[[LineParser, Cursor, Values], None]"
Reader: TypeAlias = "Callable[[LineParser, Cursor, Value], Value]"
"""Reads what stands right of ``=``, given what stands left of it, or all of a line."""

_TOKEN: Final = re.compile(r"\w+|//|\S")


def tokens_of(text: str) -> list[str]:
    """Return the tokens in the words of a syntax."""
    return _TOKEN.findall(text)


def first_word(cls: type) -> str:
    """Return the word that the text of a part opens with."""
    first = syntax_of(cls)[0]
    assert isinstance(first, Words)
    return tokens_of(first.text)[0]


def right_side(cls: type) -> tuple[Part, ...]:
    """Return the parts behind ``=``, or all of them where nothing is defined."""
    parts = syntax_of(cls)
    if isinstance(parts[0], Slot) and isinstance(parts[1], Words) and parts[1].text[:3] == " = ":
        rest = parts[1].text[3:]
        return (Words(rest), *parts[2:]) if rest else parts[2:]
    return parts[1:] if isinstance(parts[0], Group) else parts


def opening_words(cls: type) -> tuple[str, ...]:
    """Return the words that tell a line, or its right side, from others; none for a library op."""
    first = right_side(cls)[0]
    if isinstance(first, Words):
        return (tokens_of(first.text)[0],)
    assert isinstance(first, Slot)
    choices = get_args(hints_of(cls)[first.fields[0]])
    return tuple(first_word(choice) for choice in choices if hasattr(choice, "syntax"))


def left_side(cls: type) -> str:
    """Return the field whose names stand before ``=``, empty where there is none."""
    first = syntax_of(cls)[0]
    if isinstance(first, Group) and isinstance(first.parts[0], Slot):
        return first.field
    return first.fields[0] if isinstance(first, Slot) and right_side(cls) != syntax_of(cls) else ""


def reader(cls: type) -> Reader:
    """Return what reads a line, or its right side, or a part of one."""
    found = _READERS.get(cls)
    if found is None:
        found = _READERS[cls] = _made_reader(cls)
    return found


_READERS: Final[dict[type, Reader]] = {}


def _made_reader(cls: Value) -> Reader:
    regions = region_fields(cls)
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name != "origin"]
    places = {name: place for place, name in enumerate(names)}
    parts = right_side(cls)
    steps = list(_steps(cls, parts, places))
    written = {name for part in parts for name in _fields_in(part)}
    blank = [default_of(cls, n) if n in written and _may_miss(cls, n) else None for n in names]
    defined = places.get(left_side(cls))
    is_line = issubclass(cls, Line)

    def read(parser: LineParser, cursor: Cursor, left: Value) -> Value:
        values = blank.copy()
        if defined is not None:
            values[defined] = left
        for step in steps:
            step(parser, cursor, values)
        if regions:
            cursor.end()
            for field in regions:
                values[places[field.name]] = parser.regions(field.block, many=field.many)
        return cls(*values, origin=cursor.origin) if is_line else cls(*values)

    return read


def _fields_in(part: Part) -> Iterable[str]:
    if isinstance(part, Slot):
        return part.fields
    return (part.field,) if isinstance(part, Group) else ()


def _may_miss(cls: type, name: str) -> bool:
    parts = syntax_of(cls)
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
    def read(parser: LineParser, cursor: Cursor, values: Values) -> None:
        values[place] = cursor.accept(word)

    return read


def _slot_read(cls: type, slot: Slot, places: dict[str, int]) -> _Step:
    place = places[slot.fields[0]]
    if len(slot.fields) == 2:
        return _pair_read(cls, slot.fields[1], place, places[slot.fields[1]])
    if slot.form == "layout":
        return lambda parser, cursor, values: parser.items.define(cursor, values[place])
    what = _noun(cls, slot.fields[0])
    read = _slot_kind(cls, slot).read

    def step(parser: LineParser, cursor: Cursor, values: Values) -> None:
        values[place] = read(parser, cursor, what)

    return step


def _noun(cls: type, name: str) -> str:
    return str(getattr(cls, "nouns", {}).get(name, f"a {name}"))


def _pair_read(cls: type, second: str, one: int, two: int) -> _Step:
    is_call = hints_of(cls)[second] == tuple[NamedArg, ...]

    def read(parser: LineParser, cursor: Cursor, values: Values) -> None:
        items = parser.items
        values[one], values[two] = items.all_args(cursor) if is_call else items.mixed(cursor)

    return read


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
    read, starts, what = *_kind(cls, slot.fields[0])[1:], _noun(cls, slot.fields[0])
    if not tokens:
        assert starts is not None, f"{cls.__name__}.syntax: nothing tells that a field is there"

        def read_bare(parser: LineParser, cursor: Cursor, values: Values) -> None:
            if starts(cursor.tokens[cursor.at]):
                values[place] = read(parser, cursor, what)

        return read_bare
    word = tokens[0]
    takes_args = hints_of(cls)[group.field] == tuple[Arg, ...]

    def read_after_word(parser: LineParser, cursor: Cursor, values: Values) -> None:
        if cursor.accept(word):
            at = cursor.at
            found = values[place] = read(parser, cursor, what)
            if takes_args and not found:
                cursor.fail(f"'{word} ()' is left out where nothing is taken in", at=at)

    return read_after_word


def _read_results(
    parser: LineParser, cursor: Cursor, values: Values, place: int, *, has_objects: bool
) -> None:
    items, targets = parser.items, values[place]
    read = items.results if has_objects else items.region_results
    values[place] = read(cursor, targets)
