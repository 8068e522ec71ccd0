"""What the tests of the Inductor front end share: capturing, finding lines, counting graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch

import wrapper_ir as wir
from wrapper_ir.frontends.inductor.compat import codegen_common
from wrapper_ir.lines import (
    BufferArg,
    CppKernel,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    ListArg,
    Program,
    TorchOp,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

L = TypeVar("L")

DYNAMIC = torch.export.Dim.DYNAMIC


def captured(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """Capture a function and check what must hold of every program."""
    program = wir.capture(function, args, **kwargs)
    wir.verify(program)
    return program


def lines(program: Program, kind: type[L]) -> list[L]:
    """Return the lines of one class, in order."""
    return [line for line in program.body if isinstance(line, kind)]


def calls(program: Program, op: str) -> list[ExternKernel]:
    """Return the calls of one op, in order."""
    return [line for line in lines(program, ExternKernel) if line.op == op]


def cpp_kernels(program: Program) -> list[KernelDefinition]:
    """Return the definitions of C++ kernels."""
    found = lines(program, KernelDefinition)
    return [line for line in found if isinstance(line.source, CppKernel)]


def declared_ops(program: Program) -> list[str]:
    """Return the ops that the program declares."""
    found = lines(program, KernelDefinition)
    return [line.name for line in found if isinstance(line.source, TorchOp)]


def buffer_args(line: KernelCall | ExternKernel) -> Iterator[BufferArg]:
    """Yield the buffers among a call's arguments, keywords and lists included."""
    kwargs = line.kwargs if isinstance(line, ExternKernel) else ()
    pending = [*line.args, *(value for _, value in kwargs)]
    while pending:
        arg = pending.pop(0)
        if isinstance(arg, BufferArg):
            yield arg
        elif isinstance(arg, ListArg):
            pending = [*arg.items, *pending]


def snapshot() -> tuple[dict[str, Any], ...]:
    """Return copies of Inductor's registration tables."""
    codegen_common.init_backend_registration()
    return (
        dict(codegen_common.device_codegens),
        dict(codegen_common.custom_backend_passes),
        dict(codegen_common.custom_backend_codegen_configs),
    )


def same_objects(one: tuple[dict[str, Any], ...], other: tuple[dict[str, Any], ...]) -> bool:
    """Whether two snapshots hold the very same objects under the same names."""
    return all(
        list(a) == list(b) and all(a[key] is b[key] for key in a)
        for a, b in zip(one, other, strict=True)
    )


def ours(function: Callable[..., Any], emitter: str = "python", **options: Any) -> Any:
    """Return a function compiled by us, with a C++ library from the first call on."""
    given = {"emitter": emitter, **({"build": "wait"} if emitter == "cpp" else {})}
    return torch.compile(function, backend="wrapper_ir", options=given, **options)
