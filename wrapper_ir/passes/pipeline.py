"""The pipeline between a front end and an emitter, and the functions that run it.

Its stages, in order:

1. *Lowering*: passes from logical programs to logical programs. The kinds of the program's devices
   name theirs, then the emitter. In between, results of library ops are checked where nothing fixes
   them.
2. Planning, and the debug printer's probes if there are any.
3. *Legalisation*: passes from planned programs to planned programs, named likewise.

A planned program enters at the second stage. Every other way to an emitter is a part of this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.emitters.base import Emitter, faults_of
from wrapper_ir.lines import Program, Stage
from wrapper_ir.lines.fields import as_program
from wrapper_ir.passes.base import Checked, Pass, check_result
from wrapper_ir.passes.branch import Branch
from wrapper_ir.passes.current import CurrentDevice
from wrapper_ir.passes.cut import PrepareCapture
from wrapper_ir.passes.keep import KeepStorage
from wrapper_ir.passes.plan import CheckResults, PlanMemory
from wrapper_ir.passes.probes import InsertProbes
from wrapper_ir.passes.textual import PassSpellingError, parse_pass, place_of
from wrapper_ir.verify import VerificationError, verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.devices import DeviceKind
    from wrapper_ir.passes.printer import DebugPrinter

__all__ = ["legalisation_for", "lower", "lowering_for", "pipeline_for", "plan_memory", "run_passes"]


_OF_CALLS: Final = (Branch, PrepareCapture, InsertProbes, KeepStorage)
"""Passes about calls. What computes folded constants runs once, when they are loaded."""

_OF_WHOLES: Final = (CurrentDevice,)
"""Passes that look at both programs at once."""


def kinds_of(program: Program) -> tuple[DeviceKind, ...]:
    """Return the kinds of the devices that a program has buffers on, by the names of their types.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    parts = (program,) if program.folding is None else (program, program.folding)
    layouts = (layout for part in parts for layout in part.buffers.values())
    devices = {layout.device.type: layout.device for layout in layouts}
    return tuple(devices[type_].kind for type_ in sorted(devices))


def lowering_for(
    program: Program, emitter: Emitter | None = None, *, probed: bool = False
) -> tuple[Pass, ...]:
    """Return the passes that run before a program is planned; none for a planned one.

    Args:
        program: The program, whose devices' kinds name passes.
        emitter: The emitter, which names more; None for the passes of any target.
        probed: Whether the debug printer's probes are put into the planned program.

    Raises:
        OptionError, OptionValueError, PassSpellingError, PassLoadError: What is named is no pass.
    """
    return (*_of_devices(program), *_of_emitter(program, emitter, probed=probed))


def _of_devices(program: Program) -> tuple[Pass, ...]:
    """Return the lowering that the kinds of a program's devices name."""
    kinds = kinds_of(program) if program.stage is Stage.LOGICAL else ()
    return tuple(each for kind in kinds for each in _parsed(_kind(kind), kind.lowering))


def _of_emitter(program: Program, emitter: Emitter | None, *, probed: bool) -> tuple[Pass, ...]:
    """Return the lowering that an emitter names."""
    if emitter is None or program.stage is not Stage.LOGICAL:
        return ()
    with faults_of(type(emitter), "it named its passes"):
        texts = emitter.lowering(probed=probed)
    return _parsed(_emitters(emitter), texts)


def legalisation_for(program: Program, emitter: Emitter | None = None) -> tuple[Pass, ...]:
    """Return the passes that run after a program is planned. Arguments and errors: as above."""
    named = {_kind(kind): kind.legalisation for kind in kinds_of(program)}
    if emitter is not None:
        with faults_of(type(emitter), "it named its passes"):
            named[_emitters(emitter)] = emitter.legalisation()
    planned = Stage.PLANNED
    return tuple(each for owner, texts in named.items() for each in _parsed(owner, texts, planned))


def _kind(kind: DeviceKind) -> str:
    return f", of the kind of device '{kind.type}',"


def _emitters(emitter: Emitter) -> str:
    return f", of the emitter '{emitter.name}',"


def _parsed(owner: str, texts: object, stage: Stage = Stage.LOGICAL) -> tuple[Pass, ...]:
    """Return the passes that an owner names."""
    if not isinstance(texts, tuple):
        hint = f"the passes{owner} are a tuple of texts: ('package.module:name',)"
        raise PassSpellingError(text=texts, hint=hint)
    made = ((text, parse_pass(text)) for text in texts)
    return tuple(Checked(each, owner, stage) if place_of(text) else each for text, each in made)


def pipeline_for(
    program: Program,
    emitter: Emitter | None = None,
    printer: DebugPrinter | None = None,
    *,
    strategy: str | None = None,
) -> tuple[Pass, ...]:
    """Return the passes that prepare a program for an emitter, in order.

    Args:
        program: The program.
        emitter: The emitter; None for what any target has in common.
        printer: The debug printer, or None to insert no probes.
        strategy: One of ``planning.STRATEGIES``; None for the default.

    Raises:
        OptionError, OptionValueError, PassSpellingError, PassLoadError: A kind of device or the
            emitter names something that is no pass.
    """
    plan = PlanMemory(strategy or "", "call" if emitter is None else emitter.arena)
    probes = () if printer is None else (InsertProbes(printer),)
    return (
        *_of_devices(program),
        CheckResults(),  # of what devices make of the program, as any target calls it
        *_of_emitter(program, emitter, probed=printer is not None),
        *(plan, *probes),
        *legalisation_for(program, emitter),
    )


def lower(program: Program, emitter: Emitter | None = None) -> Program:
    """Return a program after its lowering: what :func:`plan_memory` plans.

    Raises:
        WrapperIRError: A pass cannot be loaded, fails, or returns an invalid program.
    """
    return run_passes(program, lowering_for(program, emitter))


def plan_memory(program: Program, strategy: str | None = None, *, arena: str = "call") -> Program:
    """Lower a program for its devices, and plan its memory; a planned program is returned as it is.

    The function of the same name in ``wrapper_ir.planning`` only plans.

    Args:
        program: The program.
        strategy: One of ``planning.STRATEGIES``; None for the default.
        arena: How long arenas last: for a ``"call"``, or ``"kept"`` for the next one.

    Raises:
        WrapperIRError: The memory cannot be planned that way, or a pass that the kind of a device
            names cannot be loaded, fails, or returns an invalid program.
    """
    from wrapper_ir.planning import plan_memory as plan  # noqa: PLC0415 - the planner is large

    return plan(lower(as_program(program, "wir.plan_memory")), strategy, arena=arena)


def run_passes(
    program: Program, passes: Iterable[Pass | str], *, verify_each: bool = False
) -> Program:
    """Run passes over a program, in order, and return the result.

    Args:
        program: The program.
        passes: Passes, or their textual form.
        verify_each: Verify the program before the first pass and after each, and check its memory
            plan with an algorithm other than the planner's. What a kind of device or an emitter
            names from outside the library is always verified.

    Raises:
        VerificationError: The program breaks a rule before the first pass.
        PlanError: With ``verify_each``, slices of a pool share bytes before the first pass.
        PassOutputError: A pass returned something that cannot be used; the error names it.
        PassFaultError: A pass of a package failed.
        OptionError: There is no pass, or no option, of that name.
        OptionValueError: The value of an option is not legal.
        PassSpellingError: A text is not the textual form of a pass.
        PassLoadError: A text names a place where there is no pass.
    """
    parsed = [parse_pass(each) if isinstance(each, str) else each for each in passes]
    if verify_each:
        return _run_checked(program, parsed)
    result = program
    try:
        for run in parsed:
            result = _run(run, result)
    except VerificationError:
        _run_checked(program, parsed)  # names the pass at fault, or the program
        raise
    return result


def _run(run: Pass, program: Program) -> Program:
    """Run a pass over a program, then over the one that computes its folded constants.

    The second is no part of a call, so passes that are about calls leave it alone.
    """
    result = run(program)
    if program.folding is None or isinstance(run, (*_OF_CALLS, *_OF_WHOLES)):
        return result
    before = result.folding
    folding = None if before is None else run(before)
    return result if folding is before else result.replace(folding=folding)


def _run_checked(program: Program, passes: Iterable[Pass]) -> Program:
    _check(program)
    for run in passes:
        before, program = program, _run(run, program)
        if program is not before:
            check_result(run, before, program)
    return program


def _check(program: Program) -> None:
    from wrapper_ir.planning import check_plan  # noqa: PLC0415 - the planner is large

    verify(program)
    check_plan(program)
