"""Kernels in languages of vendors at the head of the file: their launchers, and what they load."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.emitters.kernel_types import declared_type
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.literals import (
    Node,
    assignment,
    call,
    dict_of,
    keyword,
    statement,
    tuple_of,
)
from wrapper_ir.lines.kernels import DeviceKernel

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.lines.kernels import KernelDefinition
    from wrapper_ir.lines.layout import Device


class DeviceSection:
    """The kernels of vendors' languages: added one by one, compiled when the file is loaded.

    Those of each language and device are a collection of their own.
    """

    name: ClassVar[str] = "device_kernels"
    title: ClassVar[str] = "Kernels in languages of devices."
    source: ClassVar[type] = DeviceKernel

    def __init__(self, context: Context) -> None:
        self._context = context
        self._collections: dict[tuple[str, Device], tuple[str, list[str]]] = {}

    def add(self, line: KernelDefinition) -> None:
        """Add a kernel for each device that it is launched on; one never launched is left out."""
        source = line.source
        assert isinstance(source, DeviceKernel)
        for device in self._context.launched_on(line.name):
            if not source.language.launcher:
                name = source.language_name
                raise ValueError(f"no device that is registered brings the language {name}")
            collection, members = self._collection(source, device)
            name = self._context.kernel(line.name, device)
            members.append(name)
            code = self._context.source(line)
            added = call(f"{collection}.add", *_args(name, line, source, code))
            for text in statement(added, 0):
                self._context.section(self.name).verbatim(text)

    def _collection(self, source: DeviceKernel, device: Device) -> tuple[str, list[str]]:
        """The collection of a language's kernels on a device, made for the first one."""
        key = (source.language_name, device)
        if key not in self._collections:
            context = self._context
            launcher = context.imported(source.language.launcher)
            name = context.names.fresh("device_kernels")
            made = call(launcher, context.device(device))
            context.define(self.name, name, made)
            self._collections[key] = (name, [])
        return self._collections[key]

    def finish(self) -> None:
        """Write what loads the kernels."""
        writer = self._context.section(self.name)
        for collection, members in self._collections.values():
            writer.lines(*assignment(members, call(f"{collection}.load"), 0, unpack=True))


def _args(name: str, line: KernelDefinition, source: DeviceKernel, code: Node) -> list[Node]:
    types: list[Node] = [literals.string(declared_type(param)) for param in line.params]
    args: list[Node] = [literals.string(name), tuple_of(types), code]
    args.append(keyword("entry", literals.string(source.entry)))
    if source.group:
        args.append(keyword("group", tuple_of([str(size) for size in source.group])))
    if source.options:
        options = [(key, literals.value(value)) for key, value in source.options]
        args.append(keyword("options", dict_of(options)))
    return args
