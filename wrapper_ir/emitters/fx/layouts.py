"""Results of library ops in the layout that the program says.

Views of a result, and kernels that read it, are made for that layout. As long as a graph is run as
it is, an op that returns another one is an error. When the graph is traced, ops may be replaced by
others that compute the same and lay it out as they please (torch's decompositions of attention
do). So these ops are made of others: where the layout is right they give back what they are given,
and where a trace finds another they copy it into the right one. In both cases the trace has a check
that holds when it is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from wrapper_ir.emitters.fx import checks, library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def _lay_out(result: Tensor, spec: str) -> Tensor:
    if torch.compiler.is_compiling():
        stride = checks.stride_of(spec)
        result = _with_stride(result, stride)
    checks.CHECK_RESULT(result, spec)
    return result


def _lay_out_directly(result: Tensor, spec: str) -> Tensor:
    checks.check_fixed_result(result, spec)
    return result


def _lay_out_sizes(result: Tensor, spec: str, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    if torch.compiler.is_compiling():
        result = _with_stride(result, stride)
    checks.CHECK_SIZES(result, spec, size, stride, False)  # noqa: FBT003 - as the schema has it
    return result


def _with_stride(result: Tensor, stride: Sequence[int]) -> Tensor:
    """A tensor with these strides: the one given, or a copy; as it is where it cannot have them."""
    if len(stride) != result.dim() or _are_same(result.stride(), stride):
        return result
    if any(_is_zero(step) for step in stride):
        return result
    made = torch.empty_strided(result.shape, stride, dtype=result.dtype, device=result.device)
    return made.copy_(result)


def _are_same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Return whether numbers are the same, whatever symbols among them stand for."""
    return all(statically_known_true(a == b) for a, b in zip(ours, theirs, strict=True))


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number == 0


def _op(schema: str, function: Callable[..., Tensor], direct: Callable[..., Tensor]) -> Any:
    overload = library.define(schema)
    name = schema.partition("(")[0]
    library.implement(name, function, "CompositeImplicitAutograd", direct=direct)
    return overload


LAY_OUT: Final = _op(
    "lay_out(Tensor(a) result, str spec) -> Tensor(a)", _lay_out, _lay_out_directly
)
"""A result whose layout is fixed."""

LAY_OUT_SIZES: Final = _op(
    "lay_out_sizes(Tensor(a) result, str spec, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    _lay_out_sizes,
    _lay_out_sizes,
)
"""A result whose layout depends on symbols."""
