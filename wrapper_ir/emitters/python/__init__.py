"""The Python emitter: a module that people can read and edit, and that is cheap to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.python.emitter import PythonEmitter
from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.artifact import PythonArtifact

__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]

if not TYPE_CHECKING:
    # It needs programs, unlike the emitter's options.
    __getattr__ = names_of(__name__, {".artifact": ("PythonArtifact",)})
