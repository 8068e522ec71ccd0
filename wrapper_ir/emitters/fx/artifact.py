"""The FX emitter's artifact: a graph module, and ways to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import fx

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.facts import only_accelerator
from wrapper_ir.emitters.fx.loaded import as_boxed, as_function
from wrapper_ir.emitters.fx.source import readable
from wrapper_ir.lines.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.emitters.writer import CodeWriter, SourceMap


@dataclass(frozen=True, slots=True, eq=False)
class FxArtifact:
    """An emitted graph.

    Attributes:
        program: What it was made from.
        graph_module: The graph, with the program's constants. It may be changed; what is loaded
            afterwards is what it is by then.
        missing: Constants whose values are not there; in the module they are tensors without data.
    """

    program: Program
    graph_module: fx.GraphModule
    missing: tuple[str, ...]

    @property
    def source(self) -> str:
        """The graph as readable Python."""
        return self._text().text()

    @property
    def source_map(self) -> SourceMap:
        """Map from lines of the text to lines of the program."""
        return self._text().source_map()

    def _text(self) -> CodeWriter:
        title = f"Wrapper program {self.program.name}, {self.program.role.value}."
        return readable(self.graph_module, title)

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """``callable(*inputs) -> tuple of results``; runs without autograd and without autocast.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """
        return as_function(self.load_boxed(), self.program)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The graph as a function that takes a list, which it empties.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """
        if self.missing:
            names = ", ".join(f"'{name}'" for name in self.missing)
            raise MissingConstantError(program=self.program.name, names=names)
        return as_boxed(self.graph_module, only_accelerator(self.program))
