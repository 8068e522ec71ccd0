"""Paths and subjects of the corpus programs, without importing torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The folders of the files: in an installed package, and in a checkout.
_FOLDERS: Final = (
    Path(__file__).parent / "programs",
    Path(__file__).resolve().parents[2] / "tests" / "programs",
)


@cache
def corpus_files() -> Mapping[str, Path]:
    """Return the files of the programs that run on the CPU, by name.

    Raises:
        FileNotFoundError: The package was installed without them.
    """
    for folder in _FOLDERS:
        files = {path.stem: path for path in sorted(folder.glob("*.wir"))}
        if files:
            return files
    raise FileNotFoundError(f"no corpus of wrapper_ir in {[*map(str, _FOLDERS)]}")


def about(name: str) -> str:
    """Return the subject of a program, which is the comment on its first line."""
    first, _, _ = corpus_files()[name].read_text("utf-8").partition("\n")
    return first.removeprefix(";").strip()


@cache
def accelerator_files() -> Mapping[str, Path]:
    """Return the files of the programs that need an accelerator, by name. They are only emitted."""
    folder = next(iter(corpus_files().values())).parent / "not_cpu"
    return {path.stem: path for path in sorted(folder.glob("*.wir"))}
