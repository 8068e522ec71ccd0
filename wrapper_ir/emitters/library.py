"""Facts of library ops for every target: their schemas, and what those do not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.schema import OpSchema, parse_schema

if TYPE_CHECKING:
    from wrapper_ir.lines.program import Program

PLAIN_WRITERS: Final = frozenset(
    ("aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out")
)
"""Ops that compute in one kernel, into a buffer of the program."""

FIXED_WRITERS: Final = PLAIN_WRITERS | frozenset(f"aten::{op}.out" for op in """
    acos add addbmm addcdiv addcmul addmv addr amax amin baddbmm cat cumprod cumsum gather
    index_select logcumsumexp mv
    """.split())  # noqa: SIM905 - one name a line would take the page
"""Ops that write into a buffer whose size follows from those of their arguments."""


def schema_of(program: Program, op: str) -> OpSchema:
    """Return the schema that a program declares an op with."""
    source = program.kernels[op].source
    assert isinstance(source, TorchOp)
    return parse_schema(source.schema)


def is_method(program: Program, op: str) -> bool:
    """Tell whether an op of a program is a method of a custom class."""
    source = program.kernels[op].source
    return isinstance(source, TorchOp) and source.is_method
