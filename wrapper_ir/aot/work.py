"""Tools that a library is built with: compiler, cache and threads, and a count of what is done."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.build import default_jobs
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import Compiler, find_compiler, stand_in
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.native import runtime_objects
from wrapper_ir.toolchain.objects import (
    GENERATED,
    Translation,
    compile_objects,
    generated_flags,
    precompiled,
)
from wrapper_ir.toolchain.parts import needed_parts
from wrapper_ir.toolchain.processes import pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from wrapper_ir.toolchain.manifest import Manifest


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

    def plain(self, name: str, text: str) -> Translation:
        """A file that is neither a kernel nor generated from a program's lines."""
        flags = (*generated_flags(self.compiler), *self.flags)
        return Translation(name, text, flags, f"generated file {name!r}")

    def generated(self, sources: Mapping[str, str]) -> list[Translation]:
        """The generated files, the longest first; headers among them lie beside each."""
        headers = tuple(sorted(item for item in sources.items() if not item[0].endswith(".cpp")))
        files = sorted(item for item in sources.items() if item[0].endswith(".cpp"))
        made = [replace(self.plain(*file), headers=headers, header=GENERATED) for file in files]
        return sorted(made, key=lambda file: -len(file.text))

    def torch(self, manifest: Manifest) -> tuple[Path, ...]:
        """Return what stands for PyTorch's libraries, and that of a vendor's."""
        names = (side.library for side in manifest.sides)
        return tuple(stand_in(self.cache, self.compiler, name) for name in names if name)

    def runtime(self, manifest: Manifest, *, alone: bool) -> tuple[Path, ...]:
        """The objects of the runtime part that a library needs.

        Args:
            manifest: What its program needs.
            alone: Whether it is to run without us.
        """
        parts = needed_parts(manifest.parts, alone=alone)
        return runtime_objects(
            self.cache, self.compiler, parts, extra_flags=self.flags, jobs=self.jobs
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
