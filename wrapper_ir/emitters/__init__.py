"""Emitters: from a planned program to source text, and from there to something that runs.

Emitters are found through the entry point group ``wrapper_ir.emitters`` and imported on first use,
so importing this package loads none of them. :func:`register_emitter` adds others to one process.
"""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.emitters import artifact, base, registry
from wrapper_ir.emitters.artifact import *
from wrapper_ir.emitters.base import *
from wrapper_ir.emitters.functions import constant_values
from wrapper_ir.emitters.registry import *
from wrapper_ir.options.declared import Legal
from wrapper_ir.options.schema import Option, check_options, options_of

__all__ = ["Legal", "Option", "check_options", "constant_values", "options_of"]
__all__ += artifact.__all__
__all__ += base.__all__
__all__ += registry.__all__
