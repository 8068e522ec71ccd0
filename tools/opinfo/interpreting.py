"""The reference interpreter in the place of an emitter, so that Inductor's graphs go through it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, DistributionFinder
from typing import TYPE_CHECKING, Any, ClassVar

import wrapper_ir as wir
from wrapper_ir.emitters import Emitter, Problems
from wrapper_ir.lines import Program

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

__all__ = ["InterpreterEmitter", "register"]


@dataclass(frozen=True)
class _Interpreted:
    """A program that is interpreted at each call."""

    program: Program
    source: str

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """Return a function of the program's inputs."""
        return lambda *inputs: wir.interpret(self.program, *inputs)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Return a function of one list, which it empties."""

        def call(arguments: list[Any]) -> tuple[Any, ...]:
            inputs = tuple(arguments)
            arguments.clear()
            return wir.interpret(self.program, *inputs)

        return call


@dataclass(frozen=True)
class InterpreterEmitter(Emitter):
    """Renders nothing: what it makes interprets the program."""

    name: ClassVar[str] = "interpreter"

    def render(self, program: Program, problems: Problems) -> _Interpreted:
        """Keep the program."""
        return _Interpreted(program, str(program))


class _Ours(Distribution):
    """What an installed package would have, for the registry of emitters to find."""

    def read_text(self, filename: str) -> str | None:
        """Return one of the two files that there are."""
        return {
            "METADATA": "Metadata-Version: 2.1\nName: wir-interpreting\nVersion: 0\n",
            "entry_points.txt": "[wrapper_ir.emitters]\n"
            "interpreter = tools.opinfo.interpreting:InterpreterEmitter\n",
        }.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        """Refuse: there are no files."""
        raise FileNotFoundError(path)


class _Finder(DistributionFinder):
    def find_distributions(
        self, context: DistributionFinder.Context = DistributionFinder.Context()  # noqa: B008
    ) -> Iterator[Distribution]:
        if context.name in (None, "wir-interpreting"):
            yield _Ours()


def register() -> None:
    """Have this process find the emitter under the name ``interpreter``."""
    sys.meta_path.append(_Finder())
