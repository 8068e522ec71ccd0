"""State that all graphs of one run share: the program, places of constants, known values."""

from __future__ import annotations

import builtins
import functools
import keyword
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.analysis.proof import Facts as Proofs
from wrapper_ir.emitters.fx.constants import places_of
from wrapper_ir.emitters.fx.kernels import KernelForm, KernelSet, declare, declare_form
from wrapper_ir.emitters.fx.triton import declare_launched
from wrapper_ir.emitters.fx.values import NoValues, Values
from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.lines.kernels import (
    BufferParam,
    CppKernel,
    KernelDefinition,
    TorchOp,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.emitters.facts import Facts
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.origin import Origin
    from wrapper_ir.lines.program import AnyLine, Program


_RESERVED: Final = (
    frozenset(keyword.kwlist)
    | frozenset(keyword.softkwlist)
    | frozenset(
        ("self", "torch", "device", "dtype", "inf", "nan", "math", "operator", *dir(builtins))
    )
)


class Context:
    """One run of the emitter.

    Attributes:
        program: The program.
        facts: What was found out about it.
        problems: What cannot be rendered.
        checks: Whether inputs and results are checked.
        values: What is known of values.
        places: The attribute of the module that holds each constant.
        launched: The kernels that are launched over a grid, by name.
    """

    def __init__(
        self, program: Program, facts: Facts, problems: Problems, *, checks: bool, values: bool
    ) -> None:
        self.program = program
        self.facts = facts
        self.problems = problems
        self.checks = checks
        self.values: Values | NoValues = Values(program) if values else NoValues()
        self.places = places_of(program)
        self._ops: Mapping[str, Any] = declare(
            d for d in program.kernels.values() if self.kernel_problem(d) is None
        )
        self._forms: dict[KernelForm, Any] = {}
        self.launched = declare_launched(program.kernels.values())
        self._origins: dict[int, dict[str, Any]] = {}

    def kernel_problem(self, definition: KernelDefinition) -> str | None:
        """Return why a kernel cannot be rendered, or ``None``; ``""`` for what is no C++ kernel."""
        if not isinstance(definition.source, CppKernel):
            return ""
        for param in definition.params:
            if isinstance(param, BufferParam) and cpp_type(param) is None:
                return f"parameter '{param.name}' has a type that C++ kernels cannot take"
        return None

    def may_be_empty(self, layout: Layout) -> bool:
        """Return whether a buffer may have no elements, by what is known of the symbols."""
        return not all(self._proofs.at_least(size, 1) for size in layout.size)

    @functools.cached_property
    def _proofs(self) -> Proofs:
        return Proofs(self.program)

    def kernel(self, name: str) -> Any:
        """The op of a C++ kernel, ``None`` where it has none."""
        return self._ops.get(name)

    def kernel_form(self, form: KernelForm) -> Any:
        """The op of a form of a C++ kernel."""
        if form not in self._forms:
            self._forms[form] = declare_form(form)
        return self._forms[form]

    def kernel_set(self) -> KernelSet:
        """All kernels of the program, and the forms that graphs of this run call them in."""
        return KernelSet(
            tuple(d for d in self.program.kernels.values() if isinstance(d.source, CppKernel)),
            tuple(self._forms),
            tuple(self.program.kernels[name] for name in self.launched),
        )

    def library_op(self, name: str) -> Any:
        """The overload of a library op, ``None`` where torch has none in this process."""
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace), base, None)
        return getattr(packet, overload or "default", None)

    def method(self, op: str) -> str:
        """The name of a method where an op is one of a custom class; else empty."""
        source = self.program.kernels[op].source
        is_method = isinstance(source, TorchOp) and source.is_method
        return op.rpartition(".")[2] if is_method else ""

    def wanted_name(self, name: str) -> str:
        """Return the preferred name of a node; torch makes it unique within its graph."""
        if name in _RESERVED or name.startswith("__"):
            return f"{name.strip('_') or 'node'}_"
        return name

    def origin_meta(self, line: AnyLine) -> dict[str, Any]:
        """Return a line's origin in the terms of FX."""
        if line.origin is None or not 0 <= line.origin < len(self.program.origins):
            return {}
        if line.origin not in self._origins:
            self._origins[line.origin] = _origin_meta(self.program.origins[line.origin])
        return self._origins[line.origin]


def _origin_meta(origin: Origin) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    if origin.frames:
        meta["stack_trace"] = "".join(
            f'  File "{_one_line(frame.file)}", line {frame.line}, in '
            f"{_one_line(frame.function) or 'forward'}\n    {_one_line(frame.code)}\n"
            for frame in origin.frames
        )
    if origin.module:
        meta["nn_module_stack"] = {origin.module: (origin.module, "torch.nn.Module")}
    if origin.nodes or origin.ops:
        meta["wrapper_ir_origin"] = {"nodes": origin.nodes, "ops": origin.ops}
    return meta


def _one_line(text: str) -> str:
    return " ".join(text.split())
