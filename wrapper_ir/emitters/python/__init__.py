"""The Python emitter: a module that people can read and edit, and that is cheap to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.python.emitter import PythonEmitter

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.artifact import PythonArtifact

__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]


def __getattr__(name: str) -> object:
    """Import the artifact on first use, since it needs programs, unlike the emitter's options."""
    if name == "PythonArtifact":
        from wrapper_ir.emitters.python.artifact import PythonArtifact  # noqa: PLC0415

        return PythonArtifact
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
