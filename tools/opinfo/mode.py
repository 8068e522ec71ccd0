"""The mode in which samples run: ops or modules, element type, gradients, sizes, device."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Mode"]


@dataclass(frozen=True)
class Mode:
    """A row of the table.

    Attributes:
        dtype: The element type, such as ``float32``.
        modules: Whether modules of ``torch.nn`` are tried instead of ops.
        backward: Whether gradients are taken, so that there are backward graphs.
        dynamic: Whether sizes are symbols.
        device: The type of the device that has the tensors.
    """

    dtype: str
    modules: bool = False
    backward: bool = False
    dynamic: bool = False
    device: str = "cpu"

    @property
    def label(self) -> str:
        """The row's name and key."""
        words = ("nn modules" * self.modules, self.dtype)
        words += ("backward" * self.backward, "dynamic" * self.dynamic)
        words += (self.device * (self.device != "cpu"),)
        return ", ".join(filter(None, words))
