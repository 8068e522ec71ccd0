"""Findings of the doctor, as data that may be shown to others."""

from __future__ import annotations

import dataclasses
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wrapper_ir.errors import WrapperIRError

__all__ = ["CacheFacts", "Fact", "Fault", "Report", "Trial", "fault_of"]

#: What a compiler's complaint begins its reason with.
_REASON = "error:"


@dataclass(frozen=True)
class Fault:
    """An error in short."""

    code: str  #: empty where the error is none of ours
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Fact:
    """A part that the library depends on.

    Attributes:
        name: What it is.
        version: Its version; empty where it is absent.
        standing: What we know of it: ``supported``, ``tried``, ``untried`` or ``not supported``.
        note: What else there is to say.
        fault: Why the library cannot work with it, or without it.
    """

    name: str
    version: str
    standing: str = ""
    note: str = ""
    fault: Fault | None = None


@dataclass(frozen=True)
class CacheFacts:
    """The cache of compiled kernels; sizes are in bytes."""

    directory: str
    entries: int = 0
    total_bytes: int = 0
    max_bytes: int = 0
    free_bytes: int = 0
    is_writable: bool = False
    fault: Fault | None = None


@dataclass(frozen=True)
class Trial:
    """One way to run the program.

    Attributes:
        name: What was tried: an emitter, or the front end.
        seconds: How long it took.
        refusal: What of the program the emitter says that it cannot render: no fault of it.
        fault: How it failed.
    """

    name: str
    seconds: float = 0.0
    refusal: str = ""
    fault: Fault | None = None


@dataclass(frozen=True)
class Report:
    """Everything."""

    facts: list[Fact]
    cache: CacheFacts
    trials: list[Trial]

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong."""
        parts: list[Fact | CacheFacts | Trial] = [*self.facts, self.cache, *self.trials]
        return not any(part.fault for part in parts)

    def as_data(self) -> dict[str, Any]:
        """Return plain data without the paths that tell who somebody is."""
        found = {"ok": self.is_well, **dataclasses.asdict(self)}
        return {name: _without_paths(value) for name, value in found.items()}


def fault_of(error: BaseException) -> Fault:
    """Return an error in short: the first line of its message, and why a compiler complained."""
    if not isinstance(error, WrapperIRError):
        return Fault("", f"{type(error).__name__}: {_first(str(error))}".removesuffix(": "))
    said = str(error.fields.get("output", "")).splitlines()
    reason = next((line.partition(_REASON)[2] for line in said if _REASON in line), "")
    message = _first(error.message) + (f": {reason.strip()}" if reason else "")
    return Fault(error.code, message, error.hint or "")


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _without_paths(value: object) -> object:
    """Return data with short names for the user's home and for where packages lie."""
    match value:
        case str():
            for path, short in _short_names():
                value = value.replace(path, short)
            return value
        case dict():
            return {key: _without_paths(each) for key, each in value.items()}
        case list():
            return [_without_paths(each) for each in value]
        case _:
            return value


def _short_names() -> list[tuple[str, str]]:
    home = Path.home()
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    homes = {str(home), str(home.resolve())} - {"/"}
    return [*((path, "site-packages") for path in packages), *((path, "~") for path in homes)]
