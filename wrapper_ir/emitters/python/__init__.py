"""The Python emitter: a module that people can read and edit, and that is cheap to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from wrapper_ir.emitters.base import Emitter, MissingConstantError, Problems
from wrapper_ir.lazy import names_of
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import Captures

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.artifact import PythonArtifact
    from wrapper_ir.lines.program import Program


__all__ = ["MissingConstantError", "PythonArtifact", "PythonEmitter"]

if not TYPE_CHECKING:
    # It needs programs, unlike the emitter's options.
    __getattr__ = names_of(__name__, {".artifact": ("PythonArtifact",)})


_KEEP: Final = 64 * 1024


@dataclass(frozen=True)
class PythonOptions(Captures):
    """The choices in rendering a program as Python.

    Attributes:
        origins: Whether comments say where in the model the code comes from.
        checks: When the metadata of inputs and of ops' results is compared with what the program
            was made for. ``first_call`` is for callers that have guards of their own. It skips
            checks of fixed properties in later calls; sizes that depend on symbols and assertions
            of the program itself are checked in every call.
        scratch_bytes: How many bytes of memory that never leaves a call may be kept for the next
            one, for inference programs whose inputs are checked in every call; 0 for none.
        arena: How long the program's arenas last: for a ``call``, or ``kept`` for the next one. A
            program without planned memory is then planned accordingly.
        out: Whether callers may provide memory for results: ``function(*inputs, out=[...])``.
        profile: Whether PyTorch's profiler is shown each call of a kernel or op, by its name, and
            each allocation, by its buffer's name.

    The options for CUDA graphs are those of :class:`Captures`.
    """

    origins: bool = take.ORIGINS.field()
    checks: str = take.CHECKS.field()
    scratch_bytes: int = take.SCRATCH_BYTES.field(_KEEP)
    arena: str = take.ARENA.field()
    out: bool = take.OUT.field()
    profile: bool = take.PROFILE.field()


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
