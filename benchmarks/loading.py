"""Measure time to the first result and memory of loaded packages, against AOTInductor.

    python benchmarks/loading.py                  # 2 GB of weights; a few minutes, 9 GB of disk
    python benchmarks/loading.py --gigabytes 0.2
    python benchmarks/loading.py --json

Both sides package the same model: embedding tables of which a call reads some rows, and layers that
a call reads in full. Each side then loads its package in a fresh process, several times,
alternating, once the file is in the page cache. Stock's is loaded with
``torch._inductor.aoti_load_package``, which unpacks it, ours with ``wir.load_package``. The clock
starts once torch (and on our side ``wrapper_ir``) is imported.

load     Time until the model can be called.
first    Time until the first result, loading included.
call     Time of a later call.
memory   Growth of the process after the first call: resident memory, split into file-backed and
         anonymous.
more     Proportional set size (``Pss``) added by each of three further instances, as a fraction of
         the weights.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

STOCK = "inductor"
OURS = "wrapper_ir"

#: The largest ratio of times to the first result, and the limit on our own time in seconds.
BOUND = 0.1
FIRST = 0.05

#: The fraction of the weights that one more instance may add.
MORE = 0.01

_TABLES, _WIDTH, _LAYERS = 8, 128, 4


def model(gigabytes: float) -> Module:
    """Return the model: tables, and layers that hold about a hundredth of the weights."""
    import torch

    rows = int(gigabytes * 2**30 / 4 / _WIDTH / _TABLES)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = torch.nn.ModuleList(
                torch.nn.EmbeddingBag(rows, _WIDTH, mode="sum") for _ in range(_TABLES)
            )
            wide = _TABLES * _WIDTH
            layers = [torch.nn.Linear(wide, wide) for _ in range(_LAYERS)]
            self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(wide, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            found = [table(ids[:, at]) for at, table in enumerate(self.tables)]
            return self.layers(torch.cat(found, 1))

    return Model().eval()


def inputs() -> Tensor:
    """Return the argument: rows of every table, for a batch."""
    import torch

    torch.manual_seed(0)
    return torch.randint(0, 1000, (16, _TABLES, 4))


def make(side: str, path: Path, gigabytes: float) -> None:
    """Build a side's package."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        exported = torch.export.export(model(gigabytes), (inputs(),))
        if side == STOCK:
            torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
        else:
            import wrapper_ir as wir

            wir.export(wir.capture(exported), path)


def memory() -> dict[str, int]:
    """Return the memory of the process in bytes, by kind."""
    found = {}
    for file, wanted in (
        ("/proc/self/status", ("VmRSS", "RssAnon", "RssFile", "RssShmem")),
        ("/proc/self/smaps_rollup", ("Pss",)),
    ):
        for line in Path(file).read_text().splitlines():
            name, _, value = line.partition(":")
            if name in wanted:
                found[name] = int(value.split()[0]) << 10
    return found


def load_here(side: str, path: Path) -> dict[str, Any]:
    """Load a package in this process, call it, load it again; return the measurements."""
    import torch

    torch.set_grad_enabled(False)
    args = inputs()
    if side == STOCK:
        package: Any = torch._inductor
    else:
        import wrapper_ir as package
    before = memory()
    start = time.perf_counter()
    # Importing the loader counts.
    load = package.aoti_load_package if side == STOCK else package.load_package
    loaded = load(str(path))
    ready = time.perf_counter()
    result = loaded(args)
    done = time.perf_counter()
    after = memory()
    calls = []
    for _ in range(20):
        begin = time.perf_counter()
        loaded(args)
        calls.append(time.perf_counter() - begin)
    others = [load(str(path)) for _ in range(3)]
    for other in others:
        other(args)
    return {
        "load": ready - start,
        "first": done - start,
        "call": statistics.median(calls),
        "memory": {name: after[name] - before[name] for name in before},
        "more": (memory()["Pss"] - after["Pss"]) / len(others),
        "sum": float(result.double().sum()),
    }


def apart(side: str, path: Path, *args: str) -> str:
    """Run a part of this script in a fresh process; return the last line that it printed.

    Raises:
        SystemExit: The part failed; its own message has been shown.
    """
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.loading", *args, side, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout.splitlines()[-1] if done.stdout else ""


def run(options: argparse.Namespace) -> None:
    """Build both packages, load them alternately and show the results."""
    from benchmarks.common import machine, show

    weights = options.gigabytes * 2**30
    found: dict[str, list[dict[str, Any]]] = {STOCK: [], OURS: []}
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-loading-") as folder:
        packages = {side: Path(folder, f"{side}.pt2") for side in found}
        for side, path in packages.items():
            apart(side, path, "--gigabytes", str(options.gigabytes), "--make")
        for number in range(options.rounds):
            for side in list(found)[:: 1 if number % 2 == 0 else -1]:
                warm(packages[side])
                found[side].append(json.loads(apart(side, packages[side], "--load")))
    rows = [row(name, found, weights) for name in ("load", "first", "call", "memory", "more")]
    title = f"Packages with {options.gigabytes:g} GB of weights"
    record = {"machine": machine(), "found": found}
    columns = ("", "stock", "ours", "ratio", "bound", "kept")
    show(title, columns, rows, record, options.json)
    if len({each["sum"] for side in found.values() for each in side}) > 1:
        print("the results differ")


def warm(path: Path) -> None:
    """Bring a file into the page cache and flush pending writes to disk."""
    os.sync()
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def row(name: str, found: dict[str, list[dict[str, Any]]], weights: float) -> tuple[str, ...]:
    """Format one quantity: the medians of both sides."""
    from benchmarks.common import verdict

    def median(side: str, key: str = name) -> float:
        values = [each["memory"].get(key, each.get(key)) for each in found[side]]
        return statistics.median(values)

    if name == "memory":
        texts = [
            f"{median(side, 'VmRSS') / 2**20:.0f} MiB"
            f" ({median(side, 'RssFile') / 2**20:.0f} file,"
            f" {(median(side, 'RssAnon') + median(side, 'RssShmem')) / 2**20:.0f} own)"
            for side in found
        ]
        return (name, *texts, "-", "-", "-")
    stock, ours = median(STOCK), median(OURS)
    if name == "more":
        part = ours / weights
        return (
            name,
            f"{stock / weights:.2%}",
            f"{part:.2%}",
            "-",
            f"{MORE:.0%}",
            verdict(part, MORE),
        )
    bound = BOUND if name == "first" else None
    limits = f"{BOUND}, {FIRST * 1e3:.0f} ms" if bound else "-"
    kept = verdict(max(ours / stock / BOUND, ours / FIRST), 1.0) if bound else "-"
    return (
        name,
        f"{stock * 1e3:.3g} ms",
        f"{ours * 1e3:.3g} ms",
        f"{ours / stock:.4f}",
        limits,
        kept,
    )


def main() -> None:
    """Run everything, or one step in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the weights")
    parser.add_argument("--rounds", type=int, default=3, help="loads of each side")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--make", nargs=2, metavar=("SIDE", "PATH"), help="make a package, here")
    parser.add_argument("--load", nargs=2, metavar=("SIDE", "PATH"), help="load one, here")
    options = parser.parse_args()
    if options.make:
        make(options.make[0], Path(options.make[1]), options.gigabytes)
    elif options.load:
        print(json.dumps(load_here(options.load[0], Path(options.load[1]))))
    else:
        run(options)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
