"""Private fast paths of torch for CUDA; see ``_private``."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.runtime._private import shown_range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def _public_empty_strided_cuda(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


empty_strided_cuda: Final[Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]] = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "guards", None),
    "_empty_strided_cuda",
    _public_empty_strided_cuda,
)
"""``(size, stride, dtype)``: returns a tensor on the current GPU with undefined contents."""


def _public_current_stream(device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)


current_stream: Final[Callable[[int], int]] = getattr(
    torch._C, "_cuda_getCurrentRawStream", _public_current_stream
)
"""``(device index)``: returns the raw handle of a GPU's current stream."""


# Builds without CUDA lack these.
_is_recorded: Any = getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)
_metadata: Any = getattr(torch._C, "_cuda_getMemoryMetadata", None)
_set_metadata: Any = getattr(torch._C, "_cuda_setMemoryMetadata", None)


class _NamedRange:
    """A range that also labels allocations made inside it in memory snapshots."""

    __slots__ = ("_before", "_name", "_range")

    def __init__(self, name: str) -> None:
        self._name = name
        self._range = shown_range(name)

    def __enter__(self) -> None:
        self._before = _metadata()
        _set_metadata(self._name)
        self._range.__enter__()

    def __exit__(self, *raised: Any) -> None:  # noqa: ANN401 - as Python passes them
        self._range.__exit__(*raised)
        _set_metadata(self._before)


def shown_gpu_range(name: str) -> AbstractContextManager[Any]:
    """Return a context manager that PyTorch's profiler and ``torch.cuda.memory._snapshot`` show.

    Each call checks whether memory is being recorded. That costs next to nothing, and recording may
    start at any time.
    """
    if _set_metadata is None or not _is_recorded():
        return shown_range(name)
    return _NamedRange(name)


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured, which loading kernels would spoil."""
    cuda: Any = torch.cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _clear_nothing() -> None:
    """Do nothing."""


clear_workspaces: Final[Callable[[], None]] = getattr(
    torch._C, "_cuda_clearCublasWorkspaces", _clear_nothing
)
"""Drop the workspaces of cuBLAS, so that the next product allocates a new one."""


def mend_capture(device: int, pool: tuple[int, int]) -> None:
    """Clean up PyTorch's state after a failed capture.

    The allocator and the random number generator still believe that the capture is in progress, and
    the generator refuses to draw. Capturing an empty graph resets both.
    """
    end = getattr(torch._C, "_cuda_endAllocateToPool", None)
    if end is not None:
        with suppress(RuntimeError):
            end(device, pool)
    with suppress(RuntimeError):
        torch.cuda.synchronize(device)
        # Only this thread: others may allocate meanwhile.
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            torch.empty(1, device=torch.device("cuda", device)).zero_()
