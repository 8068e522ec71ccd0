"""The options of a compilation through wrapper_ir, checked by name and by value."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from wrapper_ir.debug_printer import parse_level, settings_from_environment
from wrapper_ir.emitters.registry import emitter_class, make_emitter, option_names
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.frontends.inductor.errors import UnsupportedConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MemoryStrategy", "OnUnsupported", "Settings", "with_cpp_wrapper"]

#: How memory is planned: see ``wrapper_ir.planning``.
MemoryStrategy = Literal["reuse", "pool", "none"]

#: What to do with a graph that has no typed form.
OnUnsupported = Literal["raise", "stock"]

#: Options that are ours; all others are the emitter's.
_OWN: Final = ("emitter", "memory", "on_unsupported", "debug", "debug_filter", "debug_poison")


@dataclass(frozen=True, slots=True)
class Settings:
    """What to make of the graphs that Inductor schedules.

    Immutable and hashable: equal settings share compiled code, different ones never do.

    Attributes:
        emitter: Name of an emitter of the registry, such as ``python``.
        memory: How storage is planned; by default ``pool`` where arenas are kept from call to call
            (the emitters' option ``arena``), ``reuse`` otherwise.
        on_unsupported: ``raise``, or ``stock``: Inductor's own wrapper, with a warning, for a graph
            that fails while it is compiled; a compiled graph that fails in a call raises.
        emitter_options: Options of the emitter itself, as sorted pairs.
        debug: Level of the debug printer: a name, or Inductor's number for it. The environment
            variable ``WRAPPER_IR_DEBUG`` gives the default.
        debug_filter: Pattern for the kernels that it shows; ``WRAPPER_IR_DEBUG_FILTER`` gives the
            default.
        debug_poison: Whether new memory is filled with NaN, so that reading it too early shows;
            ``WRAPPER_IR_DEBUG_POISON`` gives the default.
    """

    emitter: str = "python"
    memory: MemoryStrategy | None = None
    on_unsupported: OnUnsupported = "raise"
    emitter_options: tuple[tuple[str, Any], ...] = ()
    debug: str | int = "off"
    debug_filter: str = "*"
    debug_poison: bool = False

    def __post_init__(self) -> None:
        """Check every value of our own.

        Raises:
            OptionValueError: A value is not one of those that exist.
        """
        emitter: object = self.emitter
        if not isinstance(emitter, str):
            expected = "the name of an emitter"
            raise OptionValueError(option="emitter", value=emitter, expected=expected)
        if self.memory is not None:
            _check_choice("memory", self.memory, get_args(MemoryStrategy))
        _check_choice("on_unsupported", self.on_unsupported, get_args(OnUnsupported))
        parse_level(self.debug)
        pattern: object = self.debug_filter
        if not isinstance(pattern, str) or not pattern:
            expected = "a pattern such as '*softmax*'"
            raise OptionValueError(option="debug_filter", value=pattern, expected=expected)
        poison: object = self.debug_poison
        if not isinstance(poison, bool):
            raise OptionValueError(option="debug_poison", value=poison, expected="True or False")

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> Settings:
        """Make settings of the options that a user gave: ours and the emitter's, in one.

        Raises:
            OptionError: There is no option of that name.
            OptionValueError: There is, but not with that value.
            UnknownEmitterError: No such emitter is installed.
        """
        given = dict(options or {})
        level, pattern, poison = settings_from_environment()
        given = {"debug": level, "debug_filter": pattern, "debug_poison": poison, **given}
        own = cls(**{name: given.pop(name) for name in _OWN if name in given})
        theirs = option_names(emitter_class(own.emitter))
        if inductor_config.cpp.enable_kernel_profile and "profile" in theirs:
            given.setdefault("profile", True)
        for name in given:
            if name not in theirs:
                raise OptionError(
                    option=name, legal=(*_OWN, *theirs), owner="the backend 'wrapper_ir'"
                )
        make_emitter(own.emitter, given)  # refuses illegal values
        _check_plain(given)
        if given.get("arena") == "kept" and own.memory not in (None, "pool"):
            expected = "'pool' where arenas are kept"
            raise OptionValueError(option="memory", value=own.memory, expected=expected)
        if given.get("out"):
            expected = "False: functions of torch.compile take no out="
            raise OptionValueError(option="out", value=True, expected=expected)
        return replace(own, emitter_options=tuple(sorted(given.items())))

    @property
    def arena(self) -> str:
        """How long arenas last."""
        return str(dict(self.emitter_options).get("arena", "call"))


def with_cpp_wrapper(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options in which Inductor's ``cpp_wrapper`` is the choice of the emitter for C++.

    It is an option here, or else Inductor's setting.

    Raises:
        OptionValueError: It is no truth value, or another emitter is chosen as well.
        UnsupportedConfigError: Inductor's setting is on, and another emitter is chosen.
    """
    given = dict(options or {})
    is_set = "cpp_wrapper" in given
    wanted: object = given.pop("cpp_wrapper", bool(inductor_config.cpp_wrapper))
    if not isinstance(wanted, bool):
        raise OptionValueError(option="cpp_wrapper", value=wanted, expected="True or False")
    if not wanted or given.setdefault("emitter", "cpp") == "cpp":
        return given
    if is_set:
        expected = f"False with the emitter {given['emitter']!r}"
        raise OptionValueError(option="cpp_wrapper", value=True, expected=expected)
    raise UnsupportedConfigError(setting="cpp_wrapper")


def _check_plain(options: Mapping[str, Any]) -> None:
    """Refuse values that no text stands for: in caches, options are text that is read again."""
    for option, value in options.items():
        try:
            is_plain = ast.literal_eval(repr(value)) == value
        except (SyntaxError, ValueError):
            is_plain = False
        if not is_plain:
            expected = "a plain value, of strings, finite numbers and truth values"
            raise OptionValueError(option=option, value=value, expected=expected)


def _check_choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        expected = "one of " + ", ".join(map(repr, choices))
        raise OptionValueError(option=option, value=value, expected=expected)
