"""Matrix products for which C++ calls cuBLAS itself, if the option ``products`` says so.

Such a product takes addresses rather than tensors. At run time the runtime decides whether ATen
would call cuBLAS with exactly these matrices, and leaves to ATen the products that it would copy
first. This module decides what is known before: type, device, and layouts without symbols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.args import BufferArg
from wrapper_ir.lines.kernels import ExternKernel
from wrapper_ir.lines.layout import DType, Layout

if TYPE_CHECKING:
    from wrapper_ir.lines.program import AnyLine, Program


_RANKS: Final = {"aten::mm.out": 2, "aten::bmm.out": 3}
_TYPES: Final = (DType.BFLOAT16, DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product, or a batch of them.

    Attributes:
        function: Its function, ``mm`` or ``bmm``.
        out: The buffer of the result.
        left: The left operand.
        right: The right operand.
    """

    function: str
    out: str
    left: str
    right: str


class Products:
    """The lines of a program that call cuBLAS themselves; none unless ``direct``."""

    def __init__(self, program: Program, *, direct: bool) -> None:
        self._program = program
        self._direct = direct

    def of(self, line: AnyLine) -> Product | None:
        """Return the product that a line computes without ATen; None if ATen computes it."""
        if not (self._direct and isinstance(line, ExternKernel) and line.op in _RANKS):
            return None
        args = (dict(line.kwargs).get("out"), *line.args)
        if line.results or len(args) != 3:
            return None
        names = [arg.buffer for arg in args if isinstance(arg, BufferArg)]
        if len(names) < len(args):
            return None
        out, left, right = map(self._program.layout, names)
        if not _fit(line.op, out, left, right):
            return None
        return Product(line.op.removeprefix("aten::").removesuffix(".out"), *names)


def _fit(op: str, out: Layout, left: Layout, right: Layout) -> bool:
    layouts = (out, left, right)
    if any(
        each.rank != _RANKS[op] or "cublas" not in each.device.kind.products for each in layouts
    ):
        return False
    if len({(each.dtype, each.device) for each in layouts}) > 1 or out.dtype not in _TYPES:
        return False
    if any(size == 0 for each in layouts for size in each.size):
        return False
    return _follows_rows(out) and _has_unit_stride(left) and _has_unit_stride(right)


def _follows_rows(out: Layout) -> bool:
    """Return whether a result may be contiguous: row after row, one matrix after the other."""
    step: object = 1
    for size, stride in zip(reversed(out.size), reversed(out.stride), strict=True):
        if size != 1 and isinstance(stride, int) and isinstance(step, int) and stride != step:
            return False
        step = step * size if isinstance(step, int) and isinstance(size, int) else None
    return True


def _has_unit_stride(operand: Layout) -> bool:
    """Return whether cuBLAS may be able to read an operand in place."""
    rows, columns = operand.size[-2:]
    by_row, by_column = operand.stride[-2:]
    if not all(isinstance(each, int) for each in (rows, columns, by_row, by_column)):
        return True
    return (columns == 1 or by_column == 1) or (rows == 1 or by_row == 1)
