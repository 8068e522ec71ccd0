"""Modes of torch.compile and options of Inductor: passed on, mapped to ours, or refused.

What decides about scheduling and kernels is passed on to Inductor for the compilation. What decides
about the wrapper is ours: it is mapped to an option of ours, or refused with what to say instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import OptionError, OptionValueError, nearest
from wrapper_ir.frontends.inductor.compat import inductor_config, list_mode_options
from wrapper_ir.frontends.inductor.cuda import CAPTURES, REFUSED
from wrapper_ir.options import Option
from wrapper_ir.options.declared import MODE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["spelled", "with_mode", "without_inductors"]

#: Options of Inductor's that decide about the wrapper -> an option of ours, and its values there.
_MAPPED: Final[Mapping[str, tuple[str, Mapping[bool, Any]]]] = {
    CAPTURES[0]: (CAPTURES[1], {True: True, False: False}),
    "allow_buffer_reuse": ("memory", {False: "none"}),
    "memory_planning": ("memory", {True: "pool"}),
    "cpp.enable_kernel_profile": ("profile", {True: True, False: False}),
}

#: Beginnings of the names of others that do -> what to say instead.
_REFUSED: Final[Mapping[str, str]] = {
    "aot_inductor": "wir.capture and wir.export build libraries, and have options of their own",
    "fx_wrapper": "the option emitter='fx' makes a graph",
    **REFUSED,
    "size_asserts": "the option checks says when sizes are checked",
    "alignment_asserts": "the option checks says when inputs are checked",
    "memory_pool": "the option memory='pool' plans arenas",
    "profiler_mark_wrapper_call": "the option profile shows each call to the profiler",
    "profile_bandwidth": "Inductor's own wrapper reports it",
    "annotate_training": "Inductor's own wrapper annotates",
}


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
        if name in _MAPPED:
            option, values = _MAPPED[name]
            if value in values:
                _map(kept, (name, value), (option, values[value]), ours, emitter)
            continue
        if value != current:
            _refuse(name, value)
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


def _refuse(name: str, value: object) -> None:
    for beginning, instead in _REFUSED.items():
        if name.startswith(beginning):
            raise OptionValueError(option=name, value=value, expected=f"no value here: {instead}")
