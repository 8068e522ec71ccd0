"""A process that runs one model in one way; started by ``benchmarks/memory.py``.

It reads requests, one JSON object per line, and answers each with one. The first answer is sent
unprompted and holds the memory figures; each later request for calls is answered with their times
and page faults.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.common import compile_graph
from benchmarks.memory_models import make

if TYPE_CHECKING:
    from collections.abc import Callable

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def main() -> None:
    """Set up the way that the command line names, measure its memory, then serve requests."""
    given = json.loads(sys.argv[1])
    torch.set_num_threads(given["threads"])
    torch.set_grad_enabled(False)
    if given["keep_freed"]:
        import wrapper_ir as wir

        assert wir.keep_malloc_memory()
    call, release = prepared(given)
    answer(memory(call, release))
    for line in sys.stdin:
        answer(timed(call, json.loads(line)["calls"]))


def answer(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


def prepared(given: dict[str, Any]) -> tuple[Callable[[], Any], Callable[[], object]]:
    """Compile a model; return a call and a function that frees the memory the call keeps."""
    model, args = make(given["model"], is_quick=given["quick"])
    if given["out"]:
        return with_out(model, args, given)
    compiled = compile_graph(model, args, given["backend"], given["options"])
    function, inputs = compiled.function, compiled.inputs
    return lambda: function(inputs.copy()), release_all


def with_out(
    model: torch.nn.Module, args: tuple[Any, ...], given: dict[str, Any]
) -> tuple[Callable[[], Any], Callable[[], object]]:
    """Wrap a call so that its results go into tensors that the caller provides and reuses."""
    import wrapper_ir as wir

    program = wir.capture(model, args)
    options = {name: value for name, value in given["options"].items() if name != "emitter"}
    function = wir.compile(program, given["options"]["emitter"], out=True, **options)
    held: list[Any] = list(function(*args))
    return lambda: function(*args, out=held), release_all


def release_all() -> None:
    """Free the memory that our programs keep."""
    import wrapper_ir as wir

    wir.release_kept_memory()


def memory(call: Callable[[], Any], release: Callable[[], object]) -> dict[str, Any]:
    """Return the growth of resident memory: the peak during some calls, and what remains."""
    keep(call())
    release()
    gc.collect()
    trim()
    before, _ = resident()
    _CLEAR.write_text("5", encoding="ascii")  # resets the high-water mark
    for _ in range(3):
        keep(call())
    held, peak = resident()
    return {"peak": peak - before, "held": max(held - before, 0)}


def keep(_: object) -> None:
    """Take a result and drop it."""


def trim() -> None:
    """Make the C library return its free memory, where it can."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def resident() -> tuple[int, int]:
    """Return resident bytes of this process, now and at most since the mark was reset."""
    text = _STATUS.read_text(encoding="ascii")
    now, most = (re.search(rf"{name}:\s+(\d+) kB", text) for name in ("VmRSS", "VmHWM"))
    if now is None or most is None:
        raise SystemExit("this system does not say what is resident")
    return int(now[1]) * 1024, int(most[1]) * 1024


def timed(call: Callable[[], Any], count: int) -> dict[str, Any]:
    """Return the mean seconds and minor page faults per call."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    start = time.perf_counter()
    for _ in range(count):
        keep(call())
    seconds = (time.perf_counter() - start) / count
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count
    return {"seconds": seconds, "faults": faults}


if __name__ == "__main__":
    main()
