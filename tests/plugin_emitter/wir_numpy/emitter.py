"""The emitter and what it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from wir_numpy.lines import Lines
from wrapper_ir.emitters import Emitter, Problems, constant_values
from wrapper_ir.emitters.functions import as_function
from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.lines import BufferInput, CppKernel, Program
from wrapper_ir.lines.walk import Path
from wrapper_ir.runtime import InputChecks, TensorSpec, realigned

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NumpyArtifact", "NumpyEmitter"]

_HEAD = """\
\"\"\"A wrapper program over NumPy arrays, written by wir_numpy.\"\"\"

import numpy as np

from wir_numpy.runtime import CppKernels, check_number, check_symbol, empty, on_arrays, view
"""


@dataclass(frozen=True)
class NumpyArtifact:
    """A file that NumPy runs, and the program that it was made from."""

    source: str
    program: Program
    constants: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """A function of tensors, which share memory with the arrays that it works on."""
        return as_function(self.load_boxed(), self.program)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The same, of one list that it empties."""
        module: dict[str, Any] = {}
        exec(compile(self.source, "<wir_numpy>", "exec"), module)
        values = constant_values(self.program)
        for variable, name in self.constants.items():
            module[variable] = _array(values[name])
        check = InputChecks(*_specs(self.program))
        items = enumerate(self.program.inputs)
        buffers = {n: item.realigned for n, item in items if isinstance(item, BufferInput)}

        def call(inputs: list[Any]) -> tuple[Any, ...]:
            # The list is the only one to hold the inputs, so that those that are freed die.
            check(*(inputs[n] for n in buffers))
            for n, alignment in buffers.items():
                inputs[n] = realigned(inputs[n], alignment or 1)
            inputs[:] = map(_array, inputs)
            return tuple(map(_tensor, module["call"](inputs)))

        return call


def _array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


@dataclass(frozen=True)
class NumpyEmitter(Emitter):
    """Emits Python over NumPy arrays."""

    name: ClassVar[str] = "numpy"

    def render(self, program: Program, problems: Problems) -> NumpyArtifact:
        """Render the lines of a planned program."""
        lines = Lines(program, problems)
        for index, line in enumerate(program.body):
            lines.path = Path().then("body", index)
            lines.visit(line)
        if problems.found:
            return NumpyArtifact("", program)
        constants = {lines.names["buffer", name]: name for name in program.constants}
        return NumpyArtifact(_file(program, lines), program, constants)


def _file(program: Program, lines: Lines) -> str:
    text = [_HEAD]
    if lines.exprs.used:
        text.append(f"from wrapper_ir.runtime import {', '.join(sorted(lines.exprs.used))}\n")
    text.append("kernels = CppKernels()")
    for name in lines.kernels:
        definition = program.kernels[name]
        source = definition.source
        assert isinstance(source, CppKernel)
        types = tuple(map(cpp_type, definition.params))
        text.append(f"kernels.add({name!r}, {types!r}, {source.code!r}, entry={source.entry!r})")
    if lines.loaded:
        text.append(f"{', '.join(lines.loaded)}, = map(on_arrays, kernels.load())")
    params = "".join(f"{lines.input(each)}, " for each in program.inputs)
    taken = [f"{params}= args" if params else "", "args.clear()"]
    checks = map(lines.check, program.inputs)
    results = "".join(f"{lines.result(each)}, " for each in program.results)
    body = [*filter(None, (*taken, *checks)), *lines.body, f"return ({results})"]
    return "\n".join([*text, "", "", "def call(args):", *(f"    {line}" for line in body), ""])


def _specs(program: Program) -> list[TensorSpec]:
    def numbers(values: tuple[Any, ...]) -> tuple[int | None, ...]:
        return tuple(value if isinstance(value, int) else None for value in values)

    found = []
    for each in program.inputs:
        if not isinstance(each, BufferInput):
            continue
        layout = program.layout(each.name)
        dtype = getattr(torch, layout.dtype.torch_name)
        found.append(TensorSpec(each.name, dtype, numbers(layout.size), numbers(layout.stride)))
    return found
