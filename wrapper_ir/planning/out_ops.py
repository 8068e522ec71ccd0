"""Ops that can write into memory given to them, and ops that work element by element.

The table is data (``out_ops.txt``), made from torch's registry by ``tools/make_out_ops.py``. An op
is found by its whole schema, not by its name: a program from another version of torch, where an op
takes other arguments, is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from wrapper_ir.lines.schema import parse_schema

_POINTWISE: Final = "pointwise "


@dataclass(frozen=True, slots=True)
class OutOp:
    """An ``out=`` overload."""

    name: str
    schema: str
    outs: tuple[str, ...]
    """The keywords of its outputs, in the order of the results."""


@dataclass(frozen=True, slots=True)
class _Table:
    """Contents of the file."""

    by_schema: dict[str, OutOp]
    """The overload for the schema of an op that allocates its results."""
    pointwise: frozenset[str]
    """Schemas of ``out=`` overloads whose result may lie where an argument of its layout does."""


def out_op(schema: str) -> OutOp | None:
    """The overload that does the same as an op into given memory, if there is one."""
    return _table().by_schema.get(schema)


def is_pointwise_out(schema: str) -> bool:
    """Return whether this is an ``out=`` overload that works element by element."""
    return schema in _table().pointwise


@cache
def _table() -> _Table:
    text = files("wrapper_ir.planning").joinpath("out_ops.txt").read_text(encoding="utf-8")
    by_schema: dict[str, OutOp] = {}
    pointwise = set()
    for line in text.splitlines():
        if not line.startswith("#"):
            op, _, out = line.removeprefix(_POINTWISE).partition(" | ")
            parsed = parse_schema(out)
            outs = tuple(a.name for a in parsed.args if a.keyword_only and a.type.writes)
            by_schema[op] = OutOp(parsed.name, out, outs)
            if line.startswith(_POINTWISE):
                pointwise.add(out)
    return _Table(by_schema, frozenset(pointwise))
