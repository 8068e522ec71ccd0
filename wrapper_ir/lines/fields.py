"""Checks that what is given is a program, and that its fields hold what their types say."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args, get_origin

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.args import Arg, ListArg
from wrapper_ir.lines.control import Region
from wrapper_ir.lines.program import AnyLine, FrozenMap, Program
from wrapper_ir.lines.traits import REGION_FIELDS, PerClass
from wrapper_ir.lines.walk import Path, regions_of

# Refusing what is no program where one is wanted: a model, a text, a file's name.


class NotAProgramError(WrapperIRError):
    """A function that works on programs was given something else.

    Fields: ``where`` is the function, ``what`` says what it was given.
    """

    code = "WIR0104"
    template = "{where} takes a Program, not {what}"
    default_hint = "wir.capture(model, args), wir.parse(text) and wir.load(path) give programs"


def as_program(given: object, where: str) -> Program:
    """Return the argument, if it is a program.

    Args:
        given: What a user passed.
        where: The function that it was passed to, for the message.

    Raises:
        NotAProgramError: It is none.
    """
    if not isinstance(given, Program):
        raise NotAProgramError(where=where, what=f"an object of type {type(given).__name__}")
    return given


# Checks that the fields of a program hold what their types say.
#
# Python does not look at annotations: a program made by hand may hold a number where a name
# belongs, or text where a number does. Everything that reads programs relies on the types, so they
# are looked at first. The checks are made from the types of a class's fields once a class, as roles
# are.

Check = Callable[[Any], bool]

_UNIONS: Final = (typing.Union, types.UnionType)
_EXACT: Final = (int, bool, float, complex)
"""``True`` is an ``int`` to Python, but no size, and a subclass may print as anything."""


_DEPTH: Final = 64
"""Lists nest no deeper: ``MAX_DEPTH`` of the text form."""


class Misfit(NamedTuple):
    """A value that is not of the type of its field."""

    path: Path
    """The line that it is in; empty where it is in the program's own tables."""
    part: str
    """The way from there to the value, such as ``args[0].value``."""
    expected: str
    found: str


def misfits(program: Program) -> tuple[Misfit, ...]:
    """Return values that are not of their field's type: at most one a line, and one a table.

    Constants' values are not looked at, nor regions nested too deep for Python.
    """
    found = []
    try:
        for misfit in _in_tables(program):
            found.append(misfit)  # noqa: PERF402 - kept when the next one cannot be reached
    except RecursionError:
        pass
    return tuple(found)


def _in_tables(program: Program) -> Iterator[Misfit]:
    for name, hint in _HINTS[Program].items():
        value = getattr(program, name)
        if name == "body" and type(value) is tuple:
            yield from _in_lines(value, Path(), "body")
        elif not _CHECKS[hint](value):
            yield Misfit(Path(), *_deepest(value, hint, name))


def _in_lines(body: tuple[AnyLine, ...], holder: Path, region: str) -> Iterator[Misfit]:
    check = _CHECKS[AnyLine]
    for index, line in enumerate(body):
        if not check(line):
            yield Misfit(holder.then(region, index), *_deepest(line, AnyLine, ""))
        elif REGION_FIELDS[type(line)]:
            path = holder.then(region, index)
            for name, inner in regions_of(line):
                yield from _in_lines(inner.body, path, name)


def _constructor_hints(cls: Any) -> Mapping[str, Any]:
    """The types of the fields that a class's constructor takes."""
    hints = typing.get_type_hints(cls, localns={"AnyLine": AnyLine})
    fields = [field for field in dataclasses.fields(cls) if field.init and field.name != "data"]
    found = {field.name: hints[field.name] for field in fields}
    if cls is Region:
        found["body"] = tuple  # its lines are looked at one by one
    return found


_HINTS: Final = PerClass(_constructor_hints)


# Quickly: whether a value is right.


def _made(hint: Any) -> Check:
    """Return a check that a value, with all that is in it, is of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return _any_of(args)
    if origin is tuple and args[1:] == (...,):
        return _all_are(args[0])
    if origin is FrozenMap:
        return _map_of(args[0])
    if hint is ListArg:
        return _is_list
    if dataclasses.is_dataclass(hint):
        return _instance_of(hint)
    if hint in _EXACT:
        return lambda value: type(value) is hint
    if origin is tuple:
        return lambda value: (
            type(value) is tuple
            and len(value) == len(args)
            and all(_CHECKS[arg](part) for arg, part in zip(args, value, strict=True))
        )
    return lambda value: isinstance(value, hint)


_CHECKS: Final = PerClass(_made)


def _any_of(args: tuple[Any, ...]) -> Check:
    classes: dict[type, Check] = {}

    def fits(value: Any) -> bool:
        cls = type(value)
        if cls in classes:
            return classes[cls](value)
        if cls in args:
            classes[cls] = _CHECKS[cls]
            return classes[cls](value)
        return any(_CHECKS[arg](value) for arg in args)

    return fits


def _all_are(arg: Any) -> Check:
    def fits(values: Any) -> bool:
        if type(values) is not tuple:
            return False
        if values:
            check = _CHECKS[arg]
            for value in values:
                if not check(value):
                    return False
        return True

    return fits


def _map_of(arg: Any) -> Check:
    check = _CHECKS[arg]

    def fits(values: Any) -> bool:
        return isinstance(values, Mapping) and all(
            isinstance(key, str) and check(value) for key, value in values.items()
        )

    return fits


def _instance_of(cls: Any) -> Check:
    names = tuple(_HINTS[cls])
    checks: list[Check] = []

    def fits(value: Any) -> bool:
        if type(value) is not cls:
            return False
        if not checks:  # not before: classes may hold themselves
            checks.extend(map(_CHECKS.__getitem__, _HINTS[cls].values()))
        for name, check in zip(names, checks, strict=True):  # noqa: SIM110 - half as quick
            if not check(getattr(value, name)):
                return False
        return True

    return fits


def _is_list(value: Any) -> bool:
    """Lists hold lists, and what reads them recurses: neither may this, nor may they be deep."""
    todo = [(value, 1)]
    while todo:
        found, depth = todo.pop()
        if type(found) is not ListArg or type(found.items) is not tuple or depth > _DEPTH:
            return False
        for item in found.items:
            if type(item) is ListArg:
                todo.append((item, depth + 1))
            elif not _CHECKS[Arg](item):
                return False
    return True


# Slowly, once something is wrong: what it is.


def _deepest(value: Any, hint: Any, part: str) -> tuple[str, str, str]:
    """The innermost value that is wrong, of one that is: where it is, what it should and is."""
    if hint is ListArg:
        return part, f"a list of arguments nested at most {_DEPTH} deep", "another value"
    cls = type(value)
    origin, args = get_origin(hint), get_args(hint)
    if origin in _UNIONS and cls in args:
        return _deepest(value, cls, part)
    inner: list[tuple[str, Any, Any]] = []
    if dataclasses.is_dataclass(hint) and cls is hint:
        dot = "." if part else ""
        inner = [(f"{dot}{n}", getattr(value, n), kind) for n, kind in _HINTS[hint].items()]
    elif origin is tuple and cls is tuple:
        kinds = [args[0]] * len(value) if args[1:] == (...,) else list(args)
        if len(kinds) == len(value):
            inner = [(f"[{n}]", item, kinds[n]) for n, item in enumerate(value)]
    elif origin is FrozenMap and isinstance(value, Mapping):
        inner = [(f".{key}", item, args[0]) for key, item in value.items() if isinstance(key, str)]
    for step, item, kind in inner:
        if not _CHECKS[kind](item):
            return _deepest(item, kind, part + step)
    return part, _said(hint), cls.__name__


def _said(hint: Any) -> str:
    """A type in words."""
    if get_origin(hint) in _UNIONS:
        names = [_said(arg) for arg in get_args(hint)]
        return " or ".join(names) if len(names) < 6 else "a line"
    if get_origin(hint) in (tuple, FrozenMap):
        plain = "tuple" if get_origin(hint) is tuple else "mapping"
        return f"{plain} of {_said(get_args(hint)[0])}"
    return "None" if hint is type(None) else hint.__name__
