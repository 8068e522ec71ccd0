"""The texts that snapshots hold: programs in canonical form, as an emitter writes them."""

from __future__ import annotations

from typing import Final

from wrapper_ir.api import emit
from wrapper_ir.emitters.base import faults_of
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.lines.program import Program

#: The ``target`` of texts that are programs in text form.
WIR: Final = "wir"


def snapshot_text(program: object, target: str) -> str:
    """Return what a snapshot holds of a program for a target: ``wir``, or an emitter.

    Raises:
        TypeError: It is no program.
    """
    if not isinstance(program, Program):
        what = type(program).__name__
        raise TypeError(f"a {target} snapshot takes a program, not {what}")
    canonical = program.canonical()
    if target == WIR:
        return str(canonical)
    text = emit(canonical, target).source
    emitter = emitter_class(target)
    with faults_of(emitter, "it prepared its text for a snapshot"):
        return emitter.kept_text(text)
