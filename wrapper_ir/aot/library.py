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

from wrapper_ir.devices import registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import why
from wrapper_ir.runtime import _private as private
from wrapper_ir.runtime.living import OPENED_FROM_MEMORY
from wrapper_ir.toolchain.errors import LibraryLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
        self.release = loaded.WrapperIRModelContainerReleaseMemory  # libraries of others lack it
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

    def create(
        self,
        runners: int,
        device: str | None,
        values: Mapping[str, Tensor] | None = None,
        *,
        folder: Path | None = None,
    ) -> ctypes.c_void_p:
        """Make a container.

        Args:
            runners: How many calls may run at the same time.
            device: The device to run on; that of the program where none is named.
            values: Tensors that are to be its constants; then no others are read.
            folder: Where the file of its constants is, if not beside it.

        Raises:
            PackageCallError: The library refuses something.
        """
        container = ctypes.c_void_p()
        named = None if device is None else device.encode()
        args = (ctypes.byref(container), ctypes.c_size_t(runners), named)
        place = None if folder is None else os.fsencode(folder)
        if values is None:
            self.call("AOTInductorModelContainerCreateWithDevice", *args, place)
        else:
            with entries_of(values) as (entries, count):
                name = "AOTInductorModelContainerCreateWithExternalConstants"
                self.call(name, *args, place, entries, count)
        return container

    def about(self, container: ctypes.c_void_p) -> dict[str, Any]:
        """Return the names of inputs, results and constants, in the form of a package's index."""

        def rows(what: str, **functions: str) -> list[dict[str, str]]:
            count = ctypes.c_size_t()
            self.call(f"AOTInductorModelContainerGetNum{what}", container, ctypes.byref(count))
            numbers = [ctypes.c_size_t(number) for number in range(count.value)]
            words = self._word
            return [{key: words(f, container, n) for key, f in functions.items()} for n in numbers]

        return {
            "inputs": rows("Inputs", name="GetInputName"),
            "results": rows("Outputs", name="GetOutputName"),
            "constants": rows(
                "Constants", name="GetConstantName", model_name="GetConstantOriginalFQN"
            ),
        }

    def _word(self, function: str, *args: object) -> str:
        word = ctypes.c_char_p()
        self.call(f"AOTInductorModelContainer{function}", *args, ctypes.byref(word))
        return (word.value or b"").decode()


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
    if folder is None:
        return _opened(model.library, digest, lambda: _in_memory(model.library, content))
    return _opened(model.library, str(folder), lambda: _in_folder(model, folder))


def open_file(file: Path) -> Library:
    """Open a library, once in a process for all files with the same bytes.

    Raises:
        LibraryLoadError: It cannot be opened, or is none of ours.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise LibraryLoadError(library=str(file), reason=why(error)) from error
    digest = hashlib.sha256(content).hexdigest()
    return _opened(str(file), digest, lambda: _in_memory(file.name, memoryview(content)))


def _opened(library: str, key: str, place: Callable[[], str]) -> Library:
    """Open a library once.

    Args:
        library: How messages call it.
        key: Equal for equal ones.
        place: Gives the name by which the system opens it.
    """
    with _guard:
        if key not in _libraries:
            try:
                _libraries[key] = Library(ctypes.CDLL(place()))
            except (OSError, AttributeError) as error:
                reason = str(error)
                hint = hint_of(reason)
                raise LibraryLoadError(library=library, reason=reason, hint=hint) from error
        return _libraries[key]


def hint_of(reason: str) -> str | None:
    """Return what helps where a library is missing that programs on a device need."""
    sides = (kind.cpp for kind in registered() if kind.cpp is not None and kind.cpp.without)
    return next((side.without for side in sides if side.library in reason), None)


def _in_memory(library: str, content: memoryview) -> str:
    """Copy a library to memory; return the name by which the system opens it."""
    # Stays open: another file of that number would be taken for this one.
    descriptor = os.memfd_create(Path(library).name)
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
