"""Probes as nodes of one op, which does what a probe of emitted Python does.

What a probe is called and shows is JSON in the node, made into a function once. Tracing keeps the
node, so a probe shows its values wherever the graph ends up.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.emitters.facts import origin_place
from wrapper_ir.emitters.fx import library
from wrapper_ir.runtime import make_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from wrapper_ir.lines.program import Program
    from wrapper_ir.lines.trace import Probe


def spec_of(line: Probe, program: Program) -> str:
    """All that is known of a probe before it is run."""
    spec: dict[str, Any] = {
        "label": line.label,
        "when": line.when.value,
        "level": line.level.value,
        "buffers": program.shown_names(line),
        "scalars": [str(value) for value in line.scalars],
    }
    source = origin_place(line, program)
    return json.dumps({**spec, "source": source} if source else spec)


@functools.lru_cache(maxsize=4096)
def _probe(text: str) -> Callable[..., None]:
    spec = json.loads(text)
    source = spec.get("source")
    keywords = {"source": source} if source and spec["level"] != "names" else {}
    args = (spec["label"], spec["when"], spec["level"])
    return make_probe(*args, tuple(spec["buffers"]), tuple(spec["scalars"]), **keywords)


def _show(buffers: Sequence[Tensor], spec: str, scalars: Sequence[float]) -> None:
    _probe(spec)(*buffers, *scalars)


def _nothing(buffers: Sequence[Tensor], spec: str, scalars: Sequence[float]) -> None:
    """Tensors without data show nothing."""


SHOW: Final[Any] = library.define(
    "show(Tensor[] buffers, str spec, Scalar[] scalars) -> ()", _nothing
)
library.implement("show", _show, "CompositeExplicitAutograd")
