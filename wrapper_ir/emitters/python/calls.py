"""Rendering of kernels, library ops and their arguments."""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ops import is_method, schema_of
from wrapper_ir.emitters.kernel_types import launch_problem
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.context import caller
from wrapper_ir.emitters.python.literals import Node, call, keyword, list_of, tuple_of
from wrapper_ir.emitters.python.region import RegionBase
from wrapper_ir.emitters.triton import stream_of
from wrapper_ir.lines.traits import calls_op

if TYPE_CHECKING:
    from collections.abc import Sequence


def _is_public(name: str) -> bool:
    """Return whether a name can follow a dot, and is meant to."""
    is_name = name.isascii() and name.isidentifier() and not iskeyword(name)
    return is_name and not name.startswith("_")


class CallLines(RegionBase):
    """Renders definitions and calls."""

    @override
    def visit_kernel_definition(self, line: ir.KernelDefinition) -> None:
        if self._definitions is None:
            self.unsupported(line, "a kernel is defined inside a region")
            return
        section = self._definitions[type(line.source)]
        with self.context.section(section.name).at(self.path):
            try:
                section.add(line)
            except ValueError as error:
                self.unsupported(line, str(error))

    @override
    def visit_kernel_call(self, line: ir.KernelCall) -> None:
        source = self.context.program.kernels[line.kernel].source
        problem = launch_problem(source, line.device, launchers=True)
        if problem:
            self.unsupported(line, problem)
        args = [self.arg(line, arg) for arg in line.args]
        language = source.language
        if isinstance(source, ir.DeviceKernel) or (language is not None and language.has_grid):
            kernel = self.context.kernel(line.kernel, line.device)
            place = "" if language is None else stream_of(language, line.device)
            stream = [self._stream(line, place)] if place else []
            args = [self.context.dims(line.grid), *stream, *args]
        else:
            kernel = self.context.kernel(line.kernel, caller(line.device))
        with self.profiled(line, line.kernel):
            self.put(call(kernel, *args))

    def _stream(self, line: ir.KernelCall, place: str) -> str:
        """Return the variable of the current stream, fetched before the first launch on it."""
        key = (line.device, line.stream)
        if key not in self._handles:
            preferred = f"handle_{line.stream}" if line.stream else "stream"
            name = self._handles[key] = self.context.names.fresh(preferred)
            number = str(line.device.index or 0)
            if line.device in self.context.current:
                number = f"{self.context.device(line.device)}.index"
            self.writer.line(f"{name} = {self.context.imported(place)}({number})")
        return self._handles[key]

    @override
    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        schema = schema_of(self.context.program, line.op)
        # All that the line gives, defaults too: those of the registered op may differ.
        nodes = [self.arg(line, arg) for arg in line.args]
        nodes += [keyword(name, self.arg(line, arg)) for name, arg in line.kwargs]
        if is_method(self.context.program, line.op):
            value = _method_call(line, nodes)
        else:
            value = call(self.context.names["op", line.op], *nodes)
        count = len(schema.returns) if schema.returns_tuple else 0
        with self.profiled(line, line.op):
            self.results(line, line.results, value, count)

    def results(
        self, line: ir.AnyLine, results: Sequence[ir.OpResult], value: Node, count: int
    ) -> None:
        """Write a call and bind its results: a tuple of ``count`` or, for 0, a single value."""
        targets = [self._target(result) for result in results]
        paths = [result.path for result in results]
        if count == 1 and paths == [()]:
            paths = [(0,)]  # a region returns a tuple even for a single result
        if not results:
            self.put(value)
        elif paths == [()]:
            self.put(value, head=f"{targets[0]} = ")
        elif paths == [(n,) for n in range(count)]:
            self.unpack(targets, value)
        else:
            whole = self.context.names.fresh("result")
            self.put(value, head=f"{whole} = ")
            if calls_op(line) and self.context.options.checks != "never":
                self._check_lengths(line, whole, count)
            for target, path in zip(targets, paths, strict=True):
                step = self._steps(line, path)
                self.writer.line(f"{target} = {whole}{step}")
            self.writer.line(f"del {whole}")
        for result in results:
            if isinstance(result, ir.ResultBuffer):
                self.bindings.define(result.out, result.of)

    def _check_lengths(self, line: ir.ExternKernel, whole: str, count: int) -> None:
        """Write checks that lists in a result are long enough: no schema states their lengths."""
        lengths: dict[tuple[int | str, ...], int] = {}
        for path in (result.path for result in line.results):
            for depth in range(1 if count else 0, len(path)):
                step, outer = path[depth], path[:depth]
                if isinstance(step, int):
                    lengths[outer] = max(lengths.get(outer, 0), step + 1)
        for path, length in lengths.items():
            args = (f"{whole}{self._steps(line, path)}", str(length), literals.string(line.op))
            self.put(call(self.context.helper("check_length"), *args))

    def _target(self, result: ir.OpResult) -> str:
        if isinstance(result, ir.ResultBuffer):
            return self.context.buffer(result.out)
        if isinstance(result, ir.ResultObject):
            return self.context.buffer(result.object)
        return self.context.symbol(result.symbol)

    def _steps(self, line: ir.AnyLine, path: tuple[int | str, ...]) -> str:
        text = ""
        for step in path:
            if isinstance(step, int):
                text += f"[{step}]"
            elif _is_public(step):
                text += f".{step}"
            else:
                self.unsupported(line, f"'{step}' is not the name of a part of a result")
        return text

    def arg(self, line: ir.AnyLine, arg: ir.Arg) -> Node:  # noqa: C901 - one case a kind
        """Return one argument of a call."""
        match arg:
            case ir.BufferArg():
                return self.context.buffer(arg.buffer)
            case ir.ScalarArg():
                return self.context.expr(arg.value)
            case ir.ObjectArg():
                return self.context.buffer(arg.object)
            case ir.NoneArg():
                return "None"
            case ir.StringArg():
                return literals.string(arg.value)
            case ir.DTypeArg():
                return literals.dtype(arg.dtype)
            case ir.DeviceArg():
                return self.context.device(arg.device)
            case ir.EnumArg():
                if not (_is_public(arg.name) and arg.name.islower()):
                    self.unsupported(line, f"torch has no constant '{arg.name}'")
                return f"torch.{arg.name}"
            case ir.ListArg():
                items = [self.arg(line, item) for item in arg.items]
                # A tuple of numbers is a constant of the compiled file; a list is built per call.
                numbers = all(isinstance(item, ir.ScalarArg) for item in arg.items)
                return tuple_of(items) if numbers and items else list_of(items)


def _method_call(line: ir.ExternKernel, nodes: list[Node]) -> Node:
    """Return ``queue.push(x)``: a call of a method of the first argument."""
    receiver, *args = nodes
    method = line.op.rpartition(".")[2]
    if _is_public(method):
        return call(f"{receiver}.{method}", *args)
    return call(f"getattr({receiver}, {literals.string(method)})", *args)
