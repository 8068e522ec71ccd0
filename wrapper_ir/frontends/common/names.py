"""Numbers that a model takes, called as the model calls them: torch calls one ``s86``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.lines.program import Program

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def free_names(program: Program, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the better names of symbols that nothing else in a program has.

    Args:
        program: The program.
        wanted: The name that each of some symbols should have.
    """
    taken = {*program.symbols, *program.buffers, *program.objects, *program.constants}
    found: dict[str, str] = {}
    for symbol, name in wanted.items():
        if name not in taken and _IDENTIFIER.fullmatch(name):
            found[symbol] = name
            taken.add(name)
    return found


def with_symbols_named(program: Program, names: Mapping[str, str]) -> Program:
    """Return the program with other names for some of its symbols; messages keep their words."""
    if not names:
        return program
    same = str
    return Renaming(same, same, lambda name: names.get(name, name)).program(program)
