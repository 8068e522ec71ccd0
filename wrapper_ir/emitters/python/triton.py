"""Triton kernels at the head of the file, and what calls of them need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.statements import (
    Node,
    assignment,
    call,
    dict_of,
    keyword,
    statement,
)

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.lines.kernels import KernelDefinition, TritonKernel

__all__ = ["TritonSection"]

_COLLECTION = "triton_kernels"


class TritonSection:
    """The Triton kernels: added one by one, compiled by Triton when the file is loaded."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._members: list[str] = []

    def add(self, line: KernelDefinition, source: TritonKernel) -> str | None:
        """Adds a kernel; returns what is in the way, if something is."""
        device = self._context.gpu
        if device is None:
            return "Triton kernels are not supported in programs for several GPUs, or for none"
        writer = self._context.section("triton")
        if not self._members:
            made = call(self._context.helper("TritonKernels"), self._context.device(device))
            writer.lines(*statement(made, 0, head=f"{_COLLECTION} = "))
        name = self._context.kernel(line.name)
        self._members.append(name)
        for text in statement(call(f"{_COLLECTION}.add", *_args(name, source)), 0):
            writer.verbatim(text)
        return None

    def finish(self) -> None:
        """Writes what loads the kernels."""
        if self._members:
            load = call(f"{_COLLECTION}.load")
            self._context.section("triton").lines(*assignment(self._members, load, 0, unpack=True))


def _args(name: str, source: TritonKernel) -> list[Node]:
    types = [(key, literals.string(type_)) for key, type_ in source.signature]
    args: list[Node] = [literals.string(name), dict_of(types), literals.source_literal(source.code)]
    if source.entry != name:
        args.append(keyword("entry", literals.string(source.entry)))
    if source.constants:
        values = [(key, _value(value)) for key, value in source.constants]
        args.append(keyword("constants", dict_of(values)))
    args.append(keyword("num_warps", str(source.num_warps)))
    args.append(keyword("num_stages", str(source.num_stages)))
    if source.options:
        options = [(key, _value(value)) for key, value in source.options]
        args.append(keyword("options", dict_of(options)))
    return args


def _value(value: object) -> str:
    return literals.string(value) if isinstance(value, str) else repr(value)
