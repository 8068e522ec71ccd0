"""The kinds of devices that the library knows, by torch's device types.

A package brings one as an entry point of the group ``wrapper_ir.devices``: its name is torch's
device type, and it leads to a :class:`~wrapper_ir.devices.DeviceKind`. It is imported when
something asks for a device of that type, not before. A process may register others.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from wrapper_ir.devices.cpu import CPU
from wrapper_ir.devices.cuda import CUDA
from wrapper_ir.devices.kind import DeviceKind, KernelLanguage
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP: Final = "wrapper_ir.devices"


class DuplicateDeviceError(WrapperIRError):
    """A kind of device is registered whose device type is taken.

    Fields: ``type`` is torch's device type.
    """

    code = "WIR0061"
    template = "devices of type '{type}' are registered already"
    default_hint = "a device type has one kind; unregister the other one first"


class DeviceLoadError(WrapperIRError):
    """An entry point does not lead to a kind of device.

    Fields: ``type`` is torch's device type, ``value`` that of the entry point, ``package`` the one
    that has it, and ``reason``.
    """

    code = "WIR0062"
    template = "the device '{type}' ({value}, of {package}) cannot be loaded: {reason}"
    default_hint = "the fault is in that package: install another version of it, or none"


TYPE_NUMBERS: Final = {
    "cpu": 0,
    "cuda": 1,
    "hip": 6,
    "xla": 9,
    "xpu": 12,
    "mps": 13,
    "meta": 14,
    "hpu": 15,
    "mtia": 19,
    "privateuseone": 20,
}
"""Numbers of torch's device types, ``c10::DeviceType``; a type may have no kind here."""

_kinds: Final[dict[str, DeviceKind]] = {kind.type: kind for kind in (CPU, CUDA)}


def register_device(kind: DeviceKind, *, over: DeviceKind | None = None) -> None:
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


def unregister_device(kind: DeviceKind) -> None:
    """Forget a kind of device; nothing is done where it is not registered."""
    if _kinds.get(kind.type) is kind:
        del _kinds[kind.type]


def registered() -> tuple[DeviceKind, ...]:
    """Return the kinds known so far, the CPU first and the others as they were registered."""
    return tuple(_kinds.values())


def installed() -> tuple[DeviceKind, ...]:
    """Return the kinds that are registered, and those of every package that brings one.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    for point in entry_points(group=_GROUP):
        _find(point.name)
    return registered()


def is_registered(type_: str) -> bool:
    """Tell whether a device type has a kind of its own.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    return _find(type_) is not None


def kind_of(type_: str) -> DeviceKind:
    """Return the kind of a device type; one of which nothing is known where none is registered.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    return _kinds.get(type_) or _find(type_) or _unknown(type_)


def accelerators() -> Iterator[DeviceKind]:
    """Yield the registered kinds of which a thread has a current device."""
    return (kind for kind in registered() if kind.is_accelerator)


def number_of(type_: str) -> int:
    """Return the number of a device type; that of private backends for one without its own."""
    return TYPE_NUMBERS.get(type_, TYPE_NUMBERS["privateuseone"])


def vendor_language(name: str) -> KernelLanguage:
    """Return the language of that name which a kind of device brings, one installed at the latest.

    One of which nothing is known, and which no device runs, where there is none.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    for kinds in (registered, installed):
        for kind in kinds():
            for language in kind.languages:
                if language.name == name and language.launcher:
                    return language
    return KernelLanguage(name)


@lru_cache(maxsize=64)
def _unknown(type_: str) -> DeviceKind:
    return DeviceKind(type=type_, noun=type_, plural=type_)


def _find(type_: str) -> DeviceKind | None:
    if type_ not in _kinds and (kind := _installed(type_)) is not None:
        _kinds[type_] = kind
    return _kinds.get(type_)


@lru_cache(maxsize=64)
def _installed(type_: str) -> DeviceKind | None:
    """The kind that a package brings, if one does."""
    points = entry_points(group=_GROUP, name=type_)
    if not points:
        return None
    point = next(iter(points))
    values = {other.value for other in points}
    if len(values) > 1:
        raise _fault(point, f"several packages bring one: {', '.join(sorted(values))}")
    try:
        found: object = point.load()
    except Exception as error:  # whatever importing a module of somebody else's may raise
        raise _fault(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, DeviceKind):
        raise _fault(point, "it is no wrapper_ir.devices.DeviceKind")
    if found.type != type_:
        raise _fault(point, f"it is the kind of devices of type '{found.type}'")
    return found


def _fault(point: EntryPoint, reason: str) -> DeviceLoadError:
    dist = point.dist
    package = "a package without a name" if dist is None else f"{dist.name} {dist.version}"
    return DeviceLoadError(type=point.name, value=point.value, package=package, reason=reason)
