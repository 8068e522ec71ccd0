"""Dispatch over the closed set of lines."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, Final, Generic, TypeVar, final, get_args

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import control, kernels, memory, symbols, trace
from wrapper_ir.lines.program import AnyLine, Program
from wrapper_ir.lines.walk import walk

__all__ = ["LineVisitor", "NotALineError", "PartialLineVisitor", "UnvisitedLineError"]

T = TypeVar("T")


LINES_ARE_CLOSED: Final = (
    "the set of lines is closed (docs/adr/0001): express anything else as a call of an op"
    " (ExternKernel) or of a kernel in your own language (DeviceKernel, docs/devices.md)"
)
"""The hint for an object of another class among the lines of a program."""


class NotALineError(WrapperIRError, TypeError):
    """An object that is not a line was found in place of one.

    Fields: ``given`` is its class.
    """

    code = "WIR0105"
    template = "{given} is not a class of lines"
    default_hint = LINES_ARE_CLOSED


class LineVisitor(ABC, Generic[T]):
    """A visitor with one method per class of lines.

    A class of lines without a method makes the import of this module fail. A visitor that lacks a
    method fails in mypy and when it is instantiated.
    """

    @final
    def visit(self, line: AnyLine) -> T:
        """Call the method of the line's class.

        Raises:
            NotALineError: ``line`` is not a line.
        """
        name = _METHODS.get(type(line))
        if name is None:
            raise NotALineError(given=type(line).__name__)
        result: T = getattr(self, name)(line)
        return result

    @abstractmethod
    def visit_allocate(self, line: memory.Allocate) -> T: ...
    @abstractmethod
    def visit_free(self, line: memory.Free) -> T: ...
    @abstractmethod
    def visit_reuse(self, line: memory.Reuse) -> T: ...
    @abstractmethod
    def visit_reinterpret(self, line: memory.Reinterpret) -> T: ...
    @abstractmethod
    def visit_allocate_pool(self, line: memory.AllocatePool) -> T: ...
    @abstractmethod
    def visit_allocate_from_pool(self, line: memory.AllocateFromPool) -> T: ...
    @abstractmethod
    def visit_kernel_definition(self, line: kernels.KernelDefinition) -> T: ...
    @abstractmethod
    def visit_kernel_call(self, line: kernels.KernelCall) -> T: ...
    @abstractmethod
    def visit_extern_kernel(self, line: kernels.ExternKernel) -> T: ...
    @abstractmethod
    def visit_bind_symbol(self, line: symbols.BindSymbol) -> T: ...
    @abstractmethod
    def visit_compute_symbol(self, line: symbols.ComputeSymbol) -> T: ...
    @abstractmethod
    def visit_assert_layout(self, line: symbols.AssertLayout) -> T: ...
    @abstractmethod
    def visit_assert_symbol(self, line: symbols.AssertSymbol) -> T: ...
    @abstractmethod
    def visit_assert_apart(self, line: symbols.AssertApart) -> T: ...
    @abstractmethod
    def visit_record_event(self, line: kernels.RecordEvent) -> T: ...
    @abstractmethod
    def visit_wait_event(self, line: kernels.WaitEvent) -> T: ...
    @abstractmethod
    def visit_synchronize(self, line: kernels.Synchronize) -> T: ...
    @abstractmethod
    def visit_cond(self, line: control.Cond) -> T: ...
    @abstractmethod
    def visit_switch(self, line: control.Switch) -> T: ...
    @abstractmethod
    def visit_while(self, line: control.While) -> T: ...
    @abstractmethod
    def visit_comment(self, line: trace.Comment) -> T: ...
    @abstractmethod
    def visit_probe(self, line: trace.Probe) -> T: ...


def _method(cls: type) -> str:
    """Return the name of the method for a class of lines, such as ``visit_allocate_pool``."""
    name = "visit_" + re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()
    if name not in LineVisitor.__abstractmethods__:
        raise TypeError(f"LineVisitor has no {name}, for {cls.__name__}")
    return name


def check_lines(program: Program) -> None:
    """Check that all lines of a program are lines."""
    for path, line in walk(program):
        if type(line) not in _METHODS:
            raise NotALineError(given=type(line).__name__, path=path)


#: The method of each class. A missing method is found when this module is imported.
_METHODS: Final = {cls: _method(cls) for cls in get_args(AnyLine)}


class UnvisitedLineError(WrapperIRError):
    """A partial visitor reached a line that it has no method for."""

    code = "WIR0102"
    template = "{visitor} does not handle '{mnemonic}' lines"


class PartialLineVisitor(LineVisitor[T]):
    """Base of visitors outside this package.

    Lines whose methods are not overridden go to :meth:`visit_unsupported`, so a line that a later
    version adds leads to a diagnostic, not to a ``TypeError``.
    """

    def visit_unsupported(self, line: AnyLine) -> T:
        """Handle a line without a method of its own.

        Raises:
            UnvisitedLineError: Always, unless overridden.
        """
        raise UnvisitedLineError(visitor=type(self).__name__, mnemonic=line.mnemonic)

    def _rest(self, line: AnyLine) -> T:
        return self.visit_unsupported(line)

    # To type checkers of any type, so that an override is held to the types of LineVisitor.
    visit_allocate: Any = _rest
    visit_free: Any = _rest
    visit_reuse: Any = _rest
    visit_reinterpret: Any = _rest
    visit_allocate_pool: Any = _rest
    visit_allocate_from_pool: Any = _rest
    visit_kernel_definition: Any = _rest
    visit_kernel_call: Any = _rest
    visit_extern_kernel: Any = _rest
    visit_bind_symbol: Any = _rest
    visit_compute_symbol: Any = _rest
    visit_assert_layout: Any = _rest
    visit_assert_symbol: Any = _rest
    visit_assert_apart: Any = _rest
    visit_record_event: Any = _rest
    visit_wait_event: Any = _rest
    visit_synchronize: Any = _rest
    visit_cond: Any = _rest
    visit_switch: Any = _rest
    visit_while: Any = _rest
    visit_comment: Any = _rest
    visit_probe: Any = _rest
