"""Origins of lines in the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: torch's own modules, wherever it is installed.
_TORCHS_OWN: Final = re.compile(r"[\\/](?:site|dist)-packages[\\/]torch[\\/]")


def is_torchs_own(file: str) -> bool:
    """Return whether a file is one of torch's own modules."""
    return _TORCHS_OWN.search(file) is not None


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
    """Frames of the model's source, innermost last; those of torch's own modules included."""
    module: str = ""
    """Path of the ``nn.Module`` in the model, such as ``encoder.layers.0.linear1``."""
    values: tuple[str, ...] = ()
    """Of a call: for each buffer of ``Effects.written`` the fx node whose value it holds then.

    Of a node that gives several tensors ``sort[1]`` is one; empty where none is known for certain.
    """

    @property
    def frame(self) -> Frame | None:
        """The frame to show a user: the innermost outside torch's own modules, else the innermost.

        A layer of the model runs inside ``torch/nn``, which is not where anybody would look first.
        """
        for frame in reversed(self.frames):
            if not is_torchs_own(frame.file):
                return frame
        return self.frames[-1] if self.frames else None

    @property
    def place(self) -> str:
        """``file.py:12`` of :attr:`frame`; empty where nothing is known."""
        frame = self.frame
        return "" if frame is None else f"{frame.file}:{frame.line}"
