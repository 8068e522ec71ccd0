"""The rules for passes, as the conformance kits check them on programs of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines import Stage
from wrapper_ir.testing.corpus import corpus_program

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import Program
    from wrapper_ir.passes import Pass


def logical_program(name: str) -> Program:
    """Return a program of the corpus as a logical one, so that it goes through lowering.

    Most are planned. Their frees, slices and reuses are legal in a logical program as well, and the
    planner keeps them.
    """
    return corpus_program(name, planned=False).replace(stage=Stage.LOGICAL)


def obeying(passes: Iterable[Pass], program: Program) -> Program:
    """Return a program after passes that obey the rules on it.

    A pass leaves its argument alone and always returns the same for it; a second run returns its
    argument itself. That a result is valid is checked whenever a pass of a package runs.

    Raises:
        AssertionError: A pass breaks a rule. The message says which.
    """
    for run in passes:
        before, data = str(program), dict(program.data)
        once = run(program)
        assert str(program) == before, f"the pass '{run.name}' changes its argument"
        kept = data.keys() == program.data.keys()
        kept = kept and all(value is program.data[name] for name, value in data.items())
        assert kept, f"the pass '{run.name}' changes the values of its argument's constants"
        assert run(program) == once, f"the pass '{run.name}' returns something else each time"
        assert run(once) is once, f"a second run of the pass '{run.name}' returns another program"
        program = once
    return program
