"""Objects of custom classes: whether one of the right class was given, and the bytes of one."""

from __future__ import annotations

import torch

from wrapper_ir.runtime.errors import InputLayoutError

__all__ = ["ObjectStateError", "archive_of", "check_object", "class_of"]

_PREFIX = "__torch__.torch.classes."


class ObjectStateError(ValueError):
    """An object is of a class whose objects cannot be stored."""


def archive_of(value: object) -> bytes:
    """Return an object as PyTorch's own packages have it, in bytes; the same for equal states.

    Raises:
        ObjectStateError: Its class does not say how its objects are stored.
    """
    try:
        found: bytes = torch._C._pickle_save(value)  # noqa: SLF001 - the only way to it
    except (RuntimeError, TypeError) as error:
        raise ObjectStateError(str(error).partition("\n")[0]) from error
    return found


def class_of(value: object) -> str:
    """Return the class of an object as torch registers it, ``namespace::Class``.

    It is empty for everything else, classes of TorchScript included.
    """
    if not isinstance(value, torch.ScriptObject):
        return ""
    name: str = value._type().qualified_name()  # noqa: SLF001 - the only way to it
    namespace, _, rest = name.removeprefix(_PREFIX).partition(".")
    return f"{namespace}::{rest}" if name.startswith(_PREFIX) and rest else ""


def check_object(value: object, name: str, class_name: str) -> None:
    """Return if a value is an object of a custom class.

    Args:
        value: An input, or the value of a constant.
        name: What errors call it.
        class_name: The class, ``namespace::Class``.

    Raises:
        InputLayoutError: It is something else.
    """
    found = class_of(value)
    if found != class_name:
        raise InputLayoutError(
            name=name,
            difference="type",
            expected=f"an object of class {class_name}",
            got=f"one of class {found}" if found else f"a value of type {type(value).__name__}",
            hint="pass inputs in the order and form in which the program was made",
        )
