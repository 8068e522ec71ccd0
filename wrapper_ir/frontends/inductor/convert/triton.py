"""Calls of Triton kernels that Inductor wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.convert.values import to_device, to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.triton import Pinned, pin
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.args import Arg, BufferArg, ScalarArg
from wrapper_ir.lines.kernels import (
    BufferParam,
    KernelCall,
    KernelDefinition,
    Param,
    ScalarParam,
    ScalarType,
    TritonKernel,
)
from wrapper_ir.lines.program import SymbolInfo, SymbolKind
from wrapper_ir.lines.symbols import BindSymbol, ItemOf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import TritonNote
    from wrapper_ir.lines.expr import Dim, Scalar

__all__ = ["convert_triton_call"]

_SCALARS: Final = {
    "i1": ScalarType.BOOL,
    "i32": ScalarType.INT32,
    "i64": ScalarType.INT64,
    "u64": ScalarType.UINT64,
    "fp32": ScalarType.FLOAT32,
    "fp64": ScalarType.FLOAT64,
}

_LARGE: Final = 8192

_MOST_BLOCKS: Final = 65535
"""In the second and the third dimension of a grid, by CUDA's rules."""


def convert_triton_call(scope: Scope, line: Any, note: TritonNote) -> None:
    """Convert a ``KernelCallLine`` of a Triton kernel by the note that its scheduling left.

    Raises:
        UnsupportedLineError: It passes something, or asks for a grid, that has no typed form.
    """
    if getattr(line, "current_stream_idx", None):
        raise _unsupported(note, "it runs on a stream of its own")
    name, kernel, pinned = _definition(scope, line, note)
    given = dict(zip(pinned.signature, line.call_args, strict=False))
    call = KernelCall(
        kernel=name,
        args=tuple(_argument(scope, note, param, given[param.name]) for param in kernel.params),
        device=to_device(line.device),
        grid=_grid(scope, note, pinned, given),
    )
    scope.emit_call(call, note.nodes)


def _definition(scope: Scope, line: Any, note: TritonNote) -> tuple[str, KernelDefinition, Pinned]:
    """Return the kernel's definition, made and tuned on first use."""
    shared = scope.shared
    access = tuple((param, buffer.access) for param, buffer in note.buffers.items())
    key = (note.name, note.code, access)
    if key not in shared.triton_kernels:
        pinned = pin(note, [_example(scope, note, arg) for arg in line.call_args])
        name, number = note.name, 1
        while name in shared.definitions:
            number += 1
            name = f"{note.name}_{number}"
        passed = [(p, type_) for p, type_ in pinned.signature.items() if type_ != "constexpr"]
        params = tuple(_parameter(note, param, type_) for param, type_ in passed)
        source = TritonKernel(
            pinned.code,
            note.name,
            tuple(passed),
            tuple(pinned.constants.items()),
            pinned.warps,
            pinned.stages,
            pinned.options,
        )
        made = KernelDefinition(name, params, source, origin=scope.origin(*note.nodes))
        shared.definitions[name] = made
        shared.triton_kernels[key] = (name, made, pinned)
    found: tuple[str, KernelDefinition, Pinned] = shared.triton_kernels[key]
    return found


def _parameter(note: TritonNote, param: str, type_: str) -> Param:
    plain = type_.removesuffix(":16")
    if plain.startswith("*"):
        buffer = note.buffers.get(param)
        if buffer is None:
            raise _unsupported(note, f"its parameter '{param}' is no buffer of the graph")
        return BufferParam(param, to_dtype(buffer.dtype), buffer.access)
    if plain not in _SCALARS:
        raise _unsupported(note, f"its parameter '{param}' has the type '{plain}'")
    return ScalarParam(param, _SCALARS[plain])


def _argument(scope: Scope, note: TritonNote, param: Param, given: Any) -> Arg:
    if isinstance(param, BufferParam):
        buffer = note.buffers[param.name]
        return BufferArg(scope.resolve(buffer.buffer), param.access)
    if param.name in note.buffers:
        return ScalarArg(_value_of(scope, note.buffers[param.name].buffer, param.type))
    return ScalarArg(scope.scalar(_number(given)))


def _number(given: Any) -> Any:
    """A number that is passed; one that a line before has computed goes by its symbol."""
    return getattr(given, "inner", given)


def _value_of(scope: Scope, buffer: str, type_: ScalarType) -> Scalar:
    """Read the only element of a tensor on the host, which a kernel on a GPU takes by value."""
    shared = scope.shared
    is_real = type_ in (ScalarType.FLOAT32, ScalarType.FLOAT64)
    kind = SymbolKind.FLOAT if is_real else SymbolKind.INT
    name = shared.fresh_name(f"{scope.name(buffer)}_value")
    while name in shared.symbols:
        name += "_"
    shared.symbols[name] = SymbolInfo(kind, unbacked=True)
    scope.emit(BindSymbol(name, ItemOf(scope.resolve(buffer))))
    return ours.real_symbol(name) if is_real else ours.symbol(name)


def _grid(
    scope: Scope, note: TritonNote, pinned: Pinned, given: Mapping[str, Any]
) -> tuple[Dim, ...]:
    """Return the grid: as many blocks as cover each of the kernel's ranges."""

    def blocks(range_: str) -> Dim:
        return covering(range_, pinned.constants.get(f"{range_.upper()}BLOCK", 1))

    def covering(range_: str, block: Any) -> Dim:
        return ours.dim(ours.CeilDiv(scope.dim(_number(given[f"{range_}numel"])), block))

    match pinned.grid_type:
        case "Grid1D":
            return (blocks("x"),)
        case "Grid2D":
            return (blocks("x"), blocks("y"))
        case "Grid3D":
            return (blocks("x"), blocks("y"), blocks("z"))
        case "Grid2DWithYZOverflow":
            x, y = blocks("x"), blocks("y")
            layers = ours.dim(ours.CeilDiv(y, _MOST_BLOCKS))
            return (x, ours.dim(ours.CeilDiv(y, layers)), layers)
        case "SplitScanGrid":
            return (blocks("r0_"), covering("x", 1))
        case "MixOrderReductionGrid":
            return (covering("x", pinned.constants["RSPLIT_SIZE"]),)
        case other:
            raise _unsupported(note, f"its grid is a '{other}'")


def _example(scope: Scope, note: TritonNote, given: Any) -> Any:
    """Return an argument to try configurations with: zeros of a buffer's size, or a number."""
    if not isinstance(given, str):
        return _hint(scope, scope.dim(getattr(given, "inner_expr", given)))
    layout = scope.layout(scope.resolve(given))
    bytes_ = _hint(scope, layout.extent) * layout.dtype.itemsize
    device = torch.device(str(layout.device))
    dtype = next(b.dtype for b in note.buffers.values() if b.buffer == given)
    return torch.zeros(bytes_, dtype=torch.uint8, device=device).view(dtype)


def _hint(scope: Scope, value: Dim) -> int:
    """A size to expect; where the program knows none, one that keeps a GPU busy."""
    symbols = scope.shared.symbols
    hints = {name: symbols[name].hint for name in ours.free_symbols(value)}
    return int(
        ours.substitute(value, {n: _LARGE if h is None else int(h) for n, h in hints.items()})
    )


def _unsupported(note: TritonNote, why: str) -> UnsupportedLineError:
    return UnsupportedLineError(kind="Triton kernel", text=note.name, why=why)
