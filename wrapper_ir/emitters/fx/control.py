"""Rendering choices and loops: higher-order ops over graphs of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from wrapper_ir.emitters.fx.calls import CallLines

if TYPE_CHECKING:
    from wrapper_ir.lines.control import Cond, While

__all__ = ["ControlLines"]


class ControlLines(CallLines):
    """Renders lines with regions."""

    @override
    def visit_cond(self, line: Cond) -> None:
        self.unsupported(line, "not yet")

    @override
    def visit_while(self, line: While) -> None:
        self.unsupported(line, "not yet")
