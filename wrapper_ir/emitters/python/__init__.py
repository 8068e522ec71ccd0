"""The Python emitter: a module that people can read and edit, and that is cheap to call."""

from __future__ import annotations

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.python.artifact import PythonArtifact
from wrapper_ir.emitters.python.emitter import PythonEmitter

__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]
