"""Arguments of calls as torch takes them, kernels as functions, and results as lines want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.interpreter.errors import BrokenPromiseError
from wrapper_ir.lines.args import (
    Arg,
    BufferArg,
    DeviceArg,
    DTypeArg,
    EnumArg,
    ListArg,
    NoneArg,
    ObjectArg,
    ScalarArg,
    StringArg,
)
from wrapper_ir.lines.kernels import CppKernel, KernelDefinition, TorchOp
from wrapper_ir.lines.traits import declares
from wrapper_ir.lines.walk import walk
from wrapper_ir.runtime import CppSource, load_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.interpreter.frame import Frame
    from wrapper_ir.lines.program import Program


def called_kernels(program: Program) -> dict[str, Callable[..., None]]:
    """The C++ kernels of a program, compiled.

    Raises:
        UnsupportedError: A kernel is of a kind that cannot be run here.
        WrapperIRError: As ``wrapper_ir.toolchain.build_kernels`` says.
    """
    sources: dict[str, CppSource] = {}
    for _, line in walk(program):
        if declares(line) and not isinstance(line.source, TorchOp):
            sources.setdefault(line.name, _source(line))
    return dict(zip(sources, load_kernels(*sources.values()), strict=True))


def _source(line: KernelDefinition) -> CppSource:
    types = [cpp_type(param) for param in line.params]
    if not isinstance(line.source, CppKernel) or None in types:
        what = f"kernel '{line.name}'"
        raise UnsupportedError(what=what, where="the interpreter", hint="it runs C++ kernels")
    return CppSource(
        line.name,
        line.source.code,
        tuple(text for text in types if text is not None),
        line.source.entry,
        line.source.isa,
        line.source.flags,
    )


def find_op(program: Program, name: str) -> Callable[..., Any]:
    """The op of torch's registry called ``namespace::name.overload``, or a method of a class."""
    definition = program.kernels.get(name)
    source = None if definition is None else definition.source
    if isinstance(source, TorchOp) and source.is_method:
        method = name.rpartition(".")[2]
        return lambda receiver, *args, **kwargs: getattr(receiver, method)(*args, **kwargs)
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    found: Callable[..., Any] = getattr(
        getattr(getattr(torch.ops, namespace), base), overload or "default"
    )
    return found


def value_of(frame: Frame, arg: Arg) -> Any:  # noqa: ANN401 - whatever a call takes
    """An argument as torch takes it."""
    match arg:
        case BufferArg():
            return frame.find(arg.buffer).tensor
        case ScalarArg():
            return frame.number(arg.value)
        case ObjectArg():
            return frame.objects[arg.object]
        case NoneArg():
            return None
        case StringArg():
            return arg.value
        case DTypeArg():
            return getattr(torch, arg.dtype.torch_name)
        case DeviceArg():
            return torch.device(str(arg.device))
        case EnumArg():
            return getattr(torch, arg.name)
        case ListArg():
            return [value_of(frame, item) for item in arg.items]


def buffers_in(args: Sequence[Arg]) -> Iterator[BufferArg]:
    """The buffers among arguments, those of lists included."""
    for arg in args:
        if isinstance(arg, BufferArg):
            yield arg
        elif isinstance(arg, ListArg):
            yield from buffers_in(arg.items)


def part(call: str, result: Any, path: tuple[int | str, ...]) -> Any:  # noqa: ANN401 - a result
    """The leaf of a result at a path.

    Raises:
        BrokenPromiseError: There is none.
    """
    try:
        for step in path:
            result = result[step] if isinstance(step, int) else getattr(result, step)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        what = f"it returns nothing at {''.join(f'[{step!r}]' for step in path)}"
        raise BrokenPromiseError(call=call, what=what) from error
    return result
