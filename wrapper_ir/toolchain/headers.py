"""Precompiled headers: made once a cache, before the first kernels that read them.

Reading ``cpp_prefix.h`` takes g++ 1.3 s of the 1.5 s that a small kernel costs; with the header
precompiled it is 0.4 s in all. Making the precompiled header takes about 6 s and 140 MB, so the
first build of a cache waits for it once, as Inductor's does, and all later ones are quick.
``prepare`` begins earlier, in the background, and a build then waits only for the rest. Processes
that build at the same time wait for the one that makes it; what one leaves unfinished when it ends
is made by the next.

Precompiled headers lie in the cache, or in the directory that ``WRAPPER_IR_HEADER_DIR`` names,
which several caches may share. ``WRAPPER_IR_PRECOMPILE_HEADERS=0`` does without them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain import processes
from wrapper_ir.toolchain.compiler import include_dirs, include_flags
from wrapper_ir.toolchain.processes import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.compiler import Compiler

#: The header every kernel of Inductor's begins with.
PREFIX = "torch/csrc/inductor/cpp_prefix.h"

#: Below this bound a cache would throw the header out as soon as it was made.
_MIN_CACHE_BYTES = 512 << 20


class HeaderStore:
    """The precompiled forms of one header that a cache has.

    Args:
        cache: Beside whose objects they lie.
        environment: A digest of the versions that what reads it depends on.
        header: The header, as it is included.
        includes: The flags that find it; part of no key.
    """

    def __init__(
        self,
        cache: DiskCache,
        environment: str,
        header: str = PREFIX,
        includes: Sequence[str] | None = None,
    ) -> None:
        named = os.environ.get("WRAPPER_IR_HEADER_DIR")
        self._top = Path(named).expanduser() if named else cache.writable.directory / "headers"
        self._cache = cache
        self._environment = environment
        self._text = f"#include <{header}>\n"
        self._includes = includes
        wanted = os.environ.get("WRAPPER_IR_PRECOMPILE_HEADERS", "1") != "0"
        self._enabled = wanted and (named is not None or cache.max_bytes >= _MIN_CACHE_BYTES)

    def find(self, compiler: Compiler, flags: Sequence[str]) -> Path | None:
        """Return the header to give to ``-include``, or None when none is ready."""
        header = self._header(compiler, flags)
        gch = _precompiled(header)
        if not (self._enabled and header.exists() and _is_whole(gch)):
            return None
        self._cache.touch(header)
        self._cache.touch(gch)
        return header

    def get(self, compiler: Compiler, flags: Sequence[str]) -> Path | None:
        """Return the header to give to ``-include``, made now if need be.

        None where there is to be none, or where it cannot be made: a full or read-only disk is no
        error, the header saves time only.
        """
        if not self._enabled or compiler.clang:
            return None
        found = self.find(compiler, flags)
        if found is None:
            with contextlib.suppress(OSError):
                includes = include_flags() if self._includes is None else self._includes
                target = self._header(compiler, flags)
                _Job(target, self._text, compiler, (*flags, *includes)).run()
            found = self.find(compiler, flags)
        return found

    def is_there(self, compiler: Compiler, flags: Sequence[str]) -> bool:
        """Return whether the header has been made; whether it is whole, :meth:`find` tells."""
        return _precompiled(self._header(compiler, flags)).exists()

    def discard(self, compiler: Compiler, flags: Sequence[str]) -> None:
        """Remove a precompiled header that turned out to be unusable."""
        _precompiled(self._header(compiler, flags)).unlink(missing_ok=True)

    def _header(self, compiler: Compiler, flags: Sequence[str]) -> Path:
        stamps = [f"{path.stat().st_mtime_ns} {path.stat().st_size}" for path in _watched()]
        parts = [self._environment, self._text, compiler.version, *flags, *stamps]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return self._top / key / "prefix.h"


class _Job:
    """Making one precompiled header."""

    def __init__(self, header: Path, text: str, compiler: Compiler, flags: Sequence[str]) -> None:
        self._header = header
        self._text = text
        self._compiler = compiler
        self._flags = flags

    def run(self) -> None:
        """Make it, or wait until the process that is making it has."""
        folder = self._header.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with processes.hold(folder / "lock", [folder.name]):
            if not _precompiled(self._header).exists():
                self._make()

    def _make(self) -> None:
        self._header.write_text(self._text, encoding="utf-8")
        unfinished = self._header.with_name(f"unfinished-{os.getpid()}.gch")
        command = [
            *self._compiler.command,
            *self._flags,
            *("-x", "c++-header", str(self._header), "-o", str(unfinished)),
        ]
        status, _ = current().run(command, output=unfinished)
        if status == 0:
            with unfinished.open("rb") as made:
                os.fsync(made.fileno())
            gch = _precompiled(self._header)
            _checksum_file(gch).write_text(_checksum(unfinished), encoding="ascii")
            unfinished.replace(gch)


def _precompiled(header: Path) -> Path:
    return header.with_name(header.name + ".gch")


def _checksum_file(gch: Path) -> Path:
    return gch.with_name(f"{gch.name}.crc")


def _checksum(file: Path) -> str:
    """Return size and CRC-32: enough against accidents, and three times faster than a digest."""
    value = 0
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{file.stat().st_size} {value:08x}"


def _is_whole(gch: Path) -> bool:
    """Return whether a precompiled header is as it was made; one that is not is removed.

    g++ does not check what it reads: a damaged header can keep it busy for minutes. A file is read
    through once a process (0.1 s).
    """
    try:
        found = gch.stat()
        stamp = (str(gch), found.st_ino, found.st_size, found.st_mtime_ns)
        if stamp in _WHOLE:
            return True
        whole = _checksum_file(gch).read_text(encoding="ascii") == _checksum(gch)
    except OSError:
        return False
    if whole:
        _WHOLE.add(stamp)
    else:
        gch.unlink(missing_ok=True)
    return whole


_WHOLE: set[tuple[str, int, int, int]] = set()


def _watched() -> tuple[Path, ...]:
    """Return headers whose change means that PyTorch was installed anew under the same version."""
    torch = include_dirs()[1]
    return (torch / PREFIX, torch / "ATen" / "cpu" / "vec" / "vec.h")
