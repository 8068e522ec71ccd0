"""Kernels in OpenCL C: compiled when a file is loaded, put on the stream that a launch is given."""

import threading

import numpy as np
import pyopencl as cl

from device_opencl.memory import region
from device_opencl.queues import queue


class Kernels:
    """The kernels of a file. What a program says of one as options are macros of its source."""

    def __init__(self, device):
        self._launches = []

    def add(self, name, params, code, *, entry, group=(), options=None):
        """Compile a kernel, of whose parameters those of tensors point to their first elements."""
        macros = [f"-D{key}={value}" for key, value in (options or {}).items()]
        kernel = getattr(cl.Program(queue().context, code).build(macros), entry)
        self._launches.append(_launch(kernel, [_argument(type_) for type_ in params], group))

    def load(self):
        """Return the kernels' launches."""
        return tuple(self._launches)


def _argument(type_):
    """Return what makes an argument of a parameter's type: ``in f32``, ``i64``."""
    if " " in type_:
        return region
    return np.dtype("u1" if type_ == "bool" else f"{type_[0]}{int(type_[1:]) // 8}").type


def _launch(kernel, made, group):
    lock = threading.Lock()  # a kernel holds its arguments until it is enqueued

    def launch(grid, stream, *args):
        size = [count * each for count, each in zip(grid, group or (1,) * len(grid), strict=True)]
        if all(size):
            with lock:
                kernel.set_args(*(make(arg) for make, arg in zip(made, args, strict=True)))
                stream.put(cl.enqueue_nd_range_kernel, kernel, size, group or None)

    return launch
