"""Precompiled headers: made once per cache, before the first kernels that read them.

Reading ``cpp_prefix.h`` takes g++ 1.3 s of the 1.5 s that a small kernel costs; with the header
precompiled, a small kernel costs 0.5 s in all, and 0.2 s if a plugin of ours has instantiated the
header's templates and the headers of Python are in it, too. Instances change the order of functions
in objects, so they are for what is loaded where it is built, whose flags have ``INSTANCES``; what
is shipped has the same bytes with any headers. Precompiling takes about 6 s and 160 MB, so the
first build with a new cache waits once, as Inductor's does, and later builds are quick. ``prepare``
starts in the background before that, and a build then waits only for the remainder. Processes that
build at the same time wait for the one that precompiles; if that one dies, the next one does it.

Precompiled headers lie in the cache, or in the directory that ``WRAPPER_IR_HEADER_DIR`` names,
which several caches may share. ``WRAPPER_IR_PRECOMPILE_HEADERS=0`` turns them off.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain import processes
from wrapper_ir.toolchain.compiler import NATIVE, Compiler, include_dirs, include_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.toolchain.cache import DiskCache

#: The header that every Inductor kernel begins with.
PREFIX = "torch/csrc/inductor/cpp_prefix.h"

#: The flag of files that read instances of templates from their precompiled header.
INSTANCES = "-DWIR_INSTANCES"

#: What else kernels read that Python calls.
_BINDINGS = NATIVE / "python" / "kernel.h"

#: The plugin with which templates are instantiated in the header, not again in each file.
_PLUGIN = NATIVE / "gcc" / "instantiate.cpp"

#: A cache with a smaller bound would evict the header as soon as it was made.
_MIN_CACHE_BYTES = 512 << 20


class HeaderStore:
    """The precompiled forms of one header, as ``#include`` spells it, in a cache.

    ``environment`` are the versions that files which read the header depend on.
    """

    def __init__(self, cache: DiskCache, environment: str, header: str) -> None:
        named = os.environ.get("WRAPPER_IR_HEADER_DIR")
        self._top = Path(named).expanduser() if named else cache.writable.directory / "headers"
        self._cache = cache
        self._environment = environment
        # Compilers without the plugin pass over the pragma.
        more = '#include "python/kernel.h"\n' if header == PREFIX else ""
        instances = f"#ifdef WIR_INSTANCES\n{more}#pragma wir instantiate\n#endif\n"
        self._text = f"#include <{header}>\n{instances}"
        self._read = (_PLUGIN, *((_BINDINGS,) if more else ()))
        requested = os.environ.get("WRAPPER_IR_PRECOMPILE_HEADERS", "1") != "0"
        self._enabled = requested and (named is not None or cache.max_bytes >= _MIN_CACHE_BYTES)

    def find(self, compiler: Compiler, flags: Sequence[str]) -> Path | None:
        """Return the header for ``-include``, or None if none is ready."""
        header = self._header(compiler, flags)
        gch = _precompiled(header)
        if not (self._enabled and header.exists() and _is_whole(gch)):
            return None
        self._cache.touch(header)
        self._cache.touch(gch)
        return header

    def get(self, compiler: Compiler, flags: Sequence[str]) -> Path | None:
        """Return the header for ``-include``, precompiled now if need be.

        Return None if precompiled headers are off, or if this one cannot be made: a full or
        read-only disk is no error, since the header only saves time.
        """
        if not self._enabled or compiler.clang:
            return None
        header = self.find(compiler, flags)
        if header is None:
            with contextlib.suppress(OSError):
                self._make(self._header(compiler, flags), compiler, flags)
            header = self.find(compiler, flags)
        return header

    def _make(self, header: Path, compiler: Compiler, flags: Sequence[str]) -> None:
        """Precompile a header, or wait for the process that is doing so."""
        folder, gch = header.parent, _precompiled(header)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with processes.hold(folder / "lock", [folder.name]):
            if gch.exists():
                return
            header.write_text(self._text, encoding="utf-8")
            unfinished = header.with_name(f"unfinished-{os.getpid()}.gch")
            command = [*compiler.command, *flags, *include_flags()]
            files = ("-x", "c++-header", str(header), "-o", str(unfinished))
            made = INSTANCES in flags and (
                _runs([*command, f"-fplugin={_built_plugin(compiler, folder)}", *files], unfinished)
                and _is_read(command, unfinished)
            )
            if made or _runs([*command, *files], unfinished):
                with unfinished.open("rb") as finished:
                    os.fsync(finished.fileno())
                _checksum_file(gch).write_text(_checksum(unfinished), encoding="ascii")
                unfinished.replace(gch)

    def exists(self, compiler: Compiler, flags: Sequence[str]) -> bool:
        """Return whether the header has been made; only :meth:`find` checks that it is intact."""
        return _precompiled(self._header(compiler, flags)).exists()

    def discard(self, compiler: Compiler, flags: Sequence[str]) -> None:
        """Remove a precompiled header that turned out to be unusable."""
        _precompiled(self._header(compiler, flags)).unlink(missing_ok=True)

    def _header(self, compiler: Compiler, flags: Sequence[str]) -> Path:
        stamps = [f"{path.stat().st_mtime_ns} {path.stat().st_size}" for path in _watched()]
        parts = [self._environment, self._text, *map(_text, self._read), compiler.version]
        parts += [*flags, *stamps]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        return self._top / key / "prefix.h"


@functools.cache
def _text(file: Path) -> str:
    """Return the text of a file of ours, which is part of each header's key."""
    return file.read_text("utf-8")


def _built_plugin(compiler: Compiler, folder: Path) -> Path:
    """Return the plugin's library in a folder, which is missing if it does not build."""
    library = folder / f"{_PLUGIN.stem}.so"
    files = ("-shared", "-fPIC", "-O1", str(_PLUGIN), "-o", str(library))
    _runs([*compiler.command, *files], library)
    return library


def _is_read(command: Sequence[str], file: Path) -> bool:
    """Return whether the compiler that has written a precompiled header can read it."""
    empty = ("-x", "c++", "-c", os.devnull, "-o", os.devnull)
    return _runs([*command, "-include", str(file.with_suffix("")), *empty])


def _runs(command: Sequence[str], output: Path | None = None) -> bool:
    """Return whether the compiler succeeds; ``output`` is removed if it does not."""
    status, _ = processes.current().run(command, output=output)
    return status == 0


def _precompiled(header: Path) -> Path:
    return header.with_name(header.name + ".gch")


def _checksum_file(gch: Path) -> Path:
    return gch.with_name(f"{gch.name}.crc")


def _checksum(file: Path) -> str:
    """Return size and CRC-32: good enough against accidents, and 3 times faster than a digest."""
    value = 0
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{file.stat().st_size} {value:08x}"


def _is_whole(gch: Path) -> bool:
    """Return whether a precompiled header is intact; remove it if it is not.

    g++ does not check what it reads, and a damaged header can keep it busy for minutes. Each
    process reads a file through once (0.1 s).
    """
    try:
        status = gch.stat()
        stamp = (str(gch), status.st_ino, status.st_size, status.st_mtime_ns)
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
    """Return headers that change when PyTorch is reinstalled under the same version."""
    torch = include_dirs()[1]
    return (torch / PREFIX, torch / "ATen" / "cpu" / "vec" / "vec.h")
