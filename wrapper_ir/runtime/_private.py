"""Private fast paths of torch, each behind a name of ours and with a public fallback.

Emitted code calls these once or more for every buffer, and the public ways cost about twice as
much: ``torch.empty_strided`` 0.7 us against 0.4, ``as_strided`` 0.9 against 0.5. What is missing
in a version of torch is replaced here, and nowhere else does emitted code or its runtime touch a
name that torch does not promise.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = [
    "any_autocast_enabled",
    "below_autograd",
    "clear_workspaces",
    "current_stream",
    "data_ptr_address",
    "empty_strided_cpu",
    "empty_strided_cuda",
    "enable_amx",
    "mend_capture",
    "no_autocast",
    "reinterpret_tensor",
    "tensor_guard",
]

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
"""``(size, stride, dtype)``: a tensor on the CPU with undefined contents."""

reinterpret_tensor: Final[Callable[..., Tensor]] = getattr(
    _guards, "_reinterpret_tensor", _public_reinterpret_tensor
)
"""``(tensor, size, stride, offset_increment)``: a view.

The increment is in elements and counts from the tensor's own offset.
"""


def data_ptr_address() -> int:
    """Address of the C function ``void* (PyObject* tensor)`` that gives a data pointer, or 0.

    0 where torch has none: kernel bindings then call ``Tensor.data_ptr``.
    """
    return int(getattr(_guards, "_torchinductor_pyobject_tensor_data_ptr", 0))


def tensor_guard(
    tensors: Sequence[Tensor],
    sizes: Sequence[Sequence[int | None]],
    strides: Sequence[Sequence[int | None]],
) -> Callable[..., bool] | None:
    """A function that tells in one call whether tensors are like the given ones.

    Alike are type, dtype, device, dispatch keys, ``requires_grad``, rank, and every size and stride
    that is not ``None``. It takes the tensors as arguments, as many as were given, and raises
    TypeError for any other number. The guard keeps no reference to the tensors.

    Returns:
        The function, or ``None`` where torch has none: then every call goes the slow way.
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
"""A context in which ops go straight to their backends' kernels, past those of autograd."""


_AUTOCAST: Final = ("cpu", "cuda")


def _public_any_autocast_enabled() -> bool:
    return any(map(torch.is_autocast_enabled, _AUTOCAST))


@contextmanager
def _public_no_autocast() -> Iterator[None]:
    before = {kind: torch.is_autocast_enabled(kind) for kind in _AUTOCAST}
    try:
        for kind in _AUTOCAST:
            torch.set_autocast_enabled(kind, False)  # noqa: FBT003 - torch takes no name
        yield
    finally:
        for kind, is_enabled in before.items():
            torch.set_autocast_enabled(kind, is_enabled)


any_autocast_enabled: Final[Callable[[], bool]] = getattr(
    torch._C, "_is_any_autocast_enabled", _public_any_autocast_enabled
)
"""Whether autocast is on for a device of any type."""

no_autocast: Final[Callable[[], AbstractContextManager[Any]]] = getattr(
    torch._C, "_DisableAutocast", _public_no_autocast
)
"""A context in which autocast is off for devices of all types."""


def enable_amx() -> bool:
    """Ask the operating system for AMX's tile registers; return whether this process has them.

    Linux hands them out on request only, and code that uses them without dies of SIGILL. Without
    torch's helper the answer is False, and torch itself asks when it first uses them.
    """
    ask = getattr(torch.cpu, "_init_amx", None)
    return bool(ask()) if ask is not None else False


def _public_empty_strided_cuda(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


empty_strided_cuda: Final[Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]] = getattr(
    _guards, "_empty_strided_cuda", _public_empty_strided_cuda
)
"""``(size, stride, dtype)``: a tensor on the current GPU with undefined contents."""


def _public_current_stream(device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


current_stream: Final[Callable[[int], int]] = getattr(
    torch._C, "_cuda_getCurrentRawStream", _public_current_stream
)
"""``(device index)``: the raw handle of a GPU's current stream."""


def _clear_nothing() -> None:
    """Nothing is done."""


clear_workspaces: Final[Callable[[], None]] = getattr(
    torch._C, "_cuda_clearCublasWorkspaces", _clear_nothing
)
"""Forget the workspaces of cuBLAS: the next product takes a new one."""


def mend_capture(device: int, pool: tuple[int, int]) -> None:
    """Put right what a capture that failed leaves behind in PyTorch.

    Its allocator believes that the capture goes on, and so does the random number generator, which
    then refuses to draw. A capture of nothing ends both.
    """
    end = getattr(torch._C, "_cuda_endAllocateToPool", None)
    if end is not None:
        with suppress(RuntimeError):
            end(device, pool)
    with suppress(RuntimeError):
        torch.cuda.synchronize(device)
        # Of this thread alone: others may allocate meanwhile.
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            torch.empty(1, device=torch.device("cuda", device)).zero_()
