"""The verifier: every rule of the IR, all faults at once.

:func:`diagnose` returns the faults of a program, :func:`verify` raises one error that holds them.
Both walk the program once, in order, and cost time in proportion to its lines. :data:`RULES` says
what is checked: names and tables, layouts, lifetimes, reuse and views, symbols, kernels and calls,
regions, pools, streams. ``docs/verifier.md`` has the rules as a table, made from that list.

Warnings are reported on request only, since the program may mean what they are about: a model may
read what ``torch.empty`` gave it. They make no program invalid.

Not checked: what kernels do with their arguments, whether all of a storage was written, and
relations among symbols that only their values at run time decide. Sizes are compared by what their
ranges prove. Hints prove nothing; they are among the choices of symbols that are tried where one
counterexample is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from wrapper_ir.lines.fields import as_program
from wrapper_ir.verify.diagnostics import Diagnostic, VerificationError
from wrapper_ir.verify.rules import RULES, Rule
from wrapper_ir.verify.verifier import check_program

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

__all__ = ["RULES", "Diagnostic", "Rule", "VerificationError", "diagnose", "verify"]


#: Programs that broke no rule, by identity: what cannot change need not be looked at twice, and
#: planning and emitting verify again what their callers often have verified.
_GOOD: Final[WeakValueDictionary[int, Program]] = WeakValueDictionary()


def diagnose(program: Program, *, warnings: bool = False) -> tuple[Diagnostic, ...]:
    """Return every fault of ``program``, in the order of its text; none for a good one.

    Args:
        program: Any program.
        warnings: Whether to tell also of what may be meant.
    """
    found = check_program(as_program(program, "wir.diagnose"))
    return found if warnings else _faults(found)


def _faults(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for diagnostic in found if not diagnostic.rule.is_warning)


def verify(program: Program) -> Program:
    """``program`` itself, if it breaks no rule.

    Raises:
        VerificationError: it breaks rules; the error holds a diagnostic for each fault.
    """
    as_program(program, "wir.verify")
    if _GOOD.get(id(program)) is program:
        return program
    found = _faults(check_program(program))
    if found:
        raise VerificationError(program, found)
    _GOOD[id(program)] = program
    return program
