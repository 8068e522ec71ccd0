"""The FX emitter: a ``torch.fx.GraphModule`` that runs, C++ kernels included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.fx.emitter import FxEmitter, declare_kernels

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.artifact import FxArtifact

__all__ = ["FxArtifact", "FxEmitter", "declare_kernels"]


def __getattr__(name: str) -> object:
    """Load what needs torch when it is asked for: the emitter's options are looked at without."""
    if name == "FxArtifact":
        from wrapper_ir.emitters.fx.artifact import FxArtifact  # noqa: PLC0415

        return FxArtifact
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
