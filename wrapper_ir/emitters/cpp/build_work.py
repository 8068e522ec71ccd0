"""What building a library works with: compiler, cache and threads, and a count of what is done."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain.build import default_jobs
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import Compiler, find_compiler
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.native import runtime_objects
from wrapper_ir.toolchain.objects import (
    GENERATED,
    Translation,
    compile_objects,
    generated_flags,
    precompiled,
    stand_in,
)
from wrapper_ir.toolchain.processes import pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = [
    "Steps",
    "Work",
    "captures_calls",
    "has_objects",
    "has_probes",
    "uses_blas",
    "uses_gpu",
    "uses_heap",
    "uses_ops",
    "uses_own_ops",
]

#: Whether a generated file calls library ops through the dispatcher.
_USES_OPS: Final = re.compile(r"\b(Op|Method)\b")

#: Whether a generated file keeps what library ops allocate.
_USES_HEAP: Final = re.compile(r"\bwir::Heap\b")

#: Whether a generated file is of a program that runs on a GPU.
_USES_GPU: Final = re.compile(r"\bwir::GpuCall\b")

#: Whether a generated file calls cuBLAS itself.
_USES_BLAS: Final = re.compile(r"\bwir::current_blas\b")

#: Whether a generated file is of a program that captures its calls.
_CAPTURES: Final = re.compile(r"\bwir::GraphInfo\b")

#: Whether a generated file is of a program that has objects of custom classes.
_HAS_OBJECTS: Final = re.compile(r"\bwir::ObjectSpec\b")

#: Whether a generated file calls ops that the front end registers.
_USES_OWN_OPS: Final = re.compile(r'"wrapper_ir_inductor::')

#: Whether the files are of a program with probes.
_HAS_PROBES: Final = re.compile(r"\bkProbes\b")


def captures_calls(sources: Mapping[str, str]) -> bool:
    """Whether generated files are of a program that captures its calls as CUDA graphs."""
    return any(_CAPTURES.search(text) for text in sources.values())


def has_probes(sources: Mapping[str, str]) -> bool:
    """Whether generated files are of a program with probes."""
    return any(_HAS_PROBES.search(text) for text in sources.values())


def has_objects(sources: Mapping[str, str]) -> bool:
    """Whether generated files are of a program that has objects of custom classes."""
    return any(_HAS_OBJECTS.search(text) for text in sources.values())


def uses_heap(sources: Mapping[str, str]) -> bool:
    """Whether generated files keep what library ops allocate."""
    return any(_USES_HEAP.search(text) for text in sources.values())


def uses_blas(sources: Mapping[str, str]) -> bool:
    """Whether generated files call cuBLAS themselves."""
    return any(_USES_BLAS.search(text) for text in sources.values())


def uses_gpu(sources: Mapping[str, str]) -> bool:
    """Whether generated files are of a program that runs on a GPU."""
    return any(_USES_GPU.search(text) for text in sources.values())


def uses_ops(sources: Mapping[str, str]) -> bool:
    """Whether generated files call library ops through the dispatcher."""
    return any(_USES_OPS.search(text) for text in sources.values())


def uses_own_ops(sources: Mapping[str, str]) -> bool:
    """Whether generated files call ops that are registered by our own front end."""
    return any(_USES_OWN_OPS.search(text) for text in sources.values())


class Steps:
    """Counts what is done and tells it; several threads call it."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._guard = threading.Lock()

    def advance(self) -> None:
        """One more step is done."""
        with self._guard:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)


@dataclass(frozen=True, slots=True)
class Work:
    """With what a library is built."""

    cache: DiskCache
    compiler: Compiler
    headers: Mapping[str, HeaderStore]
    jobs: int
    flags: tuple[str, ...]  # what was asked for, beside what each kind of file is compiled with

    @classmethod
    def of(cls, cache: DiskCache | None, jobs: int | None, flags: tuple[str, ...]) -> Work:
        """The given, or what is used where nothing is given."""
        chosen = cache or default_cache()
        return cls(
            chosen, find_compiler(chosen), precompiled(chosen), jobs or default_jobs(), flags
        )

    def plain(self, name: str, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Translation:
        """A file that is no kernel."""
        flags = (*generated_flags(self.compiler), *self.flags)
        first = GENERATED if f"#include <{GENERATED}>\n" in text else ""
        return Translation(name, text, flags, f"generated file {name!r}", headers, header=first)

    def generated(self, sources: Mapping[str, str]) -> list[Translation]:
        """The generated files, the longest first; headers among them lie beside each."""
        headers = tuple(sorted(item for item in sources.items() if not item[0].endswith(".cpp")))
        files = sorted(item for item in sources.items() if item[0].endswith(".cpp"))
        made = [self.plain(name, text, headers) for name, text in files]
        return sorted(made, key=lambda file: -len(file.text))

    def torch(self, sources: Mapping[str, str]) -> tuple[Path, ...]:
        """What stands for PyTorch's libraries."""
        names = ("libtorch_cpu.so", *(("libtorch_cuda.so",) if uses_gpu(sources) else ()))
        return tuple(stand_in(self.cache, self.compiler, name) for name in names)

    def runtime(self, sources: Mapping[str, str], *, alone: bool) -> tuple[Path, ...]:
        """The objects of the runtime part that the generated files need.

        Args:
            sources: The generated files.
            alone: Whether the library is to run without us, and so has to do what probes do.
        """
        probes = alone and has_probes(sources)
        return runtime_objects(
            self.cache,
            self.compiler,
            ops=probes or uses_ops(sources),
            probes=probes,
            heap=uses_heap(sources),
            gpu=uses_gpu(sources),
            blas=uses_blas(sources),
            graphs=alone and captures_calls(sources),
            objects=alone and has_objects(sources),
            own_ops=uses_own_ops(sources),
            extra_flags=self.flags,
            jobs=self.jobs,
        )

    def compile(
        self, files: Sequence[Translation], pool: ThreadPoolExecutor, steps: Steps
    ) -> list[Future[Path]]:
        """Begins to compile."""
        return compile_objects(
            files,
            cache=self.cache,
            compiler=self.compiler,
            headers=self.headers,
            pool=pool,
            advance=steps.advance,
        )

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[tuple[ThreadPoolExecutor, Path]]:
        """Threads to run compilers, and a directory in ``folder`` that goes when all is done."""
        with (
            tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch,
            pool(self.jobs) as threads,
        ):
            yield threads, Path(scratch)
