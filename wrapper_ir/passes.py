"""Passes: pure functions from programs to programs, with a name and options, and ways to run them.

A pass is a frozen dataclass; its fields are its options. It gives back the program it was given, as
the same object, where it has nothing to do, and never changes it. Here are the passes that there
are, their spelling as text, and the usual pipeline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from wrapper_ir.debug_printer.insert import with_debugging
from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.errors import OptionError, WrapperIRError
from wrapper_ir.lines import Stage, rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.options import declared as take
from wrapper_ir.options import made_with, options_of, read_options
from wrapper_ir.options.gpu import GRAPH_BRANCHES, GRAPH_CUTS, GRAPHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import AnyLine, Program


__all__ = [
    "PASSES",
    "Branch",
    "InsertFrees",
    "InsertProbes",
    "KeepStorage",
    "Pass",
    "PassSpellingError",
    "PlanExterns",
    "PlanMemory",
    "PrepareCapture",
    "ReuseInPlace",
    "StripComments",
    "parse_pass",
    "parse_pipeline",
    "pipeline_for",
    "run_passes",
]

# The passes that there are. What one does stands where the work is done, and is imported then.

# ruff: noqa: PLC0415 - the planner is large, and programs that are planned already need none of it


@runtime_checkable
class Pass(Protocol):
    """A pass: a name, and a call that returns a new program."""

    @property
    def name(self) -> str:
        """The name under which the pass is found, such as ``plan-memory``."""

    def __call__(self, program: Program) -> Program:
        """Return the changed program; the same object where there is nothing to do."""


@dataclass(frozen=True, slots=True)
class InsertFrees:
    """``insert-frees`` derives the frees that are missing; the program's stage is left alone."""

    name: ClassVar[str] = "insert-frees"

    free_inputs: bool | None = None
    """Whether inputs are dropped after their last use; by default in training graphs."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its frees."""
        from wrapper_ir.planning import insert_frees

        return insert_frees(program, free_inputs=self.free_inputs)


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """``plan-memory`` makes a logical program a planned one."""

    name: ClassVar[str] = "plan-memory"

    strategy: str = ""
    """How storage is planned, one of ``planning.STRATEGIES``; empty for the usual one."""
    arena: str = take.ARENA.field()
    """How long arenas last."""

    def __call__(self, program: Program) -> Program:
        """Return the planned program."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.planning import plan_memory

        return plan_memory(program, self.strategy or None, arena=self.arena)


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` puts work that can run side by side on branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = GRAPH_BRANCHES.field()
    """How many branches there may be besides the caller's stream."""

    def __call__(self, program: Program) -> Program:
        """Return the program with streams and events, where that is faster."""
        from wrapper_ir.planning import branch

        return branch(program, self.limit)


@dataclass(frozen=True, slots=True)
class PrepareCapture:
    """``prepare-capture`` makes a program ready for calls that are captured as CUDA graphs.

    It gets branches, or is cut where something in it cannot be captured.
    """

    name: ClassVar[str] = "prepare-capture"

    branches: int = GRAPH_BRANCHES.field()
    """How many branches there may be besides the caller's stream."""
    cuts: bool = GRAPH_CUTS.field()
    """Whether a program that cannot be captured as a whole is cut."""

    @classmethod
    def wanted_by(cls, emitter: object) -> PrepareCapture | None:
        """Return the pass that an emitter's options ask for; None if nothing is captured."""
        if not getattr(emitter, GRAPHS.name, False):
            return None
        branches = getattr(emitter, GRAPH_BRANCHES.name, 0)
        return cls(branches, getattr(emitter, GRAPH_CUTS.name, False))

    def __call__(self, program: Program) -> Program:
        """Return the program made ready; a planned one as it is."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.emitters.cuda_captures import why_not_captured
        from wrapper_ir.emitters.cuda_cuts import cut

        if why_not_captured(program):
            return cut(program) if self.cuts else program
        return Branch(self.branches)(program)


@dataclass(frozen=True, slots=True)
class InsertProbes:
    """``insert-probes`` puts the probes of a debug printer around calls, and fills new memory.

    Written as text it takes the options of the debug printer: ``insert-probes{level=check}``.
    """

    name: ClassVar[str] = "insert-probes"

    printer: DebugPrinter = field(default_factory=DebugPrinter)
    """What is shown, where; its ``poison`` fills new memory."""

    def __call__(self, program: Program) -> Program:
        """Return the program with probes; best planned, since planning adds lines of its own."""
        return with_debugging(program, self.printer)


@dataclass(frozen=True, slots=True)
class KeepStorage:
    """``keep-storage`` marks the memory of a planned program that targets keep between calls.

    Emitters do so by their options where nothing is marked; what is marked they keep as it says.
    """

    name: ClassVar[str] = "keep-storage"

    host: int = 0
    """Bytes of buffers of fixed size to keep on the CPU, at most."""
    device: int = 0
    """Likewise, on other devices."""
    arena: str = take.ARENA.field()
    """How long arenas last: whether pools are kept beyond that."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its marks."""
        from wrapper_ir.planning import keep_storage

        return keep_storage(program, self.host, self.device, arena=self.arena)


@dataclass(frozen=True, slots=True)
class PlanExterns:
    """``plan-externs`` lets library ops write into allocations of the program, where they can."""

    name: ClassVar[str] = "plan-externs"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer ops that allocate."""
        from wrapper_ir.planning import plan_externs

        return plan_externs(program)


@dataclass(frozen=True, slots=True)
class ReuseInPlace:
    """``reuse-in-place`` puts outputs of element-wise ops where arguments die; frees must be in."""

    name: ClassVar[str] = "reuse-in-place"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer allocations."""
        from wrapper_ir.planning import reuse_in_place

        return reuse_in_place(program)


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, in regions too."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """Return the program without comments."""
        body = rewrite_lines(program.body, _without_comment)
        return program if body == program.body else program.replace(body=body)


def _without_comment(line: AnyLine) -> tuple[AnyLine, ...]:
    return () if Trait.REMARK in line.traits else (line,)


# Running passes, spelling them as text, and the pipeline between a front end and an emitter.
#
# As text: ``insert-frees,plan-memory{strategy=none},insert-probes{level=check}``.

#: Every pass by its name.
PASSES: Final[dict[str, type[Any]]] = {
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
    from wrapper_ir.planning import check_plan
    from wrapper_ir.verify import verify

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
    # Probes are described by the debug printer: its options are the pass's.
    is_probes = PASSES[name] is InsertProbes
    holder, owner = DebugPrinter if is_probes else PASSES[name], f"pass {name!r}"
    made: Any = made_with(holder, read_options(options_of(holder), pairs, owner=owner), owner=owner)
    return InsertProbes(made) if is_probes else made
