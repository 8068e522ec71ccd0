"""The textual form of passes: ``plan-memory{strategy=none}``, ``package.module:Name{option=1}``.

A name without a colon is a pass of the library. One with a colon is an object of a package: a
function of a program, a pass, or the class of passes that the options are passed to. Kinds of
devices and emitters name their passes in this form, so that naming one imports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from wrapper_ir.devices import named
from wrapper_ir.errors import OptionError, WrapperIRError
from wrapper_ir.lines import Program
from wrapper_ir.options.schema import made_with, options_of, read_options
from wrapper_ir.passes.base import Pass
from wrapper_ir.passes.branch import Branch
from wrapper_ir.passes.comments import StripComments
from wrapper_ir.passes.cut import PrepareCapture
from wrapper_ir.passes.keep import KeepStorage
from wrapper_ir.passes.legalise import Legalise
from wrapper_ir.passes.plan import CheckResults, InsertFrees, PlanExterns, PlanMemory, ReuseInPlace
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.passes.probes import InsertProbes

_STANDARD: Final[tuple[type[Any], ...]] = (
    *(Branch, CheckResults, InsertFrees, InsertProbes, PlanExterns, ReuseInPlace, PlanMemory),
    *(KeepStorage, Legalise, PrepareCapture, StripComments),
)

#: Every pass of the library by name.
PASSES: Final[dict[str, type[Any]]] = {pass_.name: pass_ for pass_ in _STANDARD}

_NAME: Final = r"[a-z][a-z0-9-]*|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
_SPELLING: Final = re.compile(rf"\s*({_NAME})\s*(?:\{{([^{{}}]*)\}})?\s*")


class PassSpellingError(WrapperIRError):
    """A text is not the textual form of a pass. Fields: ``text`` is that text."""

    code = "WIR1401"
    template = "{text!r} is not a pass"
    default_hint = (
        "write a name with its options, such as plan-memory{{strategy=none}}, or where the pass is"
        " in a package, such as package.module:Name"
    )


class PassLoadError(WrapperIRError):
    """A place does not lead to a pass. Fields: ``place``, and the ``reason``."""

    code = "WIR1404"
    template = "the pass '{place}' cannot be loaded: {reason}"
    default_hint = "a pass is named 'package.module:name', after the object that is it"


@dataclass(frozen=True, slots=True)
class FunctionPass:
    """A function of a program as a pass.

    Attributes:
        name: Its place, ``package.module:name``.
        function: The function.
    """

    name: str
    function: Callable[[Program], Program]

    def __call__(self, program: Program) -> Program:
        """Return what the function returns."""
        return self.function(program)


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Parse passes separated by commas.

    Raises:
        OptionError, OptionValueError, PassSpellingError, PassLoadError: As in :func:`parse_pass`.
    """
    # A comma inside braces separates options.
    parts = re.findall(r"(?:[^,{]|\{[^}]*\}?)+", text)
    return tuple(parse_pass(part) for part in parts if part.strip())


def parse_pass(text: str) -> Pass:
    """Parse a pass written as ``name`` or ``name{option=value,...}``.

    Raises:
        PassSpellingError: The text does not have that form.
        OptionError: There is no such pass, or it has no such option.
        OptionValueError: The value of an option is not legal.
        PassLoadError: The name is a place, ``package.module:name``, where there is no pass.
    """
    given: object = text  # a vendor may name anything
    match = _SPELLING.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise PassSpellingError(text=text)
    name, options = match[1], match[2] or ""
    pairs = []
    for option in filter(str.strip, options.split(",")):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals:
            raise PassSpellingError(text=text)
        pairs.append((key, value))
    if ":" in name:
        return _loaded(name, pairs)
    if name not in PASSES:
        raise OptionError(option=name, legal=PASSES, owner="the list of passes")
    # insert-probes takes the options of the debug printer.
    is_probes = PASSES[name] is InsertProbes
    made: Any = _made(DebugPrinter if is_probes else PASSES[name], name, pairs)
    return InsertProbes(made) if is_probes else made


def place_of(text: str) -> str:
    """Return the place that a textual form names; empty for a pass of the library.

    Raises:
        PassSpellingError: The text does not have that form.
    """
    match = _SPELLING.fullmatch(text)
    if match is None:
        raise PassSpellingError(text=text)
    return match[1] if ":" in match[1] else ""


def _made(cls: type[Any], name: str, pairs: list[tuple[str, str]]) -> Any:  # noqa: ANN401
    owner = f"pass {name!r}"
    return made_with(cls, read_options(options_of(cls), pairs, owner=owner), owner=owner)


def _loaded(place: str, pairs: list[tuple[str, str]]) -> Pass:
    """Return the pass at a place."""
    try:
        found: object = named(place)
    except Exception as error:  # importing a third-party module may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise PassLoadError(place=place, reason=reason) from error
    if isinstance(found, type):
        found = _made(found, place, pairs)
    elif pairs:
        raise OptionError(option=pairs[0][0], legal=(), owner=f"pass {place!r}")
    if not callable(found):
        raise PassLoadError(place=place, reason=f"it is a '{type(found).__name__}'")
    return found if isinstance(found, Pass) else FunctionPass(place, found)
