"""Kernel definitions from lists of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from wrapper_ir.build.errors import ArgumentError
from wrapper_ir.build.values import dtype_of
from wrapper_ir.lines import Access, BufferParam, DType, Param, ScalarParam, ScalarType

BufferParams: TypeAlias = Sequence[tuple[str, DType | str]]
"""Names and element types."""

ScalarParams: TypeAlias = Sequence[str | tuple[str, ScalarType | str]]
"""Names, or names and machine types; without one it is a 64-bit integer."""

#: Triton's names of the types of parameters.
_TRITON_TYPES = {
    DType.FLOAT64: "fp64",
    DType.FLOAT32: "fp32",
    DType.FLOAT16: "fp16",
    DType.BFLOAT16: "bf16",
    DType.FLOAT8_E4M3FN: "fp8e4nv",
    DType.FLOAT8_E5M2: "fp8e5",
    DType.INT64: "i64",
    DType.INT32: "i32",
    DType.INT16: "i16",
    DType.INT8: "i8",
    DType.UINT8: "u8",
    DType.BOOL: "i1",
}
_TRITON_SCALARS = {
    ScalarType.INT64: "i64",
    ScalarType.INT32: "i32",
    ScalarType.UINT64: "u64",
    ScalarType.FLOAT64: "fp64",
    ScalarType.FLOAT32: "fp32",
    ScalarType.BOOL: "i1",
}


def params_of(
    updates: BufferParams, reads: BufferParams, writes: BufferParams, scalars: ScalarParams
) -> tuple[Param, ...]:
    """Parameters in the function's order: updated, read and written buffers, then numbers."""
    return (
        *_buffers(updates, Access.READ_WRITE),
        *_buffers(reads, Access.READ),
        *_buffers(writes, Access.WRITE),
        *map(_scalar, scalars),
    )


def triton_signature(params: tuple[Param, ...]) -> tuple[tuple[str, str], ...]:
    """The Triton types of a kernel's parameters.

    Raises:
        ArgumentError: a parameter has an element type that Triton has no name for.
    """
    return tuple((param.name, _triton_type(param)) for param in params)


def _triton_type(param: Param) -> str:
    if isinstance(param, ScalarParam):
        return _TRITON_SCALARS[param.type]
    if param.dtype not in _TRITON_TYPES:
        reason = f"Triton has no name for {param.dtype.torch_name}; give the signature"
        raise ArgumentError(callee=f"parameter '{param.name}'", reason=reason)
    return f"*{_TRITON_TYPES[param.dtype]}"


def _buffers(params: BufferParams, access: Access) -> list[BufferParam]:
    given: Sequence[object] = params
    for param in given:
        if not isinstance(param, (tuple, list)) or len(param) != 2:
            reason = f"{param!r} is no pair of name and element type, such as ('x', 'f32')"
            raise ArgumentError(callee="parameters", reason=reason)
    return [BufferParam(name, dtype_of(dtype), access) for name, dtype in params]


def _scalar(given: str | tuple[str, ScalarType | str]) -> ScalarParam:
    if isinstance(given, str):
        return ScalarParam(given)
    name, type_ = given
    try:
        return ScalarParam(name, ScalarType(type_))
    except ValueError:
        names = ", ".join(t.value for t in ScalarType)
        reason = f"numbers are not of type {type_!r}, but {names}"
        raise ArgumentError(callee=f"parameter '{name}'", reason=reason) from None
