"""Diagnostics of the verifier: one for each fault, and one error that holds them all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import Origin, Path
from wrapper_ir.verify.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import Program


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault: which rule, what is wrong, where, and what to do about it.

    Attributes:
        rule: The rule that is broken.
        message: What is wrong, in words.
        path: The line; empty where the fault is in the program's own tables or results.
        part: Which part of the line or program, such as ``results[0]``, ``inputs[2]`` or
            ``then.results[1]``; empty for the line as a whole.
        origin: Where in the model the line comes from, when that is known.
        hint: What to do about it; may be empty.
    """

    rule: Rule
    message: str
    path: Path = field(default_factory=Path)
    part: str = ""
    origin: Origin | None = None
    hint: str = ""

    @property
    def code(self) -> str:
        """The rule's stable code."""
        return self.rule.code

    @property
    def place(self) -> str:
        """Path and part in one, such as ``body[3].then.results[0]``; ``program`` for the whole."""
        return ".".join(filter(None, (str(self.path), self.part))) or "program"

    @property
    def source(self) -> str:
        """The model's source line; where not known, its module or fx nodes; may be empty."""
        if self.origin is None:
            return ""
        return self.origin.place or self.origin.module or ", ".join(self.origin.nodes)

    def __str__(self) -> str:
        where = f"{self.place} ({self.source})" if self.source else self.place
        text = f"{self.code}: {self.message}\n  at {where}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class VerificationError(WrapperIRError):
    """A program breaks rules of the IR; holds every diagnostic.

    ``str`` of it is the program's text with each fault under its line. ``diagnostics`` has them as
    data, ``program`` is what was verified.
    """

    code = "WIR1000"
    template = "{name} breaks {count}"

    def __init__(self, program: Program, diagnostics: tuple[Diagnostic, ...]) -> None:
        #: The faulty program.
        self.program = program
        #: Every fault, in the order of the program.
        self.diagnostics = diagnostics
        count = len(diagnostics)
        super().__init__(
            name=f"program {program.name!r}",
            count="one rule" if count == 1 else f"the rules {count} times",
            path=diagnostics[0].place if diagnostics else None,
        )

    def __str__(self) -> str:
        from wrapper_ir.verify.render import render  # noqa: PLC0415 - only when it is shown

        return render(self)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle with the program, whose text ``str`` shows."""
        return _rebuild, (type(self), {"program": self.program, "diagnostics": self.diagnostics})


def _rebuild(cls: type[VerificationError], arguments: dict[str, object]) -> VerificationError:
    return cls(**arguments)  # type: ignore[arg-type]  # the arguments came from the same class
