"""The tools that build a library: compiler, cache and threads, and a progress counter."""

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
from wrapper_ir.toolchain.compiler import Compiler, find_compiler, generated_flags, stand_in
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.manifest import needed_parts
from wrapper_ir.toolchain.native import GENERATED, precompiled, runtime_objects
from wrapper_ir.toolchain.objects import Tools, Translation, compile_files
from wrapper_ir.toolchain.processes import Pool, pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from wrapper_ir.toolchain.manifest import Manifest


class Steps:
    """A thread-safe counter of finished steps that reports each of them."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._guard = threading.Lock()

    def advance(self) -> None:
        """Count and report one more finished step."""
        with self._guard:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)


@dataclass(frozen=True, slots=True)
class Work:
    """The tools and settings that build a library."""

    cache: DiskCache
    compiler: Compiler
    headers: Mapping[str, HeaderStore]
    jobs: int
    flags: tuple[str, ...]  # further flags, in addition to those of each kind of file

    @classmethod
    def of(cls, cache: DiskCache | None, jobs: int | None, flags: tuple[str, ...]) -> Work:
        """Return tools with defaults for a cache and a number of jobs that are not given."""
        cache = cache or default_cache()
        return cls(cache, find_compiler(cache), precompiled(cache), jobs or default_jobs(), flags)

    def plain(self, name: str, text: str) -> Translation:
        """Return a file that is neither a kernel nor generated from a program's lines."""
        flags = (*generated_flags(self.compiler), *self.flags)
        return Translation(name, text, flags, f"generated file {name!r}")

    def generated(self, sources: Mapping[str, str]) -> list[Translation]:
        """Return the generated C++ files, the longest first, each with all generated headers."""
        headers = tuple(sorted(item for item in sources.items() if not item[0].endswith(".cpp")))
        files = sorted(item for item in sources.items() if item[0].endswith(".cpp"))
        units = [replace(self.plain(*file), headers=headers, header=GENERATED) for file in files]
        return sorted(units, key=lambda unit: -len(unit.text))

    def torch(self, manifest: Manifest) -> tuple[Path, ...]:
        """Return stand-ins for the libraries of PyTorch and of the device's vendor."""
        names = (side.library for side in manifest.sides)
        return tuple(stand_in(self.cache, self.compiler, name) for name in names if name)

    def runtime(self, manifest: Manifest, *, alone: bool) -> tuple[Path, ...]:
        """Return the objects of the C++ runtime; ``alone`` if it will run without Python."""
        parts = needed_parts(manifest.parts, alone=alone)
        return runtime_objects(
            self.cache, self.compiler, parts, extra_flags=self.flags, jobs=self.jobs
        )

    def compile(self, files: Sequence[Translation], pool: Pool, steps: Steps) -> list[Future[Path]]:
        """Start to compile files; see :func:`compile_files`."""
        tools = Tools(self.compiler, self.cache, self.headers)
        return compile_files(files, tools, pool, steps.advance)

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[tuple[Pool, Path]]:
        """Yield threads that run compilers, and a temporary directory in ``folder``."""
        with (
            tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch,
            pool(self.jobs) as threads,
        ):
            yield threads, Path(scratch)
