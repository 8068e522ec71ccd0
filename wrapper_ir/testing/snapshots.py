"""Snapshots of programs, one real file each, and failures that say what changed.

Extensions of syrupy: what is compared is a program, what is kept is a file that can be read, run or
compiled. Programs are taken in canonical form, so a snapshot changes only when the program does.
"""

from __future__ import annotations

import importlib
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
from wrapper_ir.lines.program import Program
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Iterator


# Formatters of generated text that may be there or not.

_STYLE = (
    "{BasedOnStyle: Google, ColumnLimit: 100, SortIncludes: Never, "
    "AlignAfterOpenBracket: DontAlign, Cpp11BracedListStyle: false}"
)


def format_cpp(text: str) -> str:
    """C++ in one style; as it is where clang-format is not installed."""
    tool = _clang_format()
    if tool is None:
        return text
    command = [tool, f"--style={_STYLE}", "--assume-filename=program.cpp"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else text


@cache
def _clang_format() -> str | None:
    """The package's program, installed beside Python, else what the path has."""
    beside = Path(sys.executable).with_name("clang-format")
    return str(beside) if beside.is_file() else shutil.which("clang-format")


class ProgramFile(SingleFileSnapshotExtension):
    """A snapshot of a program in some form."""

    _write_mode = WriteMode.TEXT
    target: ClassVar[str]
    _file = ""
    """The path of the snapshot, once it was looked for."""

    @override
    def serialize(self, data: Any, **_: Any) -> str:
        """The file's text.

        Raises:
            TypeError: What is compared is no program.
        """
        if not isinstance(data, Program):
            what = type(data).__name__
            raise TypeError(f"a {self.target} snapshot is of a program, not of a {what}")
        return self.text(data.canonical())

    def text(self, program: Program) -> str:
        """A program in this form."""
        return emit(program, self.target).source

    @override
    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> Any:
        """Read a snapshot, and remember where it is, for what is said of changes."""
        self._file = snapshot_location
        return super().read_snapshot_data_from_location(
            snapshot_location=snapshot_location, snapshot_name=snapshot_name, session_id=session_id
        )

    @override
    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield the file, how to accept the changes, and the changes."""
        # The way comes first: pytest shows eight lines unless it is told to show more.
        file = os.path.relpath(self._file)
        if not snapshot_data:
            yield f"no such file yet: {file}; pytest --snapshot-update writes it"
            return
        yield f"in {file}; pytest --snapshot-update accepts what changed:"
        yield from self.changes(str(snapshot_data), str(serialized_data))

    def changes(self, before: str, after: str) -> Iterator[str]:
        """Yield what changed, by sections of the text."""
        yield from diff_sources(before, after, self.target).to_text().splitlines()


class WirFile(ProgramFile):
    """A snapshot of a program as text."""

    target = "wir"
    file_extension = "wir"

    @override
    def text(self, program: Program) -> str:
        return str(program)

    @override
    def changes(self, before: str, after: str) -> Iterator[str]:
        """Yield what changed, by meaning."""
        try:
            found = diff(parse(before), parse(after))
        except WrapperIRError as error:
            yield f"the snapshot is no program: {error}"
            return
        # As few lines as possible: none for what is the same.
        told = [row for row in found.rows() if row.text and row.style != "same"]
        yield from to_text(told).splitlines()


class PythonFile(ProgramFile):
    """A snapshot of what the Python emitter makes of a program."""

    target = "python"
    file_extension = "py"


class CppFile(ProgramFile):
    """A snapshot of what the C++ emitter makes of a program; formatted if clang-format is there."""

    target = "cpp"
    file_extension = "cpp"

    @override
    def text(self, program: Program) -> str:
        return format_cpp(super().text(program))


class FxFile(ProgramFile):
    """A snapshot of the graph that the FX emitter makes of a program."""

    target = "fx"
    file_extension = "txt"


def extension(name: str) -> type[ProgramFile]:
    """The extension of a fixture: ``python_snapshot`` has ``PythonFile``."""
    module = importlib.import_module(__name__)
    found: type[ProgramFile] = getattr(module, f"{name.removesuffix('_snapshot').title()}File")
    return found


@cache
def extension_for(emitter: str, suffix: str) -> type[ProgramFile]:
    """The extension for the output of any emitter.

    Args:
        emitter: Its name.
        suffix: The ending of the files, without a dot.

    Raises:
        UnknownEmitterError: There is none of that name.
    """
    emitter_class(emitter)
    given = {"target": emitter, "file_extension": suffix.removeprefix(".")}
    return type(f"{emitter.title()}File", (ProgramFile,), given)
