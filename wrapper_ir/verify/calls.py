"""Declarations of kernels and library ops, and calls of kernels against them.

The number, kinds, dtypes, accesses and devices of arguments are checked. Calls of library ops are
in :mod:`wrapper_ir.verify.externs`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import sizes_of
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import dim
from wrapper_ir.lines.schema import QUALIFIED_OP_NAME
from wrapper_ir.lines.traits import calls_op
from wrapper_ir.verify import rules
from wrapper_ir.verify.tables import check_name, same_device

if TYPE_CHECKING:
    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, State
    from wrapper_ir.verify.symbols import Symbols

Fault: TypeAlias = Callable[..., None]
"""``State.report`` with the fields bound that all faults of a call share."""

#: Nouns for classes of arguments in messages.
_WHAT: Final[dict[type, str]] = {
    ir.BufferArg: "a buffer",
    ir.ScalarArg: "a number",
    ir.ObjectArg: "an object",
    ir.NoneArg: "none",
    ir.StringArg: "a string",
    ir.DTypeArg: "a dtype",
    ir.DeviceArg: "a device",
    ir.EnumArg: "a named constant",
    ir.ListArg: "a list",
}

_NO_MEMORY: Final = "meta"
"""The device whose tensors have no memory."""

_INTS: Final = ("int",)
_FLOATS: Final = ("float", "int")

#: The kinds of number that each parameter type accepts, and its limits, if any.
_TAKEN: Final[dict[ir.ScalarType, tuple[tuple[str, ...], int | None, int]]] = {
    ir.ScalarType.INT64: (_INTS, -(2**63), 2**63 - 1),
    ir.ScalarType.INT32: (_INTS, -(2**31), 2**31 - 1),
    ir.ScalarType.UINT64: (_INTS, 0, 2**64 - 1),
    ir.ScalarType.FLOAT64: (_FLOATS, None, 0),
    ir.ScalarType.FLOAT32: (_FLOATS, None, 0),
    ir.ScalarType.BOOL: (("bool",), None, 0),
}


def described(arg: ir.Arg) -> str:
    """Describe an argument."""
    if isinstance(arg, ir.BufferArg):
        return f"buffer %{arg.buffer}"
    if isinstance(arg, ir.ObjectArg):
        return f"object &{arg.object}"
    if isinstance(arg, ir.ScalarArg):
        return f"the number {arg.value}"
    return _WHAT[type(arg)]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in singular or plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def are(count: int) -> str:
    """Return ``is`` or ``are``, as the count requires."""
    return "is" if count == 1 else "are"


def shown(name: str) -> str:
    """Return the name of a kernel or op as written in calls."""
    return name if "::" in name else f"@{name}"


class Kernels:
    """The kernels and ops declared so far: well-formed, once, before use, outside regions."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._declared: dict[str, tuple[ir.KernelDefinition, Place]] = {}
        self._schemas: dict[str, ir.OpSchema] = {}

    def declare(self, line: ir.KernelDefinition) -> None:
        """Check a declaration and enter it."""
        fault = partial(self.state.report, name=shown(line.name))
        if self.state.frame is not self.state.root:
            fault(rules.KERNEL_IN_REGION)
        if line.name in self._declared:
            fault(rules.KERNEL_TWICE, first=f"at {self._declared[line.name][1]}")
            return
        self._declared[line.name] = (line, self.state.here())
        if isinstance(line.source, ir.TorchOp):
            self._check_op(line, line.source, fault)
            return
        check_name(self.state, line.name, "kernel")
        seen: set[str] = set()
        for param in line.params:
            check_name(self.state, param.name, "parameter")
            if param.name in seen:
                fault(rules.BAD_PARAM, param=param.name)
            seen.add(param.name)
        check_name(self.state, line.source.entry, "kernel's entry")
        group = line.source.group if isinstance(line.source, ir.DeviceKernel) else ()
        if len(group) > 3 or any(size < 1 for size in group):
            fault(rules.BAD_GROUP, sizes=", ".join(map(str, group)))

    def find(self, line: ir.KernelCall | ir.ExternKernel) -> ir.KernelDefinition | None:
        """Return the declaration of the callee, or report that there is none for such a line."""
        name = ir.effects(line).calls[0]
        fault = partial(self.state.report, name=shown(name))
        found = self._declared.get(name)
        if found is None:
            names = self.state.names.kernels
            later, near = self.state.later(name, names), self.state.near(name, names)
            fault(rules.UNKNOWN_KERNEL, later=later, near=near)
            return None
        is_op = isinstance(found[0].source, ir.TorchOp)
        if is_op is calls_op(line):
            return found[0]
        kernel, op = ("a kernel of this program", "a call"), ("a library op", "an extern")
        what, other = op if is_op else kernel
        fault(rules.WRONG_CALL, what=what, mnemonic=line.mnemonic, fix=f"call it with {other} line")
        return None

    def schema(self, name: str) -> ir.OpSchema | None:
        """Return the schema of a declared op; None if it is malformed."""
        return self._schemas.get(name)

    def _check_op(self, line: ir.KernelDefinition, source: ir.TorchOp, fault: Fault) -> None:
        if QUALIFIED_OP_NAME.fullmatch(line.name) is None:
            self.state.report(rules.BAD_NAME, name=line.name, what="library op")
        try:
            schema = ir.parse_schema(source.schema)
        except ir.SchemaError as error:
            at = error.fields
            fault(rules.BAD_SCHEMA, reason=at["reason"], column=at["column"])
            return
        if schema.name != line.name:
            fault(rules.BAD_OP_DECLARATION, why=f"with the schema of {schema.name}")
        elif line.params:
            fault(rules.BAD_OP_DECLARATION, why="with parameters besides its schema")
        elif source.is_method and not _is_method(schema):
            why = "as a method, but its first argument is not an object of its class"
            fault(rules.BAD_OP_DECLARATION, why=why)
        else:
            self._schemas[line.name] = schema


def _is_method(schema: ir.OpSchema) -> bool:
    """Return whether the first argument has the class in the name."""
    class_name, _, method = schema.name.partition(".")
    return bool(method and schema.args) and schema.args[0].type.class_name == class_name


class Calls:
    """Checks of 'call' lines."""

    def __init__(
        self, state: State, symbols: Symbols, kernels: Kernels, lifetimes: Lifetimes
    ) -> None:
        self.state = state
        self.symbols = symbols
        self.kernels = kernels
        self.lifetimes = lifetimes

    def check(self, line: ir.KernelCall) -> None:
        """Check one call against its kernel's definition."""
        kernel = self.kernels.find(line)
        if kernel is None:
            return
        fault = partial(self.state.report, name=shown(line.kernel))
        if line.device.type == _NO_MEMORY:
            fault(rules.NO_MEMORY, device=line.device)
        self._check_grid(line, kernel, fault)
        args, params = line.args, kernel.params
        if len(args) != len(params):
            expected, given = counted(len(params), "argument"), f"{len(args)} {are(len(args))}"
            fix = f"its parameters are {', '.join(p.name for p in params) or 'none'}"
            fault(rules.ARGUMENT_COUNT, expected=expected, given=given, fix=fix)
            return
        for arg, param in zip(args, params, strict=True):
            here = partial(fault, which=f"parameter '{param.name}'")
            if isinstance(param, ir.BufferParam):
                self._check_buffer(line, arg, param, here)
            else:
                self._check_scalar(arg, param, here)
        if line.reach:
            self._check_reach(line)

    def _check_reach(self, line: ir.KernelCall) -> None:
        """Check that the kernel stays within the storage of its buffers."""
        fault = partial(self.state.report, name=shown(line.kernel))
        given = tuple(buffers_in(line.args))
        if len(line.reach) != len(given):
            expected = f"the reach of {counted(len(given), 'buffer')}"
            said = f"that of {len(line.reach)} {are(len(line.reach))}"
            fix = "say of each buffer how far the kernel reaches, or of none; 0 if it is not known"
            fault(rules.ARGUMENT_COUNT, expected=expected, given=said, fix=fix)
            return
        for arg, reach in zip(given, line.reach, strict=True):
            self.symbols.check_kinds(reach, self.state.here())
            buffer = self.lifetimes.buffers.get(arg.buffer)
            if reach == 0 or buffer is None or buffer.layout is None or not buffer.is_certain:
                continue
            layout, capacities = buffer.layout, {each.capacity for each in buffer.storages}
            capacity = capacities.pop() if len(capacities) == 1 else None
            end = dim((layout.offset + reach) * layout.dtype.itemsize)
            if capacity is not None and self.state.facts.exceeds(end, capacity, sizes_of(layout)):
                here = partial(fault, owner=buffer.storages[0].owner, capacity=capacity)
                here(rules.REACHES_OUT, buffer=arg.buffer, end=end)

    def _check_grid(self, line: ir.KernelCall, kernel: ir.KernelDefinition, fault: Fault) -> None:
        language = kernel.source.language
        over = language if language is not None and language.has_grid else None
        if isinstance(kernel.source, ir.DeviceKernel):  # whose launcher may do without one
            over, legal = language, len(line.grid) <= 3
        else:
            legal = not line.grid if over is None else 1 <= len(line.grid) <= 3
        if not legal:
            what = "a kernel" if language is None else f"a {language.name} kernel"
            grid = f"a grid of {counted(len(line.grid), 'size')}" if line.grid else "no grid"
            fault(rules.BAD_GRID, what=what, grid=grid)
        for size in line.grid:
            self.symbols.check_kinds(size, self.state.here())

    def _check_buffer(
        self, line: ir.KernelCall, arg: ir.Arg, param: ir.BufferParam, fault: Fault
    ) -> None:
        if not isinstance(arg, ir.BufferArg):
            fault(rules.ARGUMENT_KIND, expected="a buffer", given=described(arg))
            return
        check_access(arg, param.access, "kernel's parameter", fault)
        layout = self.state.program.buffers.get(arg.buffer)
        if layout is None:
            return
        here = partial(fault, buffer=arg.buffer)
        if layout.dtype is not param.dtype:
            here(rules.ARGUMENT_DTYPE, expected=param.dtype.short, given=layout.dtype.short)
        if not same_device(layout.device, line.device):
            here(rules.ARGUMENT_DEVICE, given=layout.device, expected=line.device)

    def _check_scalar(self, arg: ir.Arg, param: ir.ScalarParam, fault: Fault) -> None:
        given, type_ = described(arg), param.type.value
        if isinstance(arg, ir.ScalarArg):
            value = arg.value
            self.symbols.check_kinds(value, self.state.here())
            kind = self.symbols.kind_of(value)
            kinds, least, most = _TAKEN[param.type]
            if kind in kinds:
                if least is not None and type(value) is int and not least <= value <= most:
                    fault(rules.ARGUMENT_RANGE, value=value, type=type_)
                return
            given += f" ({kind})"
        fault(rules.ARGUMENT_KIND, expected=f"a number of type {type_}", given=given)


def check_access(arg: ir.BufferArg, expected: ir.Access, source: str, fault: Fault) -> None:
    """Check the access of an argument against its declaration."""
    if arg.access is not expected:
        given, wanted = arg.access.value, expected.value
        fault(rules.ARGUMENT_ACCESS, given=given, source=source, expected=wanted)
