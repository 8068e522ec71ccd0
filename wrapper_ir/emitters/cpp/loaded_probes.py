"""Probes of a library that Python has loaded: functions of the same kind as a module's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.runtime.probes import make_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["probe_function"]

#: Levels by the numbers of ``wir::ProbeLevel``.
_LEVELS: Final = (*("save", "print", "names", "check", "stats", "compare", "hook", "check_nan"),)

#: The number of ``wir::ProbeOperand::Kind::kTensor``.
_TENSOR: Final = 0


def probe_function(
    label: str,
    after: bool,  # noqa: FBT001 - the fields of a struct
    level: int,
    source: str,
    operands: Sequence[tuple[str, int]],
) -> Callable[..., None]:
    """Return what a probe calls, with its tensors and then its numbers.

    Args:
        label: Number and name of the call.
        after: On which side of the call it stands.
        level: Number of the level.
        source: Where in the model the call comes from.
        operands: Name and kind of each value.
    """
    buffers = tuple(name for name, kind in operands if kind == _TENSOR)
    scalars = tuple(name for name, kind in operands if kind != _TENSOR)
    when = "after" if after else "before"
    return make_probe(label, when, _LEVELS[level], buffers, scalars, source=source)
