"""The FX emitter, which makes a runnable ``torch.fx.GraphModule`` that includes C++ kernels."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from wrapper_ir.emitters.base import Emitter, Problems
from wrapper_ir.lazy import names_of
from wrapper_ir.options import declared
from wrapper_ir.options.declared import Legal
from wrapper_ir.options.schema import Option

if TYPE_CHECKING:
    from wrapper_ir.emitters.fx.artifact import FxArtifact
    from wrapper_ir.emitters.fx.kernels import KernelSet
    from wrapper_ir.lines.program import Program


__all__ = ["FxArtifact", "FxEmitter", "declare_kernels"]

if not TYPE_CHECKING:
    # It needs torch, unlike the emitter's options.
    __getattr__ = names_of(__name__, {".artifact": ("FxArtifact",)})


CHECKS: Final = dataclasses.replace(declared.CHECKS, choices=("always", "never"))

VALUES: Final = Option(
    "values", bool, default=True, help="put fake tensors into the nodes' meta['val']"
)


@dataclass(frozen=True)
class FxEmitter(Emitter):
    """An emitter of graph modules whose nodes call library ops, and kernels as custom ops.

    Attributes:
        checks: ``always`` to add nodes that check the metadata of inputs and op results against the
            program's layouts. The program's own assertions are always kept.
        values: True to fill ``node.meta["val"]`` with fake tensors and symbolic numbers.
    """

    name: ClassVar[str] = "fx"
    # Torch assumes that a view that an op with `out=` writes has the type of its base, and puts a
    # new tensor in the op's layout in place of a whole one. Loops may not share memory.
    legal: ClassVar[Legal] = Legal(
        mixed_pools=False,
        retyped_reuse=False,
        retyped_writes="kernels",
        written_gaps=False,
        shared_loops=False,
    )

    checks: str = CHECKS.field()
    values: bool = VALUES.field()

    @override
    def legalisation(self) -> tuple[str, ...]:
        # Nothing but what peers address, which every call would have to introduce to them.
        return (*super().legalisation(), "keep-storage")

    @override
    def render(self, program: Program, problems: Problems) -> FxArtifact:
        """Render a planned and verified program."""
        # Building a graph needs torch; looking at the options above does not.
        from wrapper_ir.emitters.fx.module import build_artifact  # noqa: PLC0415

        return build_artifact(program, problems, checks=self.checks != "never", values=self.values)


def declare_kernels(program: Program) -> KernelSet:
    """Declare the ops of a program's C++ kernels, so that loaded graphs can refer to them.

    Call it before loading a file that contains only the names of ops, such as one that
    ``torch.export.save`` wrote. It compiles nothing.

    Args:
        program: The program that the graph was rendered from: the artifact's ``program``, or
            ``wir.prepare(program, "fx")``.

    Raises:
        EmitError: The program cannot be rendered as a graph.
    """
    from wrapper_ir.emitters.fx.artifact import FxArtifact  # noqa: PLC0415 - torch, as above
    from wrapper_ir.emitters.fx.kernels import KERNELS, KernelSet  # noqa: PLC0415 - torch, as above

    artifact = FxEmitter(values=False).emit(program)
    assert isinstance(artifact, FxArtifact)
    kernels = getattr(artifact.graph_module, KERNELS)
    assert isinstance(kernels, KernelSet)
    return kernels
