"""An emitter for wrapper_ir: Python over NumPy arrays."""

from __future__ import annotations

from wir_numpy.emitter import NumpyEmitter

__all__ = ["NumpyEmitter"]
