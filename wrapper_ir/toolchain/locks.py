"""Locks between processes: many small locks in one file.

Each lock is one byte of the file, at an offset made from the key. On Linux they are "open file
description" locks: they also keep threads of one process apart, need one descriptor however many
keys are held, and vanish with the process. Elsewhere the whole file is locked.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.processes import current, is_pooled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: ``struct flock``: type, whence, start, length, process (which must be 0 for this kind of lock).
_FLOCK = "hhqqi0q"
_SET_AND_WAIT = getattr(fcntl, "F_OFD_SETLKW", None)
_SET = getattr(fcntl, "F_OFD_SETLK", None)

#: How long a thread of a pool waits before it asks whether it is to stop (seconds).
_LOOK_UP = 0.02


@contextlib.contextmanager
def hold(file: Path, keys: Iterable[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the locks of all ``keys`` for the length of a ``with`` block.

    Args:
        file: The lock file; made when absent, never removed.
        keys: Hexadecimal digests; taken in sorted order, so that two holders cannot wait for
            each other.
        wait: Whether to wait for whoever holds one of them.

    Yields:
        True, or False when ``wait`` is false and somebody holds one of the locks.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _take_all(descriptor, sorted({_offset(key) for key in keys}), wait=wait)
    finally:
        os.close(descriptor)  # which lets go of everything


def _offset(key: str) -> int:
    return int(key[:15], 16)


def _take_all(descriptor: int, offsets: list[int], *, wait: bool) -> bool:
    try:
        for offset in offsets:
            _take(descriptor, offset, wait=wait)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES) and not wait:
            return False
        raise
    return True


def _take(descriptor: int, offset: int, *, wait: bool) -> None:
    if not (wait and is_pooled()):
        _take_byte(descriptor, offset, wait=wait)
        return
    # A signal interrupts the wait of the main thread alone: others look up from it.
    while True:
        try:
            _take_byte(descriptor, offset, wait=False)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        else:
            return
        time.sleep(_LOOK_UP)
        current().check()


def _take_byte(descriptor: int, offset: int, *, wait: bool) -> None:
    operation = _SET_AND_WAIT if wait else _SET
    if operation is not None:
        request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)
        try:
            fcntl.fcntl(descriptor, operation, request)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOLCK, errno.ENOSYS):
                raise
        else:
            return
    # An old kernel or an odd file system: one lock for all keys, which is slower, never wrong.
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
