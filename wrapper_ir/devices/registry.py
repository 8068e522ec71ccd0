"""The kinds of devices that the library knows, by torch's device types."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wrapper_ir.devices.cpu import CPU
from wrapper_ir.devices.cuda import CUDA
from wrapper_ir.devices.kind import DeviceKind, KernelLanguage
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterator


class DuplicateDeviceError(WrapperIRError):
    """A kind of device is registered whose device type is taken.

    Fields: ``type`` is torch's device type.
    """

    code = "WIR0061"
    template = "devices of type '{type}' are registered already"
    default_hint = "a device type has one kind; unregister the other one first"


_kinds: Final[dict[str, DeviceKind]] = {kind.type: kind for kind in (CPU, CUDA)}


def register(kind: DeviceKind, *, over: DeviceKind | None = None) -> None:
    """Make a kind of device known in this process.

    Args:
        kind: The kind.
        over: The registered kind of the same device type that it replaces, such as ``CPU`` for one
            that runs a language more.

    Raises:
        DuplicateDeviceError: Another one has its device type.
    """
    if over is not None and _kinds.get(kind.type) is over:
        _kinds[kind.type] = kind
    if _kinds.setdefault(kind.type, kind) is not kind:
        raise DuplicateDeviceError(type=kind.type)


def unregister(kind: DeviceKind) -> None:
    """Forget a kind of device; nothing is done where it is not registered."""
    if _kinds.get(kind.type) is kind:
        del _kinds[kind.type]


def registered() -> tuple[DeviceKind, ...]:
    """Return the kinds that are known, the CPU first and the others as they were registered."""
    return tuple(_kinds.values())


def is_registered(type_: str) -> bool:
    """Tell whether a device type has a kind of its own."""
    return type_ in _kinds


def kind_of(type_: str) -> DeviceKind:
    """Return the kind of a device type; one of which nothing is known where none is registered."""
    return _kinds.get(type_) or _unknown(type_)


def accelerators() -> Iterator[DeviceKind]:
    """Yield the registered kinds of which a thread has a current device."""
    return (kind for kind in registered() if kind.is_accelerator)


@lru_cache(maxsize=64)
def _unknown(type_: str) -> DeviceKind:
    return DeviceKind(type=type_, noun=type_, plural=type_)


def vendor_language(name: str) -> KernelLanguage:
    """Return the language of that name which a registered kind of device brings.

    One of which nothing is known, and which no device runs, where there is none.
    """
    for kind in registered():
        for language in kind.languages:
            if language.name == name and language.launcher:
                return language
    return KernelLanguage(name)
