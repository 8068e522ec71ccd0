"""The options of a compilation through wrapper_ir, checked by name and by value."""

from __future__ import annotations

import ast
import functools
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.errors import OptionValueError
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.frontends.inductor.errors import UnsupportedConfigError
from wrapper_ir.frontends.inductor.inductor_options import (
    MAPPED,
    set_about_wrapper,
    spelled,
    with_mode,
    without_inductors,
)
from wrapper_ir.options import declared as take
from wrapper_ir.options.schema import NO_OPTION, check_values, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Options for the graphs that Inductor schedules.

    Immutable and hashable: equal settings share compiled code, different ones never do.

    Attributes:
        emitter: Name of an emitter of the registry, such as ``python``; ``WRAPPER_IR_EMITTER``
            gives the default.
        memory: How storage is planned; by default ``pool`` where arenas are kept from call to call
            (the emitters' option ``arena``), ``reuse`` otherwise.
        on_unsupported: ``raise``, or ``stock``: Inductor's own wrapper, with a warning, for a graph
            that fails while it is compiled; a compiled graph that fails in a call raises.
            ``WRAPPER_IR_ON_UNSUPPORTED`` gives the default.
        emitter_options: Options of the emitter itself, as sorted pairs.
        inductor: Options that are passed on to Inductor, as sorted pairs.
        debug: Level of the debug printer: a name, or Inductor's number for it. The environment
            variable ``WRAPPER_IR_DEBUG`` gives the default.
        debug_filter: Pattern for the kernels that it shows; ``WRAPPER_IR_DEBUG_FILTER`` gives the
            default.
        debug_poison: Whether new memory is filled with NaN, so that reading it too early shows;
            ``WRAPPER_IR_DEBUG_POISON`` gives the default.
    """

    emitter: str = take.EMITTER.field()
    memory: str | None = take.MEMORY.field()
    on_unsupported: str = take.ON_UNSUPPORTED.field()
    debug: str | int = take.DEBUG.field()
    debug_filter: str = take.DEBUG_FILTER.field()
    debug_poison: bool = take.DEBUG_POISON.field()
    emitter_options: tuple[tuple[str, Any], ...] = field(default=(), metadata=NO_OPTION)
    # Inductor's own cache keys have these.
    inductor: tuple[tuple[str, Any], ...] = field(
        default=(), repr=False, hash=False, metadata=NO_OPTION
    )

    def __post_init__(self) -> None:
        """Check every value of our own.

        Raises:
            OptionValueError: A value is not one of those that exist.
        """
        for option in _OWN:
            option.check(getattr(self, option.name))

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> Settings:
        """Make settings of the options that a user gave: ours and the emitter's, in one.

        Raises:
            OptionError: There is no option of that name.
            OptionValueError: There is, but not with that value.
            UnknownEmitterError: No such emitter is installed.
        """
        given: dict[str, Any] = {
            each.name: each.from_environment() for each in _OWN if each.variable
        }
        given |= with_mode(spelled(options))
        emitter = given["emitter"]
        take.EMITTER.check(emitter)
        theirs = options_of(emitter_class(emitter))
        names = [option.name for option in (*BACKEND_OPTIONS, *theirs)]
        given, passed = without_inductors(given, names, emitter)
        own = cls(**{each.name: given.pop(each.name) for each in _OWN if each.name in given})
        for name in _asked_for(passed):
            if name in names:
                given.setdefault(name, True)
        check_values((*BACKEND_OPTIONS, *theirs), given, owner="the backend 'wrapper_ir'")
        make_emitter(emitter, given)  # refuses what only the emitter can tell
        _check_plain(given)
        if own.memory is not None:
            take.ARENA.check_beside(given.get("arena"), {"memory": own.memory})
        if given.get("out"):
            expected = "False: functions of torch.compile take no out="
            raise OptionValueError(option="out", value=True, expected=expected)
        pairs = tuple(sorted(given.items()))
        return replace(own, emitter_options=pairs, inductor=tuple(sorted(passed.items())))

    def with_inductors(self) -> Settings:
        """Return these settings with what Inductor's say of the wrapper in this compilation.

        What is said here counts more. Of what has no meaning here the log tells, once.
        """
        memory = self.memory
        for name, value, fate in set_about_wrapper():
            if MAPPED.get(name, ("",))[0] == take.MEMORY.name and self.arena == "call":
                memory = memory or MAPPED[name][1].get(value)
            elif fate.way == "refused":
                _tell(f"torch._inductor.config.{name} = {value!r} changes nothing: {fate.instead}")
        return replace(self, memory=memory)

    @property
    def arena(self) -> str:
        """Lifetime of arenas."""
        return str(dict(self.emitter_options).get("arena", "call"))


_logger: Final = logging.getLogger("wrapper_ir.inductor")


@functools.cache
def _tell(text: str) -> None:
    _logger.warning(text)


#: Options that are ours; all others are the emitter's.
_OWN: Final = options_of(Settings)

#: All options of the backend itself, in the order of the documents.
BACKEND_OPTIONS: Final = (*_OWN, take.MODE, take.CPP_WRAPPER)


def _asked_for(passed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of emitters that Inductor's settings turn on.

    Args:
        passed: Options of Inductor's that count more than its settings.
    """

    def said(name: str) -> bool:
        return bool(passed.get(name, getattr(inductor_config, name, False)))

    is_shown = said("trace.provenance_tracking_to_timeline")
    if is_shown or said("cpp.enable_kernel_profile"):
        yield take.PROFILE.name
    if is_shown or said("trace.provenance_tracking_level"):
        yield take.ORIGINS.name


def with_cpp_wrapper(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options in which Inductor's ``cpp_wrapper`` is the choice of the emitter for C++.

    It is an option here, or else Inductor's setting.

    Raises:
        OptionValueError: It is no truth value, or another emitter is chosen as well.
        UnsupportedConfigError: Inductor's setting is on, and another emitter is chosen.
    """
    given = spelled(options)
    is_set = "cpp_wrapper" in given
    wanted: object = given.pop("cpp_wrapper", bool(inductor_config.cpp_wrapper))
    take.CPP_WRAPPER.check(wanted)
    if not wanted or given.setdefault("emitter", "cpp") == "cpp":
        return given
    if is_set:
        take.CPP_WRAPPER.check_beside(wanted, given)
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
