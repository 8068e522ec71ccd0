"""Process groups that a graph takes as arguments, or through a mesh.

Torch 2.15 passes meshes to graphs, and with ``torch.compiler.config.compile_on_one_rank`` groups.
Dynamo does not guard on the groups: a mesh equals another one of the same shape. Our programs call
groups by name, so Dynamo gets these guards from us, and compiles again for other groups. What no
guard sees, such as a flattened dimension of another mesh, each call compares; one with other groups
runs op by op.
"""

from __future__ import annotations

import warnings
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.common.ranks import compiles_on_one_rank
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.group_names import names_of
from wrapper_ir.frontends.inductor.overlaps import OpByOpWarning

if TYPE_CHECKING:
    from collections.abc import Callable


def with_groups(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours compare groups."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours() or not isinstance(model, torch.fx.GraphModule):
            return stock(model, inputs, *args, **kwargs)
        # First: a graph from a cache calls its groups by these names.
        known = {at: found for at, value in enumerate(inputs) if (found := names_of(value))}
        compat.guard_on_groups(model, {at: inputs[at] for at in known})
        compiled = stock(model, inputs, *args, **kwargs)
        return _comparing(compiled, model, known) if known else compiled

    return compile_graph


def with_overloads(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's method that lowers a graph, which may take a part of a mesh.

    Torch calls that op without naming its overload, and lowers only overloads.
    """

    @wraps(stock)
    def codegen_and_compile(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ours() and compiles_on_one_rank():
            for node in gm.graph.nodes:
                packet = node.target
                if isinstance(packet, torch._ops.OpOverloadPacket):
                    names: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
                    node.target = getattr(packet, names[0]) if len(names) == 1 else packet
        return stock(self, gm, *args, **kwargs)

    return codegen_and_compile


def _comparing(
    compiled: Any, model: torch.fx.GraphModule, known: dict[int, tuple[str, ...]]
) -> Callable[..., Any]:
    """Return a compiled graph that runs op by op for other groups."""
    #: The default group of the last call that fitted, and its groups and meshes. Groups keep their
    #: names, and a mesh keeps its groups, as long as the default group lives.
    last: list[Callable[[], Any]] = []

    @wraps(compiled)
    def call(*args: Any) -> Any:
        given = [compat.default_group(), *(args[at] for at in known)]
        if last and all(ref() is value for ref, value in zip(last, given, strict=True)):
            return compiled(*args)
        if all(names_of(args[at]) == names for at, names in known.items()):
            last[:] = map(weakref.ref, given)
            return compiled(*args)
        warnings.warn(
            "a call of a compiled function runs op by op: it was compiled for other process groups",
            OpByOpWarning,
            stacklevel=2,
        )
        return model(*args)

    return call
