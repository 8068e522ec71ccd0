"""The assembly format: declarative syntax for lines and their parts.

A class declares its text once, in ``syntax``. Printer and parser of the text form both follow it::

    "{out} = allocate[ {memory}][ zeroed][ stream {stream}] : {out:layout}"

``{field}`` stands for a field, in the form of its type. ``{field:form}`` selects another form, and
``{field, field}`` writes two fields as one list. A group in square brackets is left out if its
field has the default. A group that consists of one word is a boolean field of that name.
``[! ...]`` is optional on input but always printed. Literal square brackets are doubled. All other
text is literal.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, get_origin

from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.traits import REGION_FIELDS, PerClass, hints_of


class Words(NamedTuple):
    """Literal text, spaces included."""

    text: str


class Slot(NamedTuple):
    """A placeholder for a field, or for two that form one list."""

    fields: tuple[str, ...]
    form: str


class Group(NamedTuple):
    """Parts that are left out if ``field``, the first one in them, has its default."""

    parts: tuple[Part, ...]
    field: str
    is_flag: bool
    """True for a single word: a boolean field."""
    always: bool
    """True if the group is printed even for the default."""


Part: TypeAlias = Words | Slot | Group


class BadSyntaxError(TypeError):
    """The ``syntax`` of a class is malformed or does not cover its fields."""


_PIECE: Final = re.compile(r"\[\[|\]\]|\[!?|\]|\{[^}]*\}|[^\[\]{}]+")
_SLOT: Final = re.compile(r"\{(\w+(?:, \w+)*)(?::(\w+))?\}")


def slots(parts: tuple[Part, ...]) -> list[tuple[str, bool]]:
    """Return the fields in parts, each with whether it is optional."""
    found: list[tuple[str, bool]] = []
    for part in parts:
        if isinstance(part, Slot):
            found += [(name, False) for name in part.fields]
        elif isinstance(part, Group):
            found += [(part.field, True)] if part.is_flag else []
            found += [(name, True) for name, _ in slots(part.parts)]
    return found


def _read(cls: Any) -> tuple[Part, ...]:
    """Return the parts of a class's syntax. Groups do not nest."""
    parts: list[Part] = []
    group: list[Part] | None = None
    always = False
    for piece in _PIECE.findall(cls.syntax):
        into = parts if group is None else group
        if piece in ("[", "[!"):
            _require(group is None, cls, "brackets do not nest")
            group, always = [], piece == "[!"
        elif piece == "]":
            _require(bool(group), cls, "a bracket is empty or was not opened")
            parts.append(_group(tuple(group or ()), always=always))
            group = None
        elif piece[0] == "{":
            match = _SLOT.fullmatch(piece)
            _require(match is not None, cls, f"'{piece}' is not a field")
            assert match is not None
            into.append(Slot(tuple(match[1].split(", ")), match[2] or ""))
        else:
            text = piece[0] if piece in ("[[", "]]") else piece
            if into and isinstance(into[-1], Words):
                into[-1] = Words(into[-1].text + text)
            else:
                into.append(Words(text))
    _require(group is None, cls, "a bracket is not closed")
    return tuple(parts)


def _group(parts: tuple[Part, ...], *, always: bool) -> Group:
    for part in parts:
        if isinstance(part, Slot):
            return Group(parts, part.fields[0], is_flag=False, always=always)
    return Group(parts, _text(parts).strip(), is_flag=True, always=always)


def _text(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Words))


def _checked(cls: Any, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts after checking them against the fields of the class."""
    besides = {"origin", *(field.name for field in REGION_FIELDS[cls])}
    fields = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in besides]
    written = slots(parts)
    for name, may_miss in written:
        _require(name in fields, cls, f"there is no field '{name}'")
        if may_miss and (name, False) not in written:
            default_of(cls, name)
    missing = [name for name in fields if name not in dict(written)]
    _require(not missing, cls, f"it does not write {', '.join(missing)}")
    return parts


#: Defaults, by type, of optional fields that declare none.
_DEFAULTS: Final[Mapping[Any, object]] = {Device: CPU, str: ""}


def default_of(cls: Any, name: str) -> object:
    """Return the value of a field that the text leaves out."""
    field = next(field for field in dataclasses.fields(cls) if field.name == name)
    if field.default is not dataclasses.MISSING:
        return field.default
    hint = hints_of(cls)[name]
    _require(hint in _DEFAULTS or get_origin(hint) is tuple, cls, f"'{name}' has no default")
    return _DEFAULTS.get(hint, ())


def _require(condition: bool, cls: type, problem: str) -> None:  # noqa: FBT001 - as an assertion
    if not condition:
        raise BadSyntaxError(f"{cls.__name__}.syntax: {problem}")


SYNTAX: Final = PerClass(lambda cls: _checked(cls, _read(cls)))
"""The parts of each class's ``syntax``.

A lookup raises ``BadSyntaxError`` if the syntax is malformed, lacks a field, or makes one optional
that has no default.
"""
