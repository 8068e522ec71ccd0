"""Witness programs: they record memory use, addresses, and the order and state of calls.

The results of corpus programs cannot show that memory is freed early, that calls run with autograd
off, or that a launch gets its grid in the right order. These programs do, through kernels and ops
of the kit that record their observations.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.devices import KernelLanguage, accelerators, kind_of, register_device
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from wrapper_ir.lines.program import Program

BYTES: Final = 4 << 20
"""The size of the large buffers in these programs, too large for emitters to keep between calls."""

_FOLDER: Final = Path(__file__).parent / "kit"
"""The programs. Measuring ones take ``%w``, and the kernels write to it."""


def witness(name: str) -> Program:
    """Parse one of the programs; those for a GPU are for the first accelerator there is."""
    text = (_FOLDER / f"{name}.wir").read_text("utf-8")
    return parse(text.replace("@accelerator:", f"@{next(accelerators()).type}:"))


# Memory of the process.


def in_use() -> int:
    """Return the number of bytes allocated on this process's heap."""
    libc = _libc()
    assert libc is not None
    usage = libc.mallinfo2()
    return int(usage.uordblks) + int(usage.hblkhd)


def can_measure() -> bool:
    """Return whether the C library reports allocated memory and can fill it."""
    return _libc() is not None


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Fill allocated and freed memory with garbage, if the C library supports that.

    Then memory that should be zeroed is not zero by luck, and a use after free reads other values.
    """
    libc = _libc()
    if libc is None:
        yield
        return
    libc.mallopt(_M_PERTURB, 0x5A)
    try:
        yield
    finally:
        libc.mallopt(_M_PERTURB, 0)


_M_PERTURB: Final = -6

_FIELDS: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


@cache
def _libc() -> ctypes.CDLL | None:
    """Return the C library if it is glibc 2.33 or newer."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo
    return libc


# Ops of the kit.


class Notes:
    """Recorded calls of the op ``note``: number, tensor, autograd state, autocast state."""

    found: list[tuple[int, list[float], bool, bool]] = []  # noqa: RUF012 - an op has no state


@cache
def declare_ops() -> object:
    """Register the kit's ops with torch for the rest of the process."""
    made: Any = torch.library.Library  # untyped
    library = made("wrapper_ir_kit", "FRAGMENT")
    library.define("note(Tensor x, int at) -> ()")
    library.define("made(Tensor x, int n) -> Tensor")
    library.impl("note", _note, "CompositeExplicitAutograd")
    library.impl("made", _made, "CompositeExplicitAutograd")
    return library


def _note(x: Tensor, at: int) -> None:
    # This kernel runs below autograd, so the tensor has to tell whether autograd was on.
    autograd = torch.is_grad_enabled() or x.requires_grad
    Notes.found.append((at, x.tolist(), autograd, torch.is_autocast_enabled("cpu")))


#: The result of ``made`` by its number: the declared layout for 4, other layouts otherwise.
LIES: Final[Mapping[int, Callable[[Tensor], Tensor]]] = {
    4: lambda x: x.clone(),
    5: lambda x: x.double(),
    6: lambda x: x.t().clone(memory_format=torch.preserve_format),
    7: lambda x: x.new_zeros((8, 4)),
}


def _made(x: Tensor, n: int) -> Tensor:
    return LIES[n](x)


# Launches of the kit.


class Launches:
    """A launcher for kernels in the kit's own language that only records the launches."""

    found: list[tuple[object, ...]] = []  # noqa: RUF012 - the launcher is made by emitted text

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = []

    def add(
        self,
        name: str,
        params: Sequence[str],
        code: str,
        *,
        entry: str,
        group: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a kernel."""
        assert (code.strip(), options or {}) == ("nothing", {})
        self._names.append((entry, tuple(params), tuple(group)))

    def load(self) -> tuple[Callable[..., None], ...]:
        """Return a callable for each kernel."""
        return tuple(self._launch(name) for name in self._names)

    def _launch(self, kernel: tuple[object, ...]) -> Callable[..., None]:
        def launch(grid: tuple[int, ...], *args: object) -> None:
            numbers = tuple(arg for arg in args if not isinstance(arg, torch.Tensor))
            Launches.found.append((self._device.type, *kernel, tuple(grid), numbers))

        return launch


@contextlib.contextmanager
def launcher_known() -> Iterator[None]:
    """Register the kit's kernel language for the CPU within a block."""
    language = KernelLanguage("wrapper_ir_kit", has_grid=True, launcher=f"{__name__}:Launches")
    before = kind_of("cpu")
    taught = dataclasses.replace(before, languages=(*before.languages, language))
    register_device(taught, over=before)
    try:
        yield
    finally:
        register_device(before, over=taught)
