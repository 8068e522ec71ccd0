"""Calls of kernels: number, kind, dtype, access and device of the arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.devices import WITH_GRID
from wrapper_ir.lines import (
    Access,
    BufferArg,
    BufferParam,
    DeviceArg,
    DeviceKernel,
    DTypeArg,
    EnumArg,
    ListArg,
    NoneArg,
    ObjectArg,
    ScalarArg,
    ScalarParam,
    ScalarType,
    StringArg,
    TorchOp,
)
from wrapper_ir.verify import rules
from wrapper_ir.verify.layouts import same_device
from wrapper_ir.verify.tables import shown

if TYPE_CHECKING:
    from wrapper_ir.lines import Arg, KernelCall, KernelDefinition
    from wrapper_ir.verify.state import State
    from wrapper_ir.verify.symbols import Symbols
    from wrapper_ir.verify.tables import Kernels

#: What each class of argument is called in messages.
_WHAT: Final[dict[type, str]] = {
    BufferArg: "a buffer",
    ScalarArg: "a number",
    ObjectArg: "an object",
    NoneArg: "none",
    StringArg: "a string",
    DTypeArg: "a dtype",
    DeviceArg: "a device",
    EnumArg: "a named constant",
    ListArg: "a list",
}

_NO_MEMORY: Final = "meta"
"""The device whose tensors have a layout and nothing else."""

_LIMITS: Final = {
    ScalarType.INT64: (-(2**63), 2**63 - 1),
    ScalarType.INT32: (-(2**31), 2**31 - 1),
    ScalarType.UINT64: (0, 2**64 - 1),
}

_WANTED: Final = {
    ScalarType.INT64: ("int",),
    ScalarType.INT32: ("int",),
    ScalarType.UINT64: ("int",),
    ScalarType.FLOAT64: ("float", "int"),
    ScalarType.FLOAT32: ("float", "int"),
    ScalarType.BOOL: ("bool",),
}


def described(arg: Arg) -> str:
    """An argument in words."""
    if isinstance(arg, BufferArg):
        return f"buffer %{arg.buffer}"
    if isinstance(arg, ObjectArg):
        return f"object &{arg.object}"
    if isinstance(arg, ScalarArg):
        return f"the number {arg.value}"
    return _WHAT[type(arg)]


def counted(count: int, noun: str) -> str:
    """A count with its noun in the right number."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Calls:
    """The checks of 'call' lines."""

    def __init__(self, state: State, symbols: Symbols, kernels: Kernels) -> None:
        self.state = state
        self.symbols = symbols
        self.kernels = kernels

    def check(self, line: KernelCall) -> None:
        """Checks one call against its kernel's definition."""
        kernel = self.kernels.find(line.kernel)
        if kernel is None:
            return
        if isinstance(kernel.source, TorchOp):
            self.state.report(
                rules.WRONG_CALL,
                name=shown(line.kernel),
                what="a library op",
                mnemonic=line.mnemonic,
                fix="call it with an extern line",
            )
            return
        if line.device.type == _NO_MEMORY:
            self.state.report(rules.NO_MEMORY, name=shown(line.kernel), device=line.device)
        self._check_grid(line, kernel)
        if len(line.args) != len(kernel.params):
            self.state.report(
                rules.ARGUMENT_COUNT,
                name=shown(line.kernel),
                expected=counted(len(kernel.params), "argument"),
                given=f"{len(line.args)} {'is' if len(line.args) == 1 else 'are'}",
                fix=f"its parameters are {', '.join(p.name for p in kernel.params) or 'none'}",
            )
            return
        for arg, param in zip(line.args, kernel.params, strict=True):
            if isinstance(param, BufferParam):
                self._check_buffer(line, arg, param)
            else:
                self._check_scalar(line, arg, param)

    def _check_grid(self, line: KernelCall, kernel: KernelDefinition) -> None:
        language = kernel.source.language
        over = language if language is not None and language.has_grid else None
        if isinstance(kernel.source, DeviceKernel):  # whose launcher may do without one
            over, legal = language, len(line.grid) <= 3
        else:
            legal = not line.grid if over is None else 1 <= len(line.grid) <= 3
        if not legal:
            names = " or ".join(each.name for each in WITH_GRID)
            what = f"not a {names} kernel" if over is None else f"a {over.name} kernel"
            grid = f"a grid of {counted(len(line.grid), 'size')}" if line.grid else "no grid"
            self.state.report(rules.BAD_GRID, name=shown(line.kernel), what=what, grid=grid)
        for size in line.grid:
            self.symbols.check_kinds(size, self.state.here())

    def _check_buffer(self, line: KernelCall, arg: Arg, param: BufferParam) -> None:
        which = f"parameter '{param.name}'"
        if not isinstance(arg, BufferArg):
            self.state.report(
                rules.ARGUMENT_KIND,
                which=which,
                name=shown(line.kernel),
                expected="a buffer",
                given=described(arg),
            )
            return
        if arg.access is not param.access:
            report_access(
                self.state, which, shown(line.kernel), arg, param.access, "kernel's parameter"
            )
        layout = self.state.program.buffers.get(arg.buffer)
        if layout is None:
            return
        if layout.dtype is not param.dtype:
            self.state.report(
                rules.ARGUMENT_DTYPE,
                which=which,
                name=shown(line.kernel),
                expected=param.dtype.short,
                buffer=arg.buffer,
                given=layout.dtype.short,
            )
        if not same_device(layout.device, line.device):
            self.state.report(
                rules.ARGUMENT_DEVICE,
                which=which,
                name=shown(line.kernel),
                buffer=arg.buffer,
                given=layout.device,
                expected=line.device,
            )

    def _check_scalar(self, line: KernelCall, arg: Arg, param: ScalarParam) -> None:
        which = f"parameter '{param.name}'"
        found = ""
        if isinstance(arg, ScalarArg):
            self.symbols.check_kinds(arg.value, self.state.here())
            kind = self.symbols.kind_of(arg.value)
            if kind in _WANTED[param.type]:
                self._check_range(line, arg, param, which)
                return
            found = f" ({kind})"
        self.state.report(
            rules.ARGUMENT_KIND,
            which=which,
            name=shown(line.kernel),
            expected=f"a number of type {param.type.value}",
            given=f"{described(arg)}{found}",
        )

    def _check_range(
        self, line: KernelCall, arg: ScalarArg, param: ScalarParam, which: str
    ) -> None:
        limits = _LIMITS.get(param.type)
        value = arg.value
        if limits is not None and type(value) is int and not limits[0] <= value <= limits[1]:
            self.state.report(
                rules.ARGUMENT_RANGE,
                which=which,
                name=shown(line.kernel),
                value=value,
                type=param.type.value,
            )


def report_access(
    state: State, which: str, name: str, arg: BufferArg, expected: Access, source: str
) -> None:
    """Reports an argument whose access is not that of the declaration."""
    state.report(
        rules.ARGUMENT_ACCESS,
        which=which,
        name=name,
        given=arg.access.value,
        source=source,
        expected=expected.value,
    )
