"""How Inductor would compile a C++ kernel, as far as the toolchain does not know it by itself.

The toolchain's own flags are Inductor's defaults, so only what Inductor is configured to do
differently is kept beside a kernel, besides the instruction set that its text was written for.
No path is among it: a program is the same text on every machine that has the instruction set.
"""

from __future__ import annotations

from wrapper_ir.frontends.inductor.compat import inductor_config, pick_vec_isa

__all__ = ["kernel_flags"]


def kernel_flags() -> tuple[str, tuple[str, ...]]:
    """Return the name of the instruction set, and the flags that follow the toolchain's own."""
    cpp = inductor_config.cpp
    flags = []
    if getattr(cpp, "enable_unsafe_math_opt_flag", False):
        flags.append("-funsafe-math-optimizations")
    contract = getattr(cpp, "enable_floating_point_contract_flag", "off")
    if contract is True:  # older releases have a switch here
        flags.append("-ffp-contract=fast")
    elif contract and contract != "off":
        flags.append(f"-ffp-contract={contract}")
    march = getattr(cpp, "march", None)
    if march:
        flags.append(f"-march={march}")
    return str(pick_vec_isa()), tuple(flags)
