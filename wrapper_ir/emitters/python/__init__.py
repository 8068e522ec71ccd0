"""The Python emitter: a module that a person can read and edit, and that costs little to call."""

from __future__ import annotations

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.python.artifact import PythonArtifact
from wrapper_ir.emitters.python.emitter import PythonEmitter

__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]
