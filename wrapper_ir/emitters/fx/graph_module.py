"""Graph modules of programs that can be pickled, and saved to a folder.

FX pickles a graph module as code and traces that code when it loads it. Tracing executes a call
without tensor arguments instead of recording it, so an allocation would become a constant that all
calls share. It also fails for the submodules of higher-order ops.

:class:`WrapperGraphModule`, the emitter's module, is therefore pickled node by node, together with
the kernels that it calls. If a pass rebuilds it as ``fx.GraphModule(module, graph)``, FX's own
pickling applies. For that case the graph names :class:`CallTracer`, which records every call.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx, nn
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.node import map_aggregate
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.kernels import KERNELS

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping


class CallTracer(fx.Tracer):
    """A tracer that records every call of an op, regardless of its arguments.

    It cannot trace conditionals and loops: loading such a module raises.
    """

    @override
    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        with _Recorded(self):
            return super().trace(root, concrete_args)


class _Recorded(TorchFunctionMode):
    """A mode that records calls of ops as nodes."""

    def __init__(self, tracer: fx.Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    @override
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, OpOverload):
            return self._tracer.create_proxy("call_function", func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


#: The pickled keys of ``node.meta``: plain data. Fake tensors in ``val`` belong to their process.
_META: Final = (
    "nn_module_stack",
    "stack_trace",
    "wrapper_ir_comments",
    "wrapper_ir_origin",
    "wrapper_ir_path",
)


class WrapperGraphModule(fx.GraphModule):
    """The graph module of an emitted program."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: self.__dict__[name] for name in ("_parameters", "_buffers", "_modules")}
        objects = {n: v for n, v in self.__dict__.items() if isinstance(v, torch.ScriptObject)}
        positions = {node: n for n, node in enumerate(self.graph.nodes)}
        nodes = [_node_state(node, positions) for node in positions]
        # The kernels come first: their ops must exist before the nodes that name them.
        kernels = getattr(self, KERNELS, None)
        return _rebuilt, (kernels, state, nodes, type(self).__name__, self.training, objects)

    @override
    def __copy__(self) -> WrapperGraphModule:
        module = WrapperGraphModule(self, self.graph, class_name=type(self).__name__)
        kernels = getattr(self, KERNELS, None)
        if kernels is not None:
            setattr(module, KERNELS, kernels)
        module.meta = self.meta
        return module

    @override
    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module to a folder that can be imported in any process.

        Unlike FX's own method, this one adds the imports and kernels that the code needs, and keeps
        the strides of constants, which FX would copy into row-major tensors.
        """
        super().to_folder(folder, module_name)
        directory = Path(folder)
        lines = []
        kernels = getattr(self, KERNELS, None)
        if kernels is not None:
            file = directory / "kernels.pt"
            torch.save(kernels, file)
            lines.append(f"torch.load({str(file)!r}, weights_only=False)")
        for name, value in self.graph.python_code("self").globals.items():
            if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)):
                lines.append(f"from {value.__module__} import {value.__name__} as {name}")
        module_file = directory / "module.py"
        text = module_file.read_text()
        text = text.replace("/state_dict.pt'))", "/state_dict.pt'), assign=True)")
        head, separator, rest = text.partition("\nfrom torch.nn import *\n")
        module_file.write_text(head + "".join(f"\n{line}" for line in lines) + separator + rest)


def _rebuilt(
    kernels: object,
    state: Mapping[str, Any],
    nodes: list[_NodeState],
    name: str,
    training: bool,  # noqa: FBT001 - called by pickle
    objects: Mapping[str, Any] = types.MappingProxyType({}),
) -> WrapperGraphModule:
    root = nn.Module()
    root.__dict__.update(objects)
    for field, values in state.items():
        root.__dict__[field].update(values)
    graph = fx.Graph()
    rebuilt: list[fx.Node] = []
    for each in nodes:
        node = graph.create_node(
            each.op,
            _target(each.target),
            _decoded(each.args, rebuilt),
            _decoded(each.kwargs, rebuilt),
            each.name,
        )
        node.meta.update(each.meta)
        rebuilt.append(node)
    module = WrapperGraphModule(root, graph, class_name=name)
    for field, values in state.items():
        module.__dict__[field].update(values)
    if kernels is not None:
        setattr(module, KERNELS, kernels)
    module.training = training
    return module


@dataclass(frozen=True, slots=True)
class _NodeState:
    """A node as plain data."""

    op: str
    name: str
    target: object
    args: Any
    kwargs: Any
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _NodeRef:
    """A node among arguments, by its position in the graph."""

    position: int


@dataclass(frozen=True, slots=True)
class _OpRef:
    """An op of torch's registry or a higher-order op, by name."""

    name: str
    is_higher_order: bool


def _node_state(node: fx.Node, positions: Mapping[fx.Node, int]) -> _NodeState:
    target: Any = node.target
    if isinstance(node.target, (OpOverload, HigherOrderOperator)):
        is_higher_order = isinstance(node.target, HigherOrderOperator)
        target = _OpRef(target.name(), is_higher_order)
    meta: dict[str, Any] = {key: node.meta[key] for key in _META if key in node.meta}
    args, kwargs = _encoded(node.args, positions), _encoded(node.kwargs, positions)
    return _NodeState(node.op, node.name, target, args, kwargs, meta)


def _target(target: object) -> Any:
    if not isinstance(target, _OpRef):
        return target
    if target.is_higher_order:
        return getattr(torch.ops.higher_order, target.name)
    overload = library.op_named(target.name)
    if overload is None:
        raise AttributeError(f"torch has no op '{target.name}' in this process")
    return overload


def _encoded(value: Any, positions: Mapping[fx.Node, int]) -> Any:
    def encode(part: Any) -> Any:
        return _NodeRef(positions[part]) if isinstance(part, fx.Node) else part

    return map_aggregate(value, encode)


def _decoded(value: Any, nodes: list[fx.Node]) -> Any:
    def decode(part: Any) -> Any:
        return nodes[part.position] if isinstance(part, _NodeRef) else part

    return map_aggregate(value, decode)
