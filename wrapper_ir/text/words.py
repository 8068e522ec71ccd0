"""The words and names of the text form."""

from __future__ import annotations

import re
from typing import Final

from wrapper_ir.lines import (
    DTYPE_BY_SHORT_NAME,
    ConstantKind,
    GraphRole,
    Relation,
    ScalarType,
    Stage,
    SymbolKind,
)

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""A name of a buffer, symbol, kernel or parameter."""

MAX_DEPTH: Final = 64
"""Brackets in an expression or list, and regions, nest no deeper: no program needs it, and sympy,
which is recursive, must not run out of stack on hostile text."""

MAX_DIGITS: Final = 4000
"""Decimal digits of an integer; a longer one is written in hexadecimal, which Python reads in
linear time."""


def is_plain_schema(text: str) -> bool:
    """Return whether a schema can stand on a line as it is: nothing hidden, no remark."""
    return text.isprintable() and text == text.strip() and not ({";", "'"} <= set(text))


RESERVED: Final = frozenset(
    (
        *("true", "false", "inf", "nan", "none", "complex", "symbol", "with", "at"),
        *("input", "constant", "buffer", "program", "return", "yield", "in", "out", "inout"),
        *("allocate", "allocate_pool", "allocate_from_pool", "free", "reuse", "reinterpret"),
        *("object", "method", "held"),
        *("kernel", "extern", "call", "compute", "size", "stride", "storage_offset", "item"),
        *("assert", "assert_layout", "align", "cond", "while", "then", "else", "condition"),
        *("body", "probe", "loc", "stream", "grid", "donated", "wir"),
        *("event", "mempool", "user", "after", "record_event", "wait_event", "synchronize"),
        *DTYPE_BY_SHORT_NAME,
    )
)
"""A symbol of such a name is written with a dollar sign: ``$free``. Any symbol may be."""

DTYPES: Final = DTYPE_BY_SHORT_NAME
ROLES: Final = {role.value: role for role in GraphRole}
STAGES: Final = {stage.value: stage for stage in Stage}
SYMBOL_KINDS: Final = {kind.value: kind for kind in SymbolKind}
CONSTANT_KINDS: Final = {kind.value: kind for kind in ConstantKind}
SCALAR_TYPES: Final = {type_.value: type_ for type_ in ScalarType}
RELATIONS: Final = {relation.value: relation for relation in Relation}
