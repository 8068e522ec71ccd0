"""Looking into arguments."""

from __future__ import annotations

from wrapper_ir.lines import Arg, BufferArg, ListArg


def buffers_in(arg: Arg) -> list[str]:
    """Names of the buffers in an argument."""
    if isinstance(arg, BufferArg):
        return [arg.buffer]
    if isinstance(arg, ListArg):
        return [name for item in arg.items for name in buffers_in(item)]
    return []
