"""Kernels in Triton and in vendors' languages, at the head of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.emitters.kernel_types import declared_type
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.kernels import CollectedSection
from wrapper_ir.emitters.python.literals import Node, call, dict_of, keyword, tuple_of
from wrapper_ir.lines.kernels import DeviceKernel, KernelDefinition, TritonKernel

if TYPE_CHECKING:
    from collections.abc import Iterable


class TritonSection(CollectedSection):
    """The Triton kernels. A collection holds those of one GPU."""

    name: ClassVar[str] = "triton"
    title: ClassVar[str] = "Triton kernels."
    source: ClassVar[type] = TritonKernel
    collection: ClassVar[str] = "triton_kernels"

    def add(self, line: KernelDefinition) -> None:
        """Add a kernel to the collection of each GPU that it is launched on."""
        source, context = line.source, self.context
        assert isinstance(source, TritonKernel)
        types = dict_of([(key, literals.string(type_)) for key, type_ in source.signature])
        code = context.source(line)
        switches = [keyword("switches", "True")] if context.accelerator is None else []
        for device in context.launched_on(line.name):
            launcher, _ = device.kind.python.triton
            launches = context.imported(launcher or "TritonKernels")
            made = call(launches, context.device(device), *switches)
            name = context.kernel(line.name, device)
            self.collect(device, made, name, (types, code, *_described(name, source)))


def _described(name: str, source: TritonKernel) -> list[Node]:
    args: list[Node] = []
    if source.entry != name:
        args.append(keyword("entry", literals.string(source.entry)))
    return [
        *args,
        *_values("constants", source.constants),
        keyword("num_warps", str(source.num_warps)),
        keyword("num_stages", str(source.num_stages)),
        *_values("options", source.options),
    ]


class DeviceSection(CollectedSection):
    """The kernels in vendors' languages. A collection holds those of one language and device."""

    name: ClassVar[str] = "device_kernels"
    title: ClassVar[str] = "Kernels in the devices' own languages."
    source: ClassVar[type] = DeviceKernel
    collection: ClassVar[str] = "device_kernels"

    def add(self, line: KernelDefinition) -> None:
        """Add a kernel for each device that it is launched on, if any."""
        source, context = line.source, self.context
        assert isinstance(source, DeviceKernel)
        language, launcher = source.language_name, source.language.launcher
        for device in context.launched_on(line.name):
            if not launcher:
                raise ValueError(f"no registered device provides the language {language}")
            types = [literals.string(declared_type(param)) for param in line.params]
            args: list[Node] = [tuple_of(types), context.source(line)]
            args.append(keyword("entry", literals.string(source.entry)))
            if source.group:
                args.append(keyword("group", tuple_of([str(size) for size in source.group])))
            args += _values("options", source.options)
            made = call(context.imported(launcher), context.device(device))
            self.collect((language, device), made, context.kernel(line.name, device), args)


def _values(name: str, given: Iterable[tuple[str, object]]) -> list[Node]:
    """Return a dictionary argument, or nothing if it would be empty."""
    values = [(key, literals.value(value)) for key, value in given]
    return [keyword(name, dict_of(values))] if values else []
