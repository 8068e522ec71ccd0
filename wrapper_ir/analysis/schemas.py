"""Declared schemas against registered ones: what an op that is installed would do otherwise.

A program means what the schemas that it declares say. A library may since have changed the op:
another default, one argument more. Whatever loads a program compares the two, and refuses a
difference that changes what its calls mean.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.ops import is_torchs, schema_of
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.schema import OpSchema, SchemaDifferenceError, parse_schema
from wrapper_ir.lines.traits import calls_op
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from wrapper_ir.lines.program import Program
    from wrapper_ir.lines.schema import SchemaArg, SchemaType

_LENGTH: Final = re.compile(r"\[(\d+)\]")


def refuse_differences(
    program: Program, registered: Callable[[str], tuple[str, bool] | None]
) -> None:
    """Refuse a program that calls an op declared unlike the registered one.

    Ops that are not registered, and methods of custom classes, are not compared. No schema says
    that an op changes the shape or the storage of its argument. The table knows torch's own such
    ops, and the verifier refuses them; of others only the registered op knows.

    Args:
        program: The program.
        registered: Returns the registered schema of an op and whether the op changes the shape or
            the storage of its argument, or None.

    Raises:
        SchemaDifferenceError: A call would mean something else than the program says.
    """
    for op, omitted in _omitted_arguments(program).items():
        source = program.kernels[op].source
        found = registered(op)
        assert isinstance(source, TorchOp)
        if found is None or source.is_method:
            continue
        schema, changes = found
        if changes and not is_torchs(op):
            why = "it changes the shape or the storage of its argument, which no program can say"
        elif schema == source.schema:
            continue
        else:
            why = difference(parse_schema(source.schema), parse_schema(schema), omitted)
        if why:
            raise SchemaDifferenceError(program=program.name, op=op, difference=why)


def _omitted_arguments(program: Program) -> dict[str, set[str]]:
    """Return the arguments that some call of an op leaves to their defaults, by op."""
    omitted: dict[str, set[str]] = {}
    for _, line in walk(program):
        if calls_op(line):
            schema = schema_of(program, line.op)
            given = schema.given(line.args, line.kwargs)
            left = {declared.name for declared in schema.args} - given.keys()
            omitted.setdefault(line.op, set()).update(left)
    return omitted


def difference(declared: OpSchema, registered: OpSchema, omitted: Collection[str] = ()) -> str:
    """Describe how calls of a declared op would mean something else; "" if they would not.

    The registered op may take more arguments behind the declared ones if they have defaults, as
    torch's ops do in later versions. A default counts only where a call leaves the argument out.
    """
    found = (*_in_arguments(declared, registered, omitted), *_in_results(declared, registered))
    return "; ".join(found)


def _in_arguments(
    declared: OpSchema, registered: OpSchema, omitted: Collection[str]
) -> Iterable[str]:
    for position, mine in enumerate(declared.args):
        if position >= len(registered.args):
            yield f"the registered op takes no argument '{mine.name}'"
            return
        theirs = registered.args[position]
        if (mine.name, mine.keyword_only) != (theirs.name, theirs.keyword_only):
            yield f"argument {position} is {_called(mine)}, registered {_called(theirs)}"
            return
        if not _takes(theirs.type, mine.type):
            yield f"'{mine.name}' is of type {_typed(mine)}, registered {_typed(theirs)}"
        elif mine.name in omitted and _default(mine) != _default(theirs):
            registered_as = "none" if theirs.default is None else theirs.default
            yield f"the default of '{mine.name}' is {mine.default}, registered {registered_as}"
        if mine.type.writes != theirs.type.writes:
            yield f"'{mine.name}' is {_written(mine)}, registered {_written(theirs)}"
    for theirs in registered.args[len(declared.args) :]:
        if theirs.default is None:
            yield f"the registered op needs an argument '{theirs.name}'"


def _called(arg: SchemaArg) -> str:
    return f"'{arg.name}'{' by name' if arg.keyword_only else ''}"


def _typed(arg: SchemaArg) -> str:
    return f"{arg.type.base}{arg.type.suffix}"


def _written(arg: SchemaArg) -> str:
    return "written" if arg.type.writes else "only read"


def _in_results(declared: OpSchema, registered: OpSchema) -> Iterable[str]:
    mine, theirs = declared.returns, registered.returns
    if (len(mine), declared.returns_tuple) != (len(theirs), registered.returns_tuple):
        yield f"its results are {_results(declared)}, registered {_results(registered)}"
        return
    for position, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        if _form(one) != _form(other):
            given = f"{one.base}{one.suffix}, registered {other.base}{other.suffix}"
            yield f"result {position} is of type {given}"
        elif bool(one.alias_sets) != bool(other.alias_sets):
            words = [
                "shares an argument's memory" if each.alias_sets else "has memory of its own"
                for each in (one, other)
            ]
            yield f"result {position} {words[0]}, registered: it {words[1]}"


def _results(schema: OpSchema) -> str:
    types = ", ".join(each.base + each.suffix for each in schema.returns)
    return f"({types})" if schema.returns_tuple else types


def _form(type_: SchemaType) -> tuple[str, str]:
    """Return a type without what does not matter to a call: symbolic numbers, fixed lengths."""
    return type_.base.removeprefix("Sym").lower(), _LENGTH.sub("[]", type_.suffix)


def _takes(wide: SchemaType, narrow: SchemaType) -> bool:
    """Return whether a parameter of one type takes every argument of another."""
    (base, suffix), (given, given_suffix) = _form(wide), _form(narrow)
    # Torch 2.15 takes anything where it took names of reductions.
    return base == "any" or (base == given and suffix in (given_suffix, f"{given_suffix}?"))


def _default(arg: SchemaArg) -> object:
    """Return a default as a value to compare: numbers by their value and kind."""
    text = arg.default
    if text is None:
        return None
    text = text.replace(" ", "").replace('"', "'")
    length = _LENGTH.search(arg.type.suffix)
    if length is not None and text.startswith("["):
        items = text[1:-1].split(",")
        if len(items) == int(length[1]) and len(set(items)) == 1:
            text = items[0]  # one number fills a list of fixed length
    if arg.type.base in ("float", "SymFloat"):
        try:
            return repr(float(text))
        except ValueError:
            return text
    return text
