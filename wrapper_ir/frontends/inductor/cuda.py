"""Inductor's names for what only CUDA has: graphs, stream blocks, devices by number.

Inductor would put a CUDA graph around each partition of a graph; we capture whole calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.devices import CUDA
from wrapper_ir.options.gpu import GRAPHS

if TYPE_CHECKING:
    from wrapper_ir.lines.layout import Device

#: Inductor's option, and ours for the same.
CAPTURES: Final = ("triton.cudagraphs", GRAPHS.name)

#: Lines that open and close the block of a stream, and of a memory pool.
STREAM_BLOCK: Final = ("EnterCudaStreamContextLine", "ExitCudaStreamContextLine")
MEMPOOL_BLOCK: Final = ("EnterCudaMemPoolContextLine", "ExitCudaMemPoolContextLine")

_REASON: Final = "wrapper_ir does not partition graphs; its option cuda_graph captures whole calls"


def numbered(index: int) -> Device:
    """Return the device that such a block names by its number."""
    from wrapper_ir.lines.layout import Device  # noqa: PLC0415 - names above are wanted without

    return Device(CUDA.type, index)


def keep_whole(graph: Any) -> None:
    """Tell Inductor that a graph has no partitions, which it would look for in the finished module.

    It then puts no CUDA graphs around them, and logs the reason.
    """
    if graph.partition_maps:
        graph.partition_maps = None
        graph.disable_cudagraphs_reason = _REASON
