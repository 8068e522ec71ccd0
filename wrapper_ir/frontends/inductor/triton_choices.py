"""Which of several kernels Inductor would call, where all of them compute the same.

Inductor's own code is asked, so the answer is the one that its wrapper would find, settings
(``triton.multi_kernel=2`` is the first kernel, always) and its cache of answers included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import (
    MultiKernelCall,
    SizeHintMultiKernelCall,
    dynamo_timed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.frontends.inductor.notes import AlternativesNote


def fastest(
    note: AlternativesNote,
    tuners: Sequence[Any],
    device: torch.device,
    examples: Callable[[], Sequence[Any]],
) -> int:
    """Have Inductor time kernels, each with its best configuration, and return which one won.

    Nothing is run where a setting or an earlier compilation has decided already.

    Args:
        note: The kernels.
        tuners: Inductor's tuner of each, its configurations compiled.
        device: The GPU that they run on.
        examples: Makes what to try them with: an argument for each that a call passes.
    """
    everything = {number: [slice(None)] for number in range(len(tuners))}
    make: Any = MultiKernelCall
    call = make(note.name, list(tuners), everything)
    if call.picked_kernel is None:
        with dynamo_timed("wrapper_ir.tune", log_pt2_compile_event=True):
            found = times(call, device, examples)
        call.picked_kernel = found.index(min(found))
        if not call.disable_cache:
            call.store_cache()
    return int(call.picked_kernel)


def times(call: Any, device: torch.device, examples: Callable[[], Sequence[Any]]) -> list[float]:
    """Return how many milliseconds each kernel of a call takes, tuned before."""
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream().cuda_stream
        found: list[float] = call.benchmark_sub_kernels(*examples(), stream=stream)
    return found


def nearest(note: AlternativesNote, shapes: Sequence[tuple[int, ...]]) -> int:
    """Return which kernel was tuned for the shapes that are nearest to these.

    Args:
        note: The kernels, with the shapes that each was tuned for.
        shapes: Those of the tensors that a call passes, in order.
    """
    measure: Any = SizeHintMultiKernelCall._dist_heuristic
    distances = [measure(None, shapes, tuned_for) for tuned_for in note.shapes or ()]
    return distances.index(min(distances))
