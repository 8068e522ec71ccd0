"""C++ in one style, for files that are kept and compared."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

_STYLE: Final = (
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
