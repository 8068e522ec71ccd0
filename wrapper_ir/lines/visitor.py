"""Dispatch over the closed set of lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NoReturn, TypeVar, assert_never, final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.control import Cond, Switch, While
from wrapper_ir.lines.kernels import ExternKernel, KernelCall, KernelDefinition
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.program import AnyLine
from wrapper_ir.lines.streams import RecordEvent, Synchronize, WaitEvent
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment, Probe

T = TypeVar("T")


class LineVisitor(ABC, Generic[T]):
    """One method a line.

    :meth:`visit` is the only place where the set is enumerated: a forgotten line fails in mypy and
    at construction.
    """

    @final
    def visit(self, line: AnyLine) -> T:  # noqa: C901, PLR0912 - one case a line is the point
        """Calls the method of the line's class."""
        match line:
            case Allocate():
                return self.visit_allocate(line)
            case Free():
                return self.visit_free(line)
            case Reuse():
                return self.visit_reuse(line)
            case Reinterpret():
                return self.visit_reinterpret(line)
            case AllocatePool():
                return self.visit_allocate_pool(line)
            case AllocateFromPool():
                return self.visit_allocate_from_pool(line)
            case KernelDefinition():
                return self.visit_kernel_definition(line)
            case KernelCall():
                return self.visit_kernel_call(line)
            case ExternKernel():
                return self.visit_extern_kernel(line)
            case BindSymbol():
                return self.visit_bind_symbol(line)
            case ComputeSymbol():
                return self.visit_compute_symbol(line)
            case AssertLayout():
                return self.visit_assert_layout(line)
            case AssertSymbol():
                return self.visit_assert_symbol(line)
            case RecordEvent():
                return self.visit_record_event(line)
            case WaitEvent():
                return self.visit_wait_event(line)
            case Synchronize():
                return self.visit_synchronize(line)
            case Cond():
                return self.visit_cond(line)
            case Switch():
                return self.visit_switch(line)
            case While():
                return self.visit_while(line)
            case Comment():
                return self.visit_comment(line)
            case Probe():
                return self.visit_probe(line)
            case _:
                assert_never(line)

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
