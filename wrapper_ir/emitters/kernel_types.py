"""Parameter types and devices of C++ kernels, for every emitter that compiles kernels."""

from __future__ import annotations

from typing import Final

from wrapper_ir.devices import CPP
from wrapper_ir.emitters.triton import problem_of_tuned
from wrapper_ir.lines.args import Access
from wrapper_ir.lines.kernels import BufferParam, CppKernel, KernelDefinition, KernelSource, Param
from wrapper_ir.lines.layout import Device, DType
from wrapper_ir.toolchain.source import CppSource

__all__ = ["ELEMENTS", "cpp_source", "cpp_type", "launch_problem", "parameter_types"]

ELEMENTS: Final = {
    DType.FLOAT64: "double",
    DType.FLOAT32: "float",
    DType.FLOAT16: "at::Half",
    DType.BFLOAT16: "at::BFloat16",
    DType.COMPLEX32: "c10::complex<at::Half>",
    DType.COMPLEX64: "c10::complex<float>",
    DType.COMPLEX128: "c10::complex<double>",
    DType.BOOL: "bool",
    **{each: f"{each.torch_name}_t" for each in DType if each.is_integral},
    **{
        each: f"at::{each.torch_name.capitalize()}"
        for each in DType
        if each.torch_name.startswith("float8")
    },
}
"""The type of a buffer's elements in a kernel's source. Some dtypes have none."""


def cpp_type(param: Param) -> str | None:
    """Return the C++ type of a kernel's parameter; None if C++ kernels have no such type."""
    if not isinstance(param, BufferParam):
        return ELEMENTS[DType[param.type.name]]
    element = ELEMENTS.get(param.dtype)
    if element is None:
        return None
    return f"const {element}*" if param.access is Access.READ else f"{element}*"


def parameter_types(definition: KernelDefinition) -> tuple[str, ...]:
    """Return the C++ types of a kernel's parameters.

    Raises:
        ValueError: C++ kernels have no such type; the message names the parameter.
    """
    types = [(param.name, cpp_type(param)) for param in definition.params]
    wrong = next((name for name, spelled in types if spelled is None), None)
    if wrong is not None:
        raise ValueError(f"parameter '{wrong}' has a type that C++ kernels cannot take")
    return tuple(spelled for _, spelled in types if spelled is not None)


def cpp_source(definition: KernelDefinition) -> CppSource:
    """Return a program's C++ kernel in the form that the compiler takes.

    Raises:
        ValueError: It is not a C++ kernel, or has a parameter that C++ kernels cannot take.
    """
    source = definition.source
    if not isinstance(source, CppKernel):
        raise ValueError(f"'{definition.name}' is not a C++ kernel")
    types = parameter_types(definition)
    return CppSource(definition.name, source.code, types, source.entry, source.isa, source.flags)


def declared_type(param: Param) -> str:
    """Return a parameter's type as in the text form: ``in f32``, ``i64``."""
    if isinstance(param, BufferParam):
        return f"{param.access.word} {param.dtype.short}"
    return param.type.value


def launch_problem(
    source: KernelSource, device: Device, *, launchers: bool = False, in_cpp: bool = False
) -> str | None:
    """Return why a kernel cannot be launched on a device; None if it can.

    Args:
        source: The kernel.
        device: The device of the call.
        launchers: Whether the emitter calls vendors' launchers, and vendors' classes for C++
            kernels.
        in_cpp: Whether the emitter writes C++, where a device kind can wrap kernel calls.
    """
    language = source.language
    if language is None:
        return None
    if not device.kind.runs(language):
        return language.refuse(device)
    launched = launchers or (in_cpp and device.kind.launches_in_cpp(language))
    if language.launcher and not launched:
        return f"kernels in {language.name} are launched only from Python, where their launcher is"
    kind = device.kind
    if problem := problem_of_tuned(language, device, launchers=launchers, in_cpp=in_cpp):
        return problem
    if language is not CPP or launchers or kind.calls_plainly or (in_cpp and kind.around_kernels):
        return None
    how = f"its DeviceKind {'has a class for that' if kind.python.kernels else 'defines how'}"
    targets = "Python" if in_cpp else "Python and C++"
    return f"kernels on {device} are called only from emitted {targets}; {how}"
