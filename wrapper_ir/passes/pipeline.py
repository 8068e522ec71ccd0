"""Running passes, spelling them as text, and the pipeline between a front end and an emitter.

As text: ``insert-frees,plan-memory{strategy=none},insert-probes{level=check}``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.errors import OptionError, WrapperIRError
from wrapper_ir.options import made_with, options_of, read_options
from wrapper_ir.passes.standard import (
    Branch,
    InsertFrees,
    InsertProbes,
    KeepStorage,
    PlanExterns,
    PlanMemory,
    PrepareCapture,
    ReuseInPlace,
    StripComments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program
    from wrapper_ir.passes.standard import Pass

AnyPass: TypeAlias = (
    type[Branch]
    | type[InsertFrees]
    | type[InsertProbes]
    | type[KeepStorage]
    | type[PlanExterns]
    | type[PlanMemory]
    | type[PrepareCapture]
    | type[ReuseInPlace]
    | type[StripComments]
)

#: Every pass by its name.
PASSES: Final[dict[str, AnyPass]] = {
    pass_.name: pass_
    for pass_ in (
        *(Branch, InsertFrees, InsertProbes, PlanExterns, ReuseInPlace, PlanMemory, KeepStorage),
        *(PrepareCapture, StripComments),
    )
}

_SPELLING: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\{([^{}]*)\})?\s*")


class PassSpellingError(WrapperIRError):
    """A text does not spell a pass. Fields: ``text`` is what was given."""

    code = "WIR1401"
    template = "{text!r} does not spell a pass"
    default_hint = "write a name with its options, such as plan-memory{{strategy=none}}"


def pipeline_for(
    emitter: object, printer: DebugPrinter | None = None, *, strategy: str | None = None
) -> tuple[Pass, ...]:
    """Return what a program goes through before an emitter renders it.

    It is made ready for capture if the emitter has its calls captured, then planned, then probed.
    Probes are seen in calls that are not captured, and only there: with a printer nothing is made
    ready for capture.

    Args:
        emitter: The emitter, whose options count.
        printer: What to show; None for nothing.
        strategy: How storage is planned, one of ``planning.STRATEGIES``; None for the usual one.
    """
    plan = PlanMemory(strategy or "", getattr(emitter, "arena", "call"))
    if printer is not None:
        return plan, InsertProbes(printer)
    preparing = PrepareCapture.wanted_by(emitter)
    return (plan,) if preparing is None else (preparing, plan)


def run_passes(
    program: Program, passes: Iterable[Pass | str], *, verify_each: bool = False
) -> Program:
    """Return the program after all passes, in order.

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
        _check(program)
    for one in chosen:
        program = one(program)
        if verify_each:
            _check(program)
    return program


def _check(program: Program) -> None:
    from wrapper_ir.planning import check_plan  # noqa: PLC0415 - only where it is asked for
    from wrapper_ir.verify import verify  # noqa: PLC0415

    verify(program)
    check_plan(program)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Return the passes that a text spells, separated by commas.

    Raises:
        OptionError, OptionValueError, PassSpellingError: as in :func:`parse_pass`.
    """
    # A comma inside braces separates options.
    parts = re.findall(r"(?:[^,{]|\{[^}]*\}?)+", text)
    return tuple(parse_pass(part) for part in parts if part.strip())


def parse_pass(text: str) -> Pass:
    """Return the pass that ``name`` or ``name{option=value,...}`` spells.

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
    pairs = []
    for option in filter(str.strip, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            raise PassSpellingError(text=text)
        pairs.append((key, value))
    return _make(PASSES[name], pairs)


def _make(cls: AnyPass, pairs: Iterable[tuple[str, str]]) -> Pass:
    owner = f"pass {cls.name!r}"
    # Probes are described by the debug printer: its options are the pass's.
    holder = DebugPrinter if cls is InsertProbes else cls
    values = read_options(options_of(holder), pairs, owner=owner)
    made: Any = made_with(holder, values, owner=owner)
    return InsertProbes(made) if cls is InsertProbes else made
