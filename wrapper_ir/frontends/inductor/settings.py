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
    changed_wrapper_settings,
    split_options,
    with_mode,
    with_underscores,
)
from wrapper_ir.options import declared as take
from wrapper_ir.options.process import pinned
from wrapper_ir.options.schema import NO_OPTION, check_values, options_of, renamed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Options for the graphs that Inductor schedules.

    Immutable and hashable: equal settings share compiled code, different ones never do.

    Attributes:
        emitter: Name of a registered emitter, such as ``python``; ``WRAPPER_IR_EMITTER`` sets the
            default.
        strategy: Strategy of the memory planner; the default is ``pool`` if arenas are kept between
            calls (the emitters' option ``arena``), otherwise ``reuse``.
        on_unsupported: ``raise``, or ``stock``: Inductor's own wrapper, with a warning, for a graph
            that fails to compile; a compiled graph that fails in a call raises.
            ``WRAPPER_IR_ON_UNSUPPORTED`` sets the default.
        build: With an emitter whose artifacts take long to build (``cpp``): ``background``, or
            ``wait``: the first call waits for the library. ``WRAPPER_IR_BUILD`` sets the default.
        emitter_options: Options of the emitter itself, as sorted pairs.
        inductor: Options that are passed on to Inductor, as sorted pairs.
        debug: Level of the debug printer: a name, or Inductor's number for it.
            ``WRAPPER_IR_DEBUG`` sets the default.
        debug_filter: Pattern for the kernels that it shows; ``WRAPPER_IR_DEBUG_FILTER`` sets the
            default.
        debug_poison: Whether to fill new memory with NaN, which exposes reads before writes;
            ``WRAPPER_IR_DEBUG_POISON`` sets the default.
    """

    emitter: str = take.EMITTER.field()
    strategy: str | None = take.STRATEGY.field()
    on_unsupported: str = take.ON_UNSUPPORTED.field()
    build: str = take.BUILD.field()
    debug: str | int = take.DEBUG.field()
    debug_filter: str = take.DEBUG_FILTER.field()
    debug_poison: bool = take.DEBUG_POISON.field()
    emitter_options: tuple[tuple[str, Any], ...] = field(default=(), metadata=NO_OPTION)
    # Left out of hash and repr, because Inductor's own cache keys contain these.
    inductor: tuple[tuple[str, Any], ...] = field(
        default=(), repr=False, hash=False, metadata=NO_OPTION
    )

    def __post_init__(self) -> None:
        """Check every value of our own."""
        for option in _OWN:
            option.check(getattr(self, option.name))

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> Settings:
        """Make settings from the options that a user passed, ours and the emitter's in one mapping.

        Raises:
            OptionError: There is no option of that name.
            OptionValueError: The option exists, but not with that value.
            UnknownEmitterError: No such emitter is installed.
        """
        values: dict[str, Any] = {
            each.name: each.from_environment() for each in _OWN if each.variable
        }
        values |= with_mode(with_underscores(options))
        emitter = values["emitter"]
        take.EMITTER.check(emitter)
        emitter_options = options_of(emitter_class(emitter))
        known = (*BACKEND_OPTIONS, *emitter_options)
        values = renamed(known, values)
        names = [option.name for option in known]
        values, inductor = split_options(values, names, emitter)
        settings = cls(**{each.name: values.pop(each.name) for each in _OWN if each.name in values})
        for name in _asked_for(inductor):
            if name in names:
                values.setdefault(name, True)
        check_values(known, values, owner="the backend 'wrapper_ir'")
        make_emitter(emitter, values)  # refuses values that only the emitter can check
        _check_plain(values)
        if settings.strategy is not None:
            take.ARENA.check_beside(values.get("arena"), {"strategy": settings.strategy})
        if values.get("out"):
            expected = "False: functions of torch.compile take no out="
            raise OptionValueError(option="out", value=True, expected=expected)
        pairs = tuple(sorted(values.items()))
        return replace(settings, emitter_options=pairs, inductor=tuple(sorted(inductor.items())))

    def with_inductors(self) -> Settings:
        """Return these settings with what Inductor's settings say about the wrapper.

        Our own settings take precedence. A setting without meaning here is logged once.
        """
        strategy = self.strategy
        for name, value, fate in changed_wrapper_settings():
            if MAPPED.get(name, ("",))[0] == take.STRATEGY.name and self.arena == "call":
                strategy = strategy or MAPPED[name][1].get(value)
            elif fate.way == "refused":
                _tell(f"torch._inductor.config.{name} = {value!r} has no effect: {fate.instead}")
        return replace(self, strategy=strategy)

    @property
    def arena(self) -> str:
        """Lifetime of arenas."""
        return str(dict(self.emitter_options).get("arena", "call"))


#: Logs a warning once.
_tell: Final = functools.cache(logging.getLogger("wrapper_ir.inductor").warning)

#: Our own options; all others are the emitter's.
_OWN: Final = options_of(Settings)

#: All options of the backend itself, in the order of the documentation.
BACKEND_OPTIONS: Final = (*_OWN, take.MODE, take.CPP_WRAPPER)


def _asked_for(passed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the emitter options that Inductor's settings, or the options passed to it, turn on."""

    def said(name: str) -> bool:
        return bool(passed.get(name, getattr(inductor_config, name, False)))

    is_shown = said("trace.provenance_tracking_to_timeline")
    if is_shown or said("cpp.enable_kernel_profile"):
        yield take.PROFILE.name
    if is_shown or said("trace.provenance_tracking_level"):
        yield take.ORIGINS.name


def with_cpp_wrapper(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options with Inductor's ``cpp_wrapper`` turned into the choice of the C++ emitter.

    It may be an option here, or else Inductor's setting.

    Raises:
        OptionValueError: It is not a boolean, or another emitter is chosen as well.
        UnsupportedConfigError: Inductor's setting is on, and another emitter is chosen.
    """
    values = with_underscores(options)
    is_set = "cpp_wrapper" in values
    cpp_wrapper: object = values.pop("cpp_wrapper", bool(inductor_config.cpp_wrapper))
    take.CPP_WRAPPER.check(cpp_wrapper)
    if not cpp_wrapper or values.setdefault("emitter", take.CPP_EMITTER) == take.CPP_EMITTER:
        return values
    if is_set:
        take.CPP_WRAPPER.check_beside(cpp_wrapper, values)
    raise UnsupportedConfigError(setting="cpp_wrapper")


def _check_plain(options: Mapping[str, Any]) -> None:
    """Refuse values without a literal: caches store options as text that is parsed again."""
    for option, value in options.items():
        try:
            is_plain = ast.literal_eval(repr(value)) == value
        except (SyntaxError, ValueError):
            is_plain = False
        if not is_plain:
            expected = "a plain value: strings, finite numbers and booleans"
            raise OptionValueError(option=option, value=value, expected=expected)


def pinned_settings() -> dict[str, Any]:
    """Return Inductor's settings for the machine that this context pins, if it pins one."""
    machine = pinned.get()
    return {} if machine is None else {"cpp.simdlen": machine.bits, "cpp.threads": machine.threads}
