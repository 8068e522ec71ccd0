"""The textual form of passes: ``plan-memory{strategy=none}``, ``package.module:Name{option=1}``.

A name without a colon is a pass of the library. One with a colon is an object of a package: a
function of a program, a pass, or the class of passes that the options are passed to. Kinds of
devices and emitters name their passes in this form, so that naming one imports nothing.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.devices import named
from wrapper_ir.errors import OptionError, WrapperIRError
from wrapper_ir.lines import Program
from wrapper_ir.options.schema import made_with, options_of, read_options
from wrapper_ir.passes import plan
from wrapper_ir.passes.base import Pass
from wrapper_ir.passes.branch import Branch
from wrapper_ir.passes.current import CurrentDevice
from wrapper_ir.passes.cut import PrepareCapture
from wrapper_ir.passes.keep import KeepStorage
from wrapper_ir.passes.legalise import Legalise
from wrapper_ir.passes.printer import DebugPrinter
from wrapper_ir.passes.probes import InsertProbes

if TYPE_CHECKING:
    import os

__all__ = ["PASSES", "FunctionPass", "PassLoadError", "PassSpellingError", "parse_pass"]
__all__ += ["parse_pipeline"]


_STANDARD: Final[tuple[type[Any], ...]] = (
    *(Branch, plan.CheckResults, plan.InsertFrees, InsertProbes, plan.PlanExterns),
    *(plan.ReuseInPlace, plan.PlanMemory, KeepStorage, Legalise, PrepareCapture),
    *(CurrentDevice, plan.StripComments),
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


# Identity of passes, for keys of caches: what they are called, and the code behind them.
#
# A cache must not return what an older version of a pass made. A pass may call anything of its
# package, so its identity is a digest of all of the package's files. If these have changed since
# they were first looked at, the loaded code is that of no file, and there is no identity.

#: Files above this size, such as libraries, count by size and time, not by contents.
_LARGE: Final = 1 << 20

_Facts = tuple[tuple[str, int, int], ...]

_lock: Final = threading.Lock()
_seen: Final[dict[Path, tuple[_Facts, str]]] = {}


def identity_of(passes: Iterable[str]) -> str | None:
    """Return the identity of passes in textual form, or None if they have none.

    There is none if the code of one is in no file, or its files have changed since it was loaded.

    Raises:
        PassSpellingError, PassLoadError, OptionError, OptionValueError: A text names no pass.
    """
    parts = []
    for text in passes:
        parts.append(text)
        if place := place_of(text):
            found = parse_pass(text)
            code = found.function if isinstance(found, FunctionPass) else type(found)
            # The name may lead to code of another package.
            homes = {place.partition(":")[0], code.__module__ or place.partition(":")[0]}
            digests = [code_digest(home) for home in sorted(homes)]
            if None in digests:
                return None
            parts += [digest for digest in digests if digest is not None]
    return repr(parts)


def code_digest(module: str) -> str | None:
    """Return a digest of the files of the outermost package that a module is in.

    It is None if there are no files, or they have changed since this was first asked.
    """
    loaded = sys.modules.get(module) or import_module(module)
    spec = getattr(loaded, "__spec__", None)  # which names what `python -m` runs, too
    home = _home(spec.name if spec else module, getattr(loaded, "__file__", None))
    if home is None:
        return None
    facts = tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in _stats(home))
    if not facts:
        return None
    with _lock:
        if home not in _seen:
            _seen[home] = (facts, _digest(home, facts))
        before, digest = _seen[home]
    return digest if before == facts else None


def _home(module: str, file: str | None) -> Path | None:
    """Return the folder of the outermost package that a module is in, or the file of one in none.

    It follows from names, since a namespace package may have folders that are not the module's. It
    is None if the file is not where the name says.
    """
    if file is None:
        return None
    path, depth = Path(file), module.count(".")
    if path.name.startswith("__init__."):
        path = path.parent
    if not depth:
        return path
    home = path.parents[depth - 1] if depth <= len(path.parents) else path
    return home if home.name == module.partition(".")[0] else None


def _stats(home: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of a folder, or a file itself, in order, but no bytecode."""
    for file in sorted(home.rglob("*")) if home.is_dir() else [home]:
        try:
            if "__pycache__" not in file.parts and file.is_file():
                yield file, file.stat()
        except OSError:  # it has gone since it was listed
            continue


def _digest(home: Path, facts: _Facts) -> str:
    """Return a digest of files that does not depend on where they are."""
    digest = hashlib.sha256()
    for name, time, size in facts:
        place = str(Path(name).relative_to(home))
        digest.update(repr((place, size, time if size > _LARGE else 0)).encode())
        if size <= _LARGE:
            digest.update(Path(name).read_bytes())
    return digest.hexdigest()
