"""Ops of torch's registry: their declarations and their calls.

For both front ends, this module decides which arguments an op writes and which its results alias:
by the schema, by torch's tags, and by tables where both are silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy
import torch

from wrapper_ir import lines
from wrapper_ir.analysis.ops import OVERWRITING, is_torchs
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.effects import handed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.build.draft import ProgramDraft

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Torch's symbolic numbers."""

Path: TypeAlias = tuple[int | str, ...]
"""The position of a tensor or number in an op's return value."""

NUMBERS: Final = (bool, int, float, complex, sympy.Basic, *SYMBOLIC)
"""Classes of concrete and symbolic numbers."""

_TENSORS: Final = ("Tensor", "Optional[Tensor]")

#: Ops whose schema says "view" but which copy if they must. Known only at run time.
_MAY_COPY: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_autocast_to_full_precision", "_autocast_to_reduced_precision", "conj", "contiguous"),
        *("flatten", "pin_memory", "ravel", "reshape", "reshape_as", "resolve_conj"),
        *("resolve_neg", "to", "unflatten"),
    )
)

#: Ops whose schema says "fresh" but which return an argument or a view of it if they can, and which
#: torch does not tag (``maybe_aliasing_or_mutating``).
_MAY_ALIAS: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_unsafe_view", "broadcast_tensors", "chain_matmul", "combinations", "einsum"),
        *("meshgrid", "sum_to_size", "type_as", "unsafe_split", "unsafe_split_with_sizes"),
        *("_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int"),
        *("_cast_Long", "_cast_Short"),
    )
)


class MisfitError(Exception):
    """An argument does not fit the schema of an op. Never leaves a front end."""


def to_device(device: torch.device) -> lines.Device:
    """Convert a device. A CPU has no index."""
    return lines.Device(device.type, None if device.type == "cpu" else device.index)


def plain_argument(value: Any) -> lines.Arg | None:
    """Convert a string, device, layout or memory format; None for any other value."""
    match value:
        case str():
            return lines.StringArg(value)
        case torch.device():
            return lines.DeviceArg(to_device(value))
        case torch.layout():
            return lines.EnumArg(lines.EnumKind.LAYOUT, str(value).removeprefix("torch."))
        case torch.memory_format():
            return lines.EnumArg(lines.EnumKind.MEMORY_FORMAT, str(value).removeprefix("torch."))
        case _:
            return None


def source_of(op: Any) -> lines.TorchOp:
    """Return the declaration of an op, or of a method that carries its own."""
    own: lines.TorchOp | None = getattr(op, "source", None)
    return own or lines.TorchOp(str(op._schema))  # noqa: SLF001 - its only text


def call_of(
    draft: ProgramDraft,
    op: Any,
    args: tuple[lines.Arg, ...],
    kwargs: tuple[lines.NamedArg, ...] = (),
    results: tuple[lines.OpResult, ...] = (),
    **where: Any,
) -> lines.ExternKernel:
    """Return a call of an op, declared if necessary; ``where`` may hold its device and origin."""
    name = draft.declare(str(op.name()), source_of(op))
    return lines.ExternKernel(name, args, kwargs, results, **where)


def is_op(target: object) -> bool:
    """Return True if a node's target is an overload of an op in torch's registry."""
    return hasattr(target, "overloadpacket") and hasattr(target, "_schema")


@dataclass(frozen=True, slots=True)
class Bound:
    """An op with its arguments bound to its schema."""

    op: Any  #: the overload that takes the arguments
    schema: lines.OpSchema
    args: tuple[lines.Arg, ...]
    kwargs: tuple[lines.NamedArg, ...]

    @property
    def name(self) -> str:
        """Name of the op, without the overload."""
        return self.schema.name.partition(".")[0]

    @property
    def buffers(self) -> Sequence[str]:
        """Names of the buffers among the arguments."""
        given = (*self.args, *(value for _, value in self.kwargs))
        return [each.buffer for each in buffers_in(given)]

    def relation(self, path: Path) -> tuple[lines.Relation, tuple[str, ...]]:
        """Return the relation of the result at a path to the arguments, and the buffers in it."""
        position = handed_over(self.schema.name)
        if position is not None:
            return lines.Relation.ALIAS, tuple(
                each.buffer for each in buffers_in([self.args[position]])
            )
        given = self.schema.given(self.args, self.kwargs)
        type_ = self.schema.type_at(path)
        sets = type_.alias_sets if type_ is not None else frozenset()
        relation = (
            lines.Relation.MAY_ALIAS if self.name in _MAY_COPY or not sets else lines.Relation.ALIAS
        )
        tags = getattr(self.op, "tags", ())
        if not sets and (self.name in _MAY_ALIAS or torch.Tag.maybe_aliasing_or_mutating in tags):
            sets = frozenset("*")
        found = dict.fromkeys(b.buffer for b in buffers_in(self.schema.sharing(sets, given)))
        return (relation, tuple(found)) if found else (lines.Relation.FRESH, ())


def bind_arguments(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    convert: Callable[[Any, lines.SchemaArg, lines.Access], lines.Arg],
) -> Bound:
    """Bind the arguments of a call to the op's schema.

    If a positional argument is given by name, the defaults before it are filled in.

    ``convert`` converts a value that is neither a list nor None, given its declaration in the
    schema and the op's access to it.

    Raises:
        MisfitError: An argument does not fit the schema.
        SchemaError: The IR cannot parse the schema.
    """
    op = _number_overload(op, args)
    if torch.Tag.inplace_view in getattr(op, "tags", ()) and not is_torchs(str(op.name())):
        raise MisfitError("it changes the shape or the storage of the tensor that it is given")
    schema = lines.parse_schema(source_of(op).schema)
    positional, given = schema.positional, _given(schema, args, kwargs)
    named = [a for a in schema.args if a.keyword_only and a.name in given]
    last = max((i for i, p in enumerate(positional) if p.name in given), default=-1)
    if any(declared.name not in given for declared in positional[:last]):
        theirs = op._schema.arguments  # noqa: SLF001 - the only source of the defaults' values
        given = {**{each.name: each.default_value for each in theirs}, **given}

    def converted(declared: lines.SchemaArg, value: Any) -> lines.Arg:
        if isinstance(value, (list, tuple)):
            return lines.ListArg(tuple(converted(declared, item) for item in value))
        value = _typed(value, declared.type.base)
        return (
            lines.NoneArg()
            if value is None
            else convert(value, declared, _access(schema, declared))
        )

    ordered = tuple(converted(each, given[each.name]) for each in positional[: last + 1])
    return Bound(op, schema, ordered, tuple((a.name, converted(a, given[a.name])) for a in named))


def _given(
    schema: lines.OpSchema, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a call by the names of their arguments."""
    positional = schema.positional
    if len(args) > len(positional):
        count = len(positional)
        raise MisfitError(f"it takes {count} positional arguments but {len(args)} were given")
    given = {**{p.name: value for p, value in zip(positional, args, strict=False)}, **kwargs}
    unknown = sorted(given.keys() - {declared.name for declared in schema.args})
    if unknown:
        raise MisfitError(f"the schema has no argument {', '.join(unknown)}")
    return given


def _typed(value: Any, base: str) -> Any:
    """Return a number as the schema's type. Torch accepts True for an int and 1 for a bool."""
    if isinstance(value, bool) and base in ("int", "SymInt"):
        return int(value)
    if isinstance(value, bool) and base in ("float", "SymFloat"):
        return float(value)
    return bool(value) if isinstance(value, int) and base in ("bool", "SymBool") else value


def _access(schema: lines.OpSchema, declared: lines.SchemaArg) -> lines.Access:
    """Return an op's access to an argument. ``out`` arguments are overwritten."""
    if not declared.type.writes:
        return lines.Access.READ
    overwrites = declared.keyword_only or schema.name.partition(".")[0] in OVERWRITING
    return lines.Access.WRITE if overwrites else lines.Access.READ_WRITE


def _number_overload(op: Any, args: Sequence[Any]) -> Any:
    """Return the overload that takes numbers where a call passes numbers for tensors.

    Python's dispatcher accepts ``mul.Tensor(x, 2)`` and turns the number into a tensor. A program
    calls the overload that takes a number instead, which computes the same.

    Raises:
        MisfitError: There is no such overload, so the number would have to become a tensor.
    """
    wanted = op._schema.arguments  # noqa: SLF001 - the only source of the types
    given = enumerate(zip(wanted, args, strict=False))
    numbers = [(index, str(each.type)) for index, (each, a) in given if isinstance(a, NUMBERS)]
    positions = [index for index, type_ in numbers if type_ in _TENSORS]
    if not positions:
        return op
    for name in op.overloadpacket.overloads():
        candidate = getattr(op.overloadpacket, name)
        if _fits(candidate._schema.arguments, wanted, positions):  # noqa: SLF001 - as above
            return candidate
    names = ", ".join(repr(wanted[index].name) for index in positions)
    raise MisfitError(f"a number was passed for the tensor {names}, and no overload takes one")


def _fits(candidate: Sequence[Any], wanted: Sequence[Any], positions: Sequence[int]) -> bool:
    """Return True if the schemas differ only in taking numbers for tensors at the positions.

    A keyword-only argument of one may be positional in the other, like ``add``'s ``alpha``.
    """
    return len(candidate) == len(wanted) and all(
        one.name == other.name
        and one.type.kind() == ("NumberType" if index in positions else other.type.kind())
        for index, (one, other) in enumerate(zip(candidate, wanted, strict=True))
    )
