"""Compare workloads of real size on a GPU with stock Inductor: first results, calls, peaks, bits.

    python -m benchmarks.real_sizes                     # every workload, about eight minutes
    python -m benchmarks.real_sizes --workloads norms,experts --ways stock,again,ours --profile

Every way of a workload is a process of its own with empty caches. The processes of a workload
compile side by side; then, with nothing else running, they are timed in turn, five calls each, so
that whatever slows the machine down slows all ways alike. A call is timed until the GPU has
finished. ``again`` is stock once more: how far it is from 1 is what the machine's noise can do.

``--profile`` adds the time that the GPU spends in the kernels of a call, by PyTorch's profiler.
Where that is nearly the whole call, no wrapper can change much.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: How each way compiles.
WAYS: dict[str, dict[str, Any]] = {
    "stock": {"backend": "inductor"},
    "again": {"backend": "inductor"},
    "cpp_wrapper": {"backend": "inductor", "options": {"cpp_wrapper": True}},
    "ours": {"backend": "wrapper_ir"},
    "ours C++": {"backend": "wrapper_ir", "options": {"emitter": "cpp"}},
}

#: Calls that one way makes before the next has its turn.
CALLS = 5


def _digest(results: list[Any]) -> str:
    import torch

    found = hashlib.sha256()
    for each in results:
        if each.numel():
            flat = each.detach().contiguous().reshape(-1).view(torch.uint8)
            found.update(flat.cpu().numpy().tobytes())
    return found.hexdigest()[:12]


def _kernel_ms(run: Callable[[], object]) -> tuple[float, int]:
    """Return the time in kernels and copies of one call, in ms, and their number."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    on_gpu = [each for each in found.events() if each.device_type.name == "CUDA"]
    return sum(each.device_time_total for each in on_gpu) / 1e3, len(on_gpu)


def work_here(way: str, workload: str) -> None:
    """Compile in this process, then time or profile calls for each line of standard input."""
    import torch

    from benchmarks.real_workloads import WORKLOADS

    # The last bits of a sum depend on the blocks that tuning chose: choose them by rule.
    torch._inductor.config.test_configs.force_filter_reduction_configs = True
    torch.manual_seed(0)
    run = WORKLOADS[workload](lambda function: torch.compile(function, **WAYS[way]))
    torch.cuda.synchronize()
    start = time.perf_counter()
    results = run()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    digests = [_digest(results)]
    if WAYS[way]["backend"] == "wrapper_ir":
        import wrapper_ir as wir

        wir.wait_for_builds()
    digests += [_digest(run()) for _ in range(2)]
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    record = {"first": first, "digests": digests}
    record["peak"] = torch.cuda.max_memory_allocated() / 2**30
    print("RECORD", json.dumps(record), flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            print("RECORD", json.dumps(_kernel_ms(run)), flush=True)
            continue
        times = []
        for _ in range(CALLS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        print("RECORD", json.dumps(times), flush=True)


class Worker:
    """A process that has compiled one workload in one way."""

    def __init__(self, way: str, workload: str, caches: Path, log: Path) -> None:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "WRAPPER_IR_CACHE_DIR": str(caches / "wrapper_ir"),
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
            "OMP_NUM_THREADS": "2",
        }
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.real_sizes"]
        command += ["--here", way, workload]
        self.log = log
        self.times: list[float] = []
        self.record: dict[str, Any] = {}
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def _ask(self, request: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        if "error" in self.record or self.process.stdin is None:
            return None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401  # whatever JSON holds
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("RECORD "):
                return json.loads(line.removeprefix("RECORD "))
        lines = self.log.read_text().strip().splitlines() or ["ended without a word"]
        wrong = [each for each in lines if "Error" in each or "WIR" in each]
        self.record = {"error": (wrong or lines)[-1][:120]}
        return None

    def compile(self) -> None:
        """Wait for the first results."""
        self.record = self._answer() or self.record

    def turn(self) -> None:
        """Time a few calls."""
        self.times += self._ask("time") or []

    def profile(self) -> None:
        """Have a call's kernels timed."""
        found = self._ask("profile")
        if found:
            self.record["kernels"] = found

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def measure(workload: str, ways: list[str], rounds: int, profiled: bool) -> dict[str, Any]:
    """Return the record of each way of a workload."""
    with ExitStack() as stack:
        workers = {}
        for way in ways:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real_sizes-")))
            workers[way] = Worker(way, workload, root, root / "log")
            stack.callback(workers[way].end)
        for worker in workers.values():
            worker.compile()
        for number in range(rounds):
            for way in ways if number % 2 else reversed(ways):
                workers[way].turn()
        for worker in workers.values() if profiled else ():
            worker.profile()
        for worker in workers.values():
            if worker.times:
                worker.record["ms"] = statistics.median(worker.times)
        return {way: worker.record for way, worker in workers.items()}


def _bits(found: dict[str, Any], stock: dict[str, Any]) -> str:
    return "same" if found["digests"] == stock["digests"] else "differ"


def rows_of(workload: str, found: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of a table: ratios to stock, and stock's own figures."""
    stock, rows = found.get("stock", {}), []
    for way, each in found.items():
        kernels = "{:.2f} ms, {}".format(*each["kernels"]) if "kernels" in each else "-"
        if "error" in each or "ms" not in stock:
            figures = ("-",) * 4
            kernels = each.get("error", kernels)
        elif way == "stock":
            figures = (
                f"{each['first']:.1f} s",
                f"{each['ms']:.3f} ms",
                f"{each['peak']:.3f} GiB",
                "",
            )
        else:
            ratios = (each[name] / stock[name] for name in ("first", "ms", "peak"))
            figures = (*(f"{ratio:.3f}" for ratio in ratios), _bits(each, stock))
        rows.append((workload, way, *figures, kernels))
    return rows


def main() -> None:
    """Measure every workload, or be one process of it."""
    from benchmarks.real_workloads import INFERENCE, WORKLOADS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workloads", default=",".join(WORKLOADS), help="of " + ", ".join(WORKLOADS)
    )
    parser.add_argument("--ways", default=",".join(WAYS), help="of " + ", ".join(WAYS))
    parser.add_argument("--rounds", type=int, default=6, help=f"of {CALLS} calls a way")
    parser.add_argument("--profile", action="store_true", help="show the time in kernels")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--here", nargs=2, metavar=("WAY", "WORKLOAD"), help="one, in this process")
    options = parser.parse_args()
    if options.here:
        work_here(*options.here)
        return
    ways, rows, records = options.ways.split(","), [], {}
    for workload in options.workloads.split(","):
        some = [way for way in ways if way != "cpp_wrapper" or workload in INFERENCE]
        records[workload] = measure(workload, some, options.rounds, options.profile)
        rows += rows_of(workload, records[workload])
        print(workload, json.dumps(records[workload]), file=sys.stderr, flush=True)

    from benchmarks.common import machine, show

    columns = ("workload", "way", "first", "call", "peak", "bits", "in kernels")
    record = {"machine": machine(), "records": records}
    show("Workloads of real size", columns, rows, record, as_json=options.json)


if __name__ == "__main__":
    main()
