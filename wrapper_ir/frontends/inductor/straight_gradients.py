"""Straight calls of graphs whose gradients are recorded.

Torch's autograd function for such a graph calls five functions of Python on the way forward and six
on the way back. Most of what they do is decided when the graph is compiled: which results are
saved, and how, which are not differentiable, what a gradient has to look like in memory. A class
that is derived from torch's does the rest. Saved tensors, hooks, compiled autograd and the names
of nodes are torch's own, and a backward pass that is unusual goes through torch's functions: the
first, and those with a graph of their own, under transforms, or with gradients that are no plain
tensors.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import profiler

from wrapper_ir.frontends.inductor.compat import (
    BackwardCFunction,
    CompiledFxGraph,
    PlainTensorMeta,
    debugging,
    external_objects,
    mark_dynamic,
    note_external_objects,
    restrided,
    without_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_no_autocast = torch._C._DisableAutocast
_is_grad_enabled = torch.is_grad_enabled
_keeps_graph: Any = torch._C._autograd._get_current_graph_task_keep_graph
_transforms: Any = torch._C._functorch.peek_interpreter_stack
_is_in_thread: Any = torch._C._is_key_in_tls
_of_thread: Any = torch._C._get_obj_in_tls
_is_deterministic = torch.are_deterministic_algorithms_enabled
_frame_callback: Any = torch._C._dynamo.eval_frame.get_eval_frame_callback
_Tensor = torch.Tensor


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that autocast is off while it runs."""

    def call(*args: Any) -> Any:
        with _no_autocast():
            return function(*args)

    return call


def facts(wrapper: Any, metadata: Any) -> dict[str, Any]:
    """Return what only torch's functions do for a graph with gradients, and whether it is needed.

    Args:
        wrapper: AOTAutograd's ``RuntimeWrapper``.
        metadata: Its ``ViewAndMutationMeta`` for the graph.
    """
    if restrided is None:
        return {"this release of torch calls backward passes in another way": True}
    written = metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
    tangents = metadata.subclass_tangent_meta
    return {
        "arguments are detached": wrapper.indices_of_inps_to_detach,
        "generators are passed": metadata.num_graphsafe_rng_states,
        "random numbers are counted outside": metadata.is_rng_op_functionalized,
        "ops with effects are kept in order, backward": metadata.num_backward_tokens,
        "arguments with gradients change, backward": written,
        "objects are saved": metadata.num_opaque_objects_saved_for_bw,
        "gradients are tensor subclasses": not all(
            isinstance(tangent, PlainTensorMeta) for tangent in tangents
        ),
    }


def straight_apply(function: Any, metadata: Any, compiled: Any, *, has_autocast: bool) -> Any:
    """Return what records a call of a graph, for use in the place of ``function.apply``.

    Args:
        function: AOTAutograd's ``CompiledFunction`` for the graph.
        metadata: Its ``ViewAndMutationMeta``.
        compiled: The compiled graph.
        has_autocast: Whether the graph was compiled under autocast, which is off while it runs.
    """
    forward = _forward(metadata, compiled)
    names = {"forward": staticmethod(without_autocast(forward) if has_autocast else forward)}
    made: Any = type(function)(function.__name__, (function,), names)
    node = made._backward_cls
    node.symints = node.opaque_objects = node._tensors_no_vc_check = ()
    node._external_objects = {}
    backward = _backward(function, metadata, has_autocast=has_autocast)
    node.apply_boxed = backward
    node.apply = lambda node, *gradients: backward(node, [*gradients])
    return super(torch.autograd.Function, made).apply


def _forward(metadata: Any, compiled: Any) -> Callable[..., Any]:
    """Return what runs the graph, and notes what its backward pass needs."""
    returned = slice(metadata.num_forward_returns)
    save, finish = _saving(metadata), _finishing(metadata)

    def forward(context: Any, *args: Any) -> Any:
        outputs = compiled.current_callable([*args])
        save(context, outputs)
        if external_objects:
            note_external_objects(context)
        return tuple(outputs[returned]) if finish is None else finish(context, outputs[returned])

    return forward


def _saving(metadata: Any) -> Callable[[Any, Any], None]:
    """Return what saves results of the graph for the backward pass.

    A view that is no argument is detached, so that it does not keep what it is a view of.
    """
    checked = metadata.tensors_saved_for_backwards_with_vc_check_slice
    unchecked = metadata.tensors_saved_for_backwards_no_vc_check_slice
    count = metadata.num_tensors_saved_with_no_vc_check
    symbols = metadata.symints_saved_for_backwards_slice
    has_symbols = bool(metadata.num_symints_saved_for_bw)
    made = [n for n, is_input in enumerate(metadata.saved_tensor_is_graph_input) if not is_input]
    dynamic = tuple(metadata.dynamic_saved_tensors_idxs.items())

    def save(context: Any, outputs: Any) -> None:
        saved = [*outputs[checked], *outputs[unchecked]]
        for position in made:
            if (value := saved[position])._is_view():
                saved[position] = value.detach()
        for position, dimensions in dynamic:
            mark_dynamic(saved[position], dimensions)
        if count:
            context._tensors_no_vc_check = saved[-count:]
            del saved[-count:]
        context.to_save = tuple(saved)
        if has_symbols:
            context.symints = outputs[symbols]

    return save


def _finishing(metadata: Any) -> Callable[[Any, Any], Any] | None:
    """Return what makes results ready to be returned; None if they are."""
    views = tuple(metadata.unsafe_view_out_indices) if metadata.num_unsafe_view_outputs else ()
    fixed = tuple(n for n, info in enumerate(metadata.output_info) if not info.requires_grad)
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


def _backward(
    function: Any, metadata: Any, *, has_autocast: bool
) -> Callable[[Any, list[Any]], Any]:
    """Return what runs the compiled backward graph, or torch's functions where more is to do."""
    layouts = tuple(tangent.memory_format for tangent in metadata.subclass_tangent_meta)
    given = tuple(
        position
        for position, info in enumerate(metadata.output_info)
        if issubclass(info.raw_type, _Tensor) and info.requires_grad_for_backward
    )
    stock: Any = BackwardCFunction.apply_boxed
    ready: Any = None

    def backward(node: Any, gradients: list[Any]) -> Any:
        nonlocal ready
        if (
            ready is None
            or _is_grad_enabled()  # for a graph of its own
            or profiler._is_profiler_enabled
            or _transforms() is not None
            or (_is_deterministic() and not metadata.deterministic)
            or _frame_callback() is not None  # Dynamo would compile the emitted function
            or (_keeps_graph() and metadata.bw_donated_idxs)
            or node._external_objects
            or debugging.get("RECORD_GRAPH_EXECUTION")
            or not all(type(gradients[position]) is _Tensor for position in given)
        ):
            results = stock(node, gradients)
            wrapped = function.compiled_bw  # in what keeps Dynamo out
            inside = without_entry(getattr(wrapped, "_torchdynamo_orig_callable", wrapped))
            ready = inside if isinstance(inside, CompiledFxGraph) else None
            return results
        values = [*node.symints, *node.saved_tensors, *node._tensors_no_vc_check]
        values += [
            restrided(gradients[position], layout)
            for position, layout in zip(given, layouts, strict=True)
        ]
        gradients.clear()
        node.maybe_clear_saved_tensors()
        run = ready.current_callable
        if _is_in_thread("context") and (context := _of_thread("context")) is not None:
            run = partial(context.copy().run, run)  # context variables as they were
        if has_autocast:
            run = without_autocast(run)
        return tuple(run(values))

    return backward
