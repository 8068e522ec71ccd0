"""Dispatch over the closed set of lines."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final, Generic, NoReturn, TypeVar, final, get_args

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
from wrapper_ir.lines.program import AnyLine
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment, Probe

T = TypeVar("T")


class LineVisitor(ABC, Generic[T]):
    """One method a line.

    A line without a method fails when this module is imported, a visitor without one in mypy and
    when it is made.
    """

    @final
    def visit(self, line: AnyLine) -> T:
        """Call the method of the line's class.

        Raises:
            TypeError: It is no line.
        """
        name = _METHODS.get(type(line))
        if name is None:
            raise TypeError(f"{type(line).__name__} is no class of lines")
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
        self._refuse(line)

    def _refuse(self, line: AnyLine) -> NoReturn:
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
