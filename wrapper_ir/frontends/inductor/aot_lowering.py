"""Ahead-of-time compilation by Inductor that yields a program instead of Inductor's own wrapper.

Ahead of time Inductor offers only two wrappers: one in C++, and one that builds an fx graph. We use
the slot of the second: it compiles no kernels, makes a single pass, and returns whatever we return.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.common.tensors import with_other_names
from wrapper_ir.frontends.inductor.compat import InductorError
from wrapper_ir.frontends.inductor.dropped_facts import PackedBy, noted_packing
from wrapper_ir.frontends.inductor.errors import CaptureError, UnsupportedLineError
from wrapper_ir.frontends.inductor.folding import folding_apart, with_folding
from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

#: Inductor's settings for a compilation ahead of time.
_CONFIG: Final[Mapping[str, Any]] = {
    "fx_wrapper": True,
    "cpp_wrapper": False,
    # Otherwise small tensors, parameters included, become literals in the kernels' text.
    "always_keep_tensor_constants": True,
    # Constant folding reads the value of every one-element tensor, even of one that calls change: a
    # batch norm would count to one and stop.
    "joint_graph_constant_folding": False,
    # Partitioning only serves CUDA graphs; we need the graph in one piece.
    "graph_partition": False,
    # Inductor can write what it splits off for this only in C++. We split the graph ourselves.
    "aot_inductor.use_runtime_constant_folding": False,
    # The model keeps its parameters even when they are frozen.
    "freezing_discard_parameters": False,
}


class Lowered(NamedTuple):
    """A graph that Inductor lowered.

    Attributes:
        program: The graph's program.
        graph: Inductor's graph of ATen ops.
        least: The least values of symbols that the program is right for: ``least_sizes``.
        packed: How packed tensors were made.
    """

    program: Program
    graph: torch.fx.GraphModule
    least: dict[str, int]
    packed: dict[int, PackedBy]


def lower_graph(
    run: Callable[[dict[str, Any]], Any], *, freeze: bool, fold: bool = False
) -> Lowered:
    """Return what Inductor makes of a graph ahead of time.

    Must run in a session that captures. ``run`` has Inductor compile the graph ahead of time with
    the settings that it is passed. With ``fold``, what depends on constants alone becomes the
    program's ``folding``.

    Raises:
        CaptureError: Inductor cannot lower the graph.
        UnsupportedLineError: Something in its wrapper has no typed form.
    """
    packed: dict[int, PackedBy] = {}
    try:
        with warnings.catch_warnings(), ExitStack() as stack:
            if freeze:
                stack.enter_context(torch.no_grad())  # where gradients are on, nothing is frozen
                packed = stack.enter_context(noted_packing())
            # Inductor warns about unused graph inputs; here they are the caller's arguments.
            warnings.simplefilter("ignore")
            folding = stack.enter_context(folding_apart(wanted=fold))
            product = run({**_CONFIG, "freezing": freeze})
    except InductorError as error:
        inner = getattr(error, "inner_exception", None)
        if isinstance(inner, WrapperIRError):
            if isinstance(inner, UnsupportedLineError):
                inner.hint = "under torch.compile, Inductor's own wrapper can stand in"
            raise inner from None
        raise CaptureError(problem=f"Inductor says: {error}") from error
    except WrapperIRError:
        raise
    except Exception as error:  # from torch's own steps before Inductor, such as for aliased inputs
        raise CaptureError(problem=f"torch says: {error}") from error
    program = _program_of(product)
    if folding.product is not None:
        inner = _program_of(folding.product.filename)
        program = with_folding(program, inner, folding.results)
    return Lowered(program, product.meta["graph"], product.meta["least"], packed)


def _program_of(product: Any) -> Program:
    program = getattr(product, "meta", {}).get("program")
    if not isinstance(program, Program):
        raise CaptureError(problem="Inductor bypassed the wrapper that makes the program")
    return program


def with_values(
    program: Program,
    values: Mapping[str, Any],
    parameters: Collection[str],
    buffers: Collection[str],
    folded: Collection[str] = (),
) -> Program:
    """Return the program with the model's own tensors as the values of its constants.

    Args:
        program: The program.
        values: The model's tensors by qualified name.
        parameters: The names of those that are parameters.
        buffers: The names of those that are buffers.
        folded: The names of tensors whose values are part of other constants.
    """
    kinds = {
        **dict.fromkeys(buffers, ConstantKind.BUFFER),
        **dict.fromkeys(parameters, ConstantKind.PARAMETER),
    }
    constants, data = {}, dict(program.data)
    owners: dict[tuple[Any, ...], str] = {}
    for name, constant in program.constants.items():
        if constant.kind in (ConstantKind.PACKED, ConstantKind.FOLDED):
            constants[name] = constant
            continue
        qualified = constant.qualified_name
        original = values.get(qualified)
        if isinstance(original, torch.Tensor) and original.shape == data[name].shape:
            # A detached tensor shares the model's memory; a program computes no gradients.
            data[name] = original.detach()
        if isinstance(data[name], torch.Tensor):
            data[name] = _as_read(data[name], qualified, mutable=constant.mutable)
        kind = kinds.get(qualified, ConstantKind.TENSOR)
        owner, tensor = name, data[name]
        if tensor.numel() and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            owner = owners.setdefault((tensor.device, tensor.data_ptr()), name)
        tied_to = None if owner == name else owner  # an earlier constant in the same memory
        constants[name] = Constant(qualified, kind, constant.mutable, tied_to)
    folding = program.folding
    if folding is not None:
        pairs = ((n, kinds.get(c.qualified_name, c.kind), c) for n, c in folding.constants.items())
        taken = {name: replace(constant, kind=kind) for name, kind, constant in pairs}
        folding = folding.replace(constants=FrozenMap(taken))
    program = program.replace(constants=FrozenMap(constants), data=data, folding=folding)
    return with_other_names(program, values, kinds, folded)


def _as_read(value: torch.Tensor, name: str, *, mutable: bool) -> torch.Tensor:
    """Return a tensor of the model's whose memory holds its values, as kernels take it.

    Raises:
        CaptureError: The model writes to a tensor that negates its memory.
    """
    if value.is_complex() or not value.is_neg():  # Inductor knows of complex ones
        return value
    if mutable:
        raise CaptureError(
            problem=f"the model writes to {name!r}, which is negated lazily",
            hint="store its .resolve_neg() in the model",
        )
    return value.resolve_neg()


def read_names(graph: torch.fx.Graph) -> frozenset[str]:
    """Return the names of the model's tensors that a graph reads."""
    nodes = graph.find_nodes(op="get_attr")
    return frozenset(str(node.target) for node in nodes if node.users)
