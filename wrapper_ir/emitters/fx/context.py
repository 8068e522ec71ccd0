"""State that all graphs of one run share: the program, attributes of constants, node values."""

from __future__ import annotations

import builtins
import contextlib
import functools
import keyword
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.analysis.ops import is_method
from wrapper_ir.analysis.proof import Facts as Proofs
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.exprs import lower
from wrapper_ir.emitters.fx.kernels import KernelForm, KernelSet, declare, declare_form
from wrapper_ir.emitters.fx.triton import declare_launched
from wrapper_ir.emitters.kernel_types import parameter_types
from wrapper_ir.emitters.regions import Run
from wrapper_ir.lines.kernels import CppKernel, KernelDefinition
from wrapper_ir.lines.program import AnyLine, Origin, Program, SymbolInfo, SymbolKind
from wrapper_ir.lines.traits import checks_layout
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.emitters.fx.triton import PinnedKernel
    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Constant, ObjectConstant


# Constants as attributes of the module.
#
# An attribute has the constant's qualified name, so that the module's ``state_dict`` has the same
# keys as the model's. If that is not a possible name, or is already an attribute of torch's module
# classes, the attribute is named after the constant's name in the program.


def places_of(program: Program) -> dict[str, str]:
    """Return the attribute of each constant and object."""
    places: dict[str, str] = {}
    leaves: set[str] = set()
    inner: set[str] = set()
    owned: dict[str, Constant | ObjectConstant] = {**program.constants, **program.objects}
    for name, each in owned.items():
        place = each.qualified_name
        if not _is_possible(place) or place in leaves | inner or leaves & set(_outer(place)):
            place = free_place(f"constant_{name}", leaves | inner)
        places[name] = place
        leaves.add(place)
        inner.update(_outer(place))
    return places


def _outer(place: str) -> list[str]:
    """Return the modules that contain an attribute: ``a`` and ``a.b`` for ``a.b.weight``."""
    parts = place.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def _is_possible(place: str) -> bool:
    parts = place.split(".")
    if not all(part.isascii() and part.replace("_", "a").isalnum() for part in parts):
        return False
    first, *rest = parts
    return not hasattr(fx.GraphModule, first) and not any(hasattr(nn.Module, p) for p in rest)


def free_place(wanted: str, taken: Collection[str]) -> str:
    """Return an attribute that a module does not have yet: the one that is wanted, or like it."""
    place, number = wanted, 0
    while place in taken or hasattr(fx.GraphModule, place):
        number += 1
        place = f"{wanted}_{number}"
    return place


@dataclass(frozen=True, slots=True)
class _NoObject:
    """A placeholder for an object without a value, which calls reject."""

    class_name: str


def install(module: nn.Module, program: Program, places: Mapping[str, str]) -> list[str]:
    """Add the constants and objects to a module, and return the names of those without values.

    The tensors are the program's own or share their memory. A parameter that requires gradients is
    added as one that does not, since graphs call ops without derivatives. A constant without a
    value becomes a meta tensor, an object without one a placeholder that no call accepts.
    """
    missing = []
    shared: dict[int, Tensor] = {}
    for name, place in places.items():
        value = program.data.get(name)
        if name in program.objects:
            if value is None:
                missing.append(name)
                value = _NoObject(program.objects[name].class_name)
            _put(module, place, value)
            continue
        if not isinstance(value, Tensor):
            missing.append(name)
            value = _without_data(program.layout(name))
        _put(module, place, shared.setdefault(id(value), _without_gradient(value)))
    return missing


def _without_data(layout: Layout) -> Tensor:
    dtype = getattr(torch, layout.dtype.torch_name)
    size = [n if isinstance(n, int) else 0 for n in layout.size]
    stride = [n if isinstance(n, int) else 1 for n in layout.stride]
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def _without_gradient(value: Tensor) -> Tensor:
    if not value.requires_grad:
        return value
    detached = value.detach()
    if isinstance(value, nn.Parameter):
        return nn.Parameter(detached, requires_grad=False)
    return detached


def _put(module: nn.Module, place: str, value: object) -> None:
    *outer, leaf = place.split(".")
    for part in outer:
        if part not in module._modules:  # noqa: SLF001 - as nn.Module's own add_module does
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    if isinstance(value, nn.Parameter):
        module.register_parameter(leaf, value)
    elif isinstance(value, Tensor):
        module.register_buffer(leaf, value)
    else:
        setattr(module, leaf, value)


# ``node.meta["val"]``: fake tensors and symbolic numbers, made from the program's own layouts.
#
# Nothing is propagated: a program declares the layout of every buffer, and each symbol becomes one
# symbolic number of a ``ShapeEnv``, with its hint and range. So every node of a buffer has a value,
# whatever its op.
#
# ``FakeTensorMode`` and ``ShapeEnv`` are not public in torch, but every tool that reads
# ``meta["val"]`` expects them. If they cannot represent a value, such as a tensor on a device that
# this build of torch does not support, the node has none and the graph is otherwise the same.


#: Exceptions if torch cannot create or compute a value; ``KeyError`` if an operand has none.
_FAILURES: Final = (RuntimeError, TypeError, ValueError, AttributeError, KeyError)


class Values:
    """The values of the nodes in one program's graphs.

    Unless they are ``enabled``, nodes stay without values.
    """

    def __init__(self, program: Program, *, enabled: bool) -> None:
        self._program = program
        self._enabled = enabled
        self._numbers: dict[str, Any] = {}
        self._shapes = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, allow_non_fake_inputs=True)

    def tensor(self, node: fx.Node, layout: Layout) -> None:
        """Set the value of a tensor's node."""
        self._set(node, lambda: self._fake(layout))

    def symbol(self, node: Any, name: str) -> None:
        """Set the value of a symbol, if it is a node."""
        if isinstance(node, fx.Node):
            self._set(node, lambda: self._number(name))

    def computed(self, node: fx.Node) -> None:
        """Set the value of a node that is computed from numbers."""
        function: Any = node.target

        def known(arg: Any) -> Any:
            return arg.meta["val"] if isinstance(arg, fx.Node) else arg

        self._set(node, lambda: function(*map(known, node.args)))

    def _set(self, node: fx.Node, make: Callable[[], Any]) -> None:
        if self._enabled:
            with contextlib.suppress(*_FAILURES):
                node.meta["val"] = make()

    def _fake(self, layout: Layout) -> Tensor:
        size, stride = self._evaluated(layout.size), self._evaluated(layout.stride)
        (offset,) = self._evaluated((layout.offset,))
        dtype = getattr(torch, layout.dtype.torch_name)
        device = torch.device(str(layout.device))
        with self._mode:
            if type(offset) is int and offset == 0:
                return torch.empty_strided(size, stride, dtype=dtype, device=device)
            (extent,) = self._evaluated((layout.extent,))
            whole = torch.empty_strided((offset + extent,), (1,), dtype=dtype, device=device)
            return whole.as_strided(size, stride, offset)

    def _evaluated(self, values: Iterable[Dim]) -> list[Any]:
        return [lower(v, self._number, lambda function, *args: function(*args)) for v in values]

    def _number(self, name: str) -> Any:
        if name not in self._numbers:
            self._numbers[name] = self._symbolic(self._program.symbols[name])
        return self._numbers[name]

    def _symbolic(self, info: SymbolInfo) -> Any:
        """Return a new symbolic number, with a hint if torch can use it."""
        if info.kind is SymbolKind.FLOAT:
            return self._shapes.create_unbacked_symfloat()
        if info.kind is SymbolKind.BOOL:
            return self._shapes.create_unbacked_symbool()
        if info.kind is SymbolKind.NONE:
            return None
        # Torch specializes sizes below 2.
        if info.hint is not None and info.hint >= 2 and not info.unbacked:
            context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
            sample = torch.empty(info.hint, device="meta")
            number: Any = self._mode.from_tensor(sample, symbolic_context=context).shape[0]
            low, high = max(info.lower or 0, 2), info.upper
            if isinstance(number, torch.SymInt):
                limit = sys.maxsize - 1 if high is None else high
                self._shapes.constrain_symbol_range(number.node.expr, low, limit)
            return number
        number = self._shapes.create_unbacked_symint()
        if info.lower is not None:
            library.know(number >= info.lower)
        if info.upper is not None:
            library.know(number <= info.upper)
        return number


_RESERVED: Final = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}.union(
    ("self", "torch", "device", "dtype", "inf", "nan", "math", "operator")
)


class Context(Run):
    """One run of the emitter.

    Attributes:
        asserted: The buffers whose layouts the program checks.
        places: The module attribute of each constant and object.
        ops: The ops of the C++ kernels that can be rendered, by name.
    """

    def __init__(self, program: Program, problems: Problems, *, checks: bool, values: bool) -> None:
        super().__init__(program, problems)
        self.touched_inputs: tuple[str, ...] = storages_of(program).touched_inputs
        self.asserted: set[str] = {line.buffer for _, line in walk(program) if checks_layout(line)}
        self.checks = checks
        self.values: Values = Values(program, enabled=values)
        self.places: dict[str, str] = places_of(program)
        self.ops: Mapping[str, Any] = declare(
            d for d in program.kernels.values() if self.kernel_problem(d) is None
        )
        self._forms: dict[KernelForm, Any] = {}
        self.launched: dict[str, PinnedKernel] = declare_launched(program.kernels.values())
        self._origins: dict[int | None, dict[str, Any]] = {}

    def kernel_problem(self, definition: KernelDefinition) -> str | None:
        """Return why a C++ kernel cannot be rendered, or ``None``; ``""`` for other kernels."""
        if not isinstance(definition.source, CppKernel):
            return ""
        try:
            parameter_types(definition)
        except ValueError as error:
            return str(error)
        return None

    def may_be_empty(self, layout: Layout) -> bool:
        """Return whether a buffer may be empty, given the ranges of the symbols."""
        return not all(self._proofs.at_least(size, 1) for size in layout.size)

    @functools.cached_property
    def _proofs(self) -> Proofs:
        return Proofs(self.program)

    def kernel_form(self, form: KernelForm) -> Any:
        """Return the op of a form of a C++ kernel."""
        if form not in self._forms:
            self._forms[form] = declare_form(form)
        return self._forms[form]

    def kernel_set(self) -> KernelSet:
        """Return the program's kernels, and the forms in which graphs of this run call them."""
        return KernelSet(
            tuple(d for d in self.program.kernels.values() if isinstance(d.source, CppKernel)),
            tuple(self._forms),
            tuple(self.program.kernels[name] for name in self.launched),
        )

    def method(self, op: str) -> str:
        """Return the method's name if an op is a method of a custom class, or an empty string."""
        return op.rpartition(".")[2] if is_method(self.program, op) else ""

    def wanted_name(self, name: str) -> str:
        """Return the preferred name of a node, which torch makes unique within its graph."""
        if name in _RESERVED or name.startswith("__"):
            return f"{name.strip('_') or 'node'}_"
        return name

    def origin_meta(self, line: AnyLine) -> dict[str, Any]:
        """Return a line's origin as FX metadata."""
        if line.origin not in self._origins:
            origin = self.program.origin_of(line)
            self._origins[line.origin] = {} if origin is None else _origin_meta(origin)
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
