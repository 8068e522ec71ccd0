"""Dispatch over the closed set of lines."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar, final, get_args

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.control import Cond, Switch, While
from wrapper_ir.lines.kernels import (
    ExternKernel,
    KernelCall,
    KernelDefinition,
    RecordEvent,
    Synchronize,
    WaitEvent,
)
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.program import AnyLine, Program
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment, Probe
from wrapper_ir.lines.walk import walk

T = TypeVar("T")


LINES_ARE_CLOSED: Final = (
    "the kinds of lines are a closed set (docs/adr/0001): what none of them says is a call of an"
    " op, ExternKernel, or of a kernel in a language of your own, DeviceKernel (docs/devices.md)"
)
"""The advice about an object of another class among the lines of a program."""


class NotALineError(WrapperIRError, TypeError):
    """An object that is no line stands where one is wanted.

    Fields: ``given`` is its class.
    """

    code = "WIR0105"
    template = "{given} is no class of lines"
    default_hint = LINES_ARE_CLOSED


class LineVisitor(ABC, Generic[T]):
    """One method a line.

    A line without a method fails when this module is imported, a visitor without one in mypy and
    when it is made.
    """

    @final
    def visit(self, line: AnyLine) -> T:
        """Call the method of the line's class.

        Raises:
            NotALineError: It is no line.
        """
        name = _METHODS.get(type(line))
        if name is None:
            raise NotALineError(given=type(line).__name__)
        result: T = getattr(self, name)(line)
        return result

    @abstractmethod
    def visit_allocate(self, line: Allocate) -> T: ...
    @abstractmethod
    def visit_free(self, line: Free) -> T: ...
    @abstractmethod
    def visit_reuse(self, line: Reuse) -> T: ...
    @abstractmethod
    def visit_reinterpret(self, line: Reinterpret) -> T: ...
    @abstractmethod
    def visit_allocate_pool(self, line: AllocatePool) -> T: ...
    @abstractmethod
    def visit_allocate_from_pool(self, line: AllocateFromPool) -> T: ...
    @abstractmethod
    def visit_kernel_definition(self, line: KernelDefinition) -> T: ...
    @abstractmethod
    def visit_kernel_call(self, line: KernelCall) -> T: ...
    @abstractmethod
    def visit_extern_kernel(self, line: ExternKernel) -> T: ...
    @abstractmethod
    def visit_bind_symbol(self, line: BindSymbol) -> T: ...
    @abstractmethod
    def visit_compute_symbol(self, line: ComputeSymbol) -> T: ...
    @abstractmethod
    def visit_assert_layout(self, line: AssertLayout) -> T: ...
    @abstractmethod
    def visit_assert_symbol(self, line: AssertSymbol) -> T: ...
    @abstractmethod
    def visit_record_event(self, line: RecordEvent) -> T: ...
    @abstractmethod
    def visit_wait_event(self, line: WaitEvent) -> T: ...
    @abstractmethod
    def visit_synchronize(self, line: Synchronize) -> T: ...
    @abstractmethod
    def visit_cond(self, line: Cond) -> T: ...
    @abstractmethod
    def visit_switch(self, line: Switch) -> T: ...
    @abstractmethod
    def visit_while(self, line: While) -> T: ...
    @abstractmethod
    def visit_comment(self, line: Comment) -> T: ...
    @abstractmethod
    def visit_probe(self, line: Probe) -> T: ...


def _method(cls: type) -> str:
    """Return the method of a class of lines, such as ``visit_allocate_pool``.

    Raises:
        TypeError: There is none.
    """
    name = "visit_" + re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()
    if name not in LineVisitor.__abstractmethods__:
        raise TypeError(f"LineVisitor has no {name}, for {cls.__name__}")
    return name


def check_lines(program: Program) -> None:
    """Return if all that stands among a program's lines is one.

    Raises:
        NotALineError: Something is not; the error has its path.
    """
    for path, line in walk(program):
        if type(line) not in _METHODS:
            raise NotALineError(given=type(line).__name__, path=path)


#: The method of each class: a line that was forgotten is found when this module is imported.
_METHODS: Final = {cls: _method(cls) for cls in get_args(AnyLine)}


class UnvisitedLineError(WrapperIRError):
    """A partial visitor met a line that it has no method for."""

    code = "WIR0102"
    template = "{visitor} does not handle '{mnemonic}' lines"


class PartialLineVisitor(LineVisitor[T]):
    """For visitors outside this package.

    Every line ends in :meth:`visit_unsupported` unless its method is overridden: a line added in
    a later version is then a diagnostic, not a ``TypeError``.
    """

    def visit_unsupported(self, line: AnyLine) -> T:
        """Called for each line without a method of its own.

        Raises:
            UnvisitedLineError: always, unless overridden.
        """
        raise UnvisitedLineError(visitor=type(self).__name__, mnemonic=line.mnemonic)

    def visit_allocate(self, line: Allocate) -> T:
        return self.visit_unsupported(line)

    def visit_free(self, line: Free) -> T:
        return self.visit_unsupported(line)

    def visit_reuse(self, line: Reuse) -> T:
        return self.visit_unsupported(line)

    def visit_reinterpret(self, line: Reinterpret) -> T:
        return self.visit_unsupported(line)

    def visit_allocate_pool(self, line: AllocatePool) -> T:
        return self.visit_unsupported(line)

    def visit_allocate_from_pool(self, line: AllocateFromPool) -> T:
        return self.visit_unsupported(line)

    def visit_kernel_definition(self, line: KernelDefinition) -> T:
        return self.visit_unsupported(line)

    def visit_kernel_call(self, line: KernelCall) -> T:
        return self.visit_unsupported(line)

    def visit_extern_kernel(self, line: ExternKernel) -> T:
        return self.visit_unsupported(line)

    def visit_bind_symbol(self, line: BindSymbol) -> T:
        return self.visit_unsupported(line)

    def visit_compute_symbol(self, line: ComputeSymbol) -> T:
        return self.visit_unsupported(line)

    def visit_assert_layout(self, line: AssertLayout) -> T:
        return self.visit_unsupported(line)

    def visit_assert_symbol(self, line: AssertSymbol) -> T:
        return self.visit_unsupported(line)

    def visit_record_event(self, line: RecordEvent) -> T:
        return self.visit_unsupported(line)

    def visit_wait_event(self, line: WaitEvent) -> T:
        return self.visit_unsupported(line)

    def visit_synchronize(self, line: Synchronize) -> T:
        return self.visit_unsupported(line)

    def visit_cond(self, line: Cond) -> T:
        return self.visit_unsupported(line)

    def visit_switch(self, line: Switch) -> T:
        return self.visit_unsupported(line)

    def visit_while(self, line: While) -> T:
        return self.visit_unsupported(line)

    def visit_comment(self, line: Comment) -> T:
        return self.visit_unsupported(line)

    def visit_probe(self, line: Probe) -> T:
        return self.visit_unsupported(line)
