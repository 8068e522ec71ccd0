"""The C++ emitter's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from wrapper_ir.emitters.base import Emitter, Problems
from wrapper_ir.emitters.cpp.artifact import MAIN_FILE, CppArtifact
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program

__all__ = ["CppEmitter"]

_KEEP: Final = 1024 * 1024


@dataclass(frozen=True)
class CppEmitter(Emitter):
    """Emits C++ that calls the program's kernels and library ops over PyTorch's C shim.

    Attributes:
        origins: Whether comments tell where in the model the code comes from.
        keep_buffers: How many bytes of memory that never leaves a call may be kept for the next
            one; 0 for none. It is kept once for each call that may run at a time.
    """

    name: ClassVar[str] = "cpp"

    origins: bool = field(
        default=False, metadata={"help": "say where in the model code comes from"}
    )
    keep_buffers: int = field(
        default=_KEEP, metadata={"help": "bytes of scratch memory kept between calls"}
    )

    def __post_init__(self) -> None:
        """Check the options' values.

        Raises:
            OptionValueError: One of them is not legal.
        """
        if not isinstance(self.origins, bool):
            raise OptionValueError(option="origins", value=self.origins, expected="True or False")
        if isinstance(self.keep_buffers, bool) or not isinstance(self.keep_buffers, int):
            raise OptionValueError(
                option="keep_buffers", value=self.keep_buffers, expected="a number of bytes"
            )

    @override
    def render(self, program: Program, problems: Problems) -> CppArtifact:
        """Renders a planned and verified program."""
        text = "#include <wir/program.h>\n"
        return CppArtifact(text, {MAIN_FILE: text}, SourceMap((None,)), (), program)
