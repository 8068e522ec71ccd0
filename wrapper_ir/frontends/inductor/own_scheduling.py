"""Choice of the scheduling that notes the kernels of a device."""

from __future__ import annotations

from typing import Any

from wrapper_ir.frontends.inductor.compat import CppScheduling
from wrapper_ir.frontends.inductor.scheduling import NotingCppScheduling
from wrapper_ir.frontends.inductor.triton import noting_triton


def own_scheduling(made: Any, scheduler: Any) -> Any:
    """Return the scheduling to use instead of ``made``, Inductor's own of a device.

    That of NVIDIA GPUs is made of several, of which the one for Triton is ours.
    """
    if type(made) is CppScheduling:
        noting: Any = NotingCppScheduling
        return noting(scheduler)
    if hasattr(made, "_triton_scheduling"):
        made._triton_scheduling = noting_triton(scheduler)
    return made
