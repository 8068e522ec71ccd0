"""Printers and parsers of classes, generated from their declarations.

A class declares its text in ``syntax`` (:mod:`wrapper_ir.lines.syntax`) and the types of its
fields. Each type has one :class:`Kind` here, which says how values are printed and parsed. A print
function and a read function are generated for each class on first use.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args, get_origin

import wrapper_ir.lines as ir
from wrapper_ir.lines.syntax import SYNTAX, Group, Part, Slot, Words, default_of
from wrapper_ir.lines.traits import NAMED_FIELDS, REGION_FIELDS, PerClass, hints_of
from wrapper_ir.text.words import quote, rest_of_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.text.tokens import Cursor

Value: TypeAlias = Any
"""A field value, whose type its kind knows."""

Parts: TypeAlias = Any
"""The printer or parser of parts, whose methods are named in the templates below."""

Show: TypeAlias = "Callable[[Parts, Value], str]"


class Kind(NamedTuple):
    """The text form of a type, and how to recognize a value."""

    show: str
    """Template of the expression that prints a value. ``p`` is the printer of parts."""
    read: str
    """Template of the expression that reads a value. ``p`` is the parser of parts, ``c`` the cursor
    and ``{what}`` the noun for messages."""
    sign: str = ""
    """The first character of every value, if that identifies the type."""
    words: Mapping[str, object] = {}
    """The keywords that the values are, by keyword, if the type is a set of keywords."""
    known: object = None
    """The object that ``{known}`` stands for in ``read``."""

    def is_next(self, token: str) -> bool:
        """Return whether a value may start with a token."""
        if self.sign:
            return token[:1] == self.sign
        return token in self.words if self.words else True


# Kinds of names, by the first of a field's roles.

_BUFFER: Final = Kind("p.buffer({})", "c.buffer()", "%")
_BUFFERS: Final = Kind("p.names({})", "p.names(c)")
_KERNEL: Final = Kind("p.kernel({})", "c.kernel()", "@")
_OBJECT: Final = Kind("p.object({})", "c.object()", "&")
_NAMES: Final[dict[ir.Role, Kind]] = {
    ir.Role.DEFINE_SYMBOL: Kind("p.symbol({})", "c.symbol()"),
    ir.Role.OBJECT: _OBJECT,
    ir.Role.DEFINE_OBJECT: _OBJECT,
    ir.Role.CALL: _KERNEL,
    ir.Role.DECLARE: _KERNEL,
    ir.Role.CALL_OP: Kind("p.op({})", "c.take()"),
}

# Kinds of values, by type.

_INTEGER: Final = Kind("p.scalar({})", "p.integer(c, {what})")

_TYPES: Final[tuple[tuple[Any, Kind], ...]] = (
    (int, _INTEGER),
    (int | None, _INTEGER),
    (str, Kind("quote({})", "c.string({what})", '"')),
    (ir.Dim, Kind("p.scalar({})", "p.exprs.dim(c)")),
    (ir.Scalar, Kind("p.scalar({})", "p.exprs.scalar(c)")),
    (ir.Device, Kind("p.device({})", "p.device(c)", "@")),
    (tuple[ir.Arg, ...], Kind("p.args({})", "p.args(c)")),
    (tuple[ir.Param, ...], Kind("p.params({})", "p.params(c)")),
    (ir.BufferArg | ir.ScalarArg, Kind("p.show({})", "p.selector(c, {what})")),
    (tuple[str, ...], Kind("p.strings({})", "p.strings(c, {what})")),
    (tuple[int, ...], Kind("p.numbers({})", "p.integers(c, {what})")),
    (tuple[ir.Dim, ...], Kind("p.numbers({})", "p.dims(c)")),
    (tuple[tuple[str, str], ...], Kind("p.table({})", "p.types(c)")),
    (tuple[tuple[str, ir.Scalar | str], ...], Kind("p.table({})", "p.options(c)")),
    (tuple[tuple[str, ir.Scalar | str | None], ...], Kind("p.table({})", "p.table(c)")),
)


def _kind(cls: type, name: str) -> Kind:
    """Return how a field of a class is written."""
    for field in NAMED_FIELDS[cls]:
        if field.name == name and field.roles:
            return _BUFFERS if field.many else _NAMES.get(field.roles[0].role, _BUFFER)
    hint = hints_of(cls)[name]
    for known, kind in _TYPES:
        if hint == known:
            return kind
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _word_kind(hint)
    if not _choices(hint):
        raise TypeError(f"{cls.__name__}.{name} is of no type that the text form knows")
    found = Choices.of(hint)
    return Kind("SHOWERS[type({0})](p, {0})", "{known}.read(p, c)", known=found)


def _word(member: enum.Enum) -> str:
    return str(getattr(member, "word", member.value))


def _word_kind(cls: type[enum.Enum], default: object = None) -> Kind:
    """Return the kind of an enumeration without the member that is never written."""
    words = {_word(member): member for member in cls if member is not default}
    show = "{}.word" if hasattr(cls, "word") else "{}.value"
    return Kind(show, "c.word({known}, {what})", words=words, known=words)


# Forms that a syntax selects by name.


def _identifier(noun: str) -> Kind:
    return Kind(f"p.identifier({{}}, {noun!r})", f"c.identifier({f'the name of {noun}'!r})")


#: Forms of one field or of two. Layouts and results are written next to the defined names.
_FORMS: Final[dict[str, Kind]] = {
    "class": Kind("p.class_name({})", "c.class_name()"),
    "list": Kind("p.arg_list({})", "p.arg_list(c)", "["),
    "call": Kind("p.args({}, {})", "p.all_args(c)"),
    "mixed": Kind("p.mixed({}, {})", "p.mixed(c)"),
    "range": Kind("p.range({}, {})", "p.range(c)"),
    "packing": Kind("p.packing({})", "p.packing(c)"),
    "frames": Kind("p.frames({})", "p.frames(c)"),
    "layout": Kind("p.layout_of({})", ""),
    "targets": Kind("p.targets({})", ""),
    "types": Kind("p.result_types({})", ""),
    "source": Kind("''", "p.lines.code(c)"),
    "rest": Kind("rest_of_line({})", ""),
}


# Printing.


def _shower(cls: type) -> Show:
    """Generate the print function of a class: a single expression, as fast as one by hand."""
    known = {"quote": quote, "rest_of_line": rest_of_line, "SHOWERS": SHOWERS}
    text = _expression(cls, SYNTAX[cls], known)
    # Safe to evaluate: it consists of literals from class declarations and templates above.
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
        test = f"{value} is not None" if default is None else value
        return f"({inner} if {test} else '')"
    known[f"default_{group.field}"] = default
    test = "is not" if isinstance(default, enum.Enum) else "!="
    return f"({inner} if {value} {test} default_{group.field} else '')"


def _slot_kind(cls: type, slot: Slot) -> Kind:
    if slot.form == "identifier":
        return _identifier(str(getattr(cls, "nouns", {})[slot.fields[0]]))
    return _FORMS[slot.form] if slot.form else _kind(cls, slot.fields[0])


def _pair(cls: type, slot: Slot) -> Kind:
    """Return the kind of two fields that are written as one list."""
    if slot.form:
        return _FORMS[slot.form]
    is_call = hints_of(cls)[slot.fields[1]] == tuple[ir.NamedArg, ...]
    return _FORMS["call" if is_call else "mixed"]


SHOWERS: Final = PerClass(_shower)
"""Print functions by class, for lines (the first line of their text) and for parts of lines."""


# Reading.

Reader: TypeAlias = "Callable[[Parts, Cursor, Value], Value]"
"""A function that reads the right side of ``=``, given the left side, or a whole line."""

_TOKEN: Final = re.compile(r"\w+|//|\S")


def tokens_of(text: str) -> list[str]:
    """Return the tokens in the literal text of a syntax."""
    return _TOKEN.findall(text)


def left_side(cls: type) -> Slot | None:
    """Return the left side of ``=``, if any."""
    parts = SYNTAX[cls]
    first = parts[0].parts[0] if isinstance(parts[0], Group) else parts[0]
    if not isinstance(first, Slot):
        return None
    after = parts[1] if first is parts[0] and len(parts) > 1 else None
    is_one = isinstance(after, Words) and after.text.startswith(" = ")
    return first if is_one or first.form == "targets" else None


def right_side(cls: type) -> tuple[Part, ...]:
    """Return the parts to the right of ``=``, or all parts without ``=``."""
    parts = SYNTAX[cls]
    if left_side(cls) is None:
        return parts
    after = parts[1]
    if isinstance(parts[0], Slot) and isinstance(after, Words):
        rest = after.text.removeprefix(" = ")
        return (Words(rest), *parts[2:]) if rest else parts[2:]
    return parts[1:]


def opening_words(cls: type) -> tuple[str, ...]:
    """Return the keywords that identify a line or its right side; none for a library op."""
    first = right_side(cls)[0]
    if isinstance(first, Words):
        return (tokens_of(first.text)[0],)
    assert isinstance(first, Slot)
    choices = _choices(hints_of(cls)[first.fields[0]])
    return tuple(word for choice in choices for word in opening_words(choice))


def form_of(cls: type, word: str) -> str:
    """Return how a line with a keyword is written, without what may be left out."""
    found = []
    for part in SYNTAX[cls]:
        if isinstance(part, Words):
            found.append(part.text)
        elif isinstance(part, Slot):
            found.append(_slot_form(cls, part, word))
    return "".join(found)


def _slot_form(cls: type, slot: Slot, word: str) -> str:
    """Return what stands for a field, or a list of two, in the form of a line."""
    name, *others = slot.fields
    hint = hints_of(cls)[name]
    if slot is right_side(cls)[0]:
        return next(form_of(each, word) for each in _choices(hint) if word in opening_words(each))
    if slot.form == "layout":
        return slot.form
    if others or get_origin(hint) is tuple:
        return f"({', '.join(slot.fields)})"
    sign = _kind(cls, name).sign
    return f'"{name}"' if sign == '"' else f"{sign}{name}"


def _choices(hint: Value) -> list[type]:
    """Return the classes of a union that have a ``syntax``."""
    return [choice for choice in get_args(hint) if hasattr(choice, "syntax")]


def _reader(cls: type, *, is_bare: bool = False) -> Reader:
    """Generate the read function of a class; if ``is_bare``, its optional first part is absent."""
    known: dict[str, object] = {"cls": cls}
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name != "origin"]
    left, body = left_side(cls), []
    if left is not None:
        body.append(f"v_{left.fields[0]} = t")
    for part in right_side(cls)[is_bare:]:
        body += _statements(cls, part, known)
    regions = REGION_FIELDS[cls]
    body += ["c.end()"] if regions else []
    body += [f"v_{f.name} = p.lines.regions({f.block!r}, many={f.many})" for f in regions]
    read = {line.partition(" = ")[0] for line in body}
    read |= {name for line in read for name in line.split(", ")}
    absent = [n for n in names if f"v_{n}" not in read]
    defaults = {n: _known(known, f"default_{n}", default_of(cls, n)) for n in absent}
    values = [defaults.get(n, f"v_{n}") for n in names]
    values += ["origin=c.origin"] if issubclass(cls, ir.Line) else []
    body.append(f"return cls({', '.join(values)})")
    # Safe to execute: it consists of literals from class declarations and templates above.
    exec("def read(p, c, t):\n    " + "\n    ".join(body), known)
    made: Reader = known["read"]  # type: ignore[assignment]
    return made


def _known(known: dict[str, object], name: str, value: object) -> str:
    known[name] = value
    return name


def _statements(cls: type, part: Part, known: dict[str, object]) -> list[str]:
    """Return the statements that read one part."""
    if isinstance(part, Words):
        return [f"c.expect({token!r})" for token in tokens_of(part.text)]
    if isinstance(part, Slot):
        if part.form == "layout":
            return [f"p.define(c, v_{part.fields[0]})"]
        targets = ", ".join(f"v_{name}" for name in part.fields)
        kind = _pair(cls, part) if len(part.fields) == 2 else _slot_kind(cls, part)
        return [f"{targets} = {_reading(cls, part.fields[0], kind, known)}"]
    if part.is_flag:
        return [f"v_{part.field} = c.accept({part.field!r})"]
    slot = next(each for each in part.parts if isinstance(each, Slot))
    if slot.form == "types":
        has_objects = ir.ResultObject in get_args(get_args(hints_of(cls)[part.field])[0])
        return [f"v_{part.field} = p.{'results' if has_objects else 'region_results'}(c, t)"]
    return [_unless_left_out(cls, part, slot, known)]


def _unless_left_out(cls: type, group: Group, slot: Slot, known: dict[str, object]) -> str:
    """Return the statement that reads an optional part."""
    field = group.field
    kind = _part_kind(cls, Group(group.parts[-1:], field, is_flag=False, always=False))
    words = [t for part in group.parts if isinstance(part, Words) for t in tokens_of(part.text)]
    default = _known(known, f"default_{field}", default_of(cls, field))
    read = _reading(cls, slot.fields[0], kind, known)
    if words:
        test = f"c.accept({words[0]!r})"
        if hints_of(cls)[field] == tuple[ir.Arg, ...]:
            read = f"p.passed(c, {words[0]!r})"
    elif kind.sign:
        test = f"c.tokens[c.at][:1] == {kind.sign!r}"
    else:
        test = f"c.tokens[c.at] in {_known(known, f'known_{field}', kind.known)}"
    return f"v_{field} = {read} if {test} else {default}"


def _reading(cls: type, name: str, kind: Kind, known: dict[str, object]) -> str:
    """Return the expression that reads a field."""
    usual = f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    what = repr(str(getattr(cls, "nouns", {}).get(name, usual)))
    return kind.read.format(what=what, known=_known(known, f"known_{name}", kind.known))


READERS: Final = PerClass(_reader)
"""Read functions by class, for lines, right sides of lines and parts of lines."""


# Unions, whose class is identified by the first tokens.


class Choices:
    """Parser of a union of classes."""

    @classmethod
    def of(cls, union: Value) -> Choices:
        """Return the parser of a union."""
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

    def read(self, parser: Parts, cursor: Cursor) -> Value:
        """Read a value of one of the classes."""
        read = self.by_sign.get(cursor.tokens[cursor.at][:1])
        return self.read_word(parser, cursor) if read is None else read(parser, cursor, None)

    def read_word(self, parser: Parts, cursor: Cursor) -> Value:
        """Read a value of a class that is not identified by a first character."""
        read, behind = self.by_word.get(cursor.tokens[cursor.at], (self.otherwise, None))
        if behind is not None and not behind.is_next(cursor.tokens[cursor.at + 1]):
            read = self.otherwise
        if read is None:
            words = list(self.by_word)
            cursor.fail_word(words, " or ".join(f"'{word}'" for word in words))
        return read(parser, cursor, None)


def _part_kind(cls: type, part: Part) -> Kind:
    """Return the kind of the start of a part."""
    if isinstance(part, Words):
        return Kind("", "", sign=part.text.strip()[:1])
    if isinstance(part, Slot):
        return _slot_kind(cls, part)
    default = default_of(cls, part.field)
    if isinstance(default, enum.Enum):
        return _word_kind(type(default), default)
    return _part_kind(cls, part.parts[0])
