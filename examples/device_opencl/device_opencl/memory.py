"""Device memory as tensors whose storage is a buffer handle, and copies.

Importing this module registers the device with torch.

Torch receives a buffer through DLPack. The address it gets is not one the processor can read:
touching it from the host faults, so contents are visible only through copies.
"""

import ctypes
import itertools
import struct
import threading
import weakref

import pyopencl as cl
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as set_up

from device_opencl.kernels.ops import OPS, on_host
from device_opencl.queues import current_stream, queue
from wrapper_ir.runtime import reinterpret_as

_buffers = {}
_handles = itertools.count(1 << 63 | 1 << 20, 1 << 20)
_lock = threading.Lock()
_managed = ctypes.create_string_buffer(64)
_made_of = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule = _made_of(("PyCapsule_New", ctypes.pythonapi))


def empty_strided(size, stride, *, dtype=None, **_):
    """Return a tensor in its own buffer, which is released with its storage."""
    like = torch.empty_strided(size, stride, dtype=dtype, device="meta")
    nbytes = max(like.untyped_storage().nbytes(), like.itemsize)
    buffer = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, nbytes)
    with _lock:  # a DLManagedTensor of bytes (1, 8, 1) on kDLExtDev (12), without a deleter
        handle, *_ = itertools.islice(_handles, (nbytes >> 20) + 1)
        shape = ctypes.c_int64(nbytes)
        numbers = (handle, 12, 0, 1, 1, 8, 1, ctypes.addressof(shape), 0, 0, 0, 0)
        struct.pack_into("PiiiBBHPPQPP", _managed, 0, *numbers)
        whole = torch.from_dlpack(_capsule(ctypes.addressof(_managed), b"dltensor", None))
    _buffers[handle] = buffer
    weakref.finalize(whole.untyped_storage(), _buffers.pop, handle).atexit = False
    return reinterpret_as(whole, like.dtype, tuple(size), tuple(stride), 0)


def empty(size, *, dtype=None, memory_format=None, **_):
    """Return a dense tensor."""
    like = torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format)
    return empty_strided(size, like.stride(), dtype=like.dtype)


def place(tensor):
    """Return a tensor's buffer and its byte offset in it."""
    buffer = _buffers[tensor.untyped_storage().data_ptr()]
    return buffer, tensor.storage_offset() * tensor.element_size()


def region(tensor):
    """Return a tensor's memory from its first element on, in the form that kernels take."""
    buffer, start = place(tensor)
    if start % 128:
        raise ValueError(f"a kernel's tensor begins {start} bytes into its buffer, not 128 * n")
    return buffer.get_sub_region(start, buffer.size - start) if start else buffer


def _span(tensor):
    """Return host memory that spans a tensor's first to last element, and a view of it."""
    reach = sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride(), strict=True))
    whole = torch.empty((reach + 1 if tensor.numel() else 0,), dtype=tensor.dtype)
    return whole.view(torch.uint8).numpy(), whole.as_strided(tensor.size(), tensor.stride())


def _fetch(tensor):
    """Return such memory filled with the tensor's contents."""
    memory, values = _span(tensor)
    if memory.size:
        buffer, start = place(tensor)
        current_stream().put(cl.enqueue_copy, memory, buffer, src_offset=start)
    return memory, values


def copy(source, target, non_blocking=False):
    """Copy to, from or within the device; the host waits for the current stream."""
    given = source if source.device.type == "cpu" else _fetch(source)[1]
    if target.device.type == "cpu":
        return target.copy_(given)
    # Bytes between the elements stay as they are.
    memory, values = _span(target) if target.is_contiguous() else _fetch(target)
    values.copy_(given)
    if memory.size:
        buffer, start = place(target)
        current_stream().put(cl.enqueue_copy, buffer, memory, dst_offset=start)
    return target


set_up("opencl")
_aten, _rest = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
_own = {"empty.memory_format": empty, "empty_strided": empty_strided, "_copy_from": copy}
for _op, _kernel in {**OPS, **_own}.items():
    _aten.impl(_op, _kernel, "PrivateUse1")
_rest.fallback(on_host, "PrivateUse1")
