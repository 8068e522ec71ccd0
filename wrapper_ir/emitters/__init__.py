"""Emitters: from a planned program to source text, and from there to something that runs.

Emitters are found through the entry point group ``wrapper_ir.emitters`` and imported on first use,
so importing this package loads none of them. :func:`register_emitter` adds others to one process.
"""

from __future__ import annotations

from wrapper_ir.emitters.artifact import (
    Artifact,
    HasModule,
    ModuleText,
    NamesConstants,
    TakesConstants,
)
from wrapper_ir.emitters.base import (
    ArtifactError,
    EmitError,
    Emitter,
    EmitterFaultError,
    LogicalProgramError,
    Problems,
    Unsupported,
    faults_of,
)
from wrapper_ir.emitters.functions import constant_values
from wrapper_ir.emitters.registry import (
    DuplicateEmitterError,
    EmitterLoadError,
    NotAnEmitterError,
    UnknownEmitterError,
    emitter_class,
    emitter_names,
    make_emitter,
    option_names,
    register_emitter,
    unregister_emitter,
)
from wrapper_ir.options.declared import Legal
from wrapper_ir.options.schema import Option, check_options, options_of

__all__ = ["Artifact", "ArtifactError", "DuplicateEmitterError", "EmitError", "Emitter"]
__all__ += ["EmitterFaultError", "EmitterLoadError", "HasModule", "Legal", "LogicalProgramError"]
__all__ += ["ModuleText", "NamesConstants", "NotAnEmitterError", "Option", "Problems"]
__all__ += ["TakesConstants", "UnknownEmitterError", "Unsupported", "check_options"]
__all__ += ["constant_values", "emitter_class", "emitter_names", "faults_of", "make_emitter"]
__all__ += ["option_names", "options_of", "register_emitter", "unregister_emitter"]
