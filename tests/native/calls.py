"""What tests say to a library: through PyTorch's own runner, or function by function."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import torch

from wrapper_ir.toolchain.compiler import library_dirs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

# fixture.cpp's Mode
FINE, RELATION, STANDARD, IN_TORCH, NO_MEMORY, UNKNOWN, SLOW, CONSTANT, BUFFER, MEET = range(10)

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def runner(library: Path, runners: int = 1) -> torch._C._aoti.AOTIModelContainerRunnerCpu:
    return torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), runners)


def inputs(x: torch.Tensor, scale: float = 2.0, mode: int = FINE) -> list[torch.Tensor]:
    return [x, torch.tensor(scale, dtype=torch.float64), torch.tensor(mode)]


def expected(
    x: torch.Tensor, scale: float = 2.0, bias: torch.Tensor | None = None, weight: float = 0.0
) -> torch.Tensor:
    """Return the fixture's first result; ``weight`` is what its first row is filled with."""
    return x * scale + (torch.arange(8.0) if bias is None else bias) + weight


def handles(tensors: Iterable[torch.Tensor]) -> list[int]:
    """Return new handles, which somebody has to delete or take."""
    capsules = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(list(tensors))
    return [_pointer(capsule, None) for capsule in capsules]


def delete(handle: int) -> None:
    assert SHIM.aoti_torch_delete_tensor_object(ctypes.c_void_p(handle)) == 0


def _keeps() -> bool:
    """Return whether PyTorch's function that steals a handle leaves it alive (2.13 does)."""
    tensor = torch.ones(1)
    before = tensor._use_count()
    _steal(_capsule(handles([tensor])[0], None, None))
    return tensor._use_count() > before


_steal = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
SHIM = ctypes.CDLL(str(library_dirs()[0] / "libtorch_cpu.so"))
_KEEPS = _keeps()


def take(handle: int) -> torch.Tensor:
    """Return the tensor of a handle that is ours; it is ours no longer."""
    tensor = _steal(_capsule(handle, None, None))
    if _KEEPS:
        delete(handle)
    return tensor


def peek(handle: int) -> torch.Tensor:
    """Return the tensor of a handle that is somebody else's."""
    own = ctypes.c_void_p()
    assert SHIM.aoti_torch_new_tensor_handle(ctypes.c_void_p(handle), ctypes.byref(own)) == 0
    assert own.value is not None
    return take(own.value)


class Pair(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("handle", ctypes.c_void_p)]


@contextmanager
def lent(tensors: dict[str, torch.Tensor]) -> Iterator[ctypes.Array[Pair]]:
    """Give handles of tensors by their names, and delete them at the end."""
    owned = handles(tensors.values())
    named = zip(tensors, owned, strict=True)
    try:
        yield (Pair * len(owned))(*(Pair(name.encode(), handle) for name, handle in named))
    finally:
        for handle in owned:
            delete(handle)


class NativeError(Exception):
    """A function of the interface returned an error."""


class Native:
    """The functions of a library, and one container."""

    def __init__(
        self,
        library: Path,
        runners: int = 1,
        device: str = "cpu",
        folder: Path | None = None,
        external: dict[str, torch.Tensor] | None = None,
    ) -> None:
        self.functions = ctypes.CDLL(str(library))
        self.container = ctypes.c_void_p()
        where = None if folder is None else str(folder).encode()
        size = ctypes.c_size_t(runners)
        given = (ctypes.byref(self.container), size, device.encode(), where)
        if external is None:
            self.call("AOTInductorModelContainerCreateWithDevice", *given)
            return
        with lent(external) as pairs:
            name = "AOTInductorModelContainerCreateWithExternalConstants"
            self.call(name, *given, pairs, ctypes.c_size_t(len(pairs)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self("Delete")

    def call(self, name: str, *args: object) -> None:
        function, last_error = getattr(self.functions, name), self.functions.AOTInductorGetLastError
        words = ctypes.c_char_p()
        where = ctypes.byref(words)
        # Nothing is allocated between the two: a collection may delete a container of the same
        # library, and each of its calls that succeeds forgets the last error.
        if function(*args) != 0:
            last_error(where)
            raise NativeError((words.value or b"").decode())

    def __call__(self, name: str, *args: object) -> None:
        self.call(f"AOTInductorModelContainer{name}", self.container, *args)

    def run(
        self,
        tensors: Sequence[torch.Tensor | None],
        *,
        results: int = 5,
        name: str = "Run",
        stream: int | None = None,
    ) -> list[torch.Tensor | None]:
        """Call the library; None stands for a null handle."""
        given = [None if tensor is None else handles([tensor])[0] for tensor in tensors]
        in_array = (ctypes.c_void_p * len(given))(*given)
        out_array = (ctypes.c_void_p * results)(*(1 for _ in range(results)))
        counts = ctypes.c_size_t(len(given)), ctypes.c_size_t(results)
        try:
            where = ctypes.c_void_p(stream)
            self(name, in_array, counts[0], out_array, counts[1], where, None)
        except NativeError:
            assert list(out_array) == [None] * results
            raise
        finally:
            assert list(in_array) == [None] * len(given)  # taken, whatever happened
        return [None if handle is None else take(handle) for handle in out_array]

    def update(self, name: str, tensors: dict[str, torch.Tensor], *flags: bool) -> None:
        """Call one of the functions that take pairs; the handles stay ours."""
        arguments = [ctypes.c_bool(flag) for flag in flags]
        with lent(tensors) as pairs:
            self(name, pairs, ctypes.c_size_t(len(pairs)), *arguments)
