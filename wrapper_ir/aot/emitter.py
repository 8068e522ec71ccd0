"""The C++ emitter, and what its programs can do: be loaded, exported, and stored in caches."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from wrapper_ir.emitters.artifact import WRAPPER, ModuleText, SourceFiles
from wrapper_ir.emitters.base import Emitter, Problems
from wrapper_ir.emitters.cpp.renderer import CppRenderer, CppSources
from wrapper_ir.lines.program import ConstantKind, Program

# ruff: noqa: PLC0415 - emitting text alone does not pay for what builds and loads it

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


__all__ = ["CppArtifact", "CppEmitter"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CppArtifact(CppSources):
    """A program emitted as C++: its source files and kernels, and how to use them.

    Attributes:
        stand_in: The emitter whose modules can serve calls while the library is built.
    """

    stand_in: ClassVar[str] = "python"

    def as_module(self) -> ModuleText:
        """Return a Python module for caches, which builds what it needs.

        It finds its constants by their names in the program.
        """
        from wrapper_ir.aot.source.module_text import module_text

        return ModuleText(module_text(self), {})

    def as_module_after(self, meanwhile: ModuleText) -> ModuleText:
        """Return that module, in which another one serves calls until the library is built."""
        from wrapper_ir.aot.source.module_text import module_text

        return ModuleText(module_text(self, meanwhile=meanwhile), {})

    def files(self) -> SourceFiles:
        """Return the generated files, with one per kernel, and a module that runs them.

        The module is missing if constants are objects, packed or folded: only libraries make those.
        """
        from wrapper_ir.aot.source.module_text import kernel_files, module_text

        texts: dict[str, str] = {**self.sources, **kernel_files(self)}
        made = {ConstantKind.PACKED, ConstantKind.FOLDED}
        kinds = {each.kind for each in self.program.constants.values()}
        if not self.program.objects and not made & kinds:
            texts = {WRAPPER: module_text(self, apart=True), **texts}
        return SourceFiles(texts, self.maps, CppEmitter.name, self.options)

    def load(self, num_runners: int = 4, **options: object) -> Callable[..., tuple[Any, ...]]:
        """Build the program and return ``callable(*inputs) -> tuple of results``.

        Any number of threads may call it at once.

        Args:
            num_runners: How many calls can run at a time without setting up memory first.
            **options: Build options: fields of :class:`wrapper_ir.aot.build.work.BuildOptions`.
        """
        from wrapper_ir.aot.load import load

        return load(self, num_runners=num_runners, **options)

    def load_boxed(
        self, num_runners: int = 4, **options: object
    ) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Like :meth:`load`, for a callable that takes one list and empties it."""
        from wrapper_ir.aot.load import load_boxed

        return load_boxed(self, num_runners=num_runners, **options)

    def export(self, path: str | Path, **options: Any) -> Path:  # noqa: ANN401 - of several types
        """Write the program as a ``.pt2`` package, a library, or a folder that builds.

        Args:
            path: The path to write; its ending selects the format.
            **options: See :func:`wrapper_ir.aot.export.export`.

        Returns:
            The path that was written.
        """
        from wrapper_ir.aot.export import export

        return export(self, path, **options)


@dataclass(frozen=True)
class CppEmitter(CppRenderer, Emitter):
    """Emits C++ that calls the program's kernels and library ops over PyTorch's C shim.

    The options are those of :class:`CppRenderer`. Exported libraries capture calls themselves, and
    keep ``cuda_graph_limit`` graphs for each call that may run at a time.
    """

    name: ClassVar[str] = "cpp"
    builds: ClassVar[bool] = True

    @override
    def prepare_loading(self) -> None:
        """Compile in a thread what all libraries are loaded with, unless the cache has it."""
        from wrapper_ir.aot.load import prepare_module

        prepare_module()

    @classmethod
    @override
    def kept_text(cls, text: str) -> str:
        """Return the text in one style if clang-format is installed."""
        from wrapper_ir.aot.formatting import format_cpp

        return format_cpp(text)

    @override
    def legalisation(self) -> tuple[str, ...]:
        kept = f"host={self.scratch_bytes},device={self.scratch_bytes},arena={self.arena}"
        return (*super().legalisation(), f"keep-storage{{{kept}}}")

    @override
    def render(self, program: Program, problems: Problems) -> CppArtifact:
        """Render a planned and verified program."""
        rendered = self.sources(program, problems)
        values = {each.name: getattr(rendered, each.name) for each in dataclasses.fields(rendered)}
        return CppArtifact(**values | {"options": self.given})
