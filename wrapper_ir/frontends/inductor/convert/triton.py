"""Calls of Triton kernels: those that Inductor wrote, and those of the user."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.grids import UnknownGridError, grid_of
from wrapper_ir.frontends.inductor.convert.values import to_device, to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.pinning import Pinned, keep_machine_code, pin
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.args import Access, Arg, BufferArg, ScalarArg
from wrapper_ir.lines.kernels import (
    BufferParam,
    KernelCall,
    KernelDefinition,
    Param,
    ScalarParam,
    ScalarType,
    TritonKernel,
)
from wrapper_ir.lines.program import SymbolKind
from wrapper_ir.lines.symbols import BindSymbol, ItemOf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.frontends.inductor.convert.state import Scope
    from wrapper_ir.frontends.inductor.notes import TritonNote
    from wrapper_ir.lines.expr import Dim, Scalar

__all__ = ["convert_triton_call", "example", "passed_to", "size_hint"]

_SCALARS: Final = {
    "i1": ScalarType.BOOL,
    "u1": ScalarType.BOOL,
    "i32": ScalarType.INT32,
    "i64": ScalarType.INT64,
    "u64": ScalarType.UINT64,
    "fp32": ScalarType.FLOAT32,
    "fp64": ScalarType.FLOAT64,
}

_LARGE: Final = 8192


def convert_triton_call(scope: Scope, line: Any, note: TritonNote) -> None:
    """Convert a ``KernelCallLine`` of a Triton kernel by the note that was left for it.

    Raises:
        UnsupportedLineError: It passes something, or asks for a grid, that has no typed form.
    """
    passed = passed_to(line)
    note = _with_first_writes(scope, note)
    name, kernel, pinned = _definition(scope, note, line.device, passed)
    given = _by_name(line, pinned, passed)
    args = [_argument(scope, note, param, given[param.name]) for param in kernel.params]
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(arg, BufferArg) and pinned.signature[param.name].endswith(":16"):
            scope.shared.aligned.add(scope.root(arg.buffer))
    grid = _grid(scope, note, pinned, given)
    call = KernelCall(kernel=name, args=tuple(args), device=to_device(line.device), grid=grid)
    scope.emit_call(call, note.nodes)


def passed_to(line: Any) -> list[Any]:
    """Return what the launcher is given: names of buffers, or nodes, or numbers."""
    if line.raw_keys is None:
        return list(line.call_args)
    pairs = zip(line.raw_args, line.call_args, strict=True)
    return [raw if isinstance(raw, ir.IRNode) else printed for raw, printed in pairs]


def _by_name(line: Any, pinned: Pinned, passed: list[Any]) -> dict[str, Any]:
    """Return what is passed for each parameter, and for what the grid takes besides."""
    extra = pinned.grid.extra
    names = pinned.signature if line.raw_keys is None else line.raw_keys
    own = len(passed) - len(extra)
    return {
        **dict(zip(names, passed[:own], strict=False)),
        **dict(zip(extra, passed[own:], strict=True)),
    }


def _with_first_writes(scope: Scope, note: TritonNote) -> TritonNote:
    """Narrow the access to memory that nothing has written to: there is nothing to read in it."""
    buffers = {
        param: (
            dataclasses.replace(buffer, access=Access.WRITE)
            if buffer.access is Access.READ_WRITE and scope.is_unwritten(buffer.buffer)
            else buffer
        )
        for param, buffer in note.buffers.items()
    }
    return dataclasses.replace(note, buffers=buffers)


def _definition(
    scope: Scope, note: TritonNote, device: torch.device, passed: list[Any]
) -> tuple[str, KernelDefinition, Pinned]:
    """Return the kernel's definition, made and tuned on first use."""
    shared = scope.shared
    access = tuple((param, buffer.access) for param, buffer in note.buffers.items())
    key = (note.name, note.code, access)
    if key not in shared.triton_kernels:
        pinned = _pinned(scope, note, device, passed)
        name = scope.draft.fresh(note.name, scope.draft.definitions, first=2)
        types = {p: t for p, t in pinned.signature.items() if t != "constexpr"}
        source = TritonKernel(
            pinned.code,
            note.entry,
            tuple(types.items()),
            tuple(pinned.constants.items()),
            pinned.warps,
            pinned.stages,
            pinned.options,
        )
        params = tuple(_parameter(note, param, type_) for param, type_ in types.items())
        made = KernelDefinition(name, params, source, origin=scope.origin(*note.nodes))
        keep_machine_code(name, source, pinned)
        scope.draft.definitions[name] = made
        shared.triton_kernels[key] = (name, made, pinned)
    found: tuple[str, KernelDefinition, Pinned] = shared.triton_kernels[key]
    return found


def _pinned(scope: Scope, note: TritonNote, device: torch.device, passed: list[Any]) -> Pinned:
    """Return a kernel with its configuration, tuned once however it accesses its buffers."""
    key, found = (note.name, note.code), scope.shared.pinned
    if key not in found:
        tuner = scope.shared.tuners.get(note)
        found[key] = pin(
            note, tuner, device, lambda: [example(scope, note, value) for value in passed]
        )
    pinned: Pinned = found[key]
    return pinned


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
        if isinstance(given, ir.IRNode):
            return BufferArg(scope.reference(given), param.access)
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
    is_real = type_ in (ScalarType.FLOAT32, ScalarType.FLOAT64)
    kind = SymbolKind.FLOAT if is_real else SymbolKind.INT
    name = scope.bind_fresh(f"{scope.name(buffer)}_value", kind)
    scope.emit(BindSymbol(name, ItemOf(scope.resolve(buffer))))
    return scope.draft.symbol(name)


def _grid(
    scope: Scope, note: TritonNote, pinned: Pinned, given: Mapping[str, Any]
) -> tuple[Dim, ...]:
    try:
        return grid_of(pinned.grid, lambda name: scope.dim(_number(given[name])))
    except UnknownGridError as error:
        raise _unsupported(note, str(error)) from error


def example(scope: Scope, note: TritonNote, given: Any) -> Any:
    """Return an argument to try configurations with: zeros of a buffer's size, or a number."""
    if isinstance(given, ir.IRNode):
        name, dtype = scope.reference(given), given.get_dtype()
    elif isinstance(given, str):
        name = scope.resolve(given)
        dtype = next(b.dtype for b in note.buffers.values() if b.buffer == given)
    elif isinstance(given, (bool, int, float)):
        return given
    else:
        return size_hint(scope, scope.scalar(getattr(given, "inner_expr", given)))
    layout = scope.layout(name)
    bytes_ = int(size_hint(scope, layout.extent)) * layout.dtype.itemsize
    device = torch.device(str(layout.device))
    return torch.zeros(bytes_, dtype=torch.uint8, device=device).view(dtype)


def size_hint(scope: Scope, value: Scalar) -> int | float:
    """A size to expect; where the program knows none, one that keeps a GPU busy."""
    symbols = scope.draft.symbols
    hints = {name: symbols[name].hint for name in ours.free_symbols(value)}
    found = ours.substitute(value, {n: _LARGE if h is None else int(h) for n, h in hints.items()})
    is_real = isinstance(found, float) or not float(found).is_integer()
    return float(found) if is_real else int(found)


def _unsupported(note: TritonNote, why: str) -> UnsupportedLineError:
    return UnsupportedLineError(kind="Triton kernel", text=note.name, why=why)
