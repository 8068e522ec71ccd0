"""The registry of device kinds, by torch device type.

A package adds one as an entry point of the group ``wrapper_ir.devices``. The entry point's name is
the torch device type, and its object is a :class:`~wrapper_ir.devices.DeviceKind`. It is imported
when the device type is first asked for. A process may register others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wrapper_ir.devices.kind import DeviceKind, KernelLanguage
from wrapper_ir.devices.known import CPU, CUDA
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.plugins import DEVICES, package_of, plugins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint


class DuplicateDeviceError(WrapperIRError):
    """A kind is registered for a device type that already has one.

    Fields: ``type`` is torch's device type.
    """

    code = "WIR0061"
    template = "devices of type '{type}' are registered already"
    default_hint = "a device type has one kind; unregister the other one first"


class DeviceLoadError(WrapperIRError):
    """An entry point does not lead to a kind of device.

    Fields: ``type`` is torch's device type, ``value`` the entry point's value, ``package`` the
    package that declares it, and ``reason``.
    """

    code = "WIR0062"
    template = "the device '{type}' ({value}, of {package}) cannot be loaded: {reason}"
    default_hint = "the fault is in that package: install another version of it, or uninstall it"


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
"""The values of ``c10::DeviceType``. A device type need not have a kind here."""

_kinds: Final[dict[str, DeviceKind]] = {kind.type: kind for kind in (CPU, CUDA)}


def register_device(kind: DeviceKind, *, over: DeviceKind | None = None) -> None:
    """Register a kind of device in this process.

    Args:
        kind: The kind.
        over: The registered kind of the same device type that it replaces, such as ``CPU`` for one
            that runs an additional language.

    Raises:
        DuplicateDeviceError: Another kind is registered for its device type.
    """
    if over is not None and _kinds.get(kind.type) is over:
        _kinds[kind.type] = kind
    if _kinds.setdefault(kind.type, kind) is not kind:
        raise DuplicateDeviceError(type=kind.type)


def unregister_device(kind: DeviceKind) -> None:
    """Unregister a kind of device. Do nothing if it is not registered."""
    if _kinds.get(kind.type) is kind:
        del _kinds[kind.type]


def registered() -> tuple[DeviceKind, ...]:
    """Return the kinds known so far, in order of registration; the CPU comes first."""
    return tuple(_kinds.values())


def installed() -> tuple[DeviceKind, ...]:
    """Return the registered kinds and those of all installed packages.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    for point in plugins(DEVICES):
        _find(point.name)
    return registered()


def is_registered(type_: str) -> bool:
    """Return whether a device type has a kind of its own.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    return _find(type_) is not None


def kind_of(type_: str) -> DeviceKind:
    """Return the kind of a device type, or one with all defaults if none is registered.

    Raises:
        DeviceLoadError: A package's kind cannot be imported.
    """
    return _kinds.get(type_) or _find(type_) or _unknown(type_)


def accelerators() -> Iterator[DeviceKind]:
    """Yield the registered kinds for which a thread has a current device."""
    return (kind for kind in registered() if kind.is_accelerator)


def number_of(type_: str) -> int:
    """Return the number of a device type; private backends' for a type that is not listed."""
    return TYPE_NUMBERS.get(type_, TYPE_NUMBERS["privateuseone"])


def vendor_language(name: str) -> KernelLanguage:
    """Return a vendor's language by name, from registered kinds or else from installed packages.

    If there is none, the result has all defaults, and no device runs it.

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
    """Return the kind that an installed package declares, if there is one."""
    points = plugins(DEVICES, type_)
    if not points:
        return None
    point = next(iter(points))
    values = {other.value for other in points}
    if len(values) > 1:
        raise _fault(point, f"several packages provide one: {', '.join(sorted(values))}")
    try:
        found: object = point.load()
    except Exception as error:  # importing a third-party module may raise anything
        raise _fault(point, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, DeviceKind):
        raise _fault(point, "it is not a wrapper_ir.devices.DeviceKind")
    if found.type != type_:
        raise _fault(point, f"its device type is '{found.type}'")
    return found


def _fault(point: EntryPoint, reason: str) -> DeviceLoadError:
    package = package_of(point)
    return DeviceLoadError(type=point.name, value=point.value, package=package, reason=reason)
