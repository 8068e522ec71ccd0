"""Kernels in OpenCL C, compiled when a file is loaded and launched on a given stream."""

import threading

import numpy as np
import pyopencl as cl

from device_opencl.memory import region
from device_opencl.queues import queue

_TYPES = {"i64": "i8", "i32": "i4", "u64": "u8", "f64": "f8", "f32": "f4", "bool": "u1"}


class Kernels:
    """The kernels of a file. A program's options for a kernel become macros of its source."""

    def __init__(self, device):
        self._launches = []

    def add(self, name, params, code, *, entry, group=(), options=None):
        """Compile a kernel; its tensor parameters point to the tensors' first elements."""
        macros = [f"-D{key}={value}" for key, value in (options or {}).items()]
        kernel = getattr(cl.Program(queue().context, code).build(macros), entry)
        made = [region if " " in type_ else np.dtype(_TYPES[type_]).type for type_ in params]
        self._launches.append(_launch(kernel, made, group))

    def load(self):
        """Return the kernels' launch functions."""
        return tuple(self._launches)


def _launch(kernel, made, group):
    lock = threading.Lock()  # a kernel object holds its arguments until it is enqueued

    def launch(grid, stream, *args):
        size = [count * each for count, each in zip(grid, group or (1,) * len(grid), strict=True)]
        if all(size):
            with lock:
                kernel.set_args(*(make(arg) for make, arg in zip(made, args, strict=True)))
                stream.put(cl.enqueue_nd_range_kernel, kernel, size, group or None)

    return launch
