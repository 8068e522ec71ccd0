"""Kernels that run over a grid: their declarations in the generated files, and data for the build.

The build has Triton compile Triton kernels. Kernels in a vendor's language are compiled by the
launcher from the vendor's headers when a program is loaded.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.devices import numbered
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CType
from wrapper_ir.emitters.cpp.literals import device_index
from wrapper_ir.emitters.cpp.state import parameter_spelling, pointer_to
from wrapper_ir.emitters.kernel_types import declared_type
from wrapper_ir.emitters.triton import source_of
from wrapper_ir.toolchain.manifest import Part
from wrapper_ir.toolchain.triton import GpuUnit

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.context import Context
    from wrapper_ir.emitters.cpp.state import StateMembers


_NUMBERS: Final = {
    "i1": CType.BOOL,
    "u1": CType.BOOL,
    "i32": CType.INT32,
    "i64": CType.INT64,
    "u64": CType.UINT64,
    "fp32": CType.FLOAT,
    "f32": CType.FLOAT,
    "fp64": CType.REAL,
    "f64": CType.REAL,
}
"""Triton's number types, as C++ passes them."""


def parameter_of(type_: str) -> CType | None:
    """Return the type of a number that a Triton kernel takes; None for pointers.

    Raises:
        ValueError: C++ programs cannot pass such numbers.
    """
    if type_.startswith("*"):
        return None
    found = _NUMBERS.get(type_.removesuffix(":16"))
    if found is None:
        raise ValueError(f"a number of Triton's type '{type_}' cannot be passed in C++")
    return found


class LaunchedKernels:
    """The kernels of a program that run over a grid, declared where they are defined.

    Each kernel is one object per device that it is launched on: a ``wir::GpuKernel`` for Triton, or
    the class that a vendor's language names. A new state loads the object; a call calls it.
    """

    def __init__(self, context: Context, state: StateMembers) -> None:
        self._context = context
        self._state = state
        self._units: dict[str, GpuUnit] = {}
        self._names: dict[tuple[str, ir.Device], str] = {}

    @property
    def units(self) -> tuple[GpuUnit, ...]:
        """The Triton kernels to compile, each once."""
        return tuple(self._units.values())

    def add(self, definition: ir.KernelDefinition) -> None:
        """Declare a kernel.

        Raises:
            ValueError: It cannot be declared; the message says why.
        """
        source = definition.source
        launched_on = self._context.launches.get(definition.name, ())
        devices = sorted(set(map(numbered, launched_on)), key=str)
        if isinstance(source, ir.TritonKernel):
            type_, args = self._of_triton(definition, source)
        else:
            assert isinstance(source, ir.DeviceKernel)
            if not devices or not devices[0].kind.launches_in_cpp(source.language):
                return  # launched nowhere, or each launch is refused
            type_, args = self._of_vendor(definition, source, devices[0])
        for device in devices:
            name = self._name(definition.name, device)
            self._context.put(self._context.section("kernels"), f"inline {type_} {name}{{{args}}};")
            self._state.load_kernel(name, device_index(device))

    def _of_triton(
        self, definition: ir.KernelDefinition, source: ir.TritonKernel
    ) -> tuple[str, str]:
        """Return the type of a Triton kernel's object and its constructor arguments."""
        device = self._context.accelerator
        if device is None or device.kind.cpp is None:
            raise ValueError("the program has no buffer on a GPU")
        pairs = zip(definition.params, source.signature, strict=True)
        types = [_declared_type(param, type_) for param, (_, type_) in pairs]
        described = source_of(definition.name, source)
        digest = hashlib.sha256(described.identity.encode("utf-8", "backslashreplace")).hexdigest()
        symbol = f"wir_t_{digest[:20]}"
        if symbol not in self._units:
            self._units[symbol] = GpuUnit(symbol, described)
            text = f'extern "C" const wir::GpuImage {symbol}[];'
            self._context.section("externs").line(text)
        return (
            f"{device.kind.cpp.triton}<{', '.join(types)}>",
            f"{literals.string(definition.name)}, ::{symbol}",
        )

    def _of_vendor(
        self, definition: ir.KernelDefinition, source: ir.DeviceKernel, device: ir.Device
    ) -> tuple[str, str]:
        """Return the same for a kernel in a vendor's language."""
        described = self._describe(definition, source)
        if not device.kind.launches_by_python(source.language):
            types = ", ".join(map(parameter_spelling, definition.params))
            return f"{source.language.cpp_launcher}<{types}>", described
        self._context.headers.add("python_side")
        self._context.parts.add(Part.OPS)
        types = ", ".join(
            "AtenTensorHandle" if isinstance(param, ir.BufferParam) else parameter_spelling(param)
            for param in definition.params
        )
        args = (described, literals.string(source.language_name), literals.device_type(device))
        return f"wir::PythonKernel<{types}>", ", ".join(args)

    def _describe(self, definition: ir.KernelDefinition, source: ir.DeviceKernel) -> str:
        """Write the description of a kernel for its launcher; return the description's name."""
        context = self._context
        context.headers.add("launch")
        writer, preferred = context.section("kernels"), context.names["kernel", definition.name]
        described = context.names.fresh(f"{preferred}_text")
        options = [
            f"{{{', '.join((literals.string(name), *_option(value)))}}}"
            for name, value in source.options
        ]
        table = context.names.fresh(f"{preferred}_options") if options else "nullptr"
        if options:
            head = f"inline constexpr wir::KernelOption {table}[]"
            writer.lines(*literals.table(head, options))
        group = ", ".join(map(str, source.group))
        writer.lines(f"inline constexpr wir::KernelText {described} = {{")
        with writer.indent():
            *rows, last = source.code.splitlines(keepends=True) or [""]
            writer.lines(f".name = {literals.string(definition.name)},", ".code =")
            with writer.indent():
                writer.lines(*map(literals.string, rows), f"{literals.string(last)},")
            params = ", ".join(map(declared_type, definition.params))
            writer.lines(
                f".entry = {literals.string(source.entry)},",
                f".params = {literals.string(params)},",
                f".group = {{{group}}},",
                f".num_options = {len(options)},",
                f".options = {table},",
            )
        writer.line("};")
        return described

    def launched(
        self, line: ir.KernelCall, definition: ir.KernelDefinition
    ) -> tuple[str, tuple[CType | None, ...]] | None:
        """Return the object that a call launches, and the types of its numbers, None for pointers.

        Return None for a kernel whose definition was rejected. The types are those of Triton's
        signature; without one, numbers have their parameters' types.
        """
        types: tuple[CType | None, ...] = (None,) * len(definition.params)
        if isinstance(definition.source, ir.TritonKernel):
            try:
                types = tuple(parameter_of(type_) for _, type_ in definition.source.signature)
            except ValueError:
                return None
        return self._name(line.kernel, numbered(line.device)), types

    def _name(self, kernel: str, device: ir.Device) -> str:
        """Return the identifier of a kernel on a device."""
        context, preferred = self._context, self._context.names["kernel", kernel]
        if device == (context.accelerator or numbered(ir.CPU)):
            return preferred
        key = (kernel, device)
        if key not in self._names:
            self._names[key] = context.names.fresh(f"{preferred}_on_{device_index(device)}")
        return self._names[key]


def _option(value: object) -> tuple[str, str]:
    """Return a value as the launcher reads it, and whether it is text, not a number or bool."""
    plain = str(value).lower() if isinstance(value, bool) else str(value)
    return literals.string(plain), str(isinstance(value, str)).lower()


def _declared_type(param: ir.Param, type_: str) -> str:
    """Return a parameter's type, with the same representation as in Triton's signature."""
    number = parameter_of(type_)
    if number is not None:
        return number.value
    if not isinstance(param, ir.BufferParam):
        raise ValueError(f"parameter '{param.name}' is a pointer to Triton but a number here")
    return pointer_to(param)
