"""Triton kernels at the head of the file, and what calls of them need."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.literals import (
    Node,
    assignment,
    call,
    dict_of,
    keyword,
    statement,
)
from wrapper_ir.lines.kernels import TritonKernel

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.lines.kernels import KernelDefinition
    from wrapper_ir.lines.layout import Device


_COLLECTION = "triton_kernels"


class TritonSection:
    """The Triton kernels: added one by one, compiled by Triton when the file is loaded.

    Those of each GPU are a collection of their own: a kernel that is launched on two is in both.
    """

    name: ClassVar[str] = "triton"
    title: ClassVar[str] = "Triton kernels."
    source: ClassVar[type] = TritonKernel

    def __init__(self, context: Context) -> None:
        self._context = context
        self._collections: dict[Device, tuple[str, list[str]]] = {}

    def add(self, line: KernelDefinition) -> None:
        """Adds a kernel."""
        source = line.source
        assert isinstance(source, TritonKernel)
        writer, code = self._context.section("triton"), self._context.source(line)
        for device in self._context.launched_on(line.name):
            collection, members = self._collection(device)
            name = self._context.kernel(line.name, device)
            members.append(name)
            for text in statement(call(f"{collection}.add", *_args(name, source, code)), 0):
                writer.verbatim(text)

    def _collection(self, device: Device) -> tuple[str, list[str]]:
        """The collection of a GPU's kernels, made for the first one."""
        if device not in self._collections:
            names = self._context.names
            name = names.fresh(_COLLECTION) if self._collections else _COLLECTION
            args: list[Node] = [self._context.device(device)]
            if self._context.accelerator is None:
                args.append(keyword("switches", "True"))
            launcher, _ = device.kind.python.triton
            made = call(self._context.imported(launcher or "TritonKernels"), *args)
            self._context.define("triton", name, made)
            self._collections[device] = (name, [])
        return self._collections[device]

    def finish(self) -> None:
        """Writes what loads the kernels."""
        writer = self._context.section("triton")
        for collection, members in self._collections.values():
            load = call(f"{collection}.load")
            writer.lines(*assignment(members, load, 0, unpack=True))


def _args(name: str, source: TritonKernel, code: Node) -> list[Node]:
    types = [(key, literals.string(type_)) for key, type_ in source.signature]
    args: list[Node] = [literals.string(name), dict_of(types), code]
    if source.entry != name:
        args.append(keyword("entry", literals.string(source.entry)))
    if source.constants:
        values = [(key, literals.value(value)) for key, value in source.constants]
        args.append(keyword("constants", dict_of(values)))
    args.append(keyword("num_warps", str(source.num_warps)))
    args.append(keyword("num_stages", str(source.num_stages)))
    if source.options:
        options = [(key, literals.value(value)) for key, value in source.options]
        args.append(keyword("options", dict_of(options)))
    return args
