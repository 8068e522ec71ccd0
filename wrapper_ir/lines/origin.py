"""Where in the model a line comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the model's source: file, line, function and the line's text."""

    file: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The fx nodes, the ATen ops and the user's source lines that a wrapper line implements."""

    nodes: tuple[str, ...] = ()
    """Names of fx nodes, in the order of the graph."""
    ops: tuple[str, ...] = ()
    """Qualified names of the ATen ops, such as ``aten.addmm``."""
    frames: tuple[Frame, ...] = ()
    """User frames, innermost last."""
    module: str = ""
    """Path of the ``nn.Module`` in the model, such as ``encoder.layers.0.linear1``."""
