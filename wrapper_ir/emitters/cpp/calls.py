"""Rendering of definitions, and of calls of kernels and library ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ops import FIXED_WRITERS, schema_of
from wrapper_ir.emitters.cpp import arguments, literals
from wrapper_ir.emitters.cpp.exprs import CType, parameter_type
from wrapper_ir.emitters.cpp.kernels import Shim, shim_of
from wrapper_ir.emitters.cpp.literals import call, device_index
from wrapper_ir.emitters.cpp.region import RegionBase
from wrapper_ir.emitters.cpp.state import place_of, takes_tensors
from wrapper_ir.emitters.kernel_types import launch_problem
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from wrapper_ir.emitters.cpp.rows import Rows


class CallLines(RegionBase):
    """Renders definitions and calls."""

    @override
    def visit_kernel_definition(self, line: ir.KernelDefinition) -> None:
        if isinstance(line.source, ir.TorchOp):
            return  # declared when it is called
        try:
            if isinstance(line.source, ir.CppKernel):
                self.context.callees.kernel(line)
            else:
                self.context.launched.add(line)
        except ValueError as error:
            self.unsupported(line, str(error))

    @override
    def visit_kernel_call(self, line: ir.KernelCall) -> None:
        definition = self.context.program.kernels[line.kernel]
        name = self.context.names["kernel", line.kernel]
        language = definition.source.language
        problem = launch_problem(definition.source, line.device, in_cpp=True)
        if problem:
            self.unsupported(line, problem)
            return
        if language is not None and language.has_grid:
            self._launch(line, definition)
            return
        if any(isinstance(a, ir.ScalarArg) and free_symbols(a.value) for a in line.args):
            self.mark(line)
        pairs = zip(definition.params, line.args, strict=True)
        args = [self._kernel_argument(line, param, arg) for param, arg in pairs]
        self.put_call(line, f"{call(name, *args)};", line.device.kind.around_kernels)

    def _launch(self, line: ir.KernelCall, definition: ir.KernelDefinition) -> None:
        """Render the launch of a kernel over a grid, which may fail."""
        self.mark(line)
        launched = self.context.launched.launched(line, definition)
        if launched is None:
            return
        name, types = launched
        args = [
            self._kernel_argument(line, param, arg, type_)
            for param, type_, arg in zip(definition.params, types, line.args, strict=True)
        ]
        grid = ", ".join(map(self.count, line.grid))
        self.put_call(line, f"{call(name, 'call', f'{{{grid}}}', *args)};")

    def _kernel_argument(
        self, line: ir.KernelCall, param: ir.Param, arg: ir.Arg, number: CType | None = None
    ) -> str:
        match arg:
            case ir.BufferArg():
                as_tensor = takes_tensors(line, self.context.program)
                return self.handle(arg.buffer) if as_tensor else self.pointer(arg.buffer)
            case ir.NoneArg():
                return "nullptr"
            case ir.ScalarArg() if not isinstance(param, ir.BufferParam):
                return self.expr(arg.value, number or parameter_type(param.type)).text
            case _:
                self.unsupported(line, f"parameter '{param.name}' cannot take this argument")
                return ""

    @override
    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        if any(len(result.path) > _DEEPEST for result in line.results):
            self.unsupported(line, "a result is nested too deeply in lists")
            return
        schema = schema_of(self.context.program, line.op)
        self.mark(line)
        product = self.context.product(line)
        if product is not None:
            self._multiply(line, *product)
            return
        rows = self.context.rows(line)
        if rows is not None:
            self._add_to_rows(line, rows)
            return
        # The shim bypasses the dispatcher, and thereby lazy conjugation and negation.
        device = self._shim_device(line)
        shim = None if self.context.has_complex or device is None else shim_of(line.op, device)
        try:
            if shim is None or not self._call_shim(line, shim, schema):
                self._call_by_schema(line, schema)
        except arguments.NotPassableError as error:
            self.unsupported(line, str(error))
        if line.op not in FIXED_WRITERS:
            for name in ir.effects(line, self.context.program).writes:
                self.forget_addresses(name)

    def _add_to_rows(self, line: ir.ExternKernel, rows: Rows) -> None:
        """Render a matrix product that is added to rows which are copies of a vector."""
        self.context.headers.add("rows")
        layout = self.layout(rows.out)
        count, columns = layout.size
        buffers = map(self.pointer, (rows.out, rows.vector))
        numbers = (self.count(count), self.count(columns * layout.dtype.itemsize))
        matrices = map(self.handle, (rows.out, rows.left, rows.right))
        args = (*matrices, *buffers, *numbers, literals.real(rows.alpha))
        self.put_call(line, f"{call('wir::addmm', *args)};")

    def _multiply(self, line: ir.ExternKernel, function: str, *buffers: str) -> None:
        """Render a matrix product that calls cuBLAS."""
        self.context.headers.add("blas")
        self.context.parts.add(Part.BLAS)
        layout = self.layout(buffers[0])
        matrices = map(self._matrix, buffers)
        count = [self.count(size) for size in layout.size[:-2]]
        gpu = device_index(layout.device)
        args = (gpu, literals.dtype(layout.dtype), *count, *matrices)
        self.put_call(line, f"{call(f'wir::{function}', *args)};")

    def _matrix(self, name: str) -> str:
        """Return the braces of a ``wir::Matrix``."""
        layout = self.layout(name)
        numbers = (*layout.size[-2:], *layout.stride[-2:], *layout.stride[:-2])
        return f"{{{', '.join([self.pointer(name), *map(self.count, numbers)])}}}"

    def _shim_device(self, line: ir.ExternKernel) -> str | None:
        """Return the device whose C shim functions do what the dispatcher would; None for none."""
        layouts = [self.layout(name) for name in ir.effects(line, self.context.program).touched]
        away = {each.device for each in layouts if each.device != ir.CPU}
        if not away and (layouts or self.context.accelerator is None):
            return "cpu"
        # Zero-dimensional tensors may be on the CPU.
        is_together = all(layout.device != ir.CPU or layout.rank == 0 for layout in layouts)
        if len(away) != 1 or not is_together:
            return None
        side = away.pop().kind.cpp
        return None if side is None else side.shim

    def _call_shim(self, line: ir.ExternKernel, shim: Shim, schema: ir.OpSchema) -> bool:
        """Call a C shim function if it does exactly what the op does; return whether it does."""
        given = arguments.bound_arguments(line, schema)
        targets: dict[int, str] = {}
        same: list[tuple[ir.ResultBuffer, str]] = []
        fresh: list[ir.ResultBuffer] = []
        for result in line.results:
            if not isinstance(result, ir.ResultBuffer):
                return False
            position = int(result.path[0]) if result.path else 0
            if any(param.is_result for param in shim.params):
                targets[position] = self.variable(self.context.buffer(result.out))
                fresh.append(result)
            else:
                written = _written(schema, given, position)
                if written is None:
                    return False
                same.append((result, written))
        try:
            args = arguments.shim_arguments(self, shim, schema, given, targets)
        except arguments.NotPassableError:
            return False
        for result in fresh:
            self._declare(result)
        self.put_call(line, f"wir::check({call(self.context.callees.shim(shim), *args)});")
        for result, source in same:
            place = place_of(self.handle(source), self.layout(result.out), owned=False)
            self.define(result.out, place, [source])
        return True

    def _call_by_schema(self, line: ir.ExternKernel, schema: ir.OpSchema) -> None:
        given = arguments.bound_arguments(line, schema)
        args = [
            (
                arguments.dispatcher_argument(self, d, given[d.name])
                if d.name in given
                else "wir::unset"
            )
            for d in schema.args
        ]
        while args and args[-1] == "wir::unset":
            args.pop()
        parts = [f"{{{', '.join(args)}}}"]
        for result in line.results:
            self._declare(result)
        if line.results:
            targets = ", ".join(map(self._target, line.results))
            parts.append(f"{{{targets}}}")
        self.put_call(line, f"{call(self.context.callees.op(line.op), *parts)};")

    def _target(self, result: ir.OpResult) -> str:
        if isinstance(result, ir.ResultBuffer):
            variable = self.variable(self.context.buffer(result.out))
        elif isinstance(result, ir.ResultObject):
            variable = self.objects[result.object]
        else:
            variable = self.symbol_value(result.symbol)
        return f"{{{', '.join([variable, *map(str, result.path)])}}}" if result.path else variable

    def _declare(self, result: ir.OpResult) -> None:
        """Write the variable of a result."""
        if isinstance(result, ir.ResultBuffer):
            self.define_tensor(result.out, "", result.of)
        elif isinstance(result, ir.ResultObject):
            name = self.context.buffer(result.object)
            self.objects[result.object] = self.declare(name, "wir::OwnObject")
        else:
            type_ = self.symbol_type(result.symbol)
            self.declare(self.context.symbol(result.symbol), type_.value)


_DEEPEST = 3


def _written(schema: ir.OpSchema, given: dict[str, ir.Arg], position: int) -> str | None:
    """Return the buffer that an op writes to and returns as the result at a position."""
    sets = schema.returns[position].alias_sets
    for declared in schema.args:
        arg = given.get(declared.name)
        if (
            declared.type.writes
            and sets & declared.type.alias_sets
            and isinstance(arg, ir.BufferArg)
        ):
            return arg.buffer
    return None
