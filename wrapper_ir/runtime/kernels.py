"""The C++ kernels of an emitted module.

An emitted module collects its kernels, then loads them all at once; those not yet on disk are
compiled in parallel::

    kernels = CppKernels(isa="avx512 avx512_vnni")
    kernels.add(
        "cpp_fused_relu_0",
        ("float*", "const int64_t"),
        r'''
    #include <torch/csrc/inductor/cpp_prefix.h>
    extern "C" void kernel(float* in_out_ptr0, const int64_t ks0) { ... }
    ''',
    )
    (cpp_fused_relu_0,) = kernels.load()

The module can be edited by hand: the kernel is exactly the text, a compile error names the kernel
and shows its lines, and argument types that do not match the function do not compile.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

from wrapper_ir.devices import CppSide, kind_of
from wrapper_ir.runtime._private import data_ptr_address, enable_amx, kernel_log
from wrapper_ir.toolchain.errors import KernelSourceError
from wrapper_ir.toolchain.kernels import build_kernels
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.toolchain.cache import DiskCache

_progress: ContextVar[Callable[[int, int], None] | None] = ContextVar("progress", default=None)


class CppKernels:
    """The kernels of one module, in the order in which they were added.

    Args:
        isa: The instruction set that all of them were written for; empty for that of this CPU.
        extra_flags: Further compiler flags for all of them.
        device: The torch device type that they are called for, whose kind adds code around each
            call (``DeviceKind.cpp``); empty if they are called as on the host.
    """

    def __init__(self, isa: str = "", *, extra_flags: Sequence[str] = (), device: str = "") -> None:
        self._isa = isa
        self._extra_flags = tuple(extra_flags)
        self._device = device
        self._sources: dict[str, CppSource] = {}

    def add(self, name: str, arg_types: Sequence[str], code: str, *, entry: str = "kernel") -> None:
        """Add one kernel.

        Args:
            name: Its name, in Python and in error messages.
            arg_types: The C++ type of each parameter, such as ``"const float*"`` or
                ``"const int64_t"``. Pointers take tensors, others take numbers.
            code: Its C++ text, which defines the function ``entry``.
            entry: The name of that function.

        Raises:
            KernelSourceError: A kernel of that name was added before.
        """
        if name in self._sources:
            raise KernelSourceError(kernel=name, reason="a kernel of that name was added before")
        kernel_log.info("C++ kernel %s:\n%s", name, code)
        self._sources[name] = CppSource(
            name, code, tuple(arg_types), entry, self._isa, self._extra_flags
        )

    def load(self) -> tuple[Callable[..., None], ...]:
        """Compile the kernels that are not on disk; return a callable for each, in order.

        Raises:
            WrapperIRError: See ``wrapper_ir.toolchain.build_kernels``.
        """
        return load_kernels(*self._sources.values(), device=self._device)


def load_kernels(
    *sources: CppSource, cache: DiskCache | None = None, jobs: int | None = None, device: str = ""
) -> tuple[Callable[..., None], ...]:
    """Return one callable for each source, compiling those that are not on disk.

    Like ``wrapper_ir.toolchain.build_kernels``, with this PyTorch version's fastest access to a
    tensor's data. ``device`` is the type that they are called for, as in :class:`CppKernels`.
    """
    side = kind_of(device).cpp if device else None
    if any("amx" in source.isa for source in sources):
        enable_amx()
    functions = build_kernels(
        sources,
        cache=cache,
        jobs=jobs,
        progress=_progress.get(),
        data_ptr_address=data_ptr_address(),
        side=side or CppSide(),
    )
    return tuple(functions)


@contextlib.contextmanager
def report_progress(callback: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``callback(ready, all)`` as kernels of modules loaded in the block become ready."""
    token = _progress.set(callback)
    try:
        yield
    finally:
        _progress.reset(token)
