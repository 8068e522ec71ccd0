"""Options of emitters: what the fields say of their values, and the check of it.

An option is of the type of its default. In a field's metadata ``choices`` are all values that there
are, ``least`` is the least number; ``help`` says in words what it does, ``expected`` what it takes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from wrapper_ir.emitters.base import Emitter

__all__ = [
    "ARENA",
    "CUDA_GRAPH",
    "CUDA_GRAPH_LIMIT",
    "CUDA_GRAPH_RESULTS",
    "KEEP_BUFFERS",
    "PROFILE",
    "check_options",
]

ARENA: Final = {"help": "how long arenas last", "choices": ("call", "kept")}

KEEP_BUFFERS: Final = {
    "help": "bytes of scratch memory kept between calls",
    "least": 0,
    "expected": "a number of bytes",
}

CUDA_GRAPH: Final = {"help": "capture calls as CUDA graphs and replay them"}

CUDA_GRAPH_LIMIT: Final = {
    "help": "how many graphs are kept, one for each set of sizes",
    "least": 1,
    "expected": "a number from 1",
}

CUDA_GRAPH_RESULTS: Final = {
    "help": "whose memory results of replayed calls are",
    "choices": ("fresh", "shared"),
}

PROFILE: Final = {"help": "show each call as a range in PyTorch's profiler"}


def check_options(emitter: Emitter) -> None:
    """Check the values of an emitter's fields.

    Raises:
        OptionValueError: One of them is not legal.
    """
    for option in dataclasses.fields(emitter):  # type: ignore[arg-type]  # emitters are dataclasses
        value = getattr(emitter, option.name)
        expected = _expected(option, value)
        if expected:
            raise OptionValueError(option=option.name, value=value, expected=expected)


def _expected(option: dataclasses.Field[object], value: object) -> str:
    """What a field takes, if that is not the value; else nothing."""
    choices = option.metadata.get("choices")
    if choices is not None:
        return "" if value in choices else "one of " + ", ".join(map(repr, choices))
    if isinstance(option.default, bool):
        return "" if isinstance(value, bool) else "True or False"
    if isinstance(option.default, int):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_legal = is_number and value >= option.metadata.get("least", value)
        return "" if is_legal else option.metadata.get("expected", "a number")
    return ""
