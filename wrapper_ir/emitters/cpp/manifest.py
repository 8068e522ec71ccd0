"""What generated files need besides themselves, as told by who wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.toolchain.native import Part


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the generated files of a program need.

    Attributes:
        parts: The parts of the runtime that they use.
    """

    parts: frozenset[Part] = frozenset()

    @property
    def on_gpu(self) -> bool:
        """True if the program runs on a GPU."""
        return Part.GPU in self.parts
