"""Matrix products for which C++ calls cuBLAS itself, if the option ``products`` says so.

Such a product takes addresses rather than tensors. At run time the runtime decides whether ATen
would call cuBLAS with exactly these matrices, and leaves to ATen the products that it would copy
first. This module decides what is known before: type, device, and layouts without symbols.
"""

from __future__ import annotations

from typing import Final

import wrapper_ir.lines as ir

_RANKS: Final = {"aten::mm.out": 2, "aten::bmm.out": 3}
_TYPES: Final = (ir.DType.BFLOAT16, ir.DType.FLOAT16, ir.DType.FLOAT32, ir.DType.FLOAT64)


def product_of(program: ir.Program, line: ir.AnyLine) -> tuple[str, ...] | None:
    """Return the product that cuBLAS could compute: ``mm`` or ``bmm``, result, left and right.

    None if the line is no such product.
    """
    if not isinstance(line, ir.ExternKernel) or line.op not in _RANKS:
        return None
    args = (dict(line.kwargs).get("out"), *line.args)
    if line.results or len(args) != 3:
        return None
    names = [arg.buffer for arg in args if isinstance(arg, ir.BufferArg)]
    if len(names) < len(args) or not _fit(line.op, *map(program.layout, names)):
        return None
    return (line.op.removeprefix("aten::").removesuffix(".out"), *names)


def _fit(op: str, out: ir.Layout, left: ir.Layout, right: ir.Layout) -> bool:
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


def _follows_rows(out: ir.Layout) -> bool:
    """Return whether a result may be contiguous: row after row, one matrix after the other."""
    step: object = 1
    for size, stride in zip(reversed(out.size), reversed(out.stride), strict=True):
        if size != 1 and isinstance(stride, int) and isinstance(step, int) and stride != step:
            return False
        step = step * size if isinstance(step, int) and isinstance(size, int) else None
    return True


def _has_unit_stride(operand: ir.Layout) -> bool:
    """Return whether cuBLAS may be able to read an operand in place."""
    rows, columns = operand.size[-2:]
    by_row, by_column = operand.stride[-2:]
    if not all(isinstance(each, int) for each in (rows, columns, by_row, by_column)):
        return True
    return (columns == 1 or by_column == 1) or (rows == 1 or by_row == 1)
