"""Weights that are tensor subclasses: a program takes the plain tensors that hold them.

Torch would take them apart, too, but under names that no user of a model knows:
``layer.parametrizations.weight.original0``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from wrapper_ir.runtime.subclass_parts import is_wrapper, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch


def take_apart(module: torch.fx.GraphModule) -> None:
    """Have a graph take what its weights hold, by the names of ``parts_of``, and build them."""
    named: Any = {"remove_duplicate": False}
    tensors = [*module.named_parameters(**named), *module.named_buffers(**named)]
    weights = {name: value for name, value in tensors if is_wrapper(value)}
    for name, value in weights.items():
        _replace(module, name, value)
    graph = module.graph
    for node in graph.find_nodes(op="get_attr"):
        name = str(node.target)
        if name not in weights:
            continue
        with graph.inserting_before(node):
            parts = [graph.get_attr(part) for part in parts_of(name, weights[name])]
            built = graph.call_function(_builder(weights[name]), tuple(parts))
        built.meta = dict(node.meta)
        node.replace_all_uses_with(built)
        graph.erase_node(node)
    if weights:
        module.recompile()


def _replace(module: nn.Module, name: str, weight: Tensor) -> None:
    """Replace a weight of a module by its parts."""
    owner, _, attribute = name.rpartition(".")
    delattr(module.get_submodule(owner), attribute)
    for path, part in parts_of(name, weight).items():
        owner, _, attribute = path.rpartition(".")
        place = _module_at(module, owner)
        if isinstance(weight, nn.Parameter):
            place.register_parameter(attribute, nn.Parameter(part, part.requires_grad))
        else:
            place.register_buffer(attribute, part)


def _module_at(module: nn.Module, path: str) -> nn.Module:
    """Return a module inside another one, made where there is none."""
    for name in filter(None, path.split(".")):
        if not hasattr(module, name):
            module.add_module(name, nn.Module())
        module = getattr(module, name)
    return module


def _builder(weight: Any) -> Callable[..., Any]:
    """Return the function that builds a subclass like ``weight`` of other plain tensors."""
    if not is_wrapper(weight):
        return lambda part: part
    names, context = weight.__tensor_flatten__()
    held = {name: getattr(weight, name) for name in names}
    builders = {n: _builder(each) for n, each in held.items() if isinstance(each, Tensor)}
    counts = {n: len(parts_of("", held[n])) for n in builders}
    kind, size, stride = type(weight), weight.size(), weight.stride()

    def build(*parts: Any) -> Any:
        rest: Iterator[Any] = iter(parts)
        inner = dict(held)
        for name, builder in builders.items():
            inner[name] = builder(*(next(rest) for _ in range(counts[name])))
        return kind.__tensor_unflatten__(inner, context, size, stride)

    return build
