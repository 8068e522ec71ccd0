"""Modes of torch.compile and options of Inductor: passed on, mapped to ours, or refused.

Options that affect scheduling and kernels are passed on to Inductor for the compilation. Options
that affect the wrapper are ours to handle: each is mapped to an option of ours, or refused with
what to use instead.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from wrapper_ir.errors import OptionError, OptionValueError, nearest
from wrapper_ir.frontends.inductor.compat import inductor_config, list_mode_options
from wrapper_ir.frontends.inductor.devices import CAPTURES
from wrapper_ir.options.declared import MODE
from wrapper_ir.options.schema import Option

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
    "aot_inductor.debug_intermediate_value_printer": (
        *("debug", {level: level for level in "0123"}),
    ),
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
    """Return the request that options and Inductor's settings describe, and the remaining options.

    Raises:
        OptionValueError: An option asks for something that our libraries do not have.
    """
    remaining = with_underscores(options)
    remaining.pop("cpp_wrapper", None)
    config: Any = inductor_config
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
    name = _name_of(fields.get(_NAME))
    # 2.11 to 2.14 lack some of these.
    checks = fields.get("check_lowerbound", True), fields.get("check_upperbound", True)
    folds = bool(fields["use_runtime_constant_folding"])
    return Delivery(*files, name, *checks, *specs, metadata, build, inductor, folds), remaining


def _name_of(name: str | None) -> str:
    """Check the name of a library's files, as torch describes it."""
    if name and re.fullmatch(r"\w+", name, re.ASCII) is None:
        expected = "letters, digits and underscores"
        raise OptionValueError(option=f"{_LIBRARIES}.{_NAME}", value=name, expected=expected)
    return name or ""


def changed_wrapper_settings() -> Iterator[tuple[str, Any, Fate]]:
    """Yield Inductor's settings that affect the wrapper and differ from their defaults.

    Settings for libraries are left out, and so are those for CUDA graphs: without an option of ours
    Inductor captures calls itself, even around our functions.
    """
    config: Any = inductor_config
    for name, fate in fates().items():
        entry = config._config.get(name)
        is_elsewhere = name.startswith(_LIBRARIES) or "cudagraph" in name or "_wrapper" in name
        if entry is None or fate.way not in ("mapped", "refused") or is_elsewhere:
            continue
        if (value := getattr(config, name)) != entry.default:
            yield name, value, fate


def with_mode(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with a mode replaced by Inductor's options for it.

    Options given next to the mode take precedence.

    Raises:
        OptionValueError: This release of torch has no such mode.
    """
    explicit = dict(options)
    mode = explicit.pop("mode", MODE.default)
    MODE.check(mode)
    modes: Mapping[str, Mapping[str, Any]] = list_mode_options()
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
