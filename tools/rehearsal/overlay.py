"""A torch whose changed files are its own, and whose other files are links to the installed one's.

Nothing of the installed torch is written to: a folder with a changed file is made anew, with links
to what is beside it, and no process that uses it writes compiled modules.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The folder that holds the installed torch.
SITE = Path(torch.__file__).parents[1]

VERSION = "2.16.0"


class Overlay:
    """A torch in a folder, which may be changed file by file.

    Args:
        folder: Where it is to be; new, or empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        told = r"(__version__ = ')\d+\.\d+\.\d+"
        if not self.substitute("torch/version.py", told, rf"\g<1>{VERSION}"):
            raise ValueError("torch/version.py does not say a version")

    def replace(self, file: str, old: str, new: str) -> None:
        """Replace a text in a file, wherever it stands there.

        Raises:
            ValueError: It does not stand there.
        """
        if not self.substitute(file, re.escape(old), new.replace("\\", r"\\")):
            raise ValueError(f"{file} has no {old!r}")

    def rename(self, old: str, new: str, *, within: str = "torch") -> None:
        """Rename a word in every module, and header, of a folder.

        Raises:
            ValueError: It stands nowhere, or the new name is taken.
        """
        word = re.compile(rf"\b{old}\b")
        files = [file for file in _texts(within) if word.search(_text(file))]
        if not files:
            raise ValueError(f"{within} has no {old}")
        for file in files:
            self.substitute(file, word.pattern, new)

    def move(self, file: str, to: str) -> None:
        """Move a module to another name in its folder, and name it so wherever it is imported."""
        path = self._own(file)
        path.rename(path.with_name(to))
        self.rename(Path(file).stem, Path(to).stem)
        path.unlink(missing_ok=True)

    def substitute(self, file: str, pattern: str, new: str) -> int:
        """Replace what a pattern finds in a file; return how often it did."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8") if path.exists() else _text(file)
        changed, count = re.subn(pattern, new, text)
        if count:
            self._own(file).write_text(changed, encoding="utf-8")
        return count

    def _own(self, file: str) -> Path:
        """Make a file the overlay's own, and return it."""
        *folders, _ = Path(file).parents
        for folder in reversed(folders):
            self._open(folder)
        path = self.folder / file
        if path.is_symlink():
            text = path.read_text(encoding="utf-8")
            path.unlink()
            path.write_text(text, encoding="utf-8")
        return path

    def _open(self, folder: Path) -> None:
        """Make a folder the overlay's own, with links to what is in it."""
        ours = self.folder / folder
        if ours.is_dir() and not ours.is_symlink():
            return
        ours.unlink(missing_ok=True)
        ours.mkdir(parents=True)
        for entry in (SITE / folder).iterdir():
            if entry.name != "__pycache__":
                (ours / entry.name).symlink_to(entry)


@cache
def _text(file: str) -> str:
    return (SITE / file).read_text(encoding="utf-8")


@cache
def _texts(within: str) -> tuple[str, ...]:
    """Return the modules and headers below a folder."""

    def found() -> Iterator[Path]:
        for suffix in ("*.py", "*.pyi", "*.h"):
            yield from (SITE / within).rglob(suffix)

    kept = (file for file in found() if "__pycache__" not in file.parts)
    return tuple(sorted(file.relative_to(SITE).as_posix() for file in kept))
