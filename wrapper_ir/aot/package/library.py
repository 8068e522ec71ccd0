"""Our libraries, opened from memory, and AOTInductor's C interface to them.

The dynamic loader opens files. A library in an archive is therefore copied to an anonymous memory
file (``memfd``), so that no directory is written to and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.aot.opening import OncePerDevice, in_memory
from wrapper_ir.devices import registered
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import why
from wrapper_ir.runtime import _private as private
from wrapper_ir.toolchain.errors import LibraryLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

    from wrapper_ir.aot.package.archive import Model


class PackageCallError(WrapperIRError, RuntimeError):
    """A package's library rejected a request, or a call of it failed.

    It is also a RuntimeError, like the errors of PyTorch's loaders.

    Fields: ``words`` is the library's message, which has a code of its own.
    """

    code = "WIR2278"
    template = "the library says: {words}"


class Entry(ctypes.Structure):
    """``AOTInductorConstantMapEntry``."""

    _fields_ = (("name", ctypes.c_char_p), ("handle", ctypes.c_void_p))


class Library:
    """One of our libraries, open in this process, and its C functions."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self._loaded = loaded
        # Only our libraries have it.
        self.release: Any = loaded.WrapperIRModelContainerReleaseMemory
        self.run: Any = loaded.AOTInductorModelContainerRun
        self.run.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
            *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p),
        ]

    def bound_device(self) -> str:
        """Return the device that it is bound to from now on; empty if its program names the number.

        That is the current device, unless it was bound before.
        """
        kind, index = ctypes.c_char_p(), ctypes.c_int32()
        self.call("WrapperIRGetBoundDevice", ctypes.byref(kind), ctypes.byref(index))
        return "" if kind.value is None else f"{kind.value.decode()}:{index.value}"

    def call(self, name: str, *args: object) -> None:
        """Call a function by name, and raise PackageCallError if it fails."""
        self.check(self._loaded[name](*args))

    def check(self, failed: int) -> None:
        """Raise PackageCallError with the library's last message if ``failed`` is not 0."""
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
        """Make a container for so many calls at a time, by default on the device of the program.

        With ``values``, these are its constants, and no others are read. ``folder`` is that of its
        constants file, if not the library's.

        Raises:
            PackageCallError: The library rejects an argument.
        """
        container = ctypes.c_void_p()
        device_name = None if device is None else device.encode()
        path = None if folder is None else os.fsencode(folder)
        args = (ctypes.byref(container), ctypes.c_size_t(runners), device_name, path)
        if values is None:
            self.call("AOTInductorModelContainerCreateWithDevice", *args)
        else:
            with entries_of(values) as (entries, count):
                name = "AOTInductorModelContainerCreateWithExternalConstants"
                self.call(name, *args, entries, count)
        return container

    def about(self, container: ctypes.c_void_p) -> dict[str, Any]:
        """Return the names of inputs, results and tensors, in the form of a package's index."""
        names, count = ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_size_t()
        found = ctypes.byref(names), ctypes.byref(count)
        self.call("WrapperIRModelContainerGetUnreadNames", container, *found)

        def rows(what: str, **functions: str) -> list[dict[str, str]]:
            count = ctypes.c_size_t()
            self.call(f"AOTInductorModelContainerGetNum{what}", container, ctypes.byref(count))
            numbers = [ctypes.c_size_t(number) for number in range(count.value)]
            text = self._text
            return [{key: text(f, container, n) for key, f in functions.items()} for n in numbers]

        return {
            "inputs": rows("Inputs", name="GetInputName"),
            "results": rows("Outputs", name="GetOutputName"),
            "constants": rows(
                "Constants", name="GetConstantName", model_name="GetConstantOriginalFQN"
            ),
            "unread": [(name or b"").decode() for name in names[: count.value]],
        }

    def _text(self, function: str, *args: object) -> str:
        text = ctypes.c_char_p()
        self.call(f"AOTInductorModelContainer{function}", *args, ctypes.byref(text))
        return (text.value or b"").decode()


_libraries: Final = OncePerDevice(Library.bound_device)


def open_library(model: Model, folder: Path | None = None) -> Library:
    """Open a model's library, once per process for all packages with the same library.

    If it reads its constants from a file, both are extracted to ``folder``.

    Raises:
        PackageError: The library is damaged.
        LibraryLoadError: It cannot be opened.
    """
    content = model.archive.bytes_of(model.library)
    digest = hashlib.sha256(content).hexdigest()
    if digest != model.about["files"][model.about["library"]]["sha256"]:
        model.archive.refuse(f"{model.library} is not as it was written: its hash differs")
    if folder is None:
        return _opened(model.library, digest, lambda: in_memory(model.library, content))
    return _opened(model.library, str(folder), lambda: _in_folder(model, folder))


def open_file(file: Path) -> Library:
    """Open a library, once per process for all files with the same bytes.

    Raises:
        LibraryLoadError: It cannot be opened, or is not one of ours.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise LibraryLoadError(library=str(file), reason=why(error)) from error
    digest = hashlib.sha256(content).hexdigest()
    return _opened(str(file), digest, lambda: in_memory(file.name, memoryview(content)))


def _opened(library: str, key: str, place: Callable[[], str]) -> Library:
    """Open a library once for equal keys; ``place`` puts it into a file and returns the path."""

    def open_it() -> Library:
        try:
            return Library(ctypes.CDLL(place()))
        except (OSError, AttributeError) as error:
            raise load_error(library, error) from error

    return _libraries.opened(key, open_it, open_it)


def load_error(library: str, error: Exception) -> LibraryLoadError:
    """Return the error for a library that did not open; the hint names a missing dependency."""
    reason = str(error)
    sides = (kind.cpp for kind in registered() if kind.cpp is not None and kind.cpp.without)
    hint = next((side.without for side in sides if side.library in reason), None)
    return LibraryLoadError(library=library, reason=reason, hint=hint)


def _in_folder(model: Model, folder: Path) -> str:
    """Extract a library and its constants to a folder, and return the library's path."""
    for path in filter(None, (model.weights, model.library)):
        (folder / Path(path).name).write_bytes(model.archive.bytes_of(path))
    return str(folder / model.about["library"])


@contextlib.contextmanager
def entries_of(values: Mapping[str, Tensor]) -> Iterator[tuple[Any, Any]]:
    """Yield an array of named tensors for a C function that borrows them, and its length."""
    handles = private.new_handles([*values.values()])
    try:
        rows = zip((name.encode() for name in values), handles, strict=True)
        yield (Entry * len(handles))(*(Entry(*row) for row in rows)), ctypes.c_size_t(len(handles))
    finally:
        private.take_handles(handles)
