"""In which way samples are tried: of what, in which element type, with gradients, with symbols."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mode"]


@dataclass(frozen=True)
class Mode:
    """A row of the table.

    Attributes:
        dtype: The element type, such as ``float32``.
        modules: Whether modules of ``torch.nn`` are tried, and not ops.
        backward: Whether a gradient is taken, so that there are backward graphs.
        dynamic: Whether sizes are symbols.
    """

    dtype: str
    modules: bool = False
    backward: bool = False
    dynamic: bool = False

    @property
    def label(self) -> str:
        """What the row is called, and found again by."""
        words = ("nn modules" * self.modules, self.dtype)
        words += ("backward" * self.backward, "dynamic" * self.dynamic)
        return ", ".join(filter(None, words))
