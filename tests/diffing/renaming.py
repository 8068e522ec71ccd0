"""Programs under other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from wrapper_ir import Program

__all__ = ["renamed"]


def renamed(program: Program) -> Program:
    """The program with other names, which also sort in another order."""

    def other(name: str) -> str:
        return ("z" if len(name) % 2 else "a") + name[::-1].strip("0123456789") + "_" + name

    found = Renaming(other, other, other).program(program)
    return found.replace(name=f"not_{program.name}", origins=())
