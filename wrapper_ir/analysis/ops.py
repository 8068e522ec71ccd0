"""Facts about library ops, from schemas, torch's tags, and tables of what neither of them says.

``ops.txt`` holds facts from torch's registry, extracted by ``tools/make_ops.py``: the ``out=``
overloads of ops, which of them are pointwise, the ops that draw random numbers, and those that
change the shape or the storage of a tensor that they are given. The first two
are keyed by the whole schema, not by name, so that a program from a torch version where an op takes
other arguments is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import NAMESPACES, facts_of
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.lines.traits import calls_op, op_of

PRODUCTS: Final = frozenset(
    ("aten::mm.out", "aten::addmm.out", "aten::bmm.out", "aten::baddbmm.out")
)
"""Matrix products: one kernel each, into a contiguous buffer of the program."""

FIXED_WRITERS: Final = PRODUCTS | frozenset(f"aten::{op}.out" for op in """
    acos add addbmm addcdiv addcmul addmv addr amax amin baddbmm cat cumprod cumsum gather
    index_select logcumsumexp mv
    """.split())  # noqa: SIM905 - one name a line would take the page
"""Ops that write into a buffer whose size follows from the sizes of their arguments."""

OVERWRITING: Final = (
    *("aten::bernoulli_", "aten::cauchy_", "aten::copy_", "aten::exponential_", "aten::fill_"),
    *("aten::geometric_", "aten::log_normal_", "aten::normal_", "aten::random_"),
    *("aten::uniform_", "aten::zero_"),
)
"""Ops that overwrite their first argument without reading it, which schemas do not say."""

_LAZY: Final = frozenset(
    f"aten::{op}"
    for op in (
        *("_conj", "_neg_view", "adjoint", "conj", "imag", "mH", "matrix_H", "real"),
        *("resolve_conj", "resolve_neg"),
    )
)
"""Ops whose result may be a view that conjugates or negates, of an argument that does not.

Or the other way round. Such a tensor has a flag; its memory holds other values than it has.
"""

#: Namespaces of torch's own ops: these keep no tensors, and the table lists those that draw random
#: numbers.
_KNOWN: Final = ("aten::", "prims::", "quantized::", "mkldnn::", "mkl::")

#: Namespaces of ops whose meta functions come with torch.
_TORCHS: Final = (*_KNOWN, *NAMESPACES, "_quantized::", "onednn::", "inductor::", "rngprims::")

_DROPOUT: Final = "dropout_p"
"""The parameter of attention ops with the dropout probability."""


def schema_of(program: ir.Program, op: str) -> ir.OpSchema:
    """Return the schema that a program declares for an op."""
    source = program.kernels[op].source
    assert isinstance(source, ir.TorchOp)
    return ir.parse_schema(source.schema)


def is_method(program: ir.Program, op: str) -> bool:
    """Return whether an op of a program is a method of a custom class."""
    source = program.kernels[op].source
    return isinstance(source, ir.TorchOp) and source.is_method


def is_torchs(op: str) -> bool:
    """Return whether an op is one of torch's, so that its meta function belongs to it."""
    return op.startswith(_TORCHS)


def fits_product(program: ir.Program, line: ir.ExternKernel) -> bool:
    """Return whether a call is a matrix product into a buffer that certainly has its layout.

    This says of the commonest calls what else only torch's meta functions tell.
    """
    if line.op not in PRODUCTS or line.results:
        return False
    schema = schema_of(program, line.op)
    given = schema.given(line.args, line.kwargs)
    tensors = [given.get(arg.name) for arg in schema.args if arg.type.base == "Tensor"]
    layouts = [program.layout(arg.buffer) for arg in tensors if isinstance(arg, ir.BufferArg)]
    if len(layouts) < len(tensors) or len({(x.dtype, x.device, x.kind) for x in layouts}) > 1:
        return False
    *added, left, right, out = layouts
    if not left.rank == right.rank == out.rank >= 2:
        return False
    inner = (*left.size[:-2], left.size[-1])
    return (
        inner == right.size[:-1]
        and out.size == (*left.size[:-1], right.size[-1])
        and all(_broadcasts(each.size, out.size) for each in added)
    )


def _broadcasts(size: tuple[ir.Dim, ...], to: tuple[ir.Dim, ...]) -> bool:
    pairs = zip(reversed(size), reversed(to), strict=False)
    return len(size) <= len(to) and all(have in (1, want) for have, want in pairs)


# Memory.


def escapes_to(line: ir.AnyLine, found: ir.Effects) -> bool:
    """Return whether the buffers that a line touches may be kept by someone.

    Regions, ops other than torch's own, and lines that use objects may keep them.
    """
    if found.objects or found.defines_objects or ir.regions_of(line):
        return True
    return calls_op(line) and not line.op.startswith(_KNOWN)


def overwritten(found: ir.Effects) -> list[str]:
    """Return the buffers that a call overwrites unread: its first argument, or nothing."""
    overwrites = any(name.partition(".")[0] in OVERWRITING for name in found.calls)
    return found.writes[:1] if overwrites else []


def changes_tensor(op: str) -> bool:
    """Return whether an op changes the shape or the storage of a tensor that it is given.

    Moving one buffer's storage into another, of which effects know, does not count.
    """
    return op in _table().reshaping and handed_over(op) is None


def reads_otherwise(line: ir.AnyLine) -> bool:
    """Return whether results of a line may read the memory of its arguments differently.

    They conjugate or negate it, or no longer do. Views of them have to be taken of them.
    """
    return op_of(line) in _LAZY


# Random numbers.


def may_drop(schema: ir.OpSchema) -> bool:
    """Return whether an op has a dropout probability, as attention ops have.

    The forward op returns the random state, on the GPU while a graph is captured and on the host
    otherwise; the backward op expects it in the same place.
    """
    return schema.arg(_DROPOUT) is not None


def drops(program: ir.Program, line: ir.ExternKernel) -> bool:
    """Return whether a call has a dropout probability other than 0."""
    schema = schema_of(program, line.op)
    if not may_drop(schema):
        return False
    return schema.given(line.args, line.kwargs).get(_DROPOUT) not in (
        None,
        ir.ScalarArg(0),
        ir.ScalarArg(0.0),
    )


def draws(program: ir.Program, line: ir.AnyLine) -> bool:
    """Return whether a line may draw random numbers. Collectives do not; an unknown op may."""
    if not calls_op(line):
        return False
    schema = schema_of(program, line.op)
    if not schema.name.startswith(_KNOWN):
        return facts_of(line.op) is None
    if may_drop(schema):
        return drops(program, line)
    is_seeded = schema.name in _table().seeded
    return is_seeded or any(parameter.type.base == "Generator" for parameter in schema.args)


# The table.

_POINTWISE: Final = "pointwise "
_SEEDED: Final = "seeded "
_RESHAPING: Final = "reshaping "


@dataclass(frozen=True, slots=True)
class OutOp:
    """An ``out=`` overload."""

    name: str
    schema: str
    outs: tuple[str, ...]
    """The keywords of its outputs, in the order of the results."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The contents of ``ops.txt``."""

    by_schema: dict[str, OutOp]
    """``out=`` overloads by the schema of the op that allocates its results."""
    pointwise: frozenset[str]
    """Schemas of ``out=`` overloads that may write over an argument of the output's layout."""
    seeded: frozenset[str]
    """Names of ops that draw random numbers."""
    reshaping: frozenset[str]
    """Names of ops that change the shape or the storage of their argument."""


def out_op(schema: str) -> OutOp | None:
    """Return the ``out=`` overload of an op, if there is one."""
    return _table().by_schema.get(schema)


def is_pointwise_out(schema: str) -> bool:
    """Return whether this is a pointwise ``out=`` overload."""
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
            parsed = ir.parse_schema(out)
            outs = tuple(a.name for a in parsed.args if a.keyword_only and a.type.writes)
            by_schema[op] = OutOp(parsed.name, out, outs)
            if line.startswith(_POINTWISE):
                pointwise.add(out)
    seeded, reshaping = (
        frozenset(line.removeprefix(kind) for line in lines if line.startswith(kind))
        for kind in (_SEEDED, _RESHAPING)
    )
    return _Table(by_schema, frozenset(pointwise), seeded, reshaping)
