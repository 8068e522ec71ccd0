"""Syrupy extensions for snapshots of programs, with failures that explain the change.

A test compares a program; the snapshot is a real file that can be read, run or compiled. Programs
are rendered in canonical form, so a snapshot changes only if the program does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from typing_extensions import override

from wrapper_ir.api import emit
from wrapper_ir.diffing import diff, diff_sources
from wrapper_ir.diffing.model import to_text
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import CppKernel
from wrapper_ir.lines.program import Program
from wrapper_ir.options.process import SNAPSHOTS
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Iterator


_STYLE = (
    "{BasedOnStyle: Google, ColumnLimit: 100, SortIncludes: Never, "
    "AlignAfterOpenBracket: DontAlign, Cpp11BracedListStyle: false}"
)


def format_cpp(text: str) -> str:
    """Return C++ in one style, or unchanged if clang-format is not installed."""
    tool = _clang_format()
    if tool is None:
        return text
    command = [tool, f"--style={_STYLE}", "--assume-filename=program.cpp"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else text


@cache
def _clang_format() -> str | None:
    """Return the path of clang-format: the one installed next to Python, or the one on PATH."""
    beside = Path(sys.executable).with_name("clang-format")
    return str(beside) if beside.is_file() else shutil.which("clang-format")


class ProgramFile(SingleFileSnapshotExtension):
    """A snapshot of a program, rendered by an emitter."""

    _write_mode = WriteMode.TEXT
    target: ClassVar[str]
    _file = ""  #: the path of the snapshot, once it has been read
    _sets = ""  #: instruction sets of the program's kernels that are not the one of snapshots

    @override
    def serialize(self, data: Any, **_: Any) -> str:
        """Return the text of the file; only programs can be compared."""
        if not isinstance(data, Program):
            what = type(data).__name__
            raise TypeError(f"a {self.target} snapshot takes a program, not {what}")
        self._sets = _other_sets(data)
        return self.text(data.canonical())

    def text(self, program: Program) -> str:
        """Render a program."""
        return emit(program, self.target).source

    @override
    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> Any:
        """Read a snapshot, and remember its path for the failure message."""
        self._file = snapshot_location
        return super().read_snapshot_data_from_location(
            snapshot_location=snapshot_location, snapshot_name=snapshot_name, session_id=session_id
        )

    @override
    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield the file, how to accept the changes, and the changes."""
        # The instructions come first: by default, pytest shows eight lines.
        if self._sets:
            yield (
                f"its kernels are for {self._sets}, not {SNAPSHOTS.isa} as in snapshots: capture "
                f"it in the test, on a processor with {SNAPSHOTS.isa}"
            )
        file = os.path.relpath(self._file)
        if not snapshot_data:
            yield f"no such file yet: {file}; pytest --snapshot-update writes it"
            return
        yield f"in {file}; pytest --snapshot-update accepts the changes:"
        yield from self.changes(str(snapshot_data), str(serialized_data))

    def changes(self, before: str, after: str) -> Iterator[str]:
        """Yield the changes by sections of the text."""
        yield from diff_sources(before, after, self.target).to_text().splitlines()


def _other_sets(program: Program) -> str:
    sources = (definition.source for definition in program.kernels.values())
    sets = {source.isa for source in sources if isinstance(source, CppKernel) and source.isa}
    return ", ".join(sorted(sets - {SNAPSHOTS.isa}))


class WirFile(ProgramFile):
    """A snapshot of a program in text form."""

    target = "wir"
    file_extension = "wir"

    @override
    def text(self, program: Program) -> str:
        return str(program)

    @override
    def changes(self, before: str, after: str) -> Iterator[str]:
        """Yield the changes to the program rather than to its text."""
        try:
            difference = diff(parse(before), parse(after))
        except WrapperIRError as error:
            yield f"the snapshot is not a valid program: {error}"
            return
        # As few lines as possible: unchanged rows are left out.
        changed = [row for row in difference.rows() if row.text and row.style != "same"]
        yield from to_text(changed).splitlines()


class CppFile(ProgramFile):
    """A snapshot of a program's emitted C++, formatted if clang-format is installed."""

    target = "cpp"
    file_extension = "cpp"

    @override
    def text(self, program: Program) -> str:
        return format_cpp(super().text(program))


def extension(name: str) -> type[ProgramFile]:
    """Return the extension of a fixture: that of ``python`` for ``python_snapshot``."""
    target = name.removesuffix("_snapshot")
    own: dict[str, type[ProgramFile]] = {"wir": WirFile, "cpp": CppFile}
    return own.get(target) or extension_for(target, {"python": "py", "fx": "txt"}[target])


@cache
def extension_for(emitter: str, suffix: str) -> type[ProgramFile]:
    """Return the extension for the output of any emitter, in files with a suffix."""
    emitter_class(emitter)
    attributes = {"target": emitter, "file_extension": suffix.removeprefix(".")}
    return type(f"{emitter.title()}File", (ProgramFile,), attributes)
