"""Syrupy extensions for snapshots of programs.

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
from typing import Any, ClassVar

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from typing_extensions import override

from wrapper_ir.api import emit
from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import CppKernel
from wrapper_ir.lines.program import Program
from wrapper_ir.options.process import SNAPSHOTS
from wrapper_ir.testing.comparisons import WIR, Comparison, record

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
    _stored: str | None = None
    compared: Comparison | None = None
    """The last comparison."""

    @override
    def serialize(self, data: Any, **_: Any) -> str:
        """Return the text of the file, and record the comparison; only programs are compared."""
        place = os.path.relpath(self._file)
        notes: tuple[str, ...] = ()
        try:
            if not isinstance(data, Program):
                what = type(data).__name__
                raise TypeError(f"a {self.target} snapshot takes a program, not {what}")
            notes = _notes(data)
            text = self.text(data.canonical())
        except Exception as error:
            why = str(error) if isinstance(error, WrapperIRError | TypeError) else repr(error)
            failed = Comparison(place, self.target, self._stored, None, notes, why)
            self.compared = record(failed)
            raise
        self.compared = record(Comparison(place, self.target, self._stored, text, notes))
        return text

    def text(self, program: Program) -> str:
        """Render a program."""
        return emit(program, self.target).source

    @override
    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> Any:
        """Read a snapshot, and remember it for the comparison, which follows."""
        found = super().read_snapshot_data_from_location(
            snapshot_location=snapshot_location, snapshot_name=snapshot_name, session_id=session_id
        )
        self._file, self._stored = snapshot_location, found
        return found


def _notes(program: Program) -> tuple[str, ...]:
    """Return what is to be known of a program whose kernels are not those of snapshots."""
    sources = (definition.source for definition in program.kernels.values())
    sets = {source.isa for source in sources if isinstance(source, CppKernel) and source.isa}
    others = ", ".join(sorted(sets - {SNAPSHOTS.isa}))
    if not others:
        return ()
    which = f"its kernels are for {others}, not {SNAPSHOTS.isa} as in snapshots"
    return (f"{which}: capture it in the test, on a processor with {SNAPSHOTS.isa}",)


class WirFile(ProgramFile):
    """A snapshot of a program in text form."""

    target = WIR
    file_extension = "wir"

    @override
    def text(self, program: Program) -> str:
        return str(program)


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


def explanation(side: object) -> list[str]:
    """Return lines that explain what a side of a comparison found if it is one of our snapshots."""
    if not isinstance(side, SnapshotAssertion) or not isinstance(side.extension, ProgramFile):
        return []
    compared = side.extension.compared
    return [] if compared is None else str(compared).splitlines()
