"""The corpus under AddressSanitizer and UBSan: every library is built with them, run, compared.

    python -m tests.sanitize.corpus [NAME...]

The first process builds the libraries; the second, into which the sanitizers' runtime is loaded
before all else, runs them and compares the results with those of the Python emitter. Some are built
with probes, and run at every level. PyTorch itself is not instrumented. Leaks are looked for
elsewhere (tests/native, valgrind): in a process of Python everything leaks. ``exempt.txt`` names
kernels that UBSan leaves out, each with its reason.

The programs of ``KEPT`` come a second time, with kept arenas and memory that is given for results,
as functions of Python; memory is released in between.
"""

from __future__ import annotations

import copy
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import wrapper_ir as wir
from tests.emitters import corpus
from wrapper_ir.aot.build.library import build, build_loadable
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.aot.load import load_library
from wrapper_ir.debug_printer import DebugPrinter, insert_probes
from wrapper_ir.emitters.base import EmitError

FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-sanitize=vptr",  # needs type information across libraries, which are loaded apart
    "-g1",
)
LIBRARIES = ("libasan.so", "libubsan.so")
KEPT = ("cond", "dynamic_shapes", "planned", "pools", "pools_symbolic", "results", "zero_sizes")
SUFFIX = "-kept"
#: Programs that are built with probes.
PROBED = ("arguments", "constants", "dtypes", "dynamic_shapes", "pools", "reuse", "views", "while")
LEVELS = ("names", "print", "stats", "save", "check", "off")
EXEMPT = Path(__file__).with_name("exempt.txt")


def main(names: list[str]) -> int:
    """Build, then run in another process."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = names or [*sorted(corpus.CASES), *(name + SUFFIX for name in KEPT)]
        built = [name for name in wanted if _build(name, Path(folder))]
        print(f"built {len(built)} of {len(wanted)}")
        return sanitized("tests.sanitize.corpus", "--run", folder, *built)


def sanitized(module: str, *args: str) -> int:
    """Run a module in a process with the sanitizers' runtime; returns its status."""
    preload = ":".join(_where(library) for library in LIBRARIES)
    options = "detect_leaks=0:verify_asan_link_order=1:abort_on_error=0"
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        env={
            **os.environ,
            "LD_PRELOAD": preload,
            "ASAN_OPTIONS": options,
            "WRAPPER_IR_DEBUG_OUTPUT": os.devnull,
        },
        check=False,
    )
    return done.returncode


def _where(library: str) -> str:
    command = ["g++", f"-print-file-name={library}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _build(name: str, folder: Path) -> bool:
    """Build a program; False where it is not for the CPU."""
    plain = name.removesuffix(SUFFIX)
    program = corpus.program(plain)
    try:
        if name in PROBED:
            program = insert_probes(program, DebugPrinter("print", when="both"))
        if name == plain:
            artifact = wir.emit(program, "cpp")
        else:
            artifact = wir.emit(program, "cpp", arena="kept", out=True)
    except EmitError:
        return False
    torch.manual_seed(3)
    inputs = corpus.CASES[plain].make()
    with (folder / f"{name}.inputs").open("wb") as file:
        torch.save((inputs, dict(program.data)), file)
    if name != plain:
        library = build_loadable(artifact, BuildOptions(extra_flags=FLAGS))
        shutil.copy(library, folder / f"{name}.so")
        return True
    exempt = {line.split()[0] for line in EXEMPT.read_text().splitlines() if line[:1].isalpha()}
    kernels = () if name not in exempt else ("-fno-sanitize=undefined",)
    options = BuildOptions(extra_flags=FLAGS, kernel_flags=kernels)
    build(artifact, folder, options, name=name)
    return True


def run(folder: Path, names: list[str]) -> int:
    """Run what was built. A fault that a sanitizer finds ends the process."""
    wrong = []
    for name in names:
        print(name, flush=True)
        with (folder / f"{name}.inputs").open("rb") as file:
            inputs, constants = torch.load(file, weights_only=False)
        program = corpus.program(name.removesuffix(SUFFIX))
        wanted = wir.compile(program.replace(data=constants))(*_copies(inputs))
        if name.endswith(SUFFIX):
            if not _kept_is_same(folder / f"{name}.so", constants, inputs, wanted):
                wrong.append(name)
            continue
        runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / f"{name}.so"), 1)
        for level in LEVELS if name in PROBED else ():
            set_probes = ctypes.CDLL(str(folder / f"{name}.so")).WrapperIRSetProbes
            assert set_probes(level.encode(), os.fsencode(folder / f"{name}_{level}")) == 0
            try:
                runner.run([_tensor(value) for value in _copies(inputs)])
            except RuntimeError as error:
                if level != "check" or "WIR1502" not in str(error):
                    raise  # else it is a program that makes infinite values on purpose
        runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / f"{name}.so"), 1)
        try:
            got = runner.run([_tensor(value) for value in _copies(inputs)])
        except RuntimeError as error:
            if "WIR2153" not in str(error):
                raise
            continue  # a number is beyond the type that it has in a library
        if not _same(got, wanted):
            wrong.append(name)
    print(f"{len(names)} clean" if not wrong else f"wrong results: {', '.join(wrong)}")
    return len(wrong)


def _kept_is_same(
    library: Path, constants: dict[str, Any], inputs: list[Any], wanted: tuple[Any, ...]
) -> bool:
    """Call it with fresh memory and with memory given, before and after a release."""
    function = load_library(library, tuple(constants.values()), name=library.stem, keep=2)
    same = True
    for _ in range(3):
        same &= _same_values(function(*_copies(inputs)), wanted)
        out = [_like(value) for value in wanted]
        same &= _same_values(function(*_copies(inputs), out=out), wanted)
        function.release()
    return same


def _like(value: Any) -> torch.Tensor | None:
    if not isinstance(value, torch.Tensor):
        return None
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def _same_values(got: tuple[Any, ...], wanted: tuple[Any, ...]) -> bool:
    pairs = zip(got, wanted, strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


def _copies(values: list[Any]) -> list[Any]:
    """Copies that keep strides and shared memory."""
    copied: list[Any] = copy.deepcopy(values)
    return copied


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def _same(got: list[torch.Tensor], wanted: tuple[Any, ...]) -> bool:
    pairs = zip(got, wanted, strict=True)
    return all(
        b is None or _equal(a, torch.as_tensor(b, dtype=a.dtype).reshape(a.shape)) for a, b in pairs
    )


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """NaN equals NaN."""
    if torch.equal(one, other):
        return True
    nan = one != one
    return torch.equal(nan, other != other) and torch.equal(one[~nan], other[~nan])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        sys.exit(run(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
