"""Type checks: an argument is a program, and the fields of a program match their annotations."""

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

# Arguments that are not programs, such as a model, a text or a file name.


class NotAProgramError(WrapperIRError):
    """A function that takes a program was called with something else.

    Fields: ``where`` is the function, ``what`` describes the argument.
    """

    code = "WIR0104"
    template = "{where} takes a Program, not {what}"
    default_hint = "wir.capture(model, args), wir.parse(text) and wir.load(path) give programs"


def as_program(given: object, where: str) -> Program:
    """Return the argument of the function ``where`` if it is a program."""
    if not isinstance(given, Program):
        raise NotAProgramError(where=where, what=f"an object of type {type(given).__name__}")
    return given


# Checks of field values against their annotations.
#
# Python does not enforce annotations: a program built by hand may hold a number in place of a name,
# or text in place of a number. All code that reads programs relies on the types, so they are
# checked first. The check of a class is built on first use from the annotations of its fields.

Check = Callable[[Any], bool]

_UNIONS: Final = (typing.Union, types.UnionType)
_EXACT: Final = (int, bool, float, complex)
"""``True`` is an ``int`` in Python but not a size, and a subclass may print as anything."""


_DEPTH: Final = 64
"""The deepest nesting of lists: ``MAX_DEPTH`` of the text form."""


class Misfit(NamedTuple):
    """A value that does not have the type of its field."""

    path: Path
    """The line with the field; empty for the program's own tables."""
    part: str
    """The access path from there to the value, such as ``args[0].value``."""
    expected: str
    found: str


def misfits(program: Program) -> tuple[Misfit, ...]:
    """Return values that do not have their field's type, at most one per line and per table.

    Values of constants are not checked, nor regions nested too deep for Python.
    """
    found = []
    try:
        for misfit in _in_tables(program):
            found.append(misfit)  # noqa: PERF402 - keep those found before a RecursionError
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
    """Return the types of the fields that the constructor takes."""
    hints = typing.get_type_hints(cls, localns={"AnyLine": AnyLine})
    fields = [field for field in dataclasses.fields(cls) if field.init and field.name != "data"]
    found = {field.name: hints[field.name] for field in fields}
    if cls is Region:
        found["body"] = tuple  # its lines are checked one by one
    return found


_HINTS: Final = PerClass(_constructor_hints)


# The fast path: does a value match?


def _make_check(hint: Any) -> Check:
    """Return a check of a value and everything in it against a type."""
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


_CHECKS: Final = PerClass(_make_check)


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
        if not checks:  # built late: classes may be recursive
            checks.extend(map(_CHECKS.__getitem__, _HINTS[cls].values()))
        for name, check in zip(names, checks, strict=True):  # noqa: SIM110 - half as quick
            if not check(getattr(value, name)):
                return False
        return True

    return fits


def _is_list(value: Any) -> bool:
    """Check a list without recursion, since its depth is not known to be bounded yet."""
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


# The slow path, once a check failed: find the value to blame.


def _deepest(value: Any, hint: Any, part: str) -> tuple[str, str, str]:
    """Return the access path, expected type and actual type of the innermost wrong value."""
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
    return part, _type_name(hint), cls.__name__


def _type_name(hint: Any) -> str:
    """Return a readable name for a type."""
    if get_origin(hint) in _UNIONS:
        names = [_type_name(arg) for arg in get_args(hint)]
        return " or ".join(names) if len(names) < 6 else "a line"
    if get_origin(hint) in (tuple, FrozenMap):
        plain = "tuple" if get_origin(hint) is tuple else "mapping"
        return f"{plain} of {_type_name(get_args(hint)[0])}"
    return "None" if hint is type(None) else hint.__name__
