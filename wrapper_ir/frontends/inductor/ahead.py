"""A graph that Inductor compiles ahead of time: the program of it, and not a wrapper of Inductor's.

Inductor then has only two wrappers to offer, one in C++ and one that makes an fx graph. We come in
by the second one's slot: it compiles no kernel, makes one pass, and hands back whatever we return.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor.captured import PackedBy, noted_packing
from wrapper_ir.frontends.inductor.compat import InductorError
from wrapper_ir.frontends.inductor.errors import CaptureError, UnsupportedLineError
from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

#: How Inductor is set up.
_CONFIG: Final[Mapping[str, Any]] = {
    "fx_wrapper": True,
    "cpp_wrapper": False,
    # Small tensors, parameters included, would become literals in the kernels' text.
    "always_keep_tensor_constants": True,
    # Folding takes the value of every tensor of one element, also of one that calls change: a batch
    # norm would count to one and stay there.
    "joint_graph_constant_folding": False,
    # An ahead-of-time graph is one piece for us; cutting it up serves CUDA graphs.
    "graph_partition": False,
    # What depends on constants alone is computed at each call. Inductor would make another graph
    # of it, which it can only write in C++.
    "aot_inductor.use_runtime_constant_folding": False,
    # The model keeps its parameters, also where they are frozen.
    "freezing_discard_parameters": False,
}


def lowered(
    run: Callable[[dict[str, Any]], Any], *, freeze: bool
) -> tuple[Program, torch.fx.GraphModule, dict[int, PackedBy]]:
    """Return the program of a graph, in a session that captures.

    Args:
        run: Has Inductor compile the graph ahead of time, with settings that it is given.
        freeze: Whether parameters are frozen.

    Returns:
        The program, the graph of ATen ops that Inductor scheduled, and how packed tensors are made.

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
            # Inductor warns of graph inputs that it does not use; here they are the caller's.
            warnings.simplefilter("ignore")
            product = run({**_CONFIG, "freezing": freeze})
    except InductorError as error:
        own = getattr(error, "inner_exception", None)
        if isinstance(own, WrapperIRError):
            if isinstance(own, UnsupportedLineError):
                own.hint = "under torch.compile, Inductor's own wrapper can stand in"
            raise own from None
        raise CaptureError(problem=f"Inductor says: {error}") from error
    except WrapperIRError:
        raise
    except Exception as error:  # of what torch runs before Inductor, for aliased inputs say
        raise CaptureError(problem=f"torch says: {error}") from error
    made = getattr(product, "meta", {})
    program = made.get("program")
    if not isinstance(program, Program):
        raise CaptureError(problem="Inductor bypassed the wrapper that makes the program")
    return program, made["graph"], packed


def with_values(
    program: Program,
    values: Mapping[str, Any],
    parameters: Collection[str],
    buffers: Collection[str],
) -> Program:
    """Return the program with a model's own tensors for constants, and what each is to it.

    Args:
        program: The program.
        values: The model's tensors by their names there.
        parameters: Which of them are parameters.
        buffers: Which are buffers.
    """
    constants, data = {}, dict(program.data)
    owners: dict[tuple[Any, ...], str] = {}
    for name, constant in program.constants.items():
        if constant.kind is ConstantKind.PACKED:
            constants[name] = constant
            continue
        known = constant.qualified_name
        original = values.get(known)
        if isinstance(original, torch.Tensor) and original.shape == data[name].shape:
            # Detached it is still the model's memory; a program computes no gradients.
            data[name] = original.detach()
        kind = ConstantKind.BUFFER if known in buffers else ConstantKind.TENSOR
        kind = ConstantKind.PARAMETER if known in parameters else kind
        owner, tensor = name, data[name]
        if tensor.numel() and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            owner = owners.setdefault((tensor.device, tensor.data_ptr()), name)
        tied_to = None if owner == name else owner  # an earlier constant in the same memory
        constants[name] = Constant(known, kind, constant.mutable, tied_to)
    return program.replace(constants=FrozenMap(constants), data=data)
