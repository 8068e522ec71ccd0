"""Running passes, and spelling them as text: ``insert-frees,plan-memory{strategy=none}``."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final, TypeAlias

from wrapper_ir.errors import OptionError, OptionValueError, WrapperIRError
from wrapper_ir.passes.standard import (
    Branch,
    InsertFrees,
    KeepStorage,
    PlanExterns,
    PlanMemory,
    ReuseInPlace,
    StripComments,
)
from wrapper_ir.planning import check_plan
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program
    from wrapper_ir.passes.standard import Pass

AnyPass: TypeAlias = (
    type[Branch]
    | type[InsertFrees]
    | type[KeepStorage]
    | type[PlanExterns]
    | type[PlanMemory]
    | type[ReuseInPlace]
    | type[StripComments]
)

#: Every pass by its name.
PASSES: Final[dict[str, AnyPass]] = {
    pass_.name: pass_
    for pass_ in (
        Branch,
        InsertFrees,
        PlanExterns,
        ReuseInPlace,
        PlanMemory,
        KeepStorage,
        StripComments,
    )
}

_SPELLING: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\{([^{}]*)\})?\s*")
_BOOLS: Final = {"true": True, "false": False}


class PassSpellingError(WrapperIRError):
    """A text does not spell a pass. Fields: ``text`` is what was given."""

    code = "WIR1401"
    template = "{text!r} does not spell a pass"
    default_hint = "write a name with its options, such as plan-memory{{strategy=none}}"


def run_passes(
    program: Program, passes: Iterable[Pass | str], *, verify_each: bool = False
) -> Program:
    """The program after all passes, in order.

    Args:
        program: What to begin with.
        passes: Passes, or their spellings.
        verify_each: Whether the program is verified before the first pass and after each, and its
            plan of memory examined by another algorithm than the planner's.

    Raises:
        VerificationError: ``verify_each`` is on and the program, or what a pass made of it, breaks
            rules.
        PlanError: likewise, and slices of a pool share bytes.
        OptionError: there is no pass, or no option, of that name.
        OptionValueError: an option cannot have that value.
        PassSpellingError: a text does not spell a pass.
    """
    chosen = [parse_pass(one) if isinstance(one, str) else one for one in passes]
    if verify_each:
        verify(program)
    for one in chosen:
        program = one(program)
        if verify_each:
            verify(program)
            check_plan(program)
    return program


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes that a text spells, separated by commas.

    Raises:
        OptionError, OptionValueError, PassSpellingError: as in :func:`parse_pass`.
    """
    # A comma inside braces separates options.
    parts = re.findall(r"(?:[^,{]|\{[^}]*\}?)+", text)
    return tuple(parse_pass(part) for part in parts if part.strip())


def parse_pass(text: str) -> Pass:
    """The pass that ``name`` or ``name{option=value,...}`` spells.

    Raises:
        PassSpellingError: the text does not have that form.
        OptionError: there is no such pass, or it has no such option.
        OptionValueError: an option cannot have that value.
    """
    found = _SPELLING.fullmatch(text)
    if found is None:
        raise PassSpellingError(text=text)
    name, options = found[1], found[2] or ""
    if name not in PASSES:
        raise OptionError(option=name, legal=PASSES, owner="the list of passes")
    values: dict[str, bool | int | str] = {}
    types = {field.name: str(field.type) for field in dataclasses.fields(PASSES[name])}
    for option in filter(str.strip, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            raise PassSpellingError(text=text)
        if key not in types:
            raise OptionError(option=key, legal=types, owner=f"pass {name!r}")
        values[key] = _value(key, value, types[key])
    return PASSES[name](**values)  # type: ignore[arg-type]  # the types were checked above


def _value(option: str, text: str, type_: str) -> bool | int | str:
    if type_ == "int":
        if not text.isdecimal():
            raise OptionValueError(option=option, value=text, expected="a whole number")
        return int(text)
    if not type_.startswith("bool"):
        return text
    if text not in _BOOLS:
        raise OptionValueError(option=option, value=text, expected="true or false")
    return _BOOLS[text]
