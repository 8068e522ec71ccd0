"""Inductor's settings for C++ kernels that the toolchain does not know by itself.

The toolchain's own flags are Inductor's defaults, so only what Inductor is configured to do
differently is kept beside a kernel, besides the instruction set that its text was written for.
No path is among it: a program is the same text on every machine that has the instruction set.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import TYPE_CHECKING, Final

from wrapper_ir.frontends.inductor.compat import inductor_config, pick_vec_isa
from wrapper_ir.frontends.inductor.differences import processor
from wrapper_ir.options.declared import ISA

if TYPE_CHECKING:
    from collections.abc import Iterator

NATIVE: Final = "native"
"""The best instruction set that this processor has."""

#: Bits of a vector, by the level of the processors that kernels are written for. Where there is
#: nothing to vectorise with, a width that no instruction set has keeps Inductor from trying.
_WIDTHS: Final = {"x86-64-v2": 1, "x86-64-v3": 256, "x86-64-v4": 512}

_LEVEL: contextvars.ContextVar[str] = contextvars.ContextVar("_LEVEL", default="")


@contextlib.contextmanager
def compiling_for(isa: str) -> Iterator[None]:
    """Have Inductor write kernels for one instruction set, whatever this processor has.

    Args:
        isa: ``native``, or a level of the x86-64 psABI.

    Raises:
        OptionValueError: It is none of those.
    """
    ISA.check(isa)
    if isa == NATIVE:
        yield
        return
    token = _LEVEL.set(isa)
    try:
        with inductor_config.patch({"cpp.simdlen": _WIDTHS[isa]}):
            yield
    finally:
        _LEVEL.reset(token)


def kernel_flags() -> tuple[str, tuple[str, ...]]:
    """Return the name of the instruction set, and the flags that follow the toolchain's own."""
    cpp = inductor_config.cpp
    flags = []
    if cpp.enable_unsafe_math_opt_flag:
        flags.append("-funsafe-math-optimizations")
    contract = cpp.enable_floating_point_contract_flag
    if contract and contract != "off":
        flags.append(f"-ffp-contract={contract}")
    level = _LEVEL.get()
    if level:
        return level, tuple(flags)
    if processor():
        flags.append(f"-march={processor()}")
    return str(pick_vec_isa()), tuple(flags)
