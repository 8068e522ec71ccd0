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

from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from wrapper_ir.lines.fields import as_program
from wrapper_ir.verify.diagnostics import Diagnostic, VerificationError
from wrapper_ir.verify.rules import RULES, Rule
from wrapper_ir.verify.verifier import check_program

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

__all__ = ["RULES", "Diagnostic", "Rule", "VerificationError", "diagnose", "verify"]


#: Valid programs by identity. Programs are immutable, so there is no need to verify one again in
#: planning and emitting if the caller already has.
_GOOD: Final[WeakValueDictionary[int, Program]] = WeakValueDictionary()


def diagnose(program: Program, *, warnings: bool = False) -> tuple[Diagnostic, ...]:
    """Return all faults of a program in the order of its text.

    Args:
        program: Any program.
        warnings: True to include warnings.
    """
    found = check_program(as_program(program, "wir.diagnose"))
    return found if warnings else _faults(found)


def _faults(found: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(diagnostic for diagnostic in found if not diagnostic.rule.is_warning)


def verify(program: Program) -> Program:
    """Return ``program`` itself if it is valid.

    Raises:
        VerificationError: It violates rules. The error holds a diagnostic for each fault.
    """
    as_program(program, "wir.verify")
    if _GOOD.get(id(program)) is program:
        return program
    found = _faults(check_program(program))
    if found:
        raise VerificationError(program, found)
    _GOOD[id(program)] = program
    return program
