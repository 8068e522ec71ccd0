"""Versions of what the library depends on, and what we know of them.

``supported`` is what the tests run with, ``tried`` what worked when it was tried by hand. Nothing
here imports torch: it may be absent, or broken.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir import __version__
from wrapper_ir.cli.doctor.report import CacheFacts, Fact, Fault, fault_of
from wrapper_ir.devices import kind_of, registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends import releases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.devices import DeviceKind, Doctor, KernelLanguage

__all__ = ["cache_facts", "gather"]

_SUPPORTED, _TRIED, _UNTRIED, _REFUSED = "supported", "tried", "untried", "not supported"

_TORCHES = {
    releases.Standing.SUPPORTED: _SUPPORTED,
    releases.Standing.UNTRIED: _UNTRIED,
    releases.Standing.TOO_OLD: _REFUSED,
}

#: Minor version of Python 3 -> what we know of it.
_PYTHONS = {11: _SUPPORTED, 12: _TRIED}

#: Processor -> what we know of it, on Linux.
_MACHINES = {"x86_64": _SUPPORTED}


def gather(torch: Mapping[str, Any], fault: Fault | None) -> list[Fact]:
    """Return the facts.

    Args:
        torch: What torch says of itself, where it can be imported.
        fault: Why it cannot.
    """
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


def _torch(found: Mapping[str, Any], fault: Fault | None) -> Fact:
    version = found.get("version") or _installed("torch")
    if not version:
        hint = f"install torch {releases.in_words()}"
        return Fact("torch", "", fault=Fault("", "torch is not installed", hint))
    platforms = [built_for for built_for, _ in found.get("devices", {}).values() if built_for]
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
    """Return the major and the minor number of a version, whatever stands before it."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _requirements(package: str) -> list[str]:
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []


def _compiler() -> Fact:
    from wrapper_ir.toolchain.compiler import find_compiler

    try:
        found = find_compiler()
    except WrapperIRError as error:
        return Fact("compiler", "", fault=fault_of(error))
    known = _TRIED if found.clang else _SUPPORTED
    return Fact("compiler", found.version, known, f"started as {' '.join(found.command)}")


def _languages() -> Iterator[Fact]:
    """Yield facts about the compilers of kernels that are packages of Python."""
    for kind in registered():
        for language in kind.languages:
            if language.package:
                yield _language(language, kind)


def _language(language: KernelLanguage, kind: DeviceKind) -> Fact:
    """A compiler is supported in the minor version that the installed torch asks for."""
    version = _installed(language.package)
    if not version:
        return Fact(language.name, "", note=f"only {kind.noun}s need it")
    named = re.compile(rf"{re.escape(language.package)}\b")
    wanted = next((r for r in _requirements("torch") if named.match(r)), "")
    if _numbers(version) == _numbers(wanted):
        return Fact(language.name, version, _SUPPORTED)
    asked = wanted.partition(";")[0]
    return Fact(language.name, version, _UNTRIED, f"torch asks for {asked}" if asked else "")


def _drivers() -> Iterator[Fact]:
    for kind in registered():
        if kind.doctor.driver:
            version = _driver_version(kind.doctor)
            note = "" if version else f"only {kind.noun}s need it"
            yield Fact(kind.doctor.driver, version, note=note)


def _driver_version(doctor: Doctor) -> str:
    said = _run(*doctor.driver_command)
    file = Path(doctor.driver_file)
    if not said and file.is_file():
        found = re.search(r"\d+\.\d+(?:\.\d+)?", file.read_text("utf-8", errors="replace"))
        said = found[0] if found else ""
    return said.partition("\n")[0]


def _run(*words: str) -> str:
    """Return what a program writes, or nothing where it is absent, fails or hangs."""
    if not words or shutil.which(words[0]) is None:
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
    """Return where the cache is, how full, and whether it can be written."""
    from wrapper_ir.toolchain.cache import default_cache, default_dir

    directory = str(default_dir())
    try:
        cache = default_cache().writable
        directory = str(cache.directory)
        with cache.scratch() as scratch:  # the permissions alone do not tell of a full disk
            (scratch / "written").write_bytes(bytes(1 << 16))
    except (WrapperIRError, OSError) as error:
        return CacheFacts(directory, fault=fault_of(error))
    now = cache.stats()
    free = shutil.disk_usage(cache.directory).free
    return CacheFacts(directory, now.entries, now.total_bytes, now.max_bytes, free, True)
