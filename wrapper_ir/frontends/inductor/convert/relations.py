"""Relations of a library op's results to its arguments, by its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.lines.args import Arg, BufferArg, ListArg, NamedArg, Relation
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.lines.schema import parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import torch

    from wrapper_ir.frontends.inductor.convert.arguments import Method

#: Ops whose schema says "view" and which copy when they must: known only at run time.
_MAY_COPY: Final = frozenset(
    {
        "aten::conj",
        "aten::contiguous",
        "aten::flatten",
        "aten::ravel",
        "aten::reshape",
        "aten::reshape_as",
        "aten::resolve_conj",
        "aten::resolve_neg",
        "aten::to",
        "aten::type_as",
        "aten::unflatten",
    }
)

#: A result's place in what the op returns.
Path = tuple[int | str, ...]


def result_relation(
    op: torch._ops.OpOverload | Method,
    path: Path,
    args: Sequence[Arg],
    kwargs: Sequence[NamedArg],
) -> tuple[Relation, tuple[str, ...]]:
    """Return the relation of the result at ``path``, and the buffers that it concerns."""
    position = handed_over(op.name())
    if position is not None:
        return Relation.ALIAS, tuple(_buffers(args[position]))
    returns: Any = op._schema.returns
    index = path[0] if len(returns) > 1 and path else 0
    info = returns[index].alias_info if isinstance(index, int) and index < len(returns) else None
    if info is None:
        return Relation.FRESH, ()
    # Of a list torch tells the set of the list, not the one of the tensors in it.
    wanted = _sets(info) or parse_schema(str(op._schema)).returns[int(index)].alias_sets
    named = _by_parameter(op, args, kwargs)
    sources: dict[str, None] = {}
    for parameter in op._schema.arguments:
        if parameter.alias_info is not None and wanted & _sets(parameter.alias_info):
            value = named.get(parameter.name)
            sources.update(dict.fromkeys(_buffers(value) if value is not None else ()))
    if not sources:
        return Relation.FRESH, ()
    may_copy = op._schema.name in _MAY_COPY
    return (Relation.MAY_ALIAS if may_copy else Relation.ALIAS), tuple(sources)


def offset_in_argument(
    op: torch._ops.OpOverload | Method, path: Path, traced: Iterable[Any]
) -> Any:
    """Return how many bytes after its argument a view begins; None where nothing tells.

    Inductor forgets it, the traced values know it.

    Args:
        op: What is called.
        path: The view's place in what the op returns.
        traced: The fx nodes that the call comes from.
    """
    calls = [each for each in traced if each.target is op]
    if len(calls) != 1:
        return None
    (held,) = calls
    found = held.meta.get("val")
    for index in path:
        found = found[index]
    position = handed_over(op.name())
    if position is not None:
        viewed = [held.args[position]]
    else:
        pairs = zip(op._schema.arguments, held.args, strict=False)
        viewed = [value for parameter, value in pairs if parameter.alias_info is not None]
    given = viewed[0].meta.get("val") if len(viewed) == 1 and hasattr(viewed[0], "meta") else None
    if given is None:
        return None
    return found.storage_offset() * found.itemsize - given.storage_offset() * given.itemsize


def _sets(info: Any) -> frozenset[str]:
    return frozenset(map(str, info.before_set)) | frozenset(map(str, info.after_set))


def _by_parameter(
    op: torch._ops.OpOverload | Method, args: Sequence[Arg], kwargs: Sequence[NamedArg]
) -> Mapping[str, Arg]:
    positional = (arg.name for arg in op._schema.arguments if not arg.kwarg_only)
    return {**dict(zip(positional, args, strict=False)), **dict(kwargs)}


def _buffers(value: Arg) -> Iterator[str]:
    if isinstance(value, BufferArg):
        yield value.buffer
    elif isinstance(value, ListArg):
        for item in value.items:
            yield from _buffers(item)
