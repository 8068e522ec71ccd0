"""Calls that go from Dynamo straight to the emitted function.

Between the two, torch has five functions: AOTAutograd's flattening, its runtime wrapper, the code
that it generates for that, its watch over the first call, and ``CompiledFxGraph.__call__``. For a
graph without gradients nearly all that they do is decided when the graph is compiled, and from the
second call on most of it is nothing. What remains is known here: gradients are off while it runs,
autocast too, and what the graph writes to counts as written.

C++ does that (``native/python/straight.h``): from Dynamo's arguments to the emitted function, of
which programs in C++ need no list. It is in the extension module that such programs load. Where no
process has compiled the module before, it is not compiled for this, and Python does the same.

The first call goes through torch's functions, which look at what custom ops return and write
Inductor's notes on tuning. So does every call while a profiler runs, because their names are in its
records, and every call of a graph that needs more than that (``hindrances``).
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper, wraps
from threading import get_ident
from types import CodeType
from typing import Any

import torch
from torch.autograd import profiler
from torch.autograd.graph import increment_version

from wrapper_ir.aot.load import module_if_made
from wrapper_ir.frontends.inductor import straight_gradients, straight_subclasses
from wrapper_ir.frontends.inductor.compat import (
    BackwardState,
    CompiledFxGraph,
    RecordedEpilogue,
    RuntimeEpilogue,
    current_frame,
    debugging,
    mark_dynamic,
    without_entry,
)

_is_grad_enabled = torch.is_grad_enabled
_set_grad_enabled: Any = torch._C._set_grad_enabled
_has_transforms: Any = torch._C._are_functorch_transforms_active

#: Variables that send calls through torch's functions while they are on.
_SWITCHES: tuple[tuple[Mapping[str, Any], str], ...] = (
    (vars(profiler), "_is_profiler_enabled"),
    (debugging, "RECORD_GRAPH_EXECUTION"),
)


_Finish = Callable[[tuple[Any, ...], Any], Any]


@dataclass(eq=False)
class Graph:
    """A graph of Dynamo's, as AOTAutograd has wrapped it.

    Attributes:
        wrapper: Its runtime wrapper.
        compiled: The compiled graph inside.
        apply: What calls it where gradients are recorded, or None.
        inputs: The number of its arguments.
        written: The positions of the arguments that the graph writes to and autograd counts.
        detached: The positions of the arguments that no gradient goes to: they are detached.
        has_autocast: Whether it was compiled under autocast, which is off while it runs.
        finish: What makes of arguments and results those to return, or None: it changes arguments,
            makes views of them, and marks dimensions that Dynamo may take as dynamic.
        parts: What its arguments are taken apart to if some are tensor subclasses, or None.
        hindrances: Why it is not called straight; empty if it is.
        frame: The code that Dynamo compiles it for.
    """

    wrapper: Callable[..., Any]
    compiled: Any
    apply: Callable[..., Any] | None
    inputs: int
    written: tuple[int, ...]
    detached: tuple[int, ...]
    has_autocast: bool
    finish: _Finish | None
    parts: tuple[straight_subclasses.Part, ...] | None
    hindrances: tuple[str, ...]
    frame: CodeType | None


#: Takes the graphs that AOTAutograd wraps while one of Dynamo's graphs is compiled by us.
_noted: contextvars.ContextVar[list[Graph] | None] = contextvars.ContextVar("noted", default=None)

#: All graphs that are alive.
graphs: weakref.WeakSet[Graph] = weakref.WeakSet()

#: Takes the straight calls of a thread, by its number: the graph, what to call, and arguments.
watchers: dict[int, Callable[[Graph, Callable[..., Any], tuple[Any, ...]], Any]] = {}


def hindrances(wrapper: Any, metadata: Any, *, has_subclasses: bool) -> tuple[str, ...]:
    """Return what a graph needs that only torch's wrappers do.

    Args:
        wrapper: AOTAutograd's ``RuntimeWrapper``.
        metadata: Its ``ViewAndMutationMeta`` for the graph.
        has_subclasses: Whether it takes tensor subclasses, or returns them.
    """
    facts = {
        "sizes of results are marked inline": metadata.dynamic_outputs and not mark_dynamic,
        "ops with effects are kept in order": metadata.tokens,
    }
    if RuntimeEpilogue is None or (wrapper.trace_joint and RecordedEpilogue is None):
        facts |= straight_gradients.epilogue(metadata)
    if wrapper.trace_joint:
        facts |= straight_gradients.facts(metadata)
    if has_subclasses:
        facts |= straight_subclasses.facts(metadata)
    return tuple(words for words, holds in facts.items() if holds)


def _finishing(wrapper: Any, metadata: Any, *, is_counted: bool) -> _Finish | None:
    """Return what a graph's results go through that is called straight; None if nothing."""
    if any(straight_gradients.epilogue(metadata).values()):
        epilogue = RuntimeEpilogue(metadata, wrapper.trace_joint, is_counted)

        def finish(args: tuple[Any, ...], results: Any) -> Any:
            return epilogue.finalize(epilogue.capture_orig_inputs(args), [*results])

        return finish
    dynamic = tuple(
        (position, info.dynamic_dims)
        for position, info in enumerate(metadata.output_info)
        if metadata.dynamic_outputs and info.dynamic_dims is not None
    )

    def mark(_: tuple[Any, ...], results: Any) -> Any:
        for position, dimensions in dynamic:
            mark_dynamic(results[position], dimensions)
        return results

    return mark if dynamic else None


def _inside(function: Any) -> tuple[Any, bool]:
    """Return what AOTAutograd has wrapped, and whether it takes or returns tensor subclasses."""
    apart = straight_subclasses.inside_of(function)
    return without_entry(function if apart is None else apart), apart is not None


def noting_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method with which AOTAutograd makes its runtime wrapper, to note what is inside."""

    @wraps(stock)
    def post_compile(
        self: Any, compiled_fn: Any, aot_config: Any, *, runtime_metadata: Any
    ) -> Callable[..., Any]:
        made: Callable[..., Any] = stock(
            self, compiled_fn, aot_config, runtime_metadata=runtime_metadata
        )
        if (noted := _noted.get()) is None:
            return made
        # Where gradients are recorded, it is the method of a class that holds the graph.
        function = getattr(compiled_fn, "__self__", None) if self.trace_joint else None
        inside, has_subclasses = _inside(function.compiled_fw if function else compiled_fn)
        if not isinstance(inside, CompiledFxGraph):
            return made
        found = hindrances(self, runtime_metadata, has_subclasses=has_subclasses)
        parts = straight_subclasses.parts_of(runtime_metadata) if has_subclasses else None
        apply = None
        if function and not found:
            apply = straight_gradients.straight_apply(
                function,
                runtime_metadata,
                inside,
                parts=parts,
                has_autocast=self.disable_amp,
                switches=_SWITCHES,
            )
        is_counted = aot_config.keep_inference_input_mutations
        written = runtime_metadata.mutated_graph_handled_indices_seen_by_autograd
        finish = None if found else _finishing(self, runtime_metadata, is_counted=is_counted)
        graph = Graph(
            wrapper=made,
            compiled=inside,
            apply=apply,
            inputs=len(runtime_metadata.input_info),
            written=tuple(written) if is_counted else (),
            detached=tuple(self.indices_of_inps_to_detach) if self.trace_joint else (),
            has_autocast=self.disable_amp,
            finish=finish,
            parts=parts,
            hindrances=found,
            frame=current_frame(),
        )
        made.__dict__["_wrapper_ir"] = graph  # which lives as long
        graphs.add(graph)
        noted.append(graph)
        return made

    return post_compile


def with_straight_calls(
    is_ours: Callable[[], bool], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours are called straight."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours():
            return stock(model, inputs, *args, **kwargs)
        noted: list[Graph] = []
        before = _noted.set(noted)
        try:
            compiled = stock(model, inputs, *args, **kwargs)
        finally:
            _noted.reset(before)
        # Outermost is what keeps Dynamo out, then AOTAutograd's flattening. What stands between it
        # and the runtime wrapper (for subclasses, for arguments passed twice) has work to do.
        # A flattening with parameters of its own puts them before the arguments.
        flattening = getattr(compiled, "_torchdynamo_orig_callable", compiled)
        inside = without_entry(getattr(flattening, "__wrapped__", None))
        has_state = any(isinstance(each, BackwardState) for each in inputs)
        for graph in noted:
            if inside is not graph.wrapper or len(inputs) != graph.inputs or has_state:
                graph.hindrances += ("torch wraps it once more",)
            elif not graph.hindrances:
                return _straight(compiled, graph)
        return compiled

    return compile_graph


def _straight(stock: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
    """Return the function for Dynamo to call in the place of ``stock``."""
    run, is_recorded = _running(graph), graph.apply is not None
    entry: Any = None

    @wraps(stock)
    def call(*args: Any) -> Any:
        is_first = not entry.is_ready
        if watchers and not is_first and (watcher := watchers.pop(get_ident(), None)):
            try:
                return watcher(graph, entry, args)
            finally:
                watchers[get_ident()] = watcher
        if (
            is_first
            or any(map(straight_gradients.is_on, _SWITCHES))
            or (is_recorded and _has_transforms())
        ):
            results = stock(*args)
            entry.is_ready = True
            return results
        given = straight_subclasses.taken_apart(graph.parts, args)
        if given is None:
            return stock(*args)  # which says what is wrong
        if graph.written:
            increment_version([args[position] for position in graph.written])
        if is_off := _is_grad_enabled() is not is_recorded:
            _set_grad_enabled(is_recorded)
        try:
            results = run(*(args if is_recorded else given))
        finally:
            if is_off:
                _set_grad_enabled(not is_recorded)
        return graph.finish(args, results) if graph.finish else results

    entry = _entry(call, graph)
    return entry  # type: ignore[no-any-return]  # of C++, or ``call``


def _entry(call: Callable[..., Any], graph: Graph) -> Any:
    """Return what calls a graph, and ``call`` where a call is unusual."""
    made: Any = call
    if (module := module_if_made()) is not None:
        made = module.Straight(
            unusual=call,
            graph=vars(graph.compiled),
            apply=graph.apply,
            finish=graph.finish,
            switches=_SWITCHES,
            watchers=watchers,
            written=graph.written,
            detached=graph.detached,
            parts=graph.parts,
            has_autocast=graph.has_autocast,
        )
        update_wrapper(made, call)
    made.is_ready = False
    return made


def _running(graph: Graph) -> Callable[..., Any]:
    """Return what runs a graph; gradients are recorded, or not, as it needs."""
    compiled = graph.compiled

    def run_graph(*args: Any) -> Any:
        return compiled.current_callable([*args])

    if graph.has_autocast:
        run_graph = straight_gradients.without_autocast(run_graph)
    apply = graph.apply
    if apply is None or not graph.detached:
        return apply or run_graph

    def run_detached(*args: Any) -> Any:
        given = [*args]
        for position in graph.detached:
            if isinstance(given[position], torch.Tensor):
                given[position] = given[position].detach()
        return apply(*given)

    return run_detached
