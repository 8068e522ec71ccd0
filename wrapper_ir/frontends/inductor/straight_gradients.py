"""Straight calls of graphs whose gradients are recorded.

Torch's autograd function for such a graph calls five functions of Python on the way forward and six
on the way back. Most of what they do is decided when the graph is compiled: which results are
saved, and how, which are not differentiable, what a gradient has to look like in memory. A class
that is derived from torch's does the rest, in C++ (``native/python/recorded.h``) or, where the
module is not compiled yet, in Python. Since torch 2.14 half of its nodes is C++ too
(``native/python/node.h``). Saved tensors, hooks, compiled autograd and the names of
nodes are torch's own, and a backward pass that is unusual goes through torch's functions: the
first, and those with a graph of their own, under transforms, or with gradients that are no plain
tensors.

Autograd sees arguments that are tensor subclasses as they are. They are taken apart on the way to
the forward graph, and a function that torch generates makes such tensors of their gradients.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from wrapper_ir.aot.load import module_if_made
from wrapper_ir.frontends.inductor import user_objects
from wrapper_ir.frontends.inductor.compat import (
    BackwardCFunction,
    CompiledFxGraph,
    OutputType,
    PlainTensorMeta,
    RecordedEpilogue,
    backward_epilogue,
    compiled_autograd,
    mark_dynamic,
    notes_user_objects,
    restrided,
    saved_inputs,
    without_entry,
)
from wrapper_ir.frontends.inductor.straight_subclasses import Part, taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_no_autocast = torch._C._DisableAutocast
_is_grad_enabled = torch.is_grad_enabled
_keeps_graph: Any = torch._C._autograd._get_current_graph_task_keep_graph
_transforms: Any = torch._C._functorch.peek_interpreter_stack
_is_in_thread: Any = torch._C._is_key_in_tls
_of_thread: Any = torch._C._get_obj_in_tls
_is_deterministic = torch.are_deterministic_algorithms_enabled
_frame_callback: Any = torch._C._dynamo.eval_frame.get_eval_frame_callback
_Tensor = torch.Tensor

#: Kinds of results that are no views to autograd.
_OWN = (
    OutputType.non_alias,
    OutputType.unsafe_view_alias,
    getattr(OutputType, "custom_function_view", OutputType.non_alias),
)


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that autocast is off while it runs."""

    def call(*args: Any) -> Any:
        with _no_autocast():
            return function(*args)

    return call


def facts(metadata: Any) -> dict[str, Any]:
    """Return what only torch's functions do for a graph with gradients, and whether it is needed.

    Args:
        metadata: AOTAutograd's ``ViewAndMutationMeta`` for the graph.
    """
    if restrided is None:
        return {"this release of torch calls backward passes in another way": True}
    written = metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
    tangents = metadata.subclass_tangent_meta
    return {
        "generators are passed": metadata.num_graphsafe_rng_states,
        "random numbers are counted outside": metadata.is_rng_op_functionalized,
        "ops with effects are kept in order, backward": metadata.num_backward_tokens,
        "arguments with gradients change, backward": written,
        "gradients are tensor subclasses": not all(
            isinstance(tangent, PlainTensorMeta) for tangent in tangents
        ),
    }


def epilogue(metadata: Any) -> dict[str, Any]:
    """Return what torch does after a graph has run, and whether it is needed."""
    return {
        "arguments change after the call": metadata.num_mutated_inp_runtime_indices,
        "results are views of arguments or of one another": metadata.num_outputs_aliased,
        "bases of results are returned": metadata.num_intermediate_bases,
        "it turns gradients on or off": metadata.grad_enabled_mutation is not None,
    }


def straight_apply(
    function: Any,
    metadata: Any,
    compiled: Any,
    *,
    parts: tuple[Part, ...] | None,
    has_autocast: bool,
    switches: tuple[tuple[Mapping[str, Any], str], ...],
) -> Any:
    """Return what records a call of a graph, for use in the place of ``function.apply``.

    Args:
        function: AOTAutograd's ``CompiledFunction`` for the graph.
        metadata: Its ``ViewAndMutationMeta``.
        compiled: The compiled graph.
        parts: What its arguments are taken apart to if some are tensor subclasses, or None.
        has_autocast: Whether the graph was compiled under autocast, which is off while it runs.
        switches: Variables that send passes through torch's functions while they are on.
    """
    has_objects = notes_user_objects and user_objects.are_in_trace()
    graph = _Recorded(function, metadata, compiled, parts, has_autocast, switches, has_objects)
    module = module_if_made()
    forward, backward = _in_python(graph) if module is None else _in_cpp(graph, module)
    made: Any = type(function)(function.__name__, (function,), {"forward": forward})
    node = made._backward_cls
    node.symints = node.opaque_objects = node._tensors_no_vc_check = ()
    node._external_objects = {}
    node.apply_boxed = backward
    node.apply = lambda node, *gradients: node.apply_boxed([*gradients])
    apply = super(torch.autograd.Function, made).apply
    if module is None:
        return apply
    clears_saved = made.clear_saved_tensors_on_access
    return forward.record_by_node(node, apply, refuse_cached, clears_saved, made.boxed_grads_call)


def torchs_node(apply: Any) -> str:
    """Return why what records a graph's calls makes nodes of torch's; empty if they are ours.

    Args:
        apply: What ``straight_apply`` returned.
    """
    module = module_if_made()
    if module is None:
        return "the module in C++ is not compiled yet; a program in C++ does that, once"
    if not isinstance(getattr(apply, "__self__", None), module.Recorded):
        return (
            f"ours was not tried with torch {torch.__version__}, or was compiled after this graph"
        )
    return ""


class _Recorded(NamedTuple):
    """A graph, and what is known of it."""

    function: Any
    metadata: Any
    compiled: Any
    parts: tuple[Part, ...] | None
    has_autocast: bool
    switches: tuple[tuple[Mapping[str, Any], str], ...]
    has_objects: bool
    """Whether it may refer to the user's streams or other objects."""

    @property
    def given(self) -> tuple[int, ...]:
        """The positions of gradients that the backward graph takes.

        Gradients come for arguments that change, for results, and for bases of results. None is
        taken for a view: it is one of what it is a view of.
        """
        metadata = self.metadata
        changed = [metadata.input_info[each] for each in metadata.mutated_inp_runtime_indices]
        taken = [info.mutates_data and info.requires_grad for info in changed]
        taken += [
            info.output_type in _OWN
            and issubclass(info.raw_type, _Tensor)
            and info.requires_grad_for_backward
            for info in metadata.output_info
        ]
        taken += [True] * metadata.num_intermediate_bases
        return tuple(position for position, is_taken in enumerate(taken) if is_taken)

    @property
    def layouts(self) -> tuple[Any, ...]:
        """The layouts of these gradients."""
        return tuple(tangent.memory_format for tangent in self.metadata.subclass_tangent_meta)

    @property
    def wrap(self) -> Callable[[Any], Any] | None:
        """What makes tensor subclasses of what the backward graph returns; None if it makes none.

        Torch generates it for the graph.
        """
        return backward_epilogue(self.function) if self.parts else None


def _in_python(graph: _Recorded) -> tuple[Any, Any]:
    """Return the forward and the backward function."""
    forward = _forward(graph)
    return (
        staticmethod(without_autocast(forward) if graph.has_autocast else forward),
        _backward(graph),
    )


def _in_cpp(graph: _Recorded, module: Any) -> tuple[Any, Any]:
    """Return the same as functions of the module."""
    metadata = graph.metadata
    unchecked = metadata.num_tensors_saved_with_no_vc_check or 0
    objects = metadata.num_opaque_objects_saved_for_bw or 0
    symbols = metadata.num_symints_saved_for_bw or 0
    dynamic = tuple(metadata.dynamic_saved_tensors_idxs.items())
    hides = any(epilogue(metadata).values())
    viewed, fixed = ((), ()) if hides else _kinds_of_results(metadata)
    forward = module.Recorded(
        graph=vars(graph.compiled),
        save=_saving(metadata) if unchecked or objects or symbols or dynamic else None,
        finish=_finishing(metadata),
        mark=mark_dynamic,
        dynamic=dynamic,
        note=user_objects.note if graph.has_objects else None,
        unusual=_through_torch(graph.function, lambda found: _set_ready(forward, found)),
        switches=graph.switches,
        callback=_frame_callback,
        restrided=restrided,
        layouts=graph.layouts,
        wrap=graph.wrap,
        returned=metadata.num_forward_returns,
        saved=metadata.tensors_saved_for_backwards_with_vc_check_slice.start,
        unchecked=unchecked,
        objects=objects,
        symbols=symbols,
        inputs=tuple(saved_inputs(metadata)),
        viewed=viewed,
        fixed=fixed,
        given=graph.given,
        strides=tuple(map(_fixed, graph.layouts)),
        apart=graph.parts,
        hides=hides,
        has_autocast=graph.has_autocast,
        frees_saved=bool(metadata.bw_donated_idxs),
        is_deterministic=bool(metadata.deterministic),
    )
    return forward, forward.backward


def refuse_cached(node: Any) -> None:
    """Raise torch's error for a node that compiled autograd cannot trace.

    It is one of a graph from AOTAutograd's cache. Torch asks while it traces, and only nodes whose
    C++ half is its own.
    """
    if node._forward_cls._lazy_backward_info is None:
        check: Any = compiled_autograd.AutogradCompilerInstance.set_node_origin
        check(None, node.name(), 0, node)


def _set_ready(recorded: Any, found: Any) -> None:
    recorded.ready = None if found is None else vars(found)


def _fixed(layout: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return sizes and strides of a gradient; None where they vary."""
    if layout.memory_format is not None:
        return None
    return tuple(map(int, layout.size)), tuple(map(int, layout.stride))


def _forward(graph: _Recorded) -> Callable[..., Any]:
    """Return what runs the graph, and notes what its backward pass needs."""
    metadata, compiled, parts = graph.metadata, graph.compiled, graph.parts
    has_objects = graph.has_objects
    returned = slice(metadata.num_forward_returns)
    save, finish = _saving(metadata), _finishing(metadata)

    def forward(context: Any, *args: Any) -> Any:
        given = taken_apart(parts, args)
        if given is None:
            raise TypeError("an argument changed while it was taken apart")
        outputs = compiled.current_callable([*given])
        save(context, outputs)
        if has_objects:
            user_objects.note(context)
        return tuple(outputs[returned]) if finish is None else finish(context, outputs[returned])

    return forward


def _saving(metadata: Any) -> Callable[[Any, Any], None]:
    """Return what saves results of the graph for the backward pass.

    A view that is no argument is detached, so that it does not keep what it is a view of.
    """
    checked = metadata.tensors_saved_for_backwards_with_vc_check_slice
    unchecked = metadata.tensors_saved_for_backwards_no_vc_check_slice
    count = metadata.num_tensors_saved_with_no_vc_check
    objects = metadata.opaque_objects_saved_for_backwards_slice
    has_objects = bool(metadata.num_opaque_objects_saved_for_bw)
    symbols = metadata.symints_saved_for_backwards_slice
    has_symbols = bool(metadata.num_symints_saved_for_bw)
    inputs = saved_inputs(metadata)
    dynamic = tuple(metadata.dynamic_saved_tensors_idxs.items())

    def save(context: Any, outputs: Any) -> None:
        saved = [*outputs[checked], *outputs[unchecked]]
        for position, value in enumerate(saved):
            if value._is_view() and position not in inputs:
                saved[position] = value.detach()
        for position, dimensions in dynamic:
            mark_dynamic(saved[position], dimensions)
        if count:
            context._tensors_no_vc_check = saved[-count:]
            del saved[-count:]
        context.to_save = tuple(saved)
        if has_objects:
            context.opaque_objects = outputs[objects]
        if has_symbols:
            context.symints = outputs[symbols]

    return save


def _kinds_of_results(metadata: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return which results are views that autograd is not told of, and which have no gradient.

    All are results: nothing is hidden, and no argument changes after the call.
    """
    views = tuple(metadata.unsafe_view_out_indices) if metadata.num_unsafe_view_outputs else ()
    return views, tuple(n for n, each in enumerate(metadata.output_info) if not each.requires_grad)


def _finishing(metadata: Any) -> Callable[[Any, Any], Any] | None:
    """Return what makes results ready to be returned; None if they are."""
    if any(epilogue(metadata).values()):
        hiding: Callable[[Any, Any], Any] = RecordedEpilogue(metadata).finalize
        return hiding
    views, fixed = _kinds_of_results(metadata)
    if not views and not fixed:
        return None

    def finish(context: Any, results: Any) -> tuple[Any, ...]:
        results = [*results]
        for position in views:
            result = results[position]
            results[position] = torch.ops.aten._unsafe_view(result, result.shape)
        values = [results[position] for position in fixed]
        context.non_differentiable = tuple(v for v in values if isinstance(v, _Tensor))
        context._materialize_non_diff_grads = False
        return tuple(results)

    return finish


def _through_torch(function: Any, note: Callable[[Any], None]) -> Callable[[Any, list[Any]], Any]:
    """Return what runs torch's functions for a backward pass, and notes the graph behind them."""
    stock: Any = BackwardCFunction.apply_boxed

    def backward(node: Any, gradients: list[Any]) -> Any:
        results = stock(node, gradients)
        wrapped = function.compiled_bw  # in what keeps Dynamo out
        inside = without_entry(getattr(wrapped, "_torchdynamo_orig_callable", wrapped))
        note(inside if isinstance(inside, CompiledFxGraph) else None)
        return results

    return backward


def _backward(graph: _Recorded) -> Callable[[Any, list[Any]], Any]:
    """Return what runs the compiled backward graph, or torch's functions where more is to do."""
    metadata, given, layouts = graph.metadata, graph.given, graph.layouts
    wrap, ready = graph.wrap, None

    def note(found: Any) -> None:
        nonlocal ready
        ready = found

    stock = _through_torch(graph.function, note)

    def backward(node: Any, gradients: list[Any]) -> Any:
        if (
            ready is None
            or _is_grad_enabled()  # for a graph of its own
            or any(map(is_on, graph.switches))
            or _transforms() is not None
            or (_is_deterministic() and not metadata.deterministic)
            or _frame_callback() is not None  # Dynamo would compile the emitted function
            or (metadata.bw_donated_idxs and _keeps_graph())
            or node._external_objects
            or not all(type(gradients[position]) is _Tensor for position in given)
        ):
            return stock(node, gradients)
        values = [*node.symints, *node.saved_tensors, *node._tensors_no_vc_check]
        values += node.opaque_objects
        values += [
            restrided(gradients[position], layout)
            for position, layout in zip(given, layouts, strict=True)
        ]
        gradients.clear()
        node.maybe_clear_saved_tensors()
        run: Callable[[list[Any]], Any] = ready.current_callable
        if graph.has_autocast:
            run = without_autocast(run)
        if wrap is not None:
            run = _wrapping(run, wrap)
        if _is_in_thread("context") and (context := _of_thread("context")) is not None:
            run = partial(context.copy().run, run)  # context variables as they were
        return tuple(run(values))

    return backward


def _wrapping(
    run: Callable[[list[Any]], Any], wrap: Callable[[Any], Any]
) -> Callable[[list[Any]], Any]:
    return lambda values: wrap(run(values))


def is_on(switch: tuple[Mapping[str, Any], str]) -> bool:
    """Return whether the variable of that name is true."""
    variables, name = switch
    return bool(variables.get(name))
