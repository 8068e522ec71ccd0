"""Modes of torch.compile and options of Inductor: passed on, mapped to ours, or refused.

What decides about scheduling and kernels is passed on to Inductor for the compilation. What decides
about the wrapper is ours: it is mapped to an option of ours, or refused with what to say instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from wrapper_ir.errors import OptionError, OptionValueError, nearest
from wrapper_ir.frontends.inductor.compat import inductor_config, list_mode_options
from wrapper_ir.frontends.inductor.cuda import CAPTURES
from wrapper_ir.options.declared import MODE
from wrapper_ir.options.schema import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = [
    "LIBRARY_MAPPED",
    "MAPPED",
    "Delivery",
    "Fate",
    "delivery_of",
    "fates",
    "set_about_wrapper",
    "spelled",
    "with_mode",
    "without_inductors",
]

#: Options of Inductor's that decide about the wrapper -> an option of ours, and its values there.
MAPPED: Final[Mapping[str, tuple[str, Mapping[bool, Any]]]] = {
    CAPTURES[0]: (CAPTURES[1], {True: True, False: False}),
    "allow_buffer_reuse": ("memory", {False: "none"}),
    "memory_planning": ("memory", {True: "pool"}),
    "cpp.enable_kernel_profile": ("profile", {True: True, False: False}),
}

#: The beginning of the names of options for libraries.
_LIBRARIES: Final = "aot_inductor"
_ABOUT_LIBRARIES: Final = "AOTI_"

#: The same of those for libraries. The options say how to build, or are the debug printer's; None
#: leaves them as they are.
LIBRARY_MAPPED: Final[Mapping[str, tuple[str, Mapping[Any, Any]]]] = {
    "aot_inductor.force_mmap_weights": ("constants", {True: "beside", False: "auto"}),
    "aot_inductor.package_constants_in_so": ("constants", {True: "auto", False: "none"}),
    "aot_inductor.package_constants_on_disk_format": (
        *("constants", {None: "auto", "binary_blob": "beside", "pickle_weights": None}),
    ),
    "aot_inductor.debug_intermediate_value_printer": (
        *("debug", {level: level for level in "0123"}),
    ),
}

_FORMAT: Final = "package_constants_on_disk_format"

_EXPORT: Final = "wir.capture and wir.export build libraries, and have options of their own"

_UNKNOWN: Final = "nobody has said what it decides here; torch._inductor.config takes it"


class Fate(NamedTuple):
    """The treatment of an option of Inductor's.

    Attributes:
        way: ``passed`` on, ``mapped``, ``refused``; or, for those that say how a library is made
            ahead of time, ``library passed``, ``library mapped``, ``library taken``.
        instead: Of one that is refused, what to say instead.
    """

    way: str
    instead: str = ""


@functools.cache
def fates() -> Mapping[str, Fate]:
    """Return the treatment of each option that some supported release of torch has, by name."""
    file = files("wrapper_ir.frontends.inductor").joinpath("inductor_options.txt")
    found: dict[str, Fate] = {}
    fate = Fate("")
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            found[line.strip()] = fate
        elif line and not line.startswith("#"):
            way, _, instead = line.partition(": ")
            fate = Fate(way, instead)
    return found


class Delivery(NamedTuple):
    """The wishes of a caller who wants a library.

    Attributes:
        target: The library, or the folder for what is made; empty for Inductor's cache.
        is_package: Whether the files of a package are wanted, not the library alone.
        with_values: Whether values of constants are wanted beside these, for torch to pack.
        in_spec: The tree of arguments, as text.
        out_spec: The tree of results, as text.
        metadata: What a package is to say of itself.
        build: Options of ``BuildOptions``.
        inductor: Options that are passed on to Inductor.
    """

    target: str
    is_package: bool
    with_values: bool
    in_spec: str
    out_spec: str
    metadata: Mapping[str, str]
    build: Mapping[str, Any]
    inductor: Mapping[str, Any]


def delivery_of(options: Mapping[str, Any]) -> tuple[Delivery, dict[str, Any]]:
    """Return what options and Inductor's settings say of a library, and the other options.

    Raises:
        OptionValueError: Something is asked for that libraries of ours do not have.
    """
    left = {name: value for name, value in spelled(options).items() if name != "cpp_wrapper"}
    config: Any = inductor_config
    said: dict[str, Any] = {}
    for name in sorted(set(fates()) & set(config._config)):
        if name.startswith(_LIBRARIES):
            said[name] = left.pop(name, getattr(config, name))
    build: dict[str, Any] = {}
    for name, value in said.items():
        fate = fates()[name]
        if name in LIBRARY_MAPPED:
            option, values = LIBRARY_MAPPED[name]
            if value not in values:
                expected = f"one of {', '.join(map(repr, values))}"
                raise OptionValueError(option=name, value=value, expected=expected)
            if value != config._config[name].default and values[value] is not None:
                (build if option == "constants" else left)[option] = values[value]
        elif fate.way == "refused" and value != config._config[name].default:
            _refuse(name, value, fate.instead)
    passed = {name: said[name] for name in said if fates()[name].way == "library passed"}
    taken = {name.rpartition(".")[2]: value for name, value in said.items()}
    specs = taken["serialized_in_spec"], taken["serialized_out_spec"]
    about = taken["metadata"]
    if isinstance(about, Mapping):
        # Inductor writes what it says of its own libraries into this dict, and into the setting's.
        about = {k: v for k, v in about.items() if not str(k).startswith(_ABOUT_LIBRARIES)}
    files = taken["output_path"], taken["package"], taken[_FORMAT] == "pickle_weights"
    return Delivery(*files, *specs, about, build, passed), left


def set_about_wrapper() -> Iterator[tuple[str, Any, Fate]]:
    """Yield Inductor's settings that decide about the wrapper and differ from their defaults.

    Those for libraries are not among them, nor those for CUDA graphs: where calls are captured
    without an option of ours, Inductor does it, around functions of ours, too.
    """
    config: Any = inductor_config
    for name, fate in fates().items():
        known = config._config.get(name)
        is_elsewhere = name.startswith(_LIBRARIES) or "cudagraph" in name or "_wrapper" in name
        if known is None or fate.way not in ("mapped", "refused") or is_elsewhere:
            continue
        if (value := getattr(config, name)) != known.default:
            yield name, value, fate


def with_mode(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which a mode is replaced by Inductor's options for it.

    What is said besides the mode counts more.

    Raises:
        OptionValueError: This release of torch has no such mode.
    """
    given = dict(options)
    mode = given.pop("mode", MODE.default)
    MODE.check(mode)
    known: Mapping[str, Mapping[str, Any]] = list_mode_options()
    if mode not in known:  # 2.11 lacks one
        expected = f"one of {', '.join(map(repr, known))}"
        raise OptionValueError(option="mode", value=mode, expected=expected)
    return {**known[mode], **given}


def spelled(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with underscores in their names, where torch takes dashes, too."""
    return {str(name).replace("-", "_"): value for name, value in (options or {}).items()}


def without_inductors(
    options: Mapping[str, Any], ours: Collection[str], emitter: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that are ours, with those mapped to them, and those to pass on.

    Args:
        options: What was given.
        ours: The names of options of ours, the emitter's among them.
        emitter: The emitter's name, for errors.

    Raises:
        OptionError: Neither we nor Inductor have an option of a name.
        OptionValueError: A value has another type than Inductor's, or has no meaning here.
    """
    config: Any = inductor_config
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
            option, values = MAPPED[name]
            if value in values:
                _map(kept, (name, value), (option, values[value]), ours, emitter)
            continue
        fate = fates().get(name, Fate("refused", _UNKNOWN))
        if value != current and fate.way != "passed":
            _refuse(name, value, _EXPORT if name.startswith(_LIBRARIES) else fate.instead)
        passed[name] = value
    return kept, passed


def _map(
    kept: dict[str, Any],
    theirs: tuple[str, bool],
    option: tuple[str, Any],
    ours: Collection[str],
    emitter: str,
) -> None:
    """Add an option of ours unless it is there; refuse what the emitter cannot do."""
    name, value = option
    if name in ours:
        kept.setdefault(name, value)
    elif theirs[1]:
        expected = f"False with the emitter {emitter!r}, which has no option {name!r}"
        raise OptionValueError(option=theirs[0], value=True, expected=expected)


def _refuse(name: str, value: object, instead: str) -> NoReturn:
    raise OptionValueError(option=name, value=value, expected=f"no value here: {instead}")
