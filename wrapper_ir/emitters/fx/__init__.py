"""The FX emitter, which makes a runnable ``torch.fx.GraphModule`` that includes C++ kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.fx.emitter import FxEmitter, declare_kernels

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.artifact import FxArtifact

__all__ = ["FxArtifact", "FxEmitter", "declare_kernels"]


def __getattr__(name: str) -> object:
    """Import the artifact on first use, since it needs torch, unlike the emitter's options."""
    if name == "FxArtifact":
        from wrapper_ir.emitters.fx.artifact import FxArtifact  # noqa: PLC0415

        return FxArtifact
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
