"""The options of a compilation through wrapper_ir, checked by name and by value."""

from __future__ import annotations

import ast
import contextlib
import contextvars
import functools
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Final, NamedTuple, NoReturn

from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.errors import OptionError, OptionValueError, nearest
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.devices import ABOUT_GRAPHS, CAPTURES
from wrapper_ir.frontends.inductor.errors import UnsupportedConfigError
from wrapper_ir.options import declared as take
from wrapper_ir.options.process import pinned
from wrapper_ir.options.schema import NO_OPTION, Option, check_values, options_of, renamed


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
        on_breach: ``raise``, or ``warn``, for a program that does to its caller's memory what its
            graph does not, and would in Inductor's own wrapper. ``WRAPPER_IR_ON_BREACH`` sets the
            default.
        validate: ``off``, ``warn`` or ``error``: what to do with a program that does something
            else than its graph, as :func:`validate` finds.
            ``WRAPPER_IR_VALIDATE`` sets the default.
        verify_ranks: ``off``, ``warn`` or ``error``: what to do with programs of several ranks that
            do not fit together, as :func:`verify_ranks` finds. ``WRAPPER_IR_VERIFY_RANKS`` sets
            the default.
        verify_ranks_seconds: How long a rank waits for what the others call.
            ``WRAPPER_IR_VERIFY_RANKS_SECONDS`` sets the default.
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
    on_breach: str = take.ON_BREACH.field()
    validate: str = take.VALIDATE.field()
    verify_ranks: str = take.VERIFY_RANKS.field()
    verify_ranks_seconds: int = take.VERIFY_RANKS_SECONDS.field()
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
        return bool(passed.get(name, getattr(compat.inductor_config, name, False)))

    is_shown = said("trace.provenance_tracking_to_timeline")
    if is_shown or said("cpp.enable_kernel_profile"):
        yield take.PROFILE.name
    if is_shown or said("trace.provenance_tracking_level"):
        yield take.ORIGINS.name


def with_cpp_wrapper(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options with Inductor's ``cpp_wrapper`` turned into the choice of the C++ emitter.

    It may be an option here, or else Inductor's setting; no other emitter may be chosen as well.
    """
    values = with_underscores(options)
    is_set = "cpp_wrapper" in values
    cpp_wrapper: object = values.pop("cpp_wrapper", bool(compat.inductor_config.cpp_wrapper))
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


# Inductor's settings for C++ kernels that the toolchain does not know.
#
# The toolchain's own flags are Inductor's defaults, so a kernel stores only deviations from them,
# and the instruction set that its text was written for. It stores no paths: a program is the same
# text on every machine with that instruction set.


#: Bits of a vector, by level of the target processors. Without vectors, a width that no instruction
#: set has keeps Inductor from vectorising.
_WIDTHS: Final = {"x86-64-v2": 1, "x86-64-v3": 256, "x86-64-v4": 512}

_LEVEL: contextvars.ContextVar[str] = contextvars.ContextVar("_LEVEL", default="")


@contextlib.contextmanager
def compiling_for(isa: str) -> Iterator[None]:
    """Make Inductor write kernels for ``native``, or a level of the x86-64 psABI, in the block."""
    take.ISA.check(isa)
    width = {"cpp.simdlen": _WIDTHS[isa]} if isa in _WIDTHS else {}
    token = _LEVEL.set(isa if width else "")
    try:
        with compat.inductor_config.patch({**pinned_settings(), **width}):
            yield
    finally:
        _LEVEL.reset(token)


def kernel_flags() -> tuple[str, tuple[str, ...]]:
    """Return the name of the instruction set, and the flags that follow the toolchain's own."""
    cpp = compat.inductor_config.cpp
    flags = []
    if cpp.enable_unsafe_math_opt_flag:
        flags.append("-funsafe-math-optimizations")
    contract = cpp.enable_floating_point_contract_flag
    if contract and contract != "off":
        flags.append(f"-ffp-contract={contract}")
    level = _LEVEL.get()
    if level:
        return level, tuple(flags)
    if compat.processor():
        flags.append(f"-march={compat.processor()}")
    return str(compat.pick_vec_isa()), tuple(flags)


# Modes of torch.compile and options of Inductor: passed on, mapped to ours, or refused.
#
# Options that affect scheduling and kernels are passed on to Inductor for the compilation. Options
# that affect the wrapper are ours to handle: each is mapped to an option of ours, or refused with
# what to use instead.


#: Inductor's options that affect the wrapper -> an option of ours, and its values.
MAPPED: Final[Mapping[str, tuple[str, Mapping[bool, Any]]]] = {
    CAPTURES[0]: (CAPTURES[1], {True: True, False: False}),
    "allow_buffer_reuse": ("strategy", {False: "none"}),
    "memory_planning": ("strategy", {True: "pool"}),
    "cpp.enable_kernel_profile": ("profile", {True: True, False: False}),
}

#: Prefix of the names of options for libraries.
_LIBRARIES: Final = "aot_inductor"
_ABOUT_LIBRARIES: Final = "AOTI_"

#: The same for libraries. The options are build options, or the debug printer's; None leaves them
#: as they are.
LIBRARY_MAPPED: Final[Mapping[str, tuple[str, Mapping[Any, Any]]]] = {
    "aot_inductor.force_mmap_weights": ("constants", {True: "beside", False: "auto"}),
    "aot_inductor.package_constants_in_so": ("constants", {True: "auto", False: "none"}),
    "aot_inductor.package_constants_on_disk_format": (
        *("constants", {None: "auto", "binary_blob": "beside", "pickle_weights": None}),
    ),
    "aot_inductor.debug_intermediate_value_printer": ("debug", {level: level for level in "0123"}),
}

_FORMAT: Final = "package_constants_on_disk_format"
_NAME: Final = "model_name_for_generated_files"

_EXPORT: Final = "wir.capture and wir.export build libraries, and have options of their own"

_UNKNOWN: Final = "its effect here is not known; torch._inductor.config takes it"


class Fate(NamedTuple):
    """Treatment of one of Inductor's options.

    Its ``way`` is ``passed`` on, ``mapped``, or ``refused``; or, for options of libraries made
    ahead of time, ``library passed``, ``library mapped``, or ``library taken``.
    """

    way: str
    instead: str = ""  #: what to use instead of a refused option


@functools.cache
def fates() -> Mapping[str, Fate]:
    """Return the treatment of each option that some supported release of torch has, by name."""
    file = files("wrapper_ir.frontends.inductor").joinpath("inductor_options.txt")
    table: dict[str, Fate] = {}
    fate = Fate("")
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            table[line.strip()] = fate
        elif line and not line.startswith("#"):
            way, _, instead = line.partition(": ")
            fate = Fate(way, instead)
    return table


class Delivery(NamedTuple):
    """Request for a library."""

    target: str  #: the library, or the folder to write to; empty for Inductor's cache
    is_package: bool  #: whether to return the files of a package, not only the library
    with_values: bool  #: whether to add the values of constants, for torch to pack
    name: str  #: that the files begin with; empty for ours
    checks_lower: bool  #: whether calls check the lower bounds of dynamic sizes
    checks_upper: bool
    in_spec: str  #: the tree of arguments, as text
    out_spec: str
    metadata: Mapping[str, str]  #: of the package
    build: Mapping[str, Any]  #: options of ``BuildOptions``
    inductor: Mapping[str, Any]  #: options that are passed on to Inductor
    folds: bool  #: whether what depends on constants alone is computed when they are loaded


def delivery_of(options: Mapping[str, Any]) -> tuple[Delivery, dict[str, Any]]:
    """Return the request that options and Inductor's settings describe, and the other options."""
    remaining = with_underscores(options)
    remaining.pop("cpp_wrapper", None)
    config: Any = compat.inductor_config
    settings: dict[str, Any] = {}
    for name in sorted(set(fates()) & set(config._config)):
        if name.startswith(_LIBRARIES):
            settings[name] = remaining.pop(name, getattr(config, name))
    build: dict[str, Any] = {}
    for name, value in settings.items():
        fate = fates()[name]
        if name in LIBRARY_MAPPED:
            option, values = LIBRARY_MAPPED[name]
            if value not in values:
                expected = f"one of {', '.join(map(repr, values))}"
                raise OptionValueError(option=name, value=value, expected=expected)
            if value != config._config[name].default and values[value] is not None:
                (build if option == "constants" else remaining)[option] = values[value]
        elif fate.way == "refused" and value != config._config[name].default:
            _refuse(name, value, fate.instead)
    inductor = {name: settings[name] for name in settings if fates()[name].way == "library passed"}
    fields = {name.rpartition(".")[2]: value for name, value in settings.items()}
    specs = fields["serialized_in_spec"], fields["serialized_out_spec"]
    metadata = fields["metadata"]
    if isinstance(metadata, Mapping):
        # Inductor writes facts about its own libraries into this dict, and into the setting's.
        metadata = {k: v for k, v in metadata.items() if not str(k).startswith(_ABOUT_LIBRARIES)}
    files = fields["output_path"], fields["package"], fields[_FORMAT] == "pickle_weights"
    name = fields.get(_NAME) or ""
    if name and re.fullmatch(r"\w+", name, re.ASCII) is None:  # torch describes it so
        expected = "letters, digits and underscores"
        raise OptionValueError(option=f"{_LIBRARIES}.{_NAME}", value=name, expected=expected)
    # 2.11 to 2.14 lack some of these.
    checks = fields.get("check_lowerbound", True), fields.get("check_upperbound", True)
    folds = bool(fields["use_runtime_constant_folding"])
    return Delivery(*files, name, *checks, *specs, metadata, build, inductor, folds), remaining


def changed_wrapper_settings() -> Iterator[tuple[str, Any, Fate]]:
    """Yield Inductor's settings that affect the wrapper and differ from their defaults.

    Settings for libraries are left out, and so are those for CUDA graphs: without an option of ours
    Inductor captures calls itself, even around our functions.
    """
    config: Any = compat.inductor_config
    for name, fate in fates().items():
        entry = config._config.get(name)
        is_elsewhere = name.startswith(_LIBRARIES) or ABOUT_GRAPHS in name or "_wrapper" in name
        if entry is None or fate.way not in ("mapped", "refused") or is_elsewhere:
            continue
        if (value := getattr(config, name)) != entry.default:
            yield name, value, fate


def with_mode(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with a mode replaced by Inductor's options for it.

    Options given next to the mode take precedence.
    """
    explicit = dict(options)
    mode = explicit.pop("mode", take.MODE.default)
    take.MODE.check(mode)
    modes: Mapping[str, Mapping[str, Any]] = compat.list_mode_options()
    if mode not in modes:  # 2.11 lacks one
        expected = f"one of {', '.join(map(repr, modes))}"
        raise OptionValueError(option="mode", value=mode, expected=expected)
    return {**modes[mode], **explicit}


def with_underscores(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with underscores in their names, since torch accepts dashes too."""
    return {str(name).replace("-", "_"): value for name, value in (options or {}).items()}


def split_options(
    options: Mapping[str, Any], ours: Collection[str], emitter: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into ours, with the mapped ones, and those to pass on to Inductor.

    Raises:
        OptionError: Neither we nor Inductor have an option of that name.
        OptionValueError: A value has another type than Inductor's, or has no meaning here.
    """
    config: Any = compat.inductor_config
    known = config._config  # aliases among them, which a copy leaves out
    kept: dict[str, Any] = {name: value for name, value in options.items() if name in ours}
    passed: dict[str, Any] = {}
    for name, value in options.items():
        if name in ours:
            continue
        if name not in known:
            close = None if nearest(name, ours) else nearest(name, list(known))
            hint = None if close is None else f"did you mean Inductor's {close!r}?"
            raise OptionError(option=name, legal=ours, owner="the backend 'wrapper_ir'", hint=hint)
        current = getattr(config, name)
        Option(name, config.get_type(name), current).check(value)
        if name in MAPPED:
            _map(kept, name, value, ours, emitter)
            continue
        fate = fates().get(name, Fate("refused", _UNKNOWN))
        if value != current and fate.way != "passed":
            _refuse(name, value, _EXPORT if name.startswith(_LIBRARIES) else fate.instead)
        passed[name] = value
    return kept, passed


def _map(kept: dict[str, Any], name: str, value: Any, ours: Collection[str], emitter: str) -> None:
    """Set our option for one of Inductor's unless it is set; refuse one that the emitter lacks."""
    option, values = MAPPED[name]
    if option in ours and value in values:
        kept.setdefault(option, values[value])
    elif value and value in values:
        expected = f"False with the emitter {emitter!r}, which has no option {option!r}"
        raise OptionValueError(option=name, value=True, expected=expected)


def _refuse(name: str, value: object, instead: str) -> NoReturn:
    raise OptionValueError(option=name, value=value, expected=f"the option left out: {instead}")
