"""The toolchain's disk cache: content-addressed, shared by processes, bounded, self-healing.

An entry is one file, ``objects/<two digits>/<key>.<kind>``: the payload, then a trailer with its
SHA-256. Keys are digests of the *inputs* (source, flags, compiler version, ...), never of a
location, so a cache can be moved or copied between machines. The loader and the linker ignore
whatever follows the last section of an ELF file, so shared libraries keep the trailer, too.

Three rules make it safe for concurrent processes: an entry appears by renaming a finished file; it
never changes afterwards; and it is checked against its trailer before use, where a damaged entry is
removed and counts as absent. ``locked`` lets one process build while others wait for it.

If the default directory cannot be written, or its disk is full, entries go to a directory of the
user's among the temporary files, with one warning.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.options.declared import CACHE_MAX_BYTES
from wrapper_ir.toolchain import processes
from wrapper_ir.toolchain.errors import CacheDirError, CacheDirWarning, DiskFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_MAGIC = b"WIRSHA2\x01"
_TRAILER = len(_MAGIC) + 32
#: An entry's time stamp is renewed on use, but at most once in this time (seconds).
_TOUCH_AFTER = 60.0
#: Unfinished files older than this belong to processes that died (seconds).
_STALE_AFTER = 24 * 3600.0
#: A disk with less free space than this, which the first build takes, counts as full (bytes).
_ROOM = 256 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The size of a cache's contents."""

    directory: Path
    entries: int  #: libraries, records and precompiled headers
    libraries: int  #: shared libraries among them
    total_bytes: int
    max_bytes: int


class DiskCache:
    """A directory of entries.

    Args:
        directory: The directory; created if absent, readable by its owner only.
        max_bytes: Bound on the total size, enforced by removing the least recently used entries;
            by default the environment variable ``WRAPPER_IR_CACHE_MAX_BYTES``, or else 2 GiB.

    Raises:
        CacheDirError: The directory cannot be created or written, or belongs to another user.
    """

    def __init__(self, directory: Path, *, max_bytes: int | None = None) -> None:
        self.directory = directory
        self.max_bytes: int = _max_bytes_from_environment() if max_bytes is None else max_bytes
        self._objects = directory / "objects"
        self._scratch = directory / "tmp"
        self._lock_file = directory / "lock"
        self._spare: DiskCache | None = None
        self._room = -1  # bytes to add before the next look at all entries
        _make_private(directory)

    @property
    def writable(self) -> DiskCache:
        """The cache for new entries: this one, or the spare one if this disk is full."""
        spare = _spare_dir()
        if self._spare is None and _free(self.directory) < _ROOM and spare != self.directory:
            if _free(spare.parent) < _ROOM:
                return self
            self._spare = _cache_at(spare, self.max_bytes)
            _warn(self.directory, "its disk is full", spare)
        return self if self._spare is None else self._spare

    def get(self, key: str, kind: str) -> Path | None:
        """Return the file of an entry, with its trailer, or None if it is absent or damaged."""
        file = self._file(key, kind)
        if self._checked(file) is not None:
            return file
        return None if self._spare is None else self._spare.get(key, kind)

    def get_bytes(self, key: str, kind: str) -> bytes | None:
        """Return the payload of an entry, or None if it is absent or damaged."""
        payload = self._checked(self._file(key, kind))
        if payload is None and self._spare is not None:
            payload = self._spare.get_bytes(key, kind)
        return payload

    def put(self, key: str, kind: str, payload: bytes | Path) -> Path:
        """Store an entry, replacing any with the same key, and return its file.

        If the bound is then exceeded, older entries are removed, never the new one: at once, or
        when this process has filled a quarter of the room that it found when it last looked.
        """
        if self.writable is not self:
            return self.writable.put(key, kind, payload)
        content = payload.read_bytes() if isinstance(payload, Path) else payload
        file = self._file(key, kind)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with self.scratch() as scratch:
                unfinished = scratch / file.name
                with unfinished.open("wb") as out:
                    out.write(content + _MAGIC + hashlib.sha256(content).digest())
                unfinished.chmod(0o700)
                unfinished.replace(file)
        except OSError as error:
            if error.errno in _FULL:
                raise disk_full(self.directory) from error
            raise CacheDirError(directory=str(self.directory), reason=str(error)) from error
        self._room -= len(content)
        if self._room < 0 and len(content) > 1 << 14:  # small records are not worth a look
            self.trim(keep=file)
        return file

    def made(self, key: str, kind: str, make: Callable[[Path], Path]) -> Path:
        """Return the file of an entry, made now if absent. Concurrent callers wait for the first.

        ``make`` makes the file in an empty directory, and returns it.
        """
        file = self.get(key, kind)
        if file is None:
            with self.locked([key]):
                file = self.get(key, kind)
                if file is None:
                    with self.scratch() as scratch:
                        file = self.put(key, kind, make(scratch))
        return file

    def remove(self, key: str, kind: str) -> None:
        """Remove an entry if it exists."""
        self._file(key, kind).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, keys: Iterable[str], *, wait: bool = True) -> Iterator[bool]:
        """Keep other processes and threads from working on the same keys.

        Yields:
            True, or False if ``wait`` is false and another is at work on one of them.
        """
        # The directory may have been removed meanwhile.
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with processes.hold(self._lock_file, keys, wait=wait) as held:
            yield held

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Make a directory on the same file system, and remove it with its contents in the end.

        Raises:
            DiskFullError: The disk ran full.
        """
        top = self.writable._scratch  # noqa: SLF001 - of this class
        try:
            top.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=top, ignore_cleanup_errors=True) as name:
                yield Path(name)
        except OSError as error:
            if error.errno in _FULL:
                raise disk_full(top.parent) from error
            raise

    def stats(self) -> CacheStats:
        """Return the current size of the cache's contents."""
        entries = self._entries()
        return CacheStats(
            directory=self.directory,
            entries=len(entries),
            libraries=sum(file.endswith(".so") for file in entries),
            total_bytes=sum(status.st_size for status in entries.values()),
            max_bytes=self.max_bytes,
        )

    def trim(self, max_bytes: int | None = None, *, keep: Path | None = None) -> int:
        """Remove the least recently used entries until at most ``max_bytes`` are left.

        Return the number of bytes removed.
        """
        bound = self.max_bytes if max_bytes is None else max_bytes
        self._remove_stale()
        entries = sorted(self._entries().items(), key=lambda entry: entry[1].st_mtime)
        total = sum(status.st_size for _, status in entries)
        removed = 0
        for file, status in entries:
            if total - removed <= bound:
                break
            if keep is None or file != os.fspath(keep):
                Path(file).unlink(missing_ok=True)
                removed += status.st_size
        self._room = (self.max_bytes - (total - removed)) // 4
        return removed

    def clear(self) -> int:
        """Remove every entry and return the number of bytes removed."""
        return self.trim(max_bytes=-1)

    def touch(self, file: Path) -> None:
        """Note that an entry was used."""
        now = time.time()
        with contextlib.suppress(OSError):
            if now - file.stat().st_mtime > _TOUCH_AFTER:
                os.utime(file)

    def _file(self, key: str, kind: str) -> Path:
        return self._objects / key[:2] / f"{key}.{kind}"

    def _checked(self, file: Path) -> bytes | None:
        try:
            content = file.read_bytes()
        except OSError:
            return None
        payload, trailer = content[:-_TRAILER], content[-_TRAILER:]
        if trailer != _MAGIC + hashlib.sha256(payload).digest():
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        self.touch(file)
        return payload

    def _entries(self) -> dict[str, os.stat_result]:
        found = {}
        for top in (self._objects, self.directory / "headers"):
            for folder in _scanned(top):
                for entry in _scanned(folder.path):
                    with contextlib.suppress(OSError):  # removed by another process meanwhile
                        found[entry.path] = entry.stat()
        return found

    def _remove_stale(self) -> None:
        now = time.time()
        for item in self._scratch.glob("*"):
            with contextlib.suppress(OSError):
                if now - item.stat().st_mtime > _STALE_AFTER:
                    shutil.rmtree(item)


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def default_dir() -> Path:
    """Return the directory of the default cache.

    It is ``WRAPPER_IR_CACHE_DIR``, or else ``wrapper_ir`` in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    named = os.environ.get("WRAPPER_IR_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "wrapper_ir"


def disk_full(*directories: Path) -> DiskFullError:
    """Return the error for the one of these directories with the least free space."""
    fullest = min(directories, key=_free)
    return DiskFullError(directory=str(fullest), free=f"{_free(fullest):,}")


def default_cache() -> DiskCache:
    """Return the default cache, in :func:`default_dir`.

    If that directory was not set by the user and cannot be used, as in a container with a read-only
    home, a directory among the temporary files replaces it.

    Raises:
        CacheDirError: The directory cannot be used.
    """
    directory, bound = default_dir(), _max_bytes_from_environment()
    try:
        return _cache_at(directory, bound)
    except CacheDirError as error:
        if os.environ.get("WRAPPER_IR_CACHE_DIR"):
            raise
        spare = _cache_at(_spare_dir(), bound)
        _warn(directory, str(error.fields["reason"]), spare.directory)
        return spare


@functools.lru_cache(maxsize=8)
def _cache_at(directory: Path, max_bytes: int) -> DiskCache:
    return DiskCache(directory, max_bytes=max_bytes)


def _max_bytes_from_environment() -> int:
    return int(str(CACHE_MAX_BYTES.from_environment()))


def _spare_dir() -> Path:
    return Path(tempfile.gettempdir()) / f"wrapper_ir-{os.getuid()}"


def _free(directory: Path) -> int:
    """Return the free bytes on a directory's disk, or a large number if they are unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return 1 << 62
    return status.f_bavail * status.f_frsize


@functools.cache
def _warn(directory: Path, reason: str, spare: Path) -> None:
    warnings.warn(
        f"the cache directory {directory} cannot be used: {reason}; using {spare} instead"
        " (set WRAPPER_IR_CACHE_DIR to choose another one)",
        CacheDirWarning,
        stacklevel=2,
    )


def _make_private(directory: Path) -> None:
    """Create a directory, and reject one that others could put code into."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner, mode = directory.stat().st_uid, directory.stat().st_mode
    except OSError as error:
        reason = error.strerror or str(error)
        raise CacheDirError(directory=str(directory), reason=reason) from error
    if directory == _spare_dir() and mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheDirError(directory=str(directory), reason="others may write to it")
    if os.getuid() not in (owner, 0) and owner != 0:
        reason = "it belongs to another user, whose code it may hold"
        raise CacheDirError(directory=str(directory), reason=reason)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise CacheDirError(directory=str(directory), reason="it cannot be written")
