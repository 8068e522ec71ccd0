"""What differs between the releases of torch that are supported, and which release brought it.

Each function gives the same answer on all of them. Lines that only some releases have need none:
they are told apart by the names of their classes (``convert.lines``).
"""

from __future__ import annotations

from typing import Any

from wrapper_ir.frontends.inductor.compat import inductor_config

__all__ = ["checked_op", "processor", "stream_index"]


def checked_op(line: Any) -> str:
    """Return whose result an ``AssertSizeStrideLine`` checks, ``input`` for an input.

    2.13 brought the field. 2.12 has such lines for inputs only, and text for results of ops; 2.11
    has text for both.
    """
    return getattr(line, "op_name", "input")


def stream_index(line: Any) -> int:
    """Return the index of the stream that a ``KernelCallLine`` runs on, 0 for the current one.

    2.12 brought the field, and streams of one's own.
    """
    return getattr(line, "current_stream_idx", None) or 0


def processor() -> str:
    """Return the processor that Inductor is told to write C++ for; empty where it is told none.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""
