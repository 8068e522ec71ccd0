"""Calls that go from Dynamo straight to the emitted function.

Between the two, torch has five functions: AOTAutograd's flattening, its runtime wrapper, the code
that it generates for that, its watch over the first call, and ``CompiledFxGraph.__call__``. For a
graph without gradients nearly all that they do is decided when the graph is compiled, and from the
second call on most of it is nothing. What remains is known here: gradients are off while it runs,
autocast too, and what the graph writes to counts as written.

The first call goes through torch's functions, which look at what custom ops return and write
Inductor's notes on tuning. So does every call while a profiler runs, because their names are in its
records, and every call of a graph that needs more than that (``needs_more``).
"""

from __future__ import annotations

import contextvars
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd import profiler
from torch.autograd.graph import increment_version

from wrapper_ir.frontends.inductor.compat import (
    CompiledFxGraph,
    SerializableCompiledFunction,
    inductor_debug,
    mark_dynamic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_is_grad_enabled = torch.is_grad_enabled
_set_grad_enabled: Any = torch._C._set_grad_enabled
_without_autocast = torch._C._DisableAutocast

#: Holds RECORD_GRAPH_EXECUTION, in releases that have it.
_debugging = vars(inductor_debug)


class _Graph(NamedTuple):
    """What AOTAutograd has wrapped for one of Dynamo's graphs.

    Attributes:
        wrapper: Its runtime wrapper.
        compiled: The compiled graph inside.
        inputs: The number of its arguments.
        written: The positions of the arguments that the graph writes to and autograd counts.
        has_autocast: Whether it was compiled under autocast, which is off while it runs.
        dynamic: Positions of results, and their dimensions that Dynamo may take as dynamic when it
            compiles for them.
    """

    wrapper: Callable[..., Any]
    compiled: Any
    inputs: int
    written: tuple[int, ...]
    has_autocast: bool
    dynamic: tuple[tuple[int, set[int]], ...]


#: Takes the graphs that AOTAutograd wraps while one of Dynamo's graphs is compiled by us.
_noted: contextvars.ContextVar[list[_Graph] | None] = contextvars.ContextVar("noted", default=None)


def needs_more(wrapper: Any, metadata: Any) -> bool:
    """Return whether a graph needs what only torch's wrappers do.

    Args:
        wrapper: AOTAutograd's ``RuntimeWrapper``.
        metadata: Its ``ViewAndMutationMeta`` for the graph.
    """
    return bool(
        wrapper.trace_joint  # gradients are recorded
        or metadata.num_mutated_inp_runtime_indices  # arguments change after the call
        or metadata.num_outputs_aliased  # results are views of arguments or of one another
        or metadata.num_intermediate_bases  # bases of results are returned
        or (metadata.dynamic_outputs and not mark_dynamic)
        or metadata.grad_enabled_mutation is not None  # the call turns gradients on or off
        or metadata.tokens  # ops with effects are kept in order
    )


def noting_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method with which AOTAutograd makes its runtime wrapper, to note what is inside."""

    @wraps(stock)
    def post_compile(
        self: Any, compiled_fn: Any, aot_config: Any, *, runtime_metadata: Any
    ) -> Callable[..., Any]:
        made: Callable[..., Any] = stock(
            self, compiled_fn, aot_config, runtime_metadata=runtime_metadata
        )
        inside, noted = _without_entry(compiled_fn), _noted.get()
        if noted is None or not isinstance(inside, CompiledFxGraph):
            return made
        if not needs_more(self, runtime_metadata):
            is_counted = aot_config.keep_inference_input_mutations
            written = runtime_metadata.mutated_graph_handled_indices_seen_by_autograd
            dynamic = tuple(
                (position, info.dynamic_dims)
                for position, info in enumerate(runtime_metadata.output_info)
                if runtime_metadata.dynamic_outputs and info.dynamic_dims is not None
            )
            written = tuple(written) if is_counted else ()
            count = len(runtime_metadata.input_info)
            noted.append(_Graph(made, inside, count, written, self.disable_amp, dynamic))
        return made

    return post_compile


def _without_entry(function: Any) -> Any:
    """Return what AOTAutograd has wrapped to store it in a cache."""
    while isinstance(function, SerializableCompiledFunction):
        function = function.compiled_fn
    return function


def with_straight_calls(
    is_ours: Callable[[], bool], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours are called straight."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours():
            return stock(model, inputs, *args, **kwargs)
        graphs: list[_Graph] = []
        before = _noted.set(graphs)
        try:
            compiled = stock(model, inputs, *args, **kwargs)
        finally:
            _noted.reset(before)
        # Outermost is what keeps Dynamo out, then AOTAutograd's flattening. What stands between it
        # and the runtime wrapper (for subclasses, for arguments passed twice) has work to do.
        # A flattening with parameters of its own puts them before the arguments.
        flattening = getattr(compiled, "_torchdynamo_orig_callable", compiled)
        inside = _without_entry(getattr(flattening, "__wrapped__", None))
        for graph in graphs:
            if inside is graph.wrapper and len(inputs) == graph.inputs:
                return _straight(compiled, graph)
        return compiled

    return compile_graph


def _straight(stock: Callable[..., Any], graph: _Graph) -> Callable[..., Any]:
    """Return the function for Dynamo to call in the place of ``stock``."""
    compiled, written, dynamic = graph.compiled, graph.written, graph.dynamic
    is_first = True

    def run(args: tuple[Any, ...]) -> Any:
        if written:
            increment_version([args[position] for position in written])
        if graph.has_autocast:
            with _without_autocast():
                results = compiled.current_callable([*args])
        else:
            results = compiled.current_callable([*args])
        for position, dimensions in dynamic:
            mark_dynamic(results[position], dimensions)
        return results

    @wraps(stock)
    def call(*args: Any) -> Any:
        nonlocal is_first
        if is_first or profiler._is_profiler_enabled or _debugging.get("RECORD_GRAPH_EXECUTION"):
            results = stock(*args)
            is_first = False
            return results
        if _is_grad_enabled():
            _set_grad_enabled(False)  # noqa: FBT003 - torch's
            try:
                return run(args)
            finally:
                _set_grad_enabled(True)  # noqa: FBT003 - torch's
        return run(args)

    return call
