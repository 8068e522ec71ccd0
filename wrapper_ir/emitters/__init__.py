"""Emitters: from a planned program to a target's text, and from there to something that runs.

Emitters are found through the entry point group ``wrapper_ir.emitters`` and loaded when they are
first asked for, so importing this package loads none of them.
"""

from __future__ import annotations

from wrapper_ir.emitters.base import (
    Artifact,
    EmitError,
    Emitter,
    LogicalProgramError,
    Problems,
    Unsupported,
)
from wrapper_ir.emitters.options import check_options
from wrapper_ir.emitters.registry import (
    DuplicateEmitterError,
    EmitterLoadError,
    UnknownEmitterError,
    emitter_class,
    emitter_names,
    make_emitter,
    option_names,
)

__all__ = [
    "Artifact",
    "DuplicateEmitterError",
    "EmitError",
    "Emitter",
    "EmitterLoadError",
    "LogicalProgramError",
    "Problems",
    "UnknownEmitterError",
    "Unsupported",
    "check_options",
    "emitter_class",
    "emitter_names",
    "make_emitter",
    "option_names",
]
