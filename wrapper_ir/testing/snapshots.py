"""Syrupy extensions for snapshots of programs.

A test compares a program; the snapshot is a real file that can be read, run or compiled. Programs
are rendered in canonical form, so a snapshot changes only if the program does.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, ClassVar, Final

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from typing_extensions import override

from wrapper_ir.emitters.registry import emitter_class
from wrapper_ir.testing.comparisons import Comparison, compare
from wrapper_ir.testing.texts import STRUCTURE, WIR


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
        """Return the text of the file, and record the comparison."""
        place = os.path.relpath(self._file)
        self.compared = compare(data, self._stored, self.target, place, file=self._file)
        if self.compared.error is not None:
            raise self.compared.error
        return str(self.compared.after)

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


class WirFile(ProgramFile):
    """A snapshot of a program in text form."""

    target = WIR
    file_extension = "wir"


class StructureFile(ProgramFile):
    """A snapshot of a program's structure."""

    target = STRUCTURE
    file_extension = "structure"


class PythonFile(ProgramFile):
    """A snapshot of a program's emitted Python."""

    target = "python"
    file_extension = "py"


class CppFile(ProgramFile):
    """A snapshot of a program's emitted C++, formatted if clang-format is installed."""

    target = "cpp"
    file_extension = "cpp"


class FxFile(ProgramFile):
    """A snapshot of a program's FX graph."""

    target = "fx"
    file_extension = "txt"


#: The extensions of fixtures, by the fixture's name.
EXTENSIONS: Final[dict[str, type[ProgramFile]]] = {
    f"{each.target}_snapshot": each
    for each in (WirFile, StructureFile, PythonFile, CppFile, FxFile)
}


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
    found = side.extension.compared
    return [] if found is None else str(found).splitlines()
