"""The FX emitter: its options, and what declares the kernels of its graphs elsewhere."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from wrapper_ir.emitters.base import Emitter, Problems
from wrapper_ir.lines.program import Stage
from wrapper_ir.options import declared
from wrapper_ir.options.schema import Option
from wrapper_ir.planning import plan_memory

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.artifact import FxArtifact
    from wrapper_ir.emitters.fx.kernels import KernelSet
    from wrapper_ir.lines.program import Program


CHECKS: Final = dataclasses.replace(declared.CHECKS, choices=("always", "never"))

VALUES: Final = Option(
    "values", bool, default=True, help="put fake tensors into the nodes' meta['val']"
)


@dataclass(frozen=True)
class FxEmitter(Emitter):
    """Emits a graph module whose nodes are library ops and the program's kernels as custom ops.

    Attributes:
        checks: Whether nodes compare the metadata of inputs and of what ops return with what the
            program was made for. Assertions of the program itself are kept in any case.
        values: Whether ``node.meta["val"]`` is filled with fake tensors and symbolic numbers.
    """

    name: ClassVar[str] = "fx"

    checks: str = CHECKS.field()
    values: bool = VALUES.field()

    @override
    def render(self, program: Program, problems: Problems) -> FxArtifact:
        """Renders a planned and verified program."""
        # Graphs are made of torch; the options above are looked at without it.
        from wrapper_ir.emitters.fx.module import build_artifact  # noqa: PLC0415

        return build_artifact(program, problems, checks=self.checks != "never", values=self.values)


def declare_kernels(program: Program) -> KernelSet:
    """Declare the ops of a program's C++ kernels, so that graphs made of it elsewhere find them.

    For files of torch's own that name ops and do not hold them, as ``torch.export.save`` writes.
    Compiles nothing.

    Args:
        program: The program that the graph was emitted from.

    Raises:
        EmitError: No graph can be made of the program.
    """
    from wrapper_ir.emitters.fx.artifact import FxArtifact  # noqa: PLC0415 - torch, as above
    from wrapper_ir.emitters.fx.kernels import KERNELS, KernelSet  # noqa: PLC0415 - torch, as above

    planned = program if program.stage is Stage.PLANNED else plan_memory(program)
    artifact = FxEmitter(values=False).emit(planned)
    assert isinstance(artifact, FxArtifact)
    kernels = getattr(artifact.graph_module, KERNELS)
    assert isinstance(kernels, KernelSet)
    return kernels
