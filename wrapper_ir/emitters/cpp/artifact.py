"""A program emitted as C++: source files, kernels to compile beside them, and how to use them.

``wrapper_ir.aot``, above the emitters, builds, loads and packages artifacts. It is imported on
use, so that emitting text alone does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from wrapper_ir.emitters.base import WRAPPER, ModuleText, SourceFiles
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines.program import ConstantKind, Program
from wrapper_ir.toolchain.manifest import CaptureFacts, Sources

if TYPE_CHECKING:
    from pathlib import Path


MAIN_FILE = "program.cpp"
"""The file with the tables and the entry, which every artifact has."""

BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CppArtifact(Sources):
    """An emitted program.

    Attributes:
        source: The text of the whole program for readers: the files of ``sources``, concatenated.
        source_map: The map from lines of ``source`` to lines of the program.
        program: The program that it was made from. Values of constants are in ``program.data``.
        maps: The source map of each file of ``sources``.
        options: The emitter's options that are not at their defaults.
        graphs: How the loaded program captures its calls as CUDA graphs; None if it does not.
        stand_in: The emitter whose modules can serve calls while the library is built.
    """

    stand_in: ClassVar[str] = "python"

    source: str
    source_map: SourceMap
    program: Program
    maps: Mapping[str, SourceMap] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    graphs: CaptureFacts | None = None

    @property
    def module_source(self) -> str:
        """A Python module with a boxed ``call``, for caches; it builds what it needs."""
        return self.as_module().source

    def as_module(self) -> ModuleText:
        """Return the module for caches, which finds its constants by their names."""
        return self._module(None)

    def as_module_after(self, meanwhile: ModuleText) -> ModuleText:
        """Return that module, in which another one serves calls until the library is built."""
        return self._module(meanwhile)

    def _module(self, meanwhile: ModuleText | None) -> ModuleText:
        texts = import_module("wrapper_ir.aot.module_text")
        return ModuleText(texts.module_text(self, meanwhile=meanwhile), {})

    def files(self) -> SourceFiles:
        """Return the generated files, with one per kernel, and a module that runs them.

        The module is missing if constants are objects, packed or folded: only libraries make those.
        """
        module = import_module("wrapper_ir.aot.module_text")
        texts: dict[str, str] = {**self.sources, **module.kernel_files(self)}
        made = {ConstantKind.PACKED, ConstantKind.FOLDED}
        kinds = {each.kind for each in self.program.constants.values()}
        if not self.program.objects and not made & kinds:
            texts = {WRAPPER: module.module_text(self, apart=True), **texts}
        return SourceFiles(texts, self.maps, "cpp", self.options)

    def load(self, num_runners: int = 4, **options: object) -> Callable[..., tuple[Any, ...]]:
        """Build the program and return ``callable(*inputs) -> tuple of results``.

        Any number of threads may call it at once.

        Args:
            num_runners: How many calls can run at a time without setting up memory first.
            **options: Build options: fields of :class:`wrapper_ir.aot.build.BuildOptions`.
        """
        loaded = import_module("wrapper_ir.aot.load")
        function: Callable[..., tuple[Any, ...]]
        function = loaded.load(self, num_runners=num_runners, **options)
        return function

    def load_boxed(self, num_runners: int = 4, **options: object) -> BoxedCall:
        """Like :meth:`load`, for a callable that takes one list and empties it."""
        loaded = import_module("wrapper_ir.aot.load")
        function: BoxedCall = loaded.load_boxed(self, num_runners=num_runners, **options)
        return function

    def export(self, path: str | Path, **options: object) -> Path:
        """Write the program as a ``.pt2`` package, a library, or a folder that builds.

        Args:
            path: The path to write; its ending selects the format.
            **options: See :func:`wrapper_ir.aot.export.export`.

        Returns:
            The path that was written.
        """
        package = import_module("wrapper_ir.aot.export")
        written: Path = package.export(self, path, **options)
        return written
