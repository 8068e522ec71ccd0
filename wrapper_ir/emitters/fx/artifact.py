"""What the FX emitter makes: a graph module, and ways to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import fx

from wrapper_ir.emitters.fx.errors import MissingConstantsError
from wrapper_ir.emitters.fx.loaded import as_boxed, as_function
from wrapper_ir.lines.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FxArtifact"]


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
        return self.graph_module.print_readable(print_output=False)

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """``callable(*inputs) -> tuple of results``; runs without autograd and without autocast.

        Raises:
            MissingConstantsError: The program has constants whose values are not there.
        """
        return as_function(self.load_boxed(), self.program)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The graph as a function that takes a list, which it empties.

        Raises:
            MissingConstantsError: The program has constants whose values are not there.
        """
        if self.missing:
            names = ", ".join(f"'{name}'" for name in self.missing)
            raise MissingConstantsError(program=self.program.name, names=names)
        return as_boxed(self.graph_module)
