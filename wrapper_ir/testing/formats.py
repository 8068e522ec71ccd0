"""Formatters of generated text that may be there or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["format_cpp"]

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
