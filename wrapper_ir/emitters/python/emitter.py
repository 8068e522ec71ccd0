"""The Python emitter's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from wrapper_ir.analysis.liveness import StorageMap
from wrapper_ir.emitters.base import WRAPPER, Emitter, Problems, SourceFiles
from wrapper_ir.emitters.cuda_captures import Captures
from wrapper_ir.emitters.facts import gather
from wrapper_ir.emitters.python.artifact import PythonArtifact
from wrapper_ir.emitters.python.context import Context
from wrapper_ir.emitters.python.module import render_module
from wrapper_ir.options import declared as take

if TYPE_CHECKING:
    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.program import Program


_KEEP: Final = 64 * 1024


@dataclass(frozen=True)
class PythonEmitter(Captures, Emitter):
    """Emits a module of Python that calls the program's kernels and library ops.

    Attributes:
        origins: Whether comments say where in the model the code comes from.
        checks: When the metadata of inputs and of ops' results is compared with what the program
            was made for. ``first_call`` is for callers that have guards of their own. It skips
            checks of fixed properties in later calls; sizes that depend on symbols and assertions
            of the program itself are checked in every call.
        keep_buffers: How many bytes of memory that never leaves a call may be kept for the next
            one, for inference programs whose inputs are checked in every call; 0 for none.
        arena: How long the program's arenas last: for a ``call``, or ``kept`` for the next one. A
            program without planned memory is then planned accordingly.
        out: Whether callers may provide memory for results: ``function(*inputs, out=[...])``.
        profile: Whether PyTorch's profiler is shown each call of a kernel or op, by its name, and
            each allocation, by its buffer's name.

    The options for CUDA graphs are those of :class:`Captures`.
    """

    name: ClassVar[str] = "python"

    origins: bool = take.ORIGINS.field()
    checks: str = take.CHECKS.field()
    keep_buffers: int = take.KEEP_BUFFERS.field(_KEEP)
    arena: str = take.ARENA.field()
    out: bool = take.OUT.field()
    profile: bool = take.PROFILE.field()

    @override
    def render(self, program: Program, problems: Problems) -> PythonArtifact:
        """Render a planned and verified program."""
        from wrapper_ir.planning.kept import keep_storage  # noqa: PLC0415 - loads the planner

        is_checked = self.checks == "always"
        # An unchecked input of the wrong size could make an op resize a kept buffer for good.
        host = self.keep_buffers if is_checked else 0
        storages = StorageMap(program)
        kept = keep_storage(program, host, arena=self.arena, storages=storages)
        facts = gather(kept, storages, arena=self.arena, is_checked=is_checked)

        def rendered(*, apart: bool) -> tuple[CodeWriter, Context]:
            context = Context(
                kept,
                facts,
                problems,
                graphs=self.graphs,
                checks=self.checks,
                origins=self.origins,
                takes_out=self.out,
                profiles=self.profile,
                apart=apart,
            )
            return render_module(context), context

        def files() -> SourceFiles:
            writer, context = rendered(apart=True)
            texts = {WRAPPER: writer.text(), **(context.files or {})}
            return SourceFiles(texts, {WRAPPER: writer.source_map()}, self.name, self.given)

        writer, context = rendered(apart=False)
        constants = {context.buffer(name): name for name in (*program.constants, *program.objects)}
        return PythonArtifact(
            writer.text(), writer.source_map(), program, constants, files, takes_out=self.out
        )
