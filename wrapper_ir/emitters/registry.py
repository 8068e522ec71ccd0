"""The registry of emitters: entry points of ``wrapper_ir.emitters``, and those of this process.

Each entry point names a subclass of :class:`~wrapper_ir.emitters.base.Emitter`, which is imported
when it is first requested. Two packages that register the same name are an error; the order of
installation does not matter.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, cast

from wrapper_ir.emitters.base import Emitter, faults_of
from wrapper_ir.errors import WrapperIRError, nearest
from wrapper_ir.options.schema import check_values, options_of, renamed
from wrapper_ir.plugins import EMITTERS, package_of, plugins

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

__all__ = ["DuplicateEmitterError", "EmitterLoadError", "NotAnEmitterError", "UnknownEmitterError"]
__all__ += ["emitter_class", "emitter_names", "make_emitter", "option_names", "register_emitter"]
__all__ += ["unregister_emitter"]


class UnknownEmitterError(WrapperIRError):
    """No installed package registers an emitter of that name."""

    code = "WIR2003"
    template = "there is no emitter '{emitter}'; installed emitters: {known}"


class DuplicateEmitterError(WrapperIRError):
    """Two packages register an emitter under one name."""

    code = "WIR2004"
    template = "emitter '{emitter}' is registered more than once: {values}"
    default_hint = "uninstall one of the packages that register it"


class NotAnEmitterError(WrapperIRError):
    """An object that was to be registered is not an emitter.

    Fields: the name of the ``emitter``, and the ``reason``.
    """

    code = "WIR2012"
    template = "'{emitter}' cannot be registered: {reason}"


class EmitterLoadError(WrapperIRError):
    """An entry point does not lead to an emitter.

    Fields: ``emitter``, the ``value`` of the entry point, its ``package``, and the ``reason``.
    """

    code = "WIR2005"
    template = "emitter '{emitter}' ({value}, of {package}) cannot be loaded: {reason}"
    default_hint = "the fault is in that package: install another version of it, or uninstall it"


_registered: Final[dict[str, type[Emitter]]] = {}


def register_emitter(name: str, emitter: type[Emitter]) -> None:
    """Register an emitter in this process, without an entry point.

    Raises:
        DuplicateEmitterError: The name is taken, here or by an installed package.
        NotAnEmitterError: The object is not a class that can be an emitter.
    """
    if reason := _problem(emitter):
        raise NotAnEmitterError(emitter=name, reason=reason)
    others = {point.value for point in plugins(EMITTERS, name)}
    if _registered.get(name, emitter) is not emitter:
        others.add(_described(_registered[name]))
    if others:
        values = ", ".join(sorted({*others, _described(emitter)}))
        raise DuplicateEmitterError(emitter=name, values=values)
    _registered[name] = emitter


def unregister_emitter(name: str) -> None:
    """Undo :func:`register_emitter`; do nothing if the name is not registered."""
    _registered.pop(name, None)


def _described(emitter: type[Emitter]) -> str:
    return f"{emitter.__module__}:{emitter.__qualname__}"


def emitter_names() -> tuple[str, ...]:
    """Return the names of all emitters, sorted, without importing any of them."""
    return tuple(sorted({*_registered, *(point.name for point in plugins(EMITTERS))}))


def emitter_class(name: str) -> type[Emitter]:
    """Return the emitter registered under a name.

    Raises:
        UnknownEmitterError: There is none.
        DuplicateEmitterError: There are several.
        EmitterLoadError: It cannot be imported, or is not an emitter.
    """
    given: object = name
    if not isinstance(given, str):
        hint = (
            "a target is an emitter's name; an emitter that is not registered is called directly: "
            "MyEmitter().emit(wir.plan_memory(program))"
        )
        listed = ", ".join(emitter_names()) or "none"
        name_of = getattr(given, "__name__", given)
        raise UnknownEmitterError(emitter=name_of, known=listed, hint=hint)
    if name in _registered:
        return _registered[name]
    points = plugins(EMITTERS, name)
    values = sorted({point.value for point in points})
    if not values:
        known = emitter_names()
        best = nearest(name, known)
        raise UnknownEmitterError(
            emitter=name,
            known=", ".join(known) or "none",
            hint=f"did you mean '{best}'?" if best else None,
        )
    if len(values) > 1:
        raise DuplicateEmitterError(emitter=name, values=", ".join(values))
    return _load(next(iter(points)))


def _load(point: EntryPoint) -> type[Emitter]:
    def fail(reason: str) -> EmitterLoadError:
        package = package_of(point)
        return EmitterLoadError(
            emitter=point.name, value=point.value, package=package, reason=reason
        )

    try:
        found: object = point.load()
    except (ImportError, AttributeError) as error:
        raise fail(str(error)) from error
    except Exception as error:  # importing third-party code may raise anything
        raise fail(f"{type(error).__name__}: {error}") from error
    if reason := _problem(found):
        raise fail(reason)
    return cast("type[Emitter]", found)


def _problem(found: object) -> str:
    """Return why an object is not an emitter; "" if it is one."""
    if not (isinstance(found, type) and issubclass(found, Emitter)):
        return "it is not a subclass of wrapper_ir.emitters.Emitter"
    if not hasattr(found, "__dataclass_fields__"):
        return "it is not a dataclass"
    if not found.name:
        return "it has no name"
    if inspect.isabstract(found):
        return "it lacks " + ", ".join(sorted(found.__abstractmethods__))
    return ""


def option_names(emitter: type[Emitter]) -> tuple[str, ...]:
    """Return the names of an emitter's options, in the order of its fields."""
    return tuple(option.name for option in options_of(emitter))


def make_emitter(name: str, options: Mapping[str, Any]) -> Emitter:
    """Return the emitter registered under a name, configured with options.

    Raises:
        UnknownEmitterError: There is no such emitter (and the other errors of
            :func:`emitter_class`).
        OptionError: It has no such option.
        OptionValueError: An option has a value that is not allowed.
        EmitterFaultError: The constructor of a third-party emitter failed.
    """
    cls = emitter_class(name)
    options = renamed(options_of(cls), options)
    check_values(options_of(cls), options, owner=f"emitter '{name}'")
    with faults_of(cls, "reading its options"):
        return cls(**options)
