"""Benchmark exported C++ programs against AOTInductor and Inductor's C++ wrapper.

    python benchmarks/aot.py              # all parts; takes a few minutes
    python benchmarks/aot.py calls jit    # some of the parts: build, size, calls, jit
    python benchmarks/aot.py --json

build   Time from an exported program to a ``.pt2`` package. Each build runs in a fresh process with
        an empty cache directory, after another model has been built there to pay the one-time costs
        of a machine: stock's instruction-set probes and our runtime part. The two sides alternate
        in going first.
size    Bytes of the library in the package without its constants. Stock's library is measured as
        shipped and with its debug information stripped (``strip -g``).
calls   Time of ``boxed_run`` on both packages, opened by ``torch._inductor.aoti_load_package``.
jit     Time of ``CompiledFxGraph.current_callable`` under ``torch.compile``: stock with
        ``cpp_wrapper=True`` against the option ``emitter="cpp"``.

Calls of both sides alternate in short batches on one thread with the garbage collector off. Ratios
are medians over pairs of batches. The column "same" says whether both sides gave the same bits.
"""

from __future__ import annotations

import os

# Set before torch is imported, because torch creates its thread pools then.
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.nn import Module

    from benchmarks.common import CompiledCall

STOCK = "inductor"
OURS = "wrapper_ir"

#: The largest ratio allowed, by part and model.
BOUNDS: dict[tuple[str, str], float] = {
    ("build", "mlp"): 0.35,
    ("size, shipped", "mlp"): 0.25,
    ("size, stripped", "mlp"): 0.45,
    ("calls", "mlp"): 0.95,
    ("jit", "mlp"): 0.80,
    ("jit", "tiny kernels"): 0.80,
}

#: Models to export, and models to compile with torch.compile.
EXPORTED = ("mlp", "tiny kernels")
COMPILED = ("mlp", "tiny kernels", "tiny products", "encoder")

#: Endings of the library's name inside a package.
_LIBRARY = (".so", ".wrapper.so")

#: The ending of the constants' name when they are stored outside the library.
_BESIDE = ".constants"


def made(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a model of the overhead benchmark and its arguments, the same in every process."""
    import torch

    from benchmarks.overhead import SUBJECTS

    torch.manual_seed(0)
    return next(subject for subject in SUBJECTS if subject.name == name).make()


def as_module(model: Callable[..., Any]) -> Module:
    """Wrap a function in a module, because only modules can be exported."""
    import torch

    if isinstance(model, torch.nn.Module):
        return model
    module = torch.nn.Module()
    module.forward = model
    return module


def build_here(side: str, name: str, path: Path) -> float:
    """Build a package in this process after a warm-up model; return the time in seconds."""
    import torch

    def timed(model: Callable[..., Any], args: tuple[Any, ...], package: Path) -> float:
        exported = torch.export.export(as_module(model), args)
        start = time.perf_counter()
        if side == STOCK:
            torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
        else:
            import wrapper_ir as wir

            wir.export(wir.capture(exported, args), package)
        return time.perf_counter() - start

    with torch.no_grad():
        other = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softplus()).eval()
        timed(other, (torch.randn(2, 8),), path.with_name("first.pt2"))
        return timed(*made(name), path)


def build_apart(side: str, name: str, path: Path) -> float:
    """Build a package in a fresh process with its own caches.

    Raises:
        SystemExit: The build failed; its own message has been shown.
    """
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-aot-") as caches:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "WRAPPER_IR_CACHE_DIR": f"{caches}/wrapper_ir",
        }
        environment.pop("OMP_NUM_THREADS")  # builds may use all threads
        command = [sys.executable, "-m", "benchmarks.aot", "--build", side, name, str(path)]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(done.returncode)
    return float(done.stdout.split()[-1])


def built(name: str, rounds: int, folder: Path) -> dict[str, list[float]]:
    """Build a model's packages on both sides alternately and leave the last ones in ``folder``."""
    seconds: dict[str, list[float]] = {STOCK: [], OURS: []}
    for number in range(rounds):
        for side in (STOCK, OURS) if number % 2 == 0 else (OURS, STOCK):
            seconds[side].append(build_apart(side, name, package(folder, side, name)))
    return seconds


def package(folder: Path, side: str, name: str) -> Path:
    """Return the path of a package."""
    return folder / side / f"{name.replace(' ', '_')}.pt2"


def sizes(file: Path) -> tuple[int, int]:
    """Return the bytes of a package's library and constants, as shipped and after ``strip -g``."""
    with tempfile.TemporaryDirectory() as room, zipfile.ZipFile(file) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(_LIBRARY))
        library = Path(archive.extract(name, room))
        stripped = library.with_suffix(".stripped")
        subprocess.run(["strip", "-g", "-o", str(stripped), str(library)], check=True)
        beside = [each.file_size for each in archive.infolist() if each.filename.endswith(_BESIDE)]
        return library.stat().st_size + sum(beside), stripped.stat().st_size + sum(beside)


def constant_bytes(name: str) -> int:
    """Return the bytes of a model's weights, which both packages hold."""
    model, _ = made(name)
    weights: Any = getattr(model, "parameters", tuple)()  # a function has no parameters
    return sum(weight.numel() * weight.element_size() for weight in weights)


def record(
    part: str, name: str, unit: str, values: tuple[float, float], ratios: Sequence[float]
) -> dict[str, Any]:
    """Return one row of the table as a record."""
    low, high = min(ratios), max(ratios)
    if len(ratios) > 3:
        low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "part": part,
        "model": name,
        "unit": unit,
        "stock": values[0],
        "ours": values[1],
        "ratio": statistics.median(ratios),
        "spread": (low, high),
        "bound": BOUNDS.get((part, name)),
        "same_bits": None,
    }


def measure_builds(
    names: Sequence[str], rounds: int, folder: Path, parts: set[str]
) -> list[dict[str, Any]]:
    """Build the packages and return records of build times and library sizes."""
    found = []
    for name in names:
        seconds = built(name, rounds if "build" in parts else 1, folder)
        stock, ours = seconds[STOCK], seconds[OURS]
        medians = statistics.median(stock), statistics.median(ours)
        if "build" in parts:
            ratios = [b / a for a, b in zip(stock, ours, strict=True)]
            found.append(record("build", name, "s", medians, ratios))
        if "size" in parts:
            found += size_records(name, folder)
    return found


def size_records(name: str, folder: Path) -> list[dict[str, Any]]:
    """Compare the library sizes of two packages. Ours counts as shipped in both rows."""
    weights = constant_bytes(name)
    shipped, stripped = sizes(package(folder, STOCK, name))
    ours, _ = sizes(package(folder, OURS, name))
    rows = (("size, shipped", shipped), ("size, stripped", stripped))
    return [
        record(
            part,
            name,
            "kB",
            ((stock - weights) / 1e3, (ours - weights) / 1e3),
            [(ours - weights) / (stock - weights)],
        )
        for part, stock in rows
    ]


def measure_calls(
    part: str, name: str, stock: CompiledCall, ours: CompiledCall, options: argparse.Namespace
) -> dict[str, Any]:
    """Time two compiled calls against each other."""
    import torch

    from benchmarks.common import measure_pair

    times = measure_pair(stock, ours, rounds=options.rounds, batch_seconds=options.batch_ms / 1e3)
    found = record(part, name, "us", (times.first * 1e6, times.second * 1e6), [times.ratio])
    found["spread"] = times.quartiles
    pairs = zip(stock.function(stock.inputs.copy()), ours.function(ours.inputs.copy()), strict=True)
    found["same_bits"] = all(torch.equal(a, b) for a, b in pairs)
    return found


def packaged_call(file: Path, inputs: Sequence[Any]) -> CompiledCall:
    """Load a package through the public loader."""
    import torch

    from benchmarks.common import CompiledCall

    loaded: Any = torch._inductor.aoti_load_package(str(file))
    run: Callable[[list[Any]], Any] = loaded.loader.boxed_run
    return CompiledCall(run, list(inputs), "")


def measure_packages(
    names: Sequence[str], folder: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Time ``boxed_run`` on both sides' packages."""
    found = []
    for name in names:
        _, args = made(name)
        stock, ours = (packaged_call(package(folder, side, name), args) for side in (STOCK, OURS))
        found.append(measure_calls("calls", name, stock, ours, options))
    return found


def measure_jit(names: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time the functions that torch.compile generates."""
    from benchmarks.common import compile_graph

    found = []
    for name in names:
        stock = compile_graph(*made(name), STOCK, {"cpp_wrapper": True})
        ours = compile_graph(*made(name), OURS, {"emitter": "cpp", "build": "wait"})
        found.append(measure_calls("jit", name, stock, ours, options))
    return found


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    from benchmarks.common import verdict

    low, high = found["spread"]
    bound, same = found["bound"], found["same_bits"]
    return (
        found["part"],
        found["model"],
        f"{found['stock']:.4g} {found['unit']}",
        f"{found['ours']:.4g} {found['unit']}",
        f"{found['ratio']:.3f}",
        f"{low:.2f} .. {high:.2f}",
        "-" if bound is None else f"{bound:.2f}",
        verdict(found["ratio"], bound),
        "-" if same is None else "yes" if same else "[red]NO[/]",
    )


COLUMNS = ("part", "model", "stock", "ours", "ratio", "spread", "bound", "kept", "same")
PARTS = ("build", "size", "calls", "jit")


def main() -> None:
    """Run the requested parts, or a single build in a child process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {PARTS}; default: all")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help=f"of {COMPILED}")
    parser.add_argument("--builds", type=int, default=3, help="rounds of builds")
    parser.add_argument("--rounds", type=int, default=200, help="alternating batches of calls")
    parser.add_argument("--batch-ms", type=float, default=4.0, help="length of a batch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--build", nargs=3, metavar=("SIDE", "MODEL", "PATH"), help="one, here")
    options = parser.parse_args()
    if options.build:
        side, name, path = options.build
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        print(build_here(side, name, Path(path)))
        return
    parts = set(options.parts or PARTS)
    if not parts <= set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    run(parts, options)


def run(parts: set[str], options: argparse.Namespace) -> None:
    """Run the parts and show the results."""
    import torch

    from benchmarks.common import machine, show

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    found: list[dict[str, Any]] = []
    folder = Path(tempfile.mkdtemp(prefix="wrapper_ir-aot-packages-"))
    exported, compiled = (
        [name for name in names if not options.models or name in options.models]
        for names in (EXPORTED, COMPILED)
    )
    try:
        if parts - {"jit"}:
            found += measure_builds(exported, options.builds, folder, parts)
        if "calls" in parts:
            found += measure_packages(exported, folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if "jit" in parts:
        found += measure_jit(compiled, options)
    title = "Programs in C++, against AOTInductor and Inductor's C++ wrapper"
    show(title, COLUMNS, map(row, found), {"machine": machine(), "found": found}, options.json)


if __name__ == "__main__":
    main()
