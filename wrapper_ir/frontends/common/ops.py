"""Ops of torch's registry: their declarations, and their calls in our terms.

What an op does to its arguments, and what its results share with them, is said here for both front
ends: by the schema, by torch's tags, and by tables where neither says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import sympy
import torch

from wrapper_ir.analysis.ops import OVERWRITING
from wrapper_ir.lines.args import (
    Access,
    Arg,
    DeviceArg,
    EnumArg,
    EnumKind,
    ListArg,
    NamedArg,
    NoneArg,
    Relation,
    StringArg,
    buffers_in,
)
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.lines.kernels import ExternKernel, TorchOp
from wrapper_ir.lines.layout import Device
from wrapper_ir.lines.schema import OpSchema, SchemaArg, parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.build.draft import ProgramDraft
    from wrapper_ir.lines.args import OpResult

SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Torch's symbolic numbers."""

Path: TypeAlias = tuple[int | str, ...]
"""The place of a tensor or a number in what an op returns."""

NUMBERS: Final = (bool, int, float, complex, sympy.Basic, *SYMBOLIC)
"""Classes of numbers, known and symbolic."""

_TENSORS: Final = ("Tensor", "Optional[Tensor]")

#: Ops whose schema says "view" and which copy when they must: known only at run time.
_MAY_COPY: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_autocast_to_full_precision", "_autocast_to_reduced_precision", "conj", "contiguous"),
        *("flatten", "pin_memory", "ravel", "reshape", "reshape_as", "resolve_conj"),
        *("resolve_neg", "to", "unflatten"),
    )
)

#: Ops whose schema says "new" and which return an argument or a view of it when they can. Torch
#: tags some of the kind (``maybe_aliasing_or_mutating``); these it does not.
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
    """An argument has no place in the schema of an op. Never leaves a front end."""


def to_device(device: torch.device) -> Device:
    """Return the device; a CPU has no index."""
    return Device(device.type, None if device.type == "cpu" else device.index)


def plain_argument(value: Any) -> Arg | None:
    """Return an argument of a kind that is neither a tensor, a number nor a dtype, if it is one."""
    match value:
        case str():
            return StringArg(value)
        case torch.device():
            return DeviceArg(to_device(value))
        case torch.layout():
            return EnumArg(EnumKind.LAYOUT, str(value).removeprefix("torch."))
        case torch.memory_format():
            return EnumArg(EnumKind.MEMORY_FORMAT, str(value).removeprefix("torch."))
        case _:
            return None


def source_of(op: Any) -> TorchOp:
    """Return the declaration of an op, or of a method that brings its own."""
    own: TorchOp | None = getattr(op, "source", None)
    return own or TorchOp(str(op._schema))  # noqa: SLF001 - its only text


def declare(draft: ProgramDraft, op: Any) -> str:
    """Return the name of an op, after declaring it where that was not done."""
    return draft.declare(str(op.name()), source_of(op))


def call_of(
    draft: ProgramDraft,
    op: Any,
    args: tuple[Arg, ...],
    kwargs: tuple[NamedArg, ...] = (),
    results: tuple[OpResult, ...] = (),
    **where: Any,
) -> ExternKernel:
    """Return the call of an op, which is declared where that was not done.

    Args:
        draft: The program.
        op: The op.
        args: Its arguments, with what it does to each.
        kwargs: Those that are named.
        results: What it defines.
        **where: Further fields of the line: device, origin.
    """
    return ExternKernel(declare(draft, op), args, kwargs, results, **where)


def is_op(target: object) -> bool:
    """Return whether a node's target is an overload of an op in torch's registry."""
    return hasattr(target, "overloadpacket") and hasattr(target, "_schema")


@dataclass(frozen=True, slots=True)
class Bound:
    """An op with its arguments, each where the schema has it.

    Attributes:
        op: The overload that takes them.
        schema: Its schema.
        args: Its positional arguments.
        kwargs: The others.
    """

    op: Any
    schema: OpSchema
    args: tuple[Arg, ...]
    kwargs: tuple[NamedArg, ...]

    @property
    def name(self) -> str:
        """The op's name, without the overload."""
        return self.schema.name.partition(".")[0]

    @property
    def buffers(self) -> Sequence[str]:
        """The buffers among the arguments."""
        given = (*self.args, *(value for _, value in self.kwargs))
        return [each.buffer for each in buffers_in(given)]

    def relation(self, path: Path) -> tuple[Relation, tuple[str, ...]]:
        """Return how the tensor at a path relates to arguments, and to which buffers."""
        position = handed_over(self.schema.name)
        if position is not None:
            return Relation.ALIAS, tuple(each.buffer for each in buffers_in([self.args[position]]))
        given = self.schema.given(self.args, self.kwargs)
        type_ = self.schema.type_at(path)
        sets = type_.alias_sets if type_ is not None else frozenset()
        relation = Relation.MAY_ALIAS if self.name in _MAY_COPY or not sets else Relation.ALIAS
        tags = getattr(self.op, "tags", ())
        if not sets and (self.name in _MAY_ALIAS or torch.Tag.maybe_aliasing_or_mutating in tags):
            sets = frozenset("*")
        found = dict.fromkeys(b.buffer for b in buffers_in(self.schema.sharing(sets, given)))
        return (relation, tuple(found)) if found else (Relation.FRESH, ())


def bind_arguments(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    convert: Callable[[Any, SchemaArg, Access], Arg],
) -> Bound:
    """Return an op with its arguments, each where the schema has it.

    What is positional may be given by name; then defaults are filled in before it.

    Args:
        op: The op, or a method.
        args: Torch's values.
        kwargs: Those that are given by name.
        convert: Makes an argument of a value that is neither a list nor None, given what the schema
            says of it and what is done to it.

    Raises:
        MisfitError: An argument has no place in the schema.
        SchemaError: The schema is written in a way that the IR cannot read.
    """
    op = _number_overload(op, args)
    schema = parse_schema(source_of(op).schema)
    positional = schema.positional
    if len(args) > len(positional):
        raise MisfitError(f"{len(args)} positional arguments, {len(positional)} in the schema")
    given = {**{p.name: value for p, value in zip(positional, args, strict=False)}, **kwargs}
    unknown = sorted(given.keys() - {declared.name for declared in schema.args})
    if unknown:
        raise MisfitError(f"no argument called {', '.join(unknown)} in the schema")
    named = [a for a in schema.args if a.keyword_only and a.name in given]
    last = max((i for i, p in enumerate(positional) if p.name in given), default=-1)
    if any(declared.name not in given for declared in positional[:last]):
        theirs = op._schema.arguments  # noqa: SLF001 - where torch tells values
        given = {**{each.name: each.default_value for each in theirs}, **given}

    def converted(declared: SchemaArg, value: Any) -> Arg:
        if isinstance(value, (list, tuple)):
            return ListArg(tuple(converted(declared, item) for item in value))
        value = _typed(value, declared.type.base)
        return NoneArg() if value is None else convert(value, declared, _access(schema, declared))

    return Bound(
        op,
        schema,
        tuple(converted(each, given[each.name]) for each in positional[: last + 1]),
        tuple((each.name, converted(each, given[each.name])) for each in named),
    )


def _typed(value: Any, base: str) -> Any:
    """Return a number in the schema's type: torch takes True for an int, and 1 for a bool."""
    if isinstance(value, bool) and base in ("int", "SymInt"):
        return int(value)
    if isinstance(value, bool) and base in ("float", "SymFloat"):
        return float(value)
    return bool(value) if isinstance(value, int) and base in ("bool", "SymBool") else value


def _access(schema: OpSchema, declared: SchemaArg) -> Access:
    """Return what an op does to an argument: ``out`` arguments are overwritten."""
    if not declared.type.writes:
        return Access.READ
    overwrites = declared.keyword_only or schema.name.partition(".")[0] in OVERWRITING
    return Access.WRITE if overwrites else Access.READ_WRITE


def _number_overload(op: Any, args: Sequence[Any]) -> Any:
    """Return the overload of an op that takes numbers where numbers are given for tensors.

    Python's dispatcher takes ``mul.Tensor(x, 2)`` and makes a tensor of the number. A program says
    what it means instead: the overload that takes a number there computes the same.

    Raises:
        MisfitError: There is none, so the number would have to become a tensor.
    """
    wanted = op._schema.arguments  # noqa: SLF001 - where torch tells types
    positions = [
        index
        for index, (declared, given) in enumerate(zip(wanted, args, strict=False))
        if str(declared.type) in _TENSORS and isinstance(given, NUMBERS)
    ]
    if not positions:
        return op
    for name in op.overloadpacket.overloads():
        candidate = getattr(op.overloadpacket, name)
        if _fits(candidate._schema.arguments, wanted, positions):  # noqa: SLF001 - as above
            return candidate
    names = ", ".join(repr(wanted[index].name) for index in positions)
    raise MisfitError(f"a number is given for the tensor {names}, and no overload takes one")


def _fits(candidate: Sequence[Any], wanted: Sequence[Any], positions: Sequence[int]) -> bool:
    """Return whether the schemas differ only in numbers for tensors at the positions.

    What may only be named in one may be given by position in the other, as ``add``'s ``alpha``.
    """
    if len(candidate) != len(wanted):
        return False
    for index, (one, other) in enumerate(zip(candidate, wanted, strict=True)):
        kind = "NumberType" if index in positions else other.type.kind()
        if one.name != other.name or one.type.kind() != kind:
            return False
    return True
