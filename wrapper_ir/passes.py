"""Passes, their textual form, and the standard pipeline.

A pass is a pure function from programs to programs: a frozen dataclass whose fields are its
options. It never changes its argument, and returns the same object if there is nothing to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from wrapper_ir.debug_printer.insert import with_debugging
from wrapper_ir.debug_printer.spec import DebugPrinter
from wrapper_ir.errors import OptionError, WrapperIRError
from wrapper_ir.lines import Stage, rewrite_lines
from wrapper_ir.lines.base import Trait
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import GRAPH_BRANCHES, GRAPH_CUTS, GRAPHS
from wrapper_ir.options.schema import made_with, options_of, read_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.interpreter.fake import FakeCalls
    from wrapper_ir.lines import Program


__all__ = [
    "PASSES",
    "Branch",
    "CheckResults",
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

# Each pass imports its implementation when it runs.

# ruff: noqa: PLC0415 - the planner is large, and a planned program does not need it


@runtime_checkable
class Pass(Protocol):
    """A pass: a name, and a call that returns a new program."""

    @property
    def name(self) -> str:
        """The name of the pass, such as ``plan-memory``."""

    def __call__(self, program: Program) -> Program:
        """Return the changed program, or the same object if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class InsertFrees:
    """``insert-frees`` adds the missing frees, without changing the program's stage."""

    name: ClassVar[str] = "insert-frees"

    free_inputs: bool | None = None
    """Drop inputs after their last use; the default is to do so in training graphs."""

    def __call__(self, program: Program) -> Program:
        """Return the program with its frees."""
        from wrapper_ir.planning import insert_frees

        return insert_frees(program, free_inputs=self.free_inputs)


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """``plan-memory`` turns a logical program into a planned one."""

    name: ClassVar[str] = "plan-memory"

    strategy: str = ""
    """One of ``planning.STRATEGIES``; empty for the default."""
    arena: str = take.ARENA.field()
    """The lifetime of arenas: ``"call"`` or ``"kept"``."""

    def __call__(self, program: Program) -> Program:
        """Return the planned program."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.planning import plan_memory

        return plan_memory(program, self.strategy or None, arena=self.arena)


@dataclass(frozen=True, slots=True)
class CheckResults:
    """``check-results`` checks what library ops return where torch's meta functions do not fix it.

    A meta function runs on the declared layouts of the arguments. It is not believed if the op is
    not one of torch's: it may be written apart from the op, and contradict it.
    """

    name: ClassVar[str] = "check-results"

    def __call__(self, program: Program) -> Program:
        """Return the program with a check of each such result that is not checked yet."""
        from wrapper_ir.analysis.ops import is_torchs
        from wrapper_ir.planning import check_results

        @cache
        def calls() -> FakeCalls:
            from wrapper_ir.interpreter.fake import FakeCalls  # imports torch

            return FakeCalls(program)

        return check_results(program, lambda line: is_torchs(line.op) and calls().fixes(line))


@dataclass(frozen=True, slots=True)
class Branch:
    """``branch`` moves independent work to branches, for calls that are captured."""

    name: ClassVar[str] = "branch"

    limit: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""

    def __call__(self, program: Program) -> Program:
        """Return the program with streams and events added, if that is faster."""
        from wrapper_ir.planning import branch

        return branch(program, self.limit)


@dataclass(frozen=True, slots=True)
class PrepareCapture:
    """``prepare-capture`` prepares a program for calls that are captured as CUDA graphs.

    It adds branches, or cuts the program if it cannot be captured as a whole.
    """

    name: ClassVar[str] = "prepare-capture"

    branches: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""
    cuts: bool = GRAPH_CUTS.field()
    """Cut a program that cannot be captured as a whole."""

    @classmethod
    def wanted_by(cls, emitter: object) -> PrepareCapture | None:
        """Return the pass that an emitter's options call for, or None if nothing is captured."""
        if not getattr(emitter, GRAPHS.name, False):
            return None
        branches = getattr(emitter, GRAPH_BRANCHES.name, 0)
        return cls(branches, getattr(emitter, GRAPH_CUTS.name, False))

    def __call__(self, program: Program) -> Program:
        """Return the prepared program; a planned program is returned unchanged."""
        if program.stage is Stage.PLANNED:
            return program
        from wrapper_ir.emitters.cuda_captures import why_not_captured
        from wrapper_ir.emitters.cuda_cuts import cut

        if why_not_captured(program):
            return cut(program) if self.cuts else program
        return Branch(self.branches)(program)


@dataclass(frozen=True, slots=True)
class InsertProbes:
    """``insert-probes`` puts a debug printer's probes around calls, and poisons new memory.

    In textual form it takes the debug printer's options: ``insert-probes{level=check}``.
    """

    name: ClassVar[str] = "insert-probes"

    printer: DebugPrinter = field(default_factory=DebugPrinter)
    """The values to show and where; its ``poison`` fills new memory with NaN."""

    def __call__(self, program: Program) -> Program:
        """Return the program with probes. Run it after planning, which adds lines of its own."""
        return with_debugging(program, self.printer)


@dataclass(frozen=True, slots=True)
class KeepStorage:
    """``keep-storage`` marks the memory of a planned program that is kept between calls.

    Emitters honour the marks. If there are none, they choose by their own options.
    """

    name: ClassVar[str] = "keep-storage"

    host: int = 0
    """The maximum number of bytes, in buffers of fixed size, to keep on the CPU."""
    device: int = 0
    """The same for other devices."""
    arena: str = take.ARENA.field()
    """The lifetime of arenas: with ``"kept"``, pools are kept as well."""

    def __call__(self, program: Program) -> Program:
        """Return the marked program."""
        from wrapper_ir.planning import keep_storage

        return keep_storage(program, self.host, self.device, arena=self.arena)


@dataclass(frozen=True, slots=True)
class PlanExterns:
    """``plan-externs`` makes library ops write into the program's own allocations if they can."""

    name: ClassVar[str] = "plan-externs"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer ops that allocate their results."""
        from wrapper_ir.planning import plan_externs

        return plan_externs(program)


@dataclass(frozen=True, slots=True)
class ReuseInPlace:
    """``reuse-in-place`` lets element-wise ops overwrite a dying argument; it needs the frees."""

    name: ClassVar[str] = "reuse-in-place"

    def __call__(self, program: Program) -> Program:
        """Return the program with fewer allocations."""
        from wrapper_ir.planning import reuse_in_place

        return reuse_in_place(program)


@dataclass(frozen=True, slots=True)
class StripComments:
    """``strip-comments`` removes comments, including those in regions."""

    name: ClassVar[str] = "strip-comments"

    def __call__(self, program: Program) -> Program:
        """Return the program without comments."""
        body = rewrite_lines(
            program.body, lambda line: () if Trait.REMARK in line.traits else (line,)
        )
        return program if body == program.body else program.replace(body=body)


# Running passes, parsing their textual form, and the pipeline between a front end and an emitter.
#
# Textual form: ``insert-frees,plan-memory{strategy=none},insert-probes{level=check}``.

#: Every pass by name.
PASSES: Final[dict[str, type[Any]]] = {
    pass_.name: pass_
    for pass_ in (
        *(
            Branch,
            CheckResults,
            InsertFrees,
            InsertProbes,
            PlanExterns,
            ReuseInPlace,
            PlanMemory,
            KeepStorage,
        ),
        *(PrepareCapture, StripComments),
    )
}

_SPELLING: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\{([^{}]*)\})?\s*")


class PassSpellingError(WrapperIRError):
    """A text is not the textual form of a pass. Fields: ``text`` is that text."""

    code = "WIR1401"
    template = "{text!r} is not a pass"
    default_hint = "write a name with its options, such as plan-memory{{strategy=none}}"


def pipeline_for(
    emitter: object, printer: DebugPrinter | None = None, *, strategy: str | None = None
) -> tuple[Pass, ...]:
    """Return the passes that prepare a program for an emitter.

    Results of ops are checked where nothing fixes them. A program is prepared for capture if the
    emitter captures calls, then planned, then probed.
    Probes only work in calls that are not captured, so with a printer the program is not prepared
    for capture.

    Args:
        emitter: The emitter; its options select the passes.
        printer: The debug printer, or None to insert no probes.
        strategy: One of ``planning.STRATEGIES``; None for the default.
    """
    plan = PlanMemory(strategy or "", getattr(emitter, "arena", "call"))
    if printer is not None:
        return CheckResults(), plan, InsertProbes(printer)
    preparing = PrepareCapture.wanted_by(emitter)
    return (CheckResults(), *(() if preparing is None else (preparing,)), plan)


def run_passes(
    program: Program, passes: Iterable[Pass | str], *, verify_each: bool = False
) -> Program:
    """Run passes over a program, in order, and return the result.

    Args:
        program: The program.
        passes: Passes, or their textual form.
        verify_each: Verify the program before the first pass and after each, and check its memory
            plan with an algorithm other than the planner's.

    Raises:
        VerificationError: With ``verify_each``, the program breaks a rule before or after a pass.
        PlanError: With ``verify_each``, slices of a pool share bytes.
        OptionError: There is no pass, or no option, of that name.
        OptionValueError: The value of an option is not legal.
        PassSpellingError: A text is not the textual form of a pass.
    """
    parsed = [parse_pass(each) if isinstance(each, str) else each for each in passes]
    if verify_each:
        _check(program)
    for run in parsed:
        program = run(program)
        if verify_each:
            _check(program)
    return program


def _check(program: Program) -> None:
    from wrapper_ir.planning import check_plan
    from wrapper_ir.verify import verify

    verify(program)
    check_plan(program)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Parse passes separated by commas.

    Raises:
        OptionError, OptionValueError, PassSpellingError: As in :func:`parse_pass`.
    """
    # A comma inside braces separates options.
    parts = re.findall(r"(?:[^,{]|\{[^}]*\}?)+", text)
    return tuple(parse_pass(part) for part in parts if part.strip())


def parse_pass(text: str) -> Pass:
    """Parse a pass written as ``name`` or ``name{option=value,...}``.

    Raises:
        PassSpellingError: The text does not have that form.
        OptionError: There is no such pass, or it has no such option.
        OptionValueError: The value of an option is not legal.
    """
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise PassSpellingError(text=text)
    name, options = match[1], match[2] or ""
    if name not in PASSES:
        raise OptionError(option=name, legal=PASSES, owner="the list of passes")
    pairs = []
    for option in filter(str.strip, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            raise PassSpellingError(text=text)
        pairs.append((key, value))
    # insert-probes takes the options of the debug printer.
    is_probes = PASSES[name] is InsertProbes
    cls, owner = DebugPrinter if is_probes else PASSES[name], f"pass {name!r}"
    result: Any = made_with(cls, read_options(options_of(cls), pairs, owner=owner), owner=owner)
    return InsertProbes(result) if is_probes else result
