"""Peak memory of a call on the CPU, exactly and repeatably.

Resident set size is what the machine says, and depends on the C library's mood. We ask torch's CPU
allocator instead: with ``profile_memory`` on it reports every allocation and every release as it
happens, those made inside library ops and those that bypass the dispatcher (``empty_strided_cpu``)
included. The running sum of the reported bytes, in order of time, has the peak that we want. Twice
the same call gives twice the same number.

The release of memory that was there before counts for nothing. So what is to be seen dying early,
such as activations saved for a backward, must be made inside the measured step: measure a forward
together with its backward.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["peak_bytes"]


def peak_bytes(step: Callable[[], object]) -> int:
    """Return the highest number of bytes that ``step`` held at a time, above what there was."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with warnings.catch_warnings():
        # PyTorch 2.11 says so of every profiler, the first time.
        warnings.filterwarnings("ignore", ".*Profiler clears events", UserWarning)
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            kept = step()
    del kept
    alive: dict[int, int] = {}
    held = peak = 0
    for _, address, size in sorted(_allocations(profile), key=lambda event: event[0]):
        if size > 0:
            alive[address] = size
            held += size
        else:
            # torch also reports the release of older memory, with the size of whatever an earlier
            # profile saw at that address; only what this step made is ours to subtract.
            held -= alive.pop(address, 0)
        peak = max(peak, held)
    return peak


def _allocations(profile: Any) -> Iterator[tuple[int, int, int]]:
    """Yield time, address and signed size of every allocation event, in the order of the record."""
    pending = list(profile.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        if event.name == "[memory]" and event.extra_fields.device.type == "cpu":
            fields = event.extra_fields
            yield event.start_time_ns, fields.ptr, fields.alloc_size
