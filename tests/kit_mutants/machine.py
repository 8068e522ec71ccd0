"""Emitters with a fault each: ours, with one thing changed in what goes in or in what comes out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import wrapper_ir as wir
from wrapper_ir.emitters import Artifact, Emitter, Problems, emitter_names
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.lines.program import Program
from wrapper_ir.lines.walk import rewrite_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines.program import AnyLine


@dataclass(frozen=True)
class Mutant:
    """A fault that an emitter may have.

    Attributes:
        name: Its name, and its emitter's.
        killed_by: Tests of the kit that fail, by their names without ``test_``: one or some.
        program: The program that is rendered instead of the one that was given.
        text: A pattern in the emitted text, and what stands in its place.
        wraps: A function of the runtime, and what is called in its place, which may call ``real``.
        load: A change of the loaded function.
        boxed: A change of the loaded function that takes a list.
        base: The emitter.
    """

    name: str
    killed_by: tuple[str, ...]
    program: Callable[[Program], Program] | None = None
    text: tuple[str, str | Callable[[re.Match[str]], str]] | None = None
    wraps: tuple[str, str] | None = None
    load: Callable[[Any], Any] | None = None
    boxed: Callable[[Any], Any] | None = None
    base: str = "python"


def lines(rewrite: Callable[[AnyLine], Iterable[AnyLine]]) -> Callable[[Program], Program]:
    """A change of a program that replaces each of its lines."""
    return lambda program: program.replace(body=rewrite_lines(program.body, rewrite))


def drop(*classes: type) -> Callable[[Program], Program]:
    """A change of a program that leaves out lines of some classes."""
    return lines(lambda line: () if isinstance(line, classes) else (line,))


def register(mutant: Mutant) -> None:
    """Make a mutant an emitter of this process."""
    if mutant.name not in emitter_names():
        wir.register_emitter(mutant.name, _emitter(mutant))


def _emitter(mutant: Mutant) -> type[Emitter]:
    base = emitter_class(mutant.base)

    @dataclass(frozen=True)
    class Mutated(Emitter):
        name: ClassVar[str] = mutant.name

        def legalisation(self) -> tuple[str, ...]:
            return base().legalisation()

        def render(self, program: Program, problems: Problems) -> Artifact:
            changed = mutant.program(program) if mutant.program else program
            artifact = base().render(changed, problems)
            if mutant.text or mutant.wraps:
                artifact = replace(artifact, source=_changed(mutant, artifact.source))
            return _Loads(artifact, mutant) if mutant.load or mutant.boxed else artifact

    Mutated.__module__ = "tests.kit_mutants.cases"  # which registers it wherever it is imported
    return Mutated


def _changed(mutant: Mutant, text: str) -> str:
    if mutant.text:
        pattern, new = mutant.text
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    if mutant.wraps and re.search(rf"\b{mutant.wraps[0]}\b", text):
        name, new = mutant.wraps
        made = f"{name} = (lambda real: {new})({name})\n\n\ndef "
        text = re.sub(r"^def ", made, text, count=1, flags=re.MULTILINE)
    return text


@dataclass(frozen=True)
class _Loads:
    """An artifact whose functions do something else."""

    artifact: Artifact
    mutant: Mutant

    @property
    def source(self) -> str:
        return self.artifact.source

    def load(self) -> Any:
        found = self.artifact.load()
        return self.mutant.load(found) if self.mutant.load else found

    def load_boxed(self) -> Any:
        found = self.artifact.load_boxed()
        return self.mutant.boxed(found) if self.mutant.boxed else found
