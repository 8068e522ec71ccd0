"""The reference interpreter registered as an emitter, so that it can run Inductor's graphs."""

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
        """Return a function that takes one list and clears it."""

        def call(arguments: list[Any]) -> tuple[Any, ...]:
            inputs = tuple(arguments)
            arguments.clear()
            return wir.interpret(self.program, *inputs)

        return call


@dataclass(frozen=True)
class InterpreterEmitter(Emitter):
    """An emitter that emits no text; its artifact interprets the program."""

    name: ClassVar[str] = "interpreter"

    def render(self, program: Program, problems: Problems) -> _Interpreted:
        """Wrap the program."""
        return _Interpreted(program, str(program))


class _Ours(Distribution):
    """The metadata of an installed package, for the emitter registry to find."""

    def read_text(self, filename: str) -> str | None:
        """Return one of the two metadata files."""
        return {
            "METADATA": "Metadata-Version: 2.1\nName: wir-interpreting\nVersion: 0\n",
            "entry_points.txt": "[wrapper_ir.emitters]\n"
            "interpreter = tools.opinfo.interpreting:InterpreterEmitter\n",
        }.get(filename)

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        """Raise an error: there are no files."""
        raise FileNotFoundError(path)


class _Finder(DistributionFinder):
    def find_distributions(
        self, context: DistributionFinder.Context = DistributionFinder.Context()  # noqa: B008
    ) -> Iterator[Distribution]:
        if context.name in (None, "wir-interpreting"):
            yield _Ours()

    def find_spec(self, *_: object) -> None:
        """Find no module; the method of Python's that asks finders without it warns."""


def register() -> None:
    """Register the emitter in this process as ``interpreter``."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())
