"""The texts that snapshots hold: programs in canonical form, as an emitter writes them."""

from __future__ import annotations

import textwrap
from typing import Final

from wrapper_ir.api import emit
from wrapper_ir.diffing import structure
from wrapper_ir.emitters.base import faults_of
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.lines.program import Program

#: The ``target`` of texts that are programs in text form, and of those of their structures.
WIR: Final = "wir"
STRUCTURE: Final = "structure"

#: Targets whose texts are programs.
PROGRAMS: Final = (WIR, STRUCTURE)


def snapshot_text(program: object, target: str) -> str:
    """Return what a snapshot holds of a program for a target: ``wir``, ``structure``, an emitter.

    Raises:
        TypeError: It is no program.
    """
    if not isinstance(program, Program):
        what = type(program).__name__
        raise TypeError(f"a {target} snapshot takes a program, not {what}")
    if target in PROGRAMS:
        return str(form(program, target))
    text = emit(program.canonical(), target).source
    emitter = emitter_class(target)
    with faults_of(emitter, "it prepared its text for a snapshot"):
        return emitter.kept_text(text)


def form(program: Program, target: str) -> Program:
    """Return the form of a program that texts of ``wir`` and of ``structure`` have."""
    return structure(program) if target == STRUCTURE else program.canonical()


def normal(text: str) -> str:
    """Return a text without what indents it, and without empty lines around it."""
    rows = textwrap.dedent(text).split("\n")
    return "\n".join(row.rstrip(" \t") for row in rows).strip("\n")
