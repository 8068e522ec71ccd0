"""The FX emitter, which makes a runnable ``torch.fx.GraphModule`` that includes C++ kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.fx.emitter import FxEmitter, declare_kernels
from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.artifact import FxArtifact

__all__ = ["FxArtifact", "FxEmitter", "declare_kernels"]

if not TYPE_CHECKING:
    # It needs torch, unlike the emitter's options.
    __getattr__ = names_of(__name__, {".artifact": ("FxArtifact",)})
