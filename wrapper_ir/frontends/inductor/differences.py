"""What differs between the releases of torch that are supported, and which release brought it.

Each function gives the same answer on all of them. Lines that only some releases have need none:
they are told apart by the names of their classes (``convert.lines``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compat import inductor_config, user_objects

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked_op", "current_stream", "processor", "user_streams"]


def checked_op(line: Any) -> str:
    """Return whose result an ``AssertSizeStrideLine`` checks, ``input`` for an input.

    2.13 brought the field. 2.12 has such lines for inputs only, and text for results of ops; 2.11
    has text for both.
    """
    return getattr(line, "op_name", "input")


def user_streams(line: Any) -> Mapping[int, int]:
    """Return the streams that a device's block names: which object of the user's each one is.

    2.12 brought streams of one's own; a block without any has a line of another class, without this.
    """
    return getattr(line, "stream_idx_to_user_obj_idx", {})


def current_stream() -> int | None:
    """Return the number that the stream that is current always has among the user's objects.

    2.12 brought it.
    """
    return getattr(user_objects, "CURRENT_STREAM_INDEX", None)


def processor() -> str:
    """Return the processor that Inductor is told to write C++ for; empty where it is told none.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""
