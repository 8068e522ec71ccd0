"""Constants: where in the module each one is, and how it gets there.

A constant is found under its qualified name, so the module's ``state_dict`` has the keys of the
model's. Where torch could not call an attribute that, or could only by taking the name of
something of its own, the attribute is called by the constant's name in the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx, nn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program


def places_of(program: Program) -> dict[str, str]:
    """The attribute of each constant and object."""
    places: dict[str, str] = {}
    leaves: set[str] = set()
    inner: set[str] = set()
    wanted = {name: constant.qualified_name for name, constant in program.constants.items()}
    wanted |= {name: constant.qualified_name for name, constant in program.objects.items()}
    for name, place in wanted.items():
        if not _is_possible(place) or place in leaves | inner or leaves & set(_outer(place)):
            place = _free(name, leaves | inner)
        places[name] = place
        leaves.add(place)
        inner.update(_outer(place))
    return places


def _outer(place: str) -> list[str]:
    """The modules that an attribute is in: ``a`` and ``a.b`` for ``a.b.weight``."""
    parts = place.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts))]


def _is_possible(place: str) -> bool:
    parts = place.split(".")
    if not all(part.isascii() and part.replace("_", "a").isalnum() for part in parts):
        return False
    first, *rest = parts
    return not hasattr(fx.GraphModule, first) and not any(hasattr(nn.Module, p) for p in rest)


def _free(name: str, taken: set[str]) -> str:
    place, number = f"constant_{name}", 0
    while place in taken or hasattr(fx.GraphModule, place):
        number += 1
        place = f"constant_{name}_{number}"
    return place


@dataclass(frozen=True, slots=True)
class _NoObject:
    """Placeholder in a module for an object that is not there; calls refuse it."""

    class_name: str


def install(module: nn.Module, program: Program, places: Mapping[str, str]) -> list[str]:
    """Put the constants into a module; returns the names of those that have no values.

    They are the program's own tensors, or share their memory: a parameter that asks for gradients
    is put in as one that does not, since graphs call ops that have no derivative. What has no value
    becomes a tensor without data; an object, something that no call takes.
    """
    missing = []
    shared: dict[int, Tensor] = {}
    for name, place in places.items():
        value = program.data.get(name)
        if name in program.objects:
            if value is None:
                missing.append(name)
                value = _NoObject(program.objects[name].class_name)
            _put(module, place, value)
            continue
        if not isinstance(value, Tensor):
            missing.append(name)
            value = _without_data(program.layout(name))
        _put(module, place, shared.setdefault(id(value), _without_gradient(value)))
    return missing


def _without_data(layout: Layout) -> Tensor:
    dtype = getattr(torch, layout.dtype.torch_name)
    size = [n if isinstance(n, int) else 0 for n in layout.size]
    stride = [n if isinstance(n, int) else 1 for n in layout.stride]
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def _without_gradient(value: Tensor) -> Tensor:
    if not value.requires_grad:
        return value
    detached = value.detach()
    if isinstance(value, nn.Parameter):
        return nn.Parameter(detached, requires_grad=False)
    return detached


def _put(module: nn.Module, place: str, value: object) -> None:
    *outer, leaf = place.split(".")
    for part in outer:
        if part not in module._modules:  # noqa: SLF001 - as nn.Module's own add_module does
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    if isinstance(value, nn.Parameter):
        module.register_parameter(leaf, value)
    elif isinstance(value, Tensor):
        module.register_buffer(leaf, value)
    else:
        setattr(module, leaf, value)
