"""Tracer with which FX reads back a graph of ours that it has pickled as code.

FX pickles a graph module as its code, and traces that when it is loaded. A call without a tensor
among its arguments is run by that, not recorded: an allocation would become a constant that all
calls share. Modules that the emitter makes are pickled in another way; but one that a pass has made
of the graph, ``fx.GraphModule(module, graph)``, is FX's own, and the graph names this tracer.

Choices and loops cannot be traced so: loading such a module raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable


class CallTracer(fx.Tracer):
    """A tracer that records every call of an op, whatever its arguments are."""

    @override
    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> fx.Graph:
        with _Recorded(self):
            return super().trace(root, concrete_args)


class _Recorded(TorchFunctionMode):
    """Makes nodes of calls of ops."""

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
