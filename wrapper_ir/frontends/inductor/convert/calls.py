"""Calls of kernels that Inductor wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.common.ops import to_device
from wrapper_ir.frontends.inductor.convert.triton import convert_choice, convert_triton_call
from wrapper_ir.frontends.inductor.convert.values import to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.notes import (
    AlternativesNote,
    BufferNote,
    CallNote,
    KernelNote,
    SizeNote,
    SizeType,
    TritonNote,
)
from wrapper_ir.frontends.inductor.scheduling import kernel_flags
from wrapper_ir.lines.args import Arg, BufferArg, ScalarArg
from wrapper_ir.lines.kernels import (
    BufferParam,
    CppKernel,
    KernelCall,
    KernelDefinition,
    Param,
    ScalarParam,
    ScalarType,
)

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope


def convert_kernel_call(scope: Scope, line: Any, note: CallNote | None) -> None:
    """Convert a ``KernelCallLine`` by the note that its scheduling left.

    Raises:
        UnsupportedLineError: There is no note: the kernel is not C++, or another scheduling's.
    """
    if note is None:
        why = "it is Triton" if line.triton else "it is neither C++ nor Triton"
        raise UnsupportedLineError(kind="KernelCallLine", text=line.kernel_name, why=why)
    if isinstance(note, AlternativesNote):
        convert_choice(scope, line, note)
        return
    if isinstance(note, TritonNote):
        convert_triton_call(scope, line, note)
        return
    call = KernelCall(
        kernel=_definition(scope, note),
        args=tuple(_argument(scope, param) for param in note.params),
        device=to_device(line.device),
    )
    scope.emit_call(call, note.nodes)


def _argument(scope: Scope, param: BufferNote | SizeNote) -> Arg:
    if isinstance(param, BufferNote):
        return BufferArg(scope.kernel_argument(param.buffer), param.access)
    return ScalarArg(scope.scalar(param.value))


def _definition(scope: Scope, note: KernelNote) -> str:
    """Return the name of the kernel's definition, made on first use.

    Inductor lets calls share a kernel when the text is the same, also where they differ in what
    they may assume of the buffers; the access belongs to the definition, so such calls have one
    definition each.
    """
    shared = scope.shared
    params = tuple(map(_parameter, note.params))
    key = (note.name, note.code, params)
    if key not in shared.kernel_names:
        name = scope.draft.fresh(note.name, scope.draft.definitions, first=2)
        isa, flags = kernel_flags()
        source = CppKernel(note.code, entry=note.name, isa=isa, flags=flags)
        origin = scope.origin(*note.nodes)
        scope.draft.definitions[name] = KernelDefinition(name, params, source, origin=origin)
        shared.kernel_names[key] = name
    return shared.kernel_names[key]


def _parameter(param: BufferNote | SizeNote) -> Param:
    if isinstance(param, BufferNote):
        return BufferParam(param.param, to_dtype(param.dtype), param.access)
    kinds = {SizeType.INT64: ScalarType.INT64, SizeType.FLOAT: ScalarType.FLOAT32}
    return ScalarParam(param.param, kinds[param.type])
