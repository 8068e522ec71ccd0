"""The assembly format: how a class of lines, or of parts of lines, is written as text.

A class declares its text once, in ``syntax``, and the text form's printer and parser follow it::

    "{out} = allocate[ {memory}][ zeroed][ stream {stream}] : {out:layout}"

``{field}`` stands for a field, written as the field's type wants it. ``{field:form}`` stands for
one written in another form, and ``{field, field}`` for two that are written as one list. What is in
square brackets is left out where its field has its default; a bracket that holds a word alone is a
truth value of that name. ``[! ...]`` may be left out of a text, but is always printed. Brackets
that are meant as such are doubled. All else is written as it stands.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, get_origin

from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.traits import REGION_FIELDS, PerClass, hints_of


class Words(NamedTuple):
    """Text that is written as it stands, spaces included."""

    text: str


class Slot(NamedTuple):
    """The place of a field, or of two that are one list."""

    fields: tuple[str, ...]
    form: str


class Group(NamedTuple):
    """Parts that are left out where ``field``, the first one in them, has its default."""

    parts: tuple[Part, ...]
    field: str
    is_flag: bool
    """Whether it is a word alone: a truth value."""
    always: bool
    """Whether it is printed in any case."""


Part: TypeAlias = Words | Slot | Group


class BadSyntaxError(TypeError):
    """The ``syntax`` of a class does not say how its fields are written."""


_PIECE: Final = re.compile(r"\[\[|\]\]|\[!?|\]|\{[^}]*\}|[^\[\]{}]+")
_SLOT: Final = re.compile(r"\{(\w+(?:, \w+)*)(?::(\w+))?\}")


def slots(parts: tuple[Part, ...]) -> list[tuple[str, bool]]:
    """Return the fields that parts stand for, each with whether it can be left out."""
    found: list[tuple[str, bool]] = []
    for part in parts:
        if isinstance(part, Slot):
            found += [(name, False) for name in part.fields]
        elif isinstance(part, Group):
            found += [(part.field, True)] if part.is_flag else []
            found += [(name, True) for name, _ in slots(part.parts)]
    return found


def _read(cls: Any) -> tuple[Part, ...]:
    """The parts of a class's syntax, which nest one deep."""
    parts: list[Part] = []
    group: list[Part] | None = None
    always = False
    for piece in _PIECE.findall(cls.syntax):
        into = parts if group is None else group
        if piece in ("[", "[!"):
            _require(group is None, cls, "a bracket stands in a bracket")
            group, always = [], piece == "[!"
        elif piece == "]":
            _require(bool(group), cls, "a bracket is empty, or is not open")
            parts.append(_group(tuple(group or ()), always=always))
            group = None
        elif piece[0] == "{":
            match = _SLOT.fullmatch(piece)
            _require(match is not None, cls, f"'{piece}' is no field")
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
    """The parts, if they and the fields of the class agree."""
    regions = {field.name for field in REGION_FIELDS[cls]}
    fields = {
        field.name: field
        for field in dataclasses.fields(cls)
        if field.init and field.name != "origin" and field.name not in regions
    }
    written = slots(parts)
    for name, may_miss in written:
        _require(name in fields, cls, f"there is no field '{name}'")
        if may_miss and (name, False) not in written:
            default_of(cls, name)
    missing = [name for name in fields if name not in dict(written)]
    _require(not missing, cls, f"it does not write {', '.join(missing)}")
    return parts


#: What a field without a default holds where the text leaves it out, by its type.
_DEFAULTS: Final[Mapping[Any, object]] = {Device: CPU, str: ""}


def default_of(cls: Any, name: str) -> object:
    """Return what a field holds where the text leaves it out.

    Raises:
        BadSyntaxError: Nothing says so.
    """
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
"""By class, the parts of its ``syntax``.

Looking a class up raises ``BadSyntaxError`` if the syntax is malformed, lacks a field, or leaves
one out that has no default.
"""
