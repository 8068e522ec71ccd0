"""Kernel definitions and library ops at the head of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from wrapper_ir.analysis.ops import is_method, schema_of
from wrapper_ir.devices import CPP, TRITON, KernelLanguage
from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.ops import has_plain_arguments, torch_function, torch_op
from wrapper_ir.emitters.python.statements import (
    Node,
    assignment,
    call,
    keyword,
    statement,
    tuple_of,
)
from wrapper_ir.emitters.python.triton import TritonSection
from wrapper_ir.lines.kernels import (
    CppKernel,
    ExternKernel,
    KernelDefinition,
)
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.python.context import Context


class Section(Protocol):
    """A part of the head of the file, with the definitions of one kind."""

    name: ClassVar[str]
    title: ClassVar[str]

    def __init__(self, context: Context) -> None: ...

    def add(self, line: KernelDefinition) -> str | None:
        """Adds a definition; returns what is in the way, if something is."""

    def finish(self) -> None:
        """Writes what loads the kernels."""


class KernelSection:
    """The C++ kernels: added one by one, compiled all at once."""

    name: ClassVar[str] = "kernels"
    title: ClassVar[str] = "Compiled kernels."

    def __init__(self, context: Context) -> None:
        self._context = context
        self._groups: dict[tuple[str, tuple[str, ...]], tuple[str, list[str]]] = {}

    def add(self, line: KernelDefinition) -> str | None:
        """Adds a kernel; returns what is in the way, if something is."""
        source = line.source
        assert isinstance(source, CppKernel)
        types: list[Node] = []
        for param in line.params:
            spelled = cpp_type(param)
            if spelled is None:
                return f"parameter '{param.name}' has a type that C++ kernels cannot take"
            types.append(literals.string(spelled))
        name = self._context.kernel(line.name)
        collection = self._group(source, name)
        code = literals.source_literal(source.code)
        args: list[Node] = [literals.string(name), tuple_of(types), code]
        if source.entry != "kernel":
            args.append(keyword("entry", literals.string(source.entry)))
        writer = self._context.section("kernels")
        for text in statement(call(f"{collection}.add", *args), 0):
            writer.verbatim(text)
        return None

    def _group(self, source: CppKernel, kernel: str) -> str:
        """The collection that kernels with these flags go into."""
        key = (source.isa, source.flags)
        if key not in self._groups:
            name = self._context.names.fresh("kernels") if self._groups else "kernels"
            args: list[Node] = [literals.string(source.isa)] if source.isa else []
            if source.flags:
                flags = tuple_of([literals.string(flag) for flag in source.flags])
                args.append(keyword("extra_flags", flags))
            make = call(self._context.helper("CppKernels"), *args)
            self._context.section("kernels").lines(*statement(make, 0, head=f"{name} = "))
            self._groups[key] = (name, [])
        collection, members = self._groups[key]
        members.append(kernel)
        return collection

    def finish(self) -> None:
        """Writes what loads the kernels."""
        writer = self._context.section("kernels")
        for collection, members in self._groups.values():
            writer.lines(*assignment(members, call(f"{collection}.load"), 0, unpack=True))


class OpSection:
    """The library ops, each looked up once."""

    name: ClassVar[str] = "ops"
    title: ClassVar[str] = "Library ops."

    def __init__(self, context: Context) -> None:
        self._context = context
        plain: dict[str, bool] = {}
        for _, line in walk(context.program):
            if isinstance(line, ExternKernel):
                fits = has_plain_arguments(line, schema_of(context.program, line.op))
                plain[line.op] = plain.get(line.op, True) and fits
        self._plain = plain

    def add(self, line: KernelDefinition) -> str | None:
        """Adds an op, unless nothing calls it."""
        if line.name not in self._plain or is_method(self._context.program, line.name):
            return None
        name = self._context.names["op", line.name]
        writer = self._context.section("ops")
        function = torch_function(line.name) if self._plain[line.name] else None
        registered = torch_op(line.name)
        if function is None:
            writer.lines(*statement(registered, 0, head=f"{name} = "))
        elif function.startswith("_"):
            # Not promised by torch, so there is a way without it.
            lookup = call("getattr", "torch", literals.string(function), registered)
            writer.lines(*statement(lookup, 0, head=f"{name} = "))
        else:
            writer.lines(*statement(f"torch.{function}", 0, head=f"{name} = "))
        return None

    def finish(self) -> None:
        """There is nothing to load."""


_BY_LANGUAGE: Final[Mapping[KernelLanguage | None, type[Section]]] = {
    None: OpSection,
    CPP: KernelSection,
    TRITON: TritonSection,
}

SECTIONS: Final[tuple[type[Section], ...]] = tuple(_BY_LANGUAGE.values())
"""The sections of definitions, in the order of the file."""


class Definitions:
    """The sections that definitions go to, by the language of what they define.

    Args:
        context: The run.
    """

    def __init__(self, context: Context) -> None:
        self._sections = {key: make(context) for key, make in _BY_LANGUAGE.items()}

    def section(self, line: KernelDefinition) -> Section:
        """The section of a definition."""
        return self._sections[line.source.language]

    def finish(self) -> None:
        """Writes what loads the kernels."""
        for section in self._sections.values():
            section.finish()
