"""Facts of library ops: by their schemas, by torch's tags, and by tables where neither says them.

What torch's registry knows is data (``ops.txt``), made by ``tools/make_ops.py``: which ops have an
overload that writes into given memory, which work element by element, which draw random numbers.
The first two are found by the whole schema, not by the name: a program from another version of
torch, where an op takes other arguments, is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.args import ScalarArg
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.schema import OpSchema, parse_schema
from wrapper_ir.lines.traits import calls_op, op_of
from wrapper_ir.lines.walk import regions_of

if TYPE_CHECKING:
    from wrapper_ir.lines.effects import Effects
    from wrapper_ir.lines.kernels import ExternKernel
    from wrapper_ir.lines.program import AnyLine, Program

PRODUCTS: Final = frozenset(
    ("aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out")
)
"""Products of matrices: one kernel each, into a contiguous buffer of the program."""

FIXED_WRITERS: Final = PRODUCTS | frozenset(f"aten::{op}.out" for op in """
    acos add addbmm addcdiv addcmul addmv addr amax amin baddbmm cat cumprod cumsum gather
    index_select logcumsumexp mv
    """.split())  # noqa: SIM905 - one name a line would take the page
"""Ops that write into a buffer whose size follows from those of their arguments."""

OVERWRITING: Final = (
    *("aten::bernoulli_", "aten::cauchy_", "aten::copy_", "aten::exponential_", "aten::fill_"),
    *("aten::geometric_", "aten::log_normal_", "aten::normal_", "aten::random_"),
    *("aten::uniform_", "aten::zero_"),
)
"""Ops that change their first argument without looking at it; schemas do not tell."""

#: The namespaces of torch's own ops, which are known: they hold on to nothing, and those that draw
#: random numbers are in the table.
_KNOWN: Final = ("aten::", "prims::", "quantized::", "mkldnn::", "mkl::")

#: The namespace of functional collectives, and those of all.
_FUNCTIONAL: Final = "_c10d_functional::"
_COLLECTIVES: Final = (_FUNCTIONAL, "c10d::", "c10d_functional::")

_STARTERS: Final = tuple(
    _FUNCTIONAL + name
    for name in (
        "all_gather_into_tensor",
        "all_reduce",
        "all_to_all_single",
        "batch_p2p_ops",
        "broadcast",
        "irecv",
        "isend",
        "reduce_scatter_tensor",
    )
)
"""What the names of ops begin with that start work, in place or not, one by one or coalesced."""

_WAIT: Final = f"{_FUNCTIONAL}wait_tensor"
"""What the names of ops begin with that wait."""

_DROPOUT: Final = "dropout_p"
"""The parameter of attention ops that says how much they drop."""


def schema_of(program: Program, op: str) -> OpSchema:
    """Return the schema that a program declares an op with."""
    source = program.kernels[op].source
    assert isinstance(source, TorchOp)
    return parse_schema(source.schema)


def is_method(program: Program, op: str) -> bool:
    """Return whether an op of a program is a method of a custom class."""
    source = program.kernels[op].source
    return isinstance(source, TorchOp) and source.is_method


# Memory.


def escapes_to(line: AnyLine, found: Effects) -> bool:
    """Return whether code that may keep hold of buffers gets what a line touches.

    That is regions, ops that are not torch's own, and whatever gets an object to keep them in.

    Args:
        line: The line.
        found: Its effects.
    """
    if found.objects or found.defines_objects or regions_of(line):
        return True
    return calls_op(line) and not line.op.startswith(_KNOWN)


def overwritten(found: Effects) -> list[str]:
    """Return what a call changes without looking at it: its first argument, if anything."""
    overwrites = any(name.partition(".")[0] in OVERWRITING for name in found.calls)
    return found.writes[:1] if overwrites else []


# Collectives begin work that goes on beside the program until it is waited for. Until then the work
# reads what the op was given, and writes what it returned or wrote in place. Schemas do not say so:
# an op looks as if it were done when it returns.


def begins_work(line: AnyLine) -> bool:
    """Return whether a line starts work that goes on behind it."""
    return op_of(line).startswith(_STARTERS)


def waits_for_work(line: AnyLine) -> bool:
    """Return whether a line waits for the work on what it is given."""
    return op_of(line).startswith(_WAIT)


def is_collective(line: AnyLine) -> bool:
    """Return whether something may work on what a line was given after it returned."""
    return op_of(line).startswith(_COLLECTIVES)


# Random numbers.


def may_drop(schema: OpSchema) -> bool:
    """Return whether an op can be told to drop elements, as attention is: it handles the state.

    Forwards return the state of random numbers, on the GPU while a graph is captured, else on the
    host, and backwards look for it likewise.
    """
    return schema.arg(_DROPOUT) is not None


def drops(program: Program, line: ExternKernel) -> bool:
    """Return whether a call of such an op is told to drop anything."""
    schema = schema_of(program, line.op)
    if not may_drop(schema):
        return False
    return schema.given(line.args, line.kwargs).get(_DROPOUT) not in (
        None,
        ScalarArg(0),
        ScalarArg(0.0),
    )


def draws(program: Program, line: AnyLine) -> bool:
    """Return whether a line may draw random numbers: an op that is not known may do anything."""
    if not calls_op(line):
        return False
    schema = schema_of(program, line.op)
    if not schema.name.startswith(_KNOWN):
        return True
    if may_drop(schema):
        return drops(program, line)
    is_seeded = schema.name in _table().seeded
    return is_seeded or any(parameter.type.base == "Generator" for parameter in schema.args)


# The table.

_POINTWISE: Final = "pointwise "
_SEEDED: Final = "seeded "


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
    seeded: frozenset[str]
    """Names of ops that draw random numbers."""


def out_op(schema: str) -> OutOp | None:
    """Return the overload that does the same as an op into given memory, if there is one."""
    return _table().by_schema.get(schema)


def is_pointwise_out(schema: str) -> bool:
    """Return whether this is an ``out=`` overload that works element by element."""
    return schema in _table().pointwise


@cache
def _table() -> _Table:
    text = files("wrapper_ir.analysis").joinpath("ops.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    by_schema: dict[str, OutOp] = {}
    pointwise = set()
    for line in lines:
        op, _, out = line.removeprefix(_POINTWISE).partition(" | ")
        if out:
            parsed = parse_schema(out)
            outs = tuple(a.name for a in parsed.args if a.keyword_only and a.type.writes)
            by_schema[op] = OutOp(parsed.name, out, outs)
            if line.startswith(_POINTWISE):
                pointwise.add(out)
    seeded = frozenset(li.removeprefix(_SEEDED) for li in lines if li.startswith(_SEEDED))
    return _Table(by_schema, frozenset(pointwise), seeded)
