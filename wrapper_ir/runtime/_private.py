"""Private fast paths of torch, each with a public fallback.

Emitted code calls these at least once for every buffer, and the public functions cost about twice
as much: ``torch.empty_strided`` 0.7 us against 0.4, ``as_strided`` 0.9 against 0.5. If a torch
version lacks one, its fallback is used. Only Inductor's hooks and the count of what shares a
storage have no public equivalent. Emitted code and its runtime use no private torch names anywhere
else.
"""

from __future__ import annotations

import ctypes
import logging
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.profiler import record_function

from wrapper_ir.devices import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_guards: Final[Any] = getattr(getattr(torch._C, "_dynamo", None), "guards", None)


def _public_empty_strided_cpu(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


def _public_reinterpret_tensor(
    source: Tensor, size: Sequence[int], stride: Sequence[int], offset_increment: int = 0
) -> Tensor:
    return source.detach().as_strided(size, stride, source.storage_offset() + offset_increment)


empty_strided_cpu: Final[Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]] = getattr(
    _guards, "_empty_strided_cpu", _public_empty_strided_cpu
)
"""``(size, stride, dtype)``: returns a tensor on the CPU with undefined contents."""

reinterpret_tensor: Final[Callable[..., Tensor]] = getattr(
    _guards, "_reinterpret_tensor", _public_reinterpret_tensor
)
"""``(tensor, size, stride, offset_increment)``: returns a view.

The increment is in elements, relative to the tensor's own offset.
"""


def storage_use_count(storage: torch.UntypedStorage) -> int:
    """Return how many tensors and storage objects share a storage."""
    return int(torch._C._storage_Use_Count(storage._cdata))


def run_intermediate_hooks(name: str, value: Tensor) -> None:
    """Call Inductor's hooks for intermediate values on a tensor."""
    import_module("torch._inductor.hooks").run_intermediate_hooks(name, value)


def is_name_of_group(name: str) -> bool:
    """Return whether ops find a process group by a name."""
    if not torch.distributed.is_available():
        return False
    groups: Any = import_module("torch.distributed.distributed_c10d")
    try:
        groups._resolve_process_group(name)
    except RuntimeError:
        return False
    return True


def registered_op(op: str) -> tuple[str, bool] | None:
    """Return what torch knows of an op, ``namespace::name.overload``, if it knows it.

    That is its schema, and whether it changes the shape or the storage of its argument, as a tag
    says.
    """
    namespace, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    found = getattr(packet, overload or "default", None)
    return None if found is None else (str(found._schema), torch.Tag.inplace_view in found.tags)


kernel_log: Final = logging.getLogger("torch._inductor.async_compile.__kernel_code")
"""Inductor's kernel log, shown by ``TORCH_LOGS=kernel_code``."""

shown_range: Final[Callable[[str], AbstractContextManager[Any]]] = getattr(
    getattr(torch._C, "_profiler", None), "_RecordFunctionFast", record_function
)
"""A context manager that PyTorch's profiler shows: 0.3 us if no profiler is active, against 10."""


def data_ptr_address() -> int:
    """Return the address of the C function ``void* (PyObject* tensor)`` for data pointers, or 0.

    It is 0 if torch has none; kernel bindings then call ``Tensor.data_ptr``.
    """
    return int(getattr(_guards, "_torchinductor_pyobject_tensor_data_ptr", 0))


def tensor_guard(
    tensors: Sequence[Tensor],
    sizes: Sequence[Sequence[int | None]],
    strides: Sequence[Sequence[int | None]],
) -> Callable[..., bool] | None:
    """Return a function that checks in one call whether tensors match the given ones.

    It compares type, dtype, device, dispatch keys, ``requires_grad``, rank, and every size and
    stride that is not ``None``. It takes the same number of tensors as arguments and raises
    TypeError for any other number. It keeps no reference to the tensors. The result is ``None`` if
    torch has none; every call then takes the slow path.
    """
    make = getattr(_guards, "TensorGuards", None)
    if make is None:
        return None
    try:
        guard = make(
            *tensors,
            dynamic_dims_sizes=[list(size) for size in sizes],
            dynamic_dims_strides=[list(stride) for stride in strides],
        )
    except (TypeError, RuntimeError):
        return None
    check: Callable[..., bool] = guard.check
    return check


below_autograd: Final[Callable[[], AbstractContextManager[Any]]] = getattr(
    torch._C, "_AutoDispatchBelowAutograd", nullcontext
)
"""A context manager that makes ops skip autograd and call their backend kernels directly."""


def _public_any_autocast_enabled() -> bool:
    return any(torch.is_autocast_enabled(kind.type) for kind in registered())


@contextmanager
def _public_no_autocast() -> Iterator[None]:
    before = {kind.type: torch.is_autocast_enabled(kind.type) for kind in registered()}
    try:
        for type_ in before:
            torch.set_autocast_enabled(type_, False)  # noqa: FBT003 - torch takes no name
        yield
    finally:
        for type_, is_enabled in before.items():
            torch.set_autocast_enabled(type_, is_enabled)


any_autocast_enabled: Final[Callable[[], bool]] = getattr(
    torch._C, "_is_any_autocast_enabled", _public_any_autocast_enabled
)
"""Return whether autocast is enabled for any device type."""

no_autocast: Final[Callable[[], AbstractContextManager[Any]]] = getattr(
    torch._C, "_DisableAutocast", _public_no_autocast
)
"""A context manager that disables autocast for all device types."""


def enable_amx() -> bool:
    """Request AMX tile registers from the operating system; return whether they are enabled.

    Linux enables them only on request; code that uses them without one dies of SIGILL. If torch
    lacks the helper the result is False, and torch makes the request when it first uses AMX.
    """
    ask = getattr(torch.cpu, "_init_amx", None)
    return bool(ask()) if ask is not None else False


# Tensor handles, as in AOTInductor's C interface.

# Not `ctypes.pythonapi.PyCapsule_...`: those objects are shared, and anyone may change their types.
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_capsule_of = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


def new_handles(tensors: Sequence[Tensor]) -> list[int]:
    """Return a new handle for each tensor; the receiver must delete them."""
    made = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(list(tensors))
    return [_pointer_of(each, None) for each in made]


def take_handles(handles: Iterable[int]) -> list[Tensor]:
    """Return the tensors of the handles, and delete the handles."""
    capsules = [_capsule_of(handle, None, None) for handle in handles]
    return torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(capsules)
