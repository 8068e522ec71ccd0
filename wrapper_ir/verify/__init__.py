"""The verifier: checks all rules of the IR and reports all faults at once.

:func:`diagnose` returns the faults of a program, :func:`verify` raises one error that holds them.
Both walk the program once, in linear time. :data:`RULES` lists what is checked: names and tables,
layouts, lifetimes, reuse and views, symbols, kernels and calls, regions, pools, streams. The table
in ``docs/verifier.md`` is generated from it.

Warnings are reported on request only, since a program may do such things on purpose: a model may
read the contents of ``torch.empty``. They do not make a program invalid.

Not checked are the effects of kernels on their arguments, whether all of a storage was written, and
relations among symbols that depend on values at run time. Sizes are compared by what their ranges
prove. Hints prove nothing, but they are among the values that are tried where one counterexample is
enough.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.program import Beside
from wrapper_ir.lines.traits import allocates
from wrapper_ir.verify.diagnostics import Diagnostic, VerificationError
from wrapper_ir.verify.rules import RULES, Rule
from wrapper_ir.verify.verifier import check_program

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Program

__all__ = ["RULES", "Diagnostic", "Rule", "VerificationError", "diagnose", "verify"]


#: Valid programs, with the allocations whose storage they may not keep. Programs are immutable, so
#: there is no need to verify one again in planning and emitting if the caller already has.
_GOOD: Final[Beside[frozenset[str]]] = Beside()


def diagnose(program: Program, *, warnings: bool = False) -> tuple[Diagnostic, ...]:
    """Return all faults of a program in the order of its text.

    Args:
        program: Any program.
        warnings: True to include warnings.
    """
    verdict = check_program(as_program(program, "wir.diagnose"))
    return verdict.found if warnings else verdict.faults


def verify(program: Program) -> Program:
    """Return ``program`` itself if it is valid.

    Raises:
        VerificationError: It violates rules. The error holds a diagnostic for each fault.
    """
    as_program(program, "wir.verify")
    if _GOOD.get(program) is not None:
        return program
    verdict = check_program(program)
    if verdict.faults:
        raise VerificationError(program, verdict.faults)
    _GOOD.put(program, verdict.not_to_keep)
    return program


def verify_marks(before: Program, after: Program) -> None:
    """Carry the verdict on a valid program over to one that marks more of its storage as kept.

    If the first was not verified, or anything else is different, :func:`verify` checks it all.
    """
    not_to_keep = _GOOD.get(before)
    if not_to_keep is None or len(before.body) != len(after.body):
        return
    fields = (field.name for field in dataclasses.fields(before) if field.name != "body")
    if all(getattr(before, name) is getattr(after, name) for name in fields) and all(
        new is old or _is_marked(new, old, not_to_keep)
        for old, new in zip(before.body, after.body, strict=True)
    ):
        _GOOD.put(after, not_to_keep)


def _is_marked(new: AnyLine, old: AnyLine, not_to_keep: frozenset[str]) -> bool:
    """Return whether a line is another one with a mark that it may have."""
    return (
        allocates(old) and old.out not in not_to_keep and new == dataclasses.replace(old, kept=True)
    )
