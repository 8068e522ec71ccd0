"""Libraries of ours opened from memory, and AOTInductor's C interface to them.

The system's loader opens files. A library that lies in an archive is copied to memory which the
system shows as a file, so that no directory is written to and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import _private as private
from wrapper_ir.runtime.cuda_graphs.status import OPENED_FROM_MEMORY
from wrapper_ir.toolchain.errors import LibraryLoadError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from wrapper_ir.aot.about import Model


class PackageCallError(WrapperIRError, RuntimeError):
    """The library of a package refused something, or a call of it failed.

    It is a RuntimeError, too, as what PyTorch's loaders raise.

    Fields: ``words`` are those of the library, with a code of their own.
    """

    code = "WIR2278"
    template = "the library says: {words}"


class Entry(ctypes.Structure):
    """``AOTInductorConstantMapEntry``."""

    _fields_ = (("name", ctypes.c_char_p), ("handle", ctypes.c_void_p))


class Library:
    """A library of ours that this process has opened, and its C functions."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._loaded = loaded
        self.run = loaded.AOTInductorModelContainerRun
        self.run.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p),
        ]

    def call(self, name: str, *args: object) -> None:
        """Call a function that tells whether it succeeded."""
        self.check(self._loaded[name](*args))

    def check(self, failed: int) -> None:
        """Raise what went wrong last, if something did.

        Raises:
            PackageCallError: It did.
        """
        if failed:
            words = ctypes.c_char_p()
            self._loaded.AOTInductorGetLastError(ctypes.byref(words))
            raise PackageCallError(words=(words.value or b"").decode(errors="replace").strip())


_guard = threading.Lock()
_libraries: Final[dict[str, Library]] = {}


def open_library(model: Model, folder: Path | None = None) -> Library:
    """Open a model's library, once in a process for all packages that have the same.

    Args:
        model: The model.
        folder: Where the library and its constants are to lie as files, where it reads them.

    Raises:
        PackageError: The library is damaged.
        LibraryLoadError: It cannot be opened.
    """
    content = model.archive.bytes_of(model.library)
    digest = hashlib.sha256(content).hexdigest()
    if digest != model.about["files"][model.about["library"]]["sha256"]:
        model.archive.refuse(f"{model.library} is not as it was written: its hash differs")
    with _guard:
        key = str(folder or digest)
        if key not in _libraries:
            name = _in_memory(model, content) if folder is None else _in_folder(model, folder)
            try:
                _libraries[key] = Library(ctypes.CDLL(name))
            except OSError as error:
                raise LibraryLoadError(library=model.library, reason=str(error)) from error
        return _libraries[key]


def _in_memory(model: Model, content: memoryview) -> str:
    """Copy a library to memory; return the name by which the system opens it."""
    # Stays open: another file of that number would be taken for this one.
    descriptor = os.memfd_create(model.about["library"])
    with open(descriptor, "wb", closefd=False) as memory:
        memory.write(content)
    name = f"/proc/self/fd/{descriptor}"
    OPENED_FROM_MEMORY.add(name)
    return name


def _in_folder(model: Model, folder: Path) -> str:
    """Copy a library to a folder, and its constants beside it."""
    for path in filter(None, (model.weights, model.library)):
        (folder / Path(path).name).write_bytes(model.archive.bytes_of(path))
    return str(folder / model.about["library"])


@contextlib.contextmanager
def entries_of(values: Mapping[str, Tensor]) -> Iterator[tuple[Any, Any]]:
    """Tensors by name for a C function that borrows their handles, and how many they are."""
    handles = private.new_handles([*values.values()])
    try:
        rows = zip((name.encode() for name in values), handles, strict=True)
        yield (Entry * len(handles))(*(Entry(*row) for row in rows)), ctypes.c_size_t(len(handles))
    finally:
        private.take_handles(handles)
