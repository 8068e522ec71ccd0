"""The doctor: its findings as data that is safe to share, and as a report for people.

:mod:`wrapper_ir.cli.trials` runs the trials in a separate process.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir import __version__
from wrapper_ir.cli.terminal import aligned, duration, human, out
from wrapper_ir.devices import DeviceKind, Doctor, KernelLanguage, kind_of, registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends import releases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console
    from rich.table import Table


#: The text that precedes the reason in a compiler's output.
_REASON = "error:"


@dataclass(frozen=True)
class Fault:
    """A summary of an error."""

    code: str  #: empty if the error is not one of ours
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Fact:
    """A component that the library depends on."""

    name: str
    version: str  #: empty if it is absent
    standing: str = ""  #: ``supported``, ``tried``, ``untried`` or ``not supported``
    note: str = ""
    fault: Fault | None = None  #: why the library cannot work with it, or without it


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
    """One way to run the program."""

    name: str  #: an emitter, or the front end
    seconds: float = 0.0
    refusal: str = ""  #: what the emitter declares that it cannot render, which is not a fault
    fault: Fault | None = None


@dataclass(frozen=True)
class Report:
    """All findings."""

    facts: list[Fact]
    cache: CacheFacts
    trials: list[Trial]

    @property
    def is_well(self) -> bool:
        """True if nothing is wrong."""
        parts: list[Fact | CacheFacts | Trial] = [*self.facts, self.cache, *self.trials]
        return not any(part.fault for part in parts)

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data, without paths that identify the user.

        The user's home and the directories of packages are abbreviated.
        """
        data = {"ok": self.is_well, **dataclasses.asdict(self)}
        text = json.dumps(data, ensure_ascii=False)
        for path, short in _short_names():
            text = text.replace(json.dumps(path, ensure_ascii=False)[1:-1], short)
        found: dict[str, Any] = json.loads(text)
        return found


def fault_of(error: BaseException) -> Fault:
    """Summarise an error: the first line of its message, and the first error of a compiler."""
    if not isinstance(error, WrapperIRError):
        return Fault("", f"{type(error).__name__}: {_first(str(error))}".removesuffix(": "))
    output = str(error.fields.get("output", "")).splitlines()
    reason = next((line.partition(_REASON)[2] for line in output if _REASON in line), "")
    message = _first(error.message) + (f": {reason.strip()}" if reason else "")
    return Fault(error.code, message, error.hint or "")


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


def _short_names() -> list[tuple[str, str]]:
    home = Path.home()
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    homes = {str(home), str(home.resolve())} - {"/"}
    return [*((path, "site-packages") for path in packages), *((path, "~") for path in homes)]


# Versions of the library's dependencies, and whether they work.
#
# ``supported`` versions are those that the tests run with, ``tried`` ones worked when tried by
# hand. Nothing here imports torch, which may be absent or broken.


_SUPPORTED, _TRIED, _UNTRIED, _REFUSED = "supported", "tried", "untried", "not supported"

_TORCHES = {
    releases.Standing.SUPPORTED: _SUPPORTED,
    releases.Standing.UNTRIED: _UNTRIED,
    releases.Standing.TOO_OLD: _REFUSED,
}

#: Minor version of Python 3 -> its standing.
_PYTHONS = {11: _SUPPORTED, 12: _TRIED, 13: _TRIED, 14: _TRIED}

#: Processor -> its standing, on Linux.
_MACHINES = {"x86_64": _SUPPORTED}


def gather(torch: Mapping[str, Any], fault: Fault | None) -> list[Fact]:
    """Return all facts, given those that torch reports, or the fault that stops its import."""
    return [
        Fact("wrapper_ir", __version__),
        _system(),
        Fact("Python", platform.python_version(), _PYTHONS.get(sys.version_info.minor, _UNTRIED)),
        _torch(torch, fault),
        *_languages(),
        _sympy(),
        _compiler(),
        *_drivers(),
        *_units(torch),
    ]


def _system() -> Fact:
    machine, (libc, version) = platform.machine(), platform.libc_ver()
    known = _MACHINES.get(machine, _UNTRIED) if sys.platform == "linux" else _UNTRIED
    return Fact("system", f"{platform.system()} {machine}", known, f"{libc} {version}".strip())


def _torch(torch: Mapping[str, Any], fault: Fault | None) -> Fact:
    version = torch.get("version") or _installed("torch")
    if not version:
        hint = f"install torch {releases.in_words()}"
        return Fact("torch", "", fault=Fault("", "torch is not installed", hint))
    platforms = [built_for for built_for, _ in torch.get("devices", {}).values() if built_for]
    note = f"built for {', '.join(platforms)}" if platforms else ""
    standing = _TORCHES[releases.standing(version)]
    if standing is _UNTRIED and releases.is_to_be_tried():
        note = ", ".join(filter(None, [note, f"taken as {releases.TRY} asks"]))
    return Fact("torch", version, standing, note, fault)


def _sympy() -> Fact:
    version = _installed("sympy")
    if not version:
        fault = Fault("", "sympy is not installed", "install sympy 1.13 or newer")
        return Fact("sympy", "", fault=fault)
    return Fact("sympy", version, _SUPPORTED if _numbers(version) >= (1, 13) else _REFUSED)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the major and minor number of a version, ignoring any text before them."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _compiler() -> Fact:
    from wrapper_ir.toolchain.compiler import find_compiler

    try:
        compiler = find_compiler()
    except WrapperIRError as error:
        return Fact("compiler", "", fault=fault_of(error))
    known = _TRIED if compiler.clang else _SUPPORTED
    return Fact("compiler", compiler.version, known, f"started as {' '.join(compiler.command)}")


def _languages() -> Iterator[Fact]:
    """Yield facts about kernel compilers that are Python packages."""
    pairs = ((language, kind) for kind in registered() for language in kind.languages)
    return (_language(language, kind) for language, kind in pairs if language.package)


def _language(language: KernelLanguage, kind: DeviceKind) -> Fact:
    """Return the fact about a compiler, supported in the minor version that torch requires."""
    version = _installed(language.package)
    if not version:
        return Fact(language.name, "", note=f"only {kind.noun}s need it")
    pattern = re.compile(rf"{re.escape(language.package)}\b")
    required = metadata.requires("torch") if _installed("torch") else None
    requirement = next(filter(pattern.match, required or ()), "")
    if _numbers(version) == _numbers(requirement):
        return Fact(language.name, version, _SUPPORTED)
    note = requirement.partition(";")[0]
    return Fact(language.name, version, _UNTRIED, f"torch requires {note}" if note else "")


def _drivers() -> Iterator[Fact]:
    for kind in registered():
        if kind.doctor.driver:
            version = _driver_version(kind.doctor)
            note = "" if version else f"only {kind.noun}s need it"
            yield Fact(kind.doctor.driver, version, note=note)


def _driver_version(doctor: Doctor) -> str:
    output = _run(*doctor.driver_command)
    file = Path(doctor.driver_file)
    if not output and file.is_file():
        match = re.search(r"\d+\.\d+(?:\.\d+)?", file.read_text("utf-8", errors="replace"))
        output = match[0] if match else ""
    return output.partition("\n")[0]


def _run(*words: str) -> str:
    """Return the output of a program, empty if there is none or it is absent, fails or hangs."""
    if not words:
        return ""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _units(torch: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the devices that torch sees."""
    for type_, (_, units) in torch.get("devices", {}).items():
        kind = kind_of(type_)
        for name, capability in units:
            standing = _TRIED if capability in kind.doctor.tried else _UNTRIED
            yield Fact(kind.noun, name, standing, f"compute capability {capability}")


def cache_facts() -> CacheFacts:
    """Return where the cache is, its size, and whether it is writable."""
    from wrapper_ir.toolchain.cache import default_cache, default_dir

    directory = str(default_dir())
    try:
        cache = default_cache().writable
        directory = str(cache.directory)
        with cache.scratch() as scratch:  # permissions alone would not reveal a full disk
            (scratch / "written").write_bytes(bytes(1 << 16))
    except (WrapperIRError, OSError) as error:
        return CacheFacts(directory, fault=fault_of(error))
    now = cache.stats()
    free = shutil.disk_usage(cache.directory).free
    return CacheFacts(directory, now.entries, now.total_bytes, now.max_bytes, free, True)


# The report for people: tables on a terminal, otherwise lines that are never cut.


#: Standings of components and outcomes of trials -> their colours.
_COLOURS = {
    **dict.fromkeys(("supported", "tried", "writable", "ok"), "green"),
    **dict.fromkeys(("untried", "refused"), "yellow"),
    **dict.fromkeys(("not supported", "missing", "not usable", "FAILED"), "red"),
}

Row = tuple[str, ...]


def show(report: Report) -> None:
    """Print the report to standard output."""
    data = report.as_data()
    tables = [list(_facts(data)), list(_cache(data["cache"])), list(_trials(data["trials"]))]
    console = out()
    for rows in filter(None, tables):
        if console.is_terminal:
            console.print(_table(rows))
        else:
            console.print("\n".join((*aligned(rows), "")), markup=False, soft_wrap=True)
    _verdict(console, data)


def _facts(data: dict[str, Any]) -> Iterator[Row]:
    for fact in data["facts"]:
        standing = "missing" if fact["fault"] and not fact["version"] else fact["standing"]
        yield fact["name"], fact["version"] or "-", standing, fact["note"]


def _cache(cache: dict[str, Any]) -> Iterator[Row]:
    state = "writable" if cache["is_writable"] else "not usable"
    yield "cache", cache["directory"], state
    if cache["is_writable"]:
        size, most = human(cache["total_bytes"]), human(cache["max_bytes"])
        yield "", f"{cache['entries']:,} entries, {size} of at most {most}"
        yield "", f"{human(cache['free_bytes'])} of the disk are free"


def _trials(trials: list[dict[str, Any]]) -> Iterator[Row]:
    for each in trials:
        state = "FAILED" if each["fault"] else "refused" if each["refusal"] else "ok"
        yield each["name"], state, duration(each["seconds"]), each["refusal"]


def _table(rows: list[Row]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False)
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    return table


def _verdict(console: Console, data: dict[str, Any]) -> None:
    named = [(each["name"], each["fault"]) for each in (*data["facts"], *data["trials"])]
    faults = [(name, fault) for name, fault in (*named, ("cache", data["cache"]["fault"])) if fault]
    for name, fault in faults:
        code = f"{fault['code']}: " if fault["code"] else ""
        console.print(f"{name}: {code}{fault['message']}", markup=False, soft_wrap=True)
        if fault["hint"]:
            console.print(f"  hint: {fault['hint']}", markup=False, soft_wrap=True)
    if not data["trials"]:
        console.print("Nothing was run: that requires torch.")
    console.print("Something is wrong." if faults else "All is well.", style="bold")
