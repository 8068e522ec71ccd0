"""Compiling C++ in tests: checking text against the headers, and running small programs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.compiler import native_include_dirs

if TYPE_CHECKING:
    from pathlib import Path


def check_syntax(text: str, *flags: str) -> None:
    """Compiles text as far as its meaning; warnings are errors."""
    command = ["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-", *flags, *_includes()]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def preprocess(text: str, *flags: str) -> str:
    command = ["g++", "-std=gnu++17", "-E", "-x", "c++", "-", *flags, *_includes()]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def run_program(text: str, folder: Path, *flags: str) -> str:
    """Builds a program with a ``main`` and returns what it prints."""
    source, program = folder / "main.cpp", folder / "main"
    source.write_text(text)
    command = ["g++", "-std=c++17", "-O1", str(source), "-o", str(program), *flags, *_includes()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def _includes() -> list[str]:
    ours, *torch = native_include_dirs()
    return [f"-I{ours}", *(part for path in torch for part in ("-isystem", str(path)))]
