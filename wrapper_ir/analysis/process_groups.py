"""The process groups that a program needs where it runs."""

from __future__ import annotations

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import call_of
from wrapper_ir.lines.traits import op_of


def named_groups(program: ir.Program) -> dict[str, tuple[str, str, str]]:
    """Return the process groups that a program calls by name, with the first call of each.

    A call is told by its op, its line and its place in the model.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for path, line in ir.walk(program):
        called = call_of(program, line)
        if called is not None and called.group and isinstance(called.group, str):
            place = op_of(line), str(path), program.source_of(line)
            found.setdefault(called.group, place)
    return found
