"""C++ kernels, for the length of whose calls the device's memory is open."""

import ctypes
from functools import partial

from device_protected import LIBRARY
from wrapper_ir.runtime import CppKernels

MEMORY = ctypes.CDLL(str(LIBRARY))


class Kernels(CppKernels):
    """Kernels that can only be called so."""

    def load(self):
        """Return a callable for each."""
        return tuple(partial(call, kernel) for kernel in super().load())


def call(kernel, *args):
    """Call a kernel."""
    MEMORY.open_memory()
    try:
        kernel(*args)
    finally:
        MEMORY.close_memory()
