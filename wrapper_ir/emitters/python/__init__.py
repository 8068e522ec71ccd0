"""The Python emitter: a module that people can read and edit, and that is cheap to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from wrapper_ir.emitters.base import Emitter, MissingConstantError, Problems
from wrapper_ir.emitters.python.options import PythonOptions
from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.artifact import PythonArtifact
    from wrapper_ir.lines.program import Program


__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]

if not TYPE_CHECKING:
    # It needs programs, unlike the emitter's options.
    __getattr__ = names_of(__name__, {".artifact": ("PythonArtifact",)})


@dataclass(frozen=True)
class PythonEmitter(PythonOptions, Emitter):
    """Emits a module of Python that calls the program's kernels and library ops.

    The options are those of :class:`PythonOptions`.
    """

    name: ClassVar[str] = "python"

    @override
    def legalisation(self) -> tuple[str, ...]:
        # An unchecked input of the wrong size could make an op resize a kept buffer for good.
        host = self.scratch_bytes if self.checks == "always" else 0
        kept = f"host={host},arena={self.arena}"
        return (*super().legalisation(), f"keep-storage{{{kept}}}")

    @override
    def render(self, program: Program, problems: Problems) -> PythonArtifact:
        """Render a planned and verified program."""
        # Reading the options above loads nothing of what renders.
        from wrapper_ir.emitters.python.module import build_artifact  # noqa: PLC0415

        return build_artifact(program, problems, self, self.given)
