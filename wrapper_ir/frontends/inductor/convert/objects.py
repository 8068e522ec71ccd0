"""Objects of custom classes, and calls of their methods."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.control import ObjectInput
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.program import ObjectConstant
from wrapper_ir.runtime import class_of

if TYPE_CHECKING:
    import torch

    from wrapper_ir.frontends.inductor.convert.state import Scope

_OTHER: Final = re.compile(r"[^A-Za-z0-9_]+", re.ASCII)


@dataclass(frozen=True)
class Method:
    """A method of a custom class, in the form that an op of torch's registry has.

    Attributes:
        class_name: The class, ``namespace::Class``.
        _schema: What torch knows of it, the object being the first argument.
    """

    class_name: str
    _schema: Any

    def name(self) -> str:
        """Return what calls name it: ``namespace::Class.method``."""
        return f"{self.class_name}.{self._schema.name}"

    @property
    def source(self) -> TorchOp:
        """Its declaration, under that name."""
        return TorchOp(f"{self.class_name}.{self._schema}", is_method=True)


def method_of(receiver: Any, name: str) -> Method:
    """Return the method of that name of one of Inductor's objects."""
    value = real_object(receiver.get_name(), receiver.get_value())
    return Method(class_of(value), value._get_method(name).schema)


def traced_object(value: Any) -> Any:
    """Return what Inductor has, or the object itself where it traced with another one."""
    return getattr(value, "real_obj", value)


def real_object(name: str, value: Any) -> torch.ScriptObject:
    """Return the object itself where Inductor has what it traced with.

    Raises:
        UnsupportedLineError: It is no object of a class in ``torch.classes``.
    """
    found = traced_object(value)
    if not class_of(found):
        raise UnsupportedLineError(
            kind="object",
            text=f"{name}: {type(found).__name__}",
            why="it is of no class that is registered with torch.classes",
        )
    return found  # type: ignore[no-any-return]  # only objects have a class


def object_input(scope: Scope, name: str, node: Any) -> ObjectInput:
    """Return the input that an object of Inductor's is.

    Raises:
        UnsupportedLineError: It is of no class that torch knows, or an input of a region.
    """
    if scope.is_region:
        raise _in_region(name)
    made = scope.objects[name] = scope.name(name)
    scope.draft.reserved.add(made)
    return ObjectInput(made, class_of(real_object(name, node.get_value())))


def convert_object(scope: Scope, node: Any) -> str:
    """Return the name of an object that is passed as an argument.

    Raises:
        UnsupportedLineError: It is of no class that torch knows, or used in a region.
    """
    name = node.get_name()
    if scope.is_region:
        raise _in_region(name)
    if name not in scope.objects:
        value = real_object(name, node.get_value())
        known = (n for n in scope.draft.names_of(value) if n in scope.draft.objects)
        made = next(known, "") or scope.draft.fresh(_OTHER.sub("_", name))
        scope.objects[name] = made
        scope.draft.reserved.add(made)
        scope.draft.objects[made] = ObjectConstant(class_of(value), name)
        scope.draft.hold(made, value)
    return scope.objects[name]


def _in_region(name: str) -> UnsupportedLineError:
    return UnsupportedLineError(
        kind="object", text=name, why="it is used inside a choice, a loop or another subgraph"
    )
