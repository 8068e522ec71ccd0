"""The Python emitter's options, as everything that renders gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import Captures

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
