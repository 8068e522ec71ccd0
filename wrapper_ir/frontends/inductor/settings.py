"""The options of a compilation through wrapper_ir, checked by name and by value."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from wrapper_ir.debug_printer.spec import LEVEL_NAMES, parse_level, settings_from_environment
from wrapper_ir.emitters.options import Option, check_values, options_of
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.errors import OptionValueError
from wrapper_ir.frontends.inductor.compat import inductor_config
from wrapper_ir.frontends.inductor.errors import UnsupportedConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BACKEND_OPTIONS", "MemoryStrategy", "OnUnsupported", "Settings", "with_cpp_wrapper"]

#: How memory is planned: see ``wrapper_ir.planning``.
MemoryStrategy = Literal["reuse", "pool", "none"]

#: What to do with a graph that has no typed form.
OnUnsupported = Literal["raise", "stock"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Options for the graphs that Inductor schedules.

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

    emitter: str = field(
        default="python",
        metadata={
            "help": "what renders the program: an installed emitter",
            "expected": "the name of an emitter",
        },
    )
    memory: MemoryStrategy | None = field(
        default=None,
        metadata={
            "help": "how storage is planned: freed storage is used again, or storages get places"
            " in arenas, or are only freed in time; where none is named, reuse, or pool for"
            " arenas that are kept",
        },
    )
    on_unsupported: OnUnsupported = field(
        default="raise",
        metadata={
            "help": "what becomes of a graph that cannot be compiled here: an error, or Inductor's"
            " own wrapper with a warning",
        },
    )
    emitter_options: tuple[tuple[str, Any], ...] = ()
    debug: str | int = field(
        default="off",
        metadata={"help": "what values the debug printer shows", "choices": LEVEL_NAMES},
    )
    debug_filter: str = field(
        default="*",
        metadata={
            "help": "pattern for the kernels and ops that it shows",
            "expected": "a pattern such as '*softmax*'",
        },
    )
    debug_poison: bool = field(
        default=False,
        metadata={"help": "fill new memory with NaN, so that reading it too early shows"},
    )

    def __post_init__(self) -> None:
        """Check every value of our own.

        Raises:
            OptionValueError: A value is not one of those that exist.
        """
        parse_level(self.debug)  # which knows more spellings than are listed
        for option in _OWN:
            if option.name != "debug":
                option.check(getattr(self, option.name))
        if not self.debug_filter:
            expected = "a pattern such as '*softmax*'"
            raise OptionValueError(option="debug_filter", value="", expected=expected)

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
        own = cls(**{each.name: given.pop(each.name) for each in _OWN if each.name in given})
        theirs = options_of(emitter_class(own.emitter))
        if inductor_config.cpp.enable_kernel_profile and any(o.name == "profile" for o in theirs):
            given.setdefault("profile", True)
        check_values((*BACKEND_OPTIONS, *theirs), given, owner="the backend 'wrapper_ir'")
        make_emitter(own.emitter, given)  # refuses what only the emitter can tell
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
        """Lifetime of arenas."""
        return str(dict(self.emitter_options).get("arena", "call"))


#: Options that are ours; all others are the emitter's.
_OWN: Final = tuple(each for each in options_of(Settings) if each.name != "emitter_options")

_CPP_WRAPPER: Final = Option(
    "cpp_wrapper",
    bool,
    default=None,
    help="Inductor's option: emit C++ (`emitter` is \"cpp\"); by default Inductor's setting",
)

#: All options of the backend itself, in the order of the documents.
BACKEND_OPTIONS: Final = (*_OWN, _CPP_WRAPPER)


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
    _CPP_WRAPPER.check(wanted)
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
