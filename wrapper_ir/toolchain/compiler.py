"""The C++ compiler: finding it, its version, running it."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.cache import disk_full
from wrapper_ir.toolchain.errors import (
    CompileError,
    CompilerNotFoundError,
    CompilerTooOldError,
    LinkError,
    excerpt,
    offending_lines,
    shortened,
)
from wrapper_ir.toolchain.processes import current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.toolchain.cache import DiskCache


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler that runs."""

    command: tuple[str, ...]  #: the command that starts it, such as ``ccache g++``
    executable: Path  #: the file of the compiler itself
    version: str  #: the version line it prints, and the options in ``command``
    major: int  #: major version
    clang: bool

    @property
    def name(self) -> str:
        """The kind of compiler."""
        return "clang++" if self.clang else "g++"

    @property
    def gcc_major(self) -> int:
        """The major version of g++ whose flags this compiler supports."""
        return 99 if self.clang else self.major


class CompilerRunError(Exception):
    """A compiler or linker run failed. Internal: callers turn it into an error for users."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(output)
        self.command = shlex.join(command)
        self.output = output

    def explained(
        self, unit: str, file: str = "", code: str = "", hint: str | None = None
    ) -> CompileError:
        """Return the user-facing error for a file that does not compile; ``code`` is its text."""
        return CompileError(
            unit=unit,
            command=self.command,
            excerpt=excerpt(code, offending_lines(file, self.output)[:3]),
            output=shortened(self.output),
            hint=hint,
        )


def compiler_command() -> tuple[tuple[str, ...], Path]:
    """Return the words of the compiler's command and its executable, without running it.

    Raises:
        CompilerNotFoundError: Neither ``CXX`` nor ``g++`` names an executable on the path.
    """
    default = "clang++" if sys.platform == "darwin" else "g++"
    words = tuple(shlex.split(os.environ.get("CXX", ""))) or (default,)
    file = shutil.which(_program(words))
    if file is None:
        raise CompilerNotFoundError(command=" ".join(words), reason="is not on the path")
    return words, Path(file).resolve()


def _program(words: tuple[str, ...]) -> str:
    """Return the compiler's name: in ``ccache g++ -m64`` the last word before the options."""
    names = tuple(itertools.takewhile(lambda word: not word.startswith("-"), words))
    return (names or words)[-1]


def find_compiler(cache: DiskCache | None = None) -> Compiler:
    """Return the compiler named by ``CXX``, or else ``g++``.

    Args:
        cache: The cache that remembers the version under the executable's path, time and size, so
            that later processes need not run the compiler to learn it.

    Raises:
        CompilerNotFoundError: There is no compiler, or it does not run.
        CompilerTooOldError: The compiler does not support C++20.
    """
    words, executable = compiler_command()
    stat = executable.stat()
    stamp = f"{words}\0{executable}\0{stat.st_mtime_ns}\0{stat.st_size}"
    if stamp not in _KNOWN:
        compiler = parse_version(words, executable, _version_text(words, stamp, cache))
        if 0 < compiler.major < _LEAST:
            raise CompilerTooOldError(
                command=" ".join(words), version=compiler.version, name=compiler.name, least=_LEAST
            )
        _KNOWN[stamp] = compiler
    return _KNOWN[stamp]


_KNOWN: dict[str, Compiler] = {}

#: First major version of g++, and of clang++, with ``-std=c++20``, which PyTorch's headers need.
_LEAST = 10


def _version_text(words: tuple[str, ...], stamp: str, cache: DiskCache | None) -> str:
    key = hashlib.sha256(f"compiler version\0{stamp}".encode()).hexdigest()
    remembered = cache.get_bytes(key, "txt") if cache is not None else None
    if remembered is not None:
        return remembered.decode("utf-8", errors="replace")
    try:
        done = subprocess.run(
            [*words, "-v"], capture_output=True, text=True, check=True, env=_plain_environment()
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompilerNotFoundError(
            command=" ".join(words), reason=f"does not run: {error}"
        ) from error
    text = done.stderr or done.stdout
    if cache is not None:
        cache.put(key, "txt", text.encode())
    return text


def parse_version(words: tuple[str, ...], executable: Path, text: str) -> Compiler:
    """Return the compiler that the output of ``-v`` describes."""
    lines = [line.strip() for line in text.splitlines() if " version " in line]
    line = lines[-1] if lines else text.strip().replace("\n", " ")
    number = re.search(r"version (\d+)", line)
    options = words[words.index(_program(words)) + 1 :]
    return Compiler(
        command=words,
        executable=executable,
        version=" ".join((line, *options)),
        major=int(number.group(1)) if number else 0,
        clang="clang" in line,
    )


def _plain_environment() -> dict[str, str]:
    """Return the environment for compilers, whose messages must not be translated."""
    return {**os.environ, "LC_ALL": "C"}


def stand_in(cache: DiskCache, compiler: Compiler, name: str = "libtorch_cpu.so") -> Path:
    """Return an empty library that stands in for another one at link time.

    Linking with PyTorch's real libraries takes five times as long and gives the same result: only
    the name is recorded. Through it the loader finds everything else, OpenMP's runtime included.
    """
    key = hashlib.sha256(f"{name}\0{platform.machine()}".encode()).hexdigest()

    def make(scratch: Path) -> Path:
        empty, library = scratch / "empty.s", scratch / name
        empty.write_text('\t.section .note.GNU-stack,"",%progbits\n', encoding="ascii")
        options = ("-shared", "-nostdlib", f"-Wl,-soname,{name}")
        run_linker([*compiler.command, *options, str(empty), "-o", str(library)])
        return library

    return cache.made(key, "stub", make)


def run(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a compiler or linker.

    Raises:
        CompilerRunError: It failed, or could not be started.
        DiskFullError: The disk is too full for its output.
    """
    try:
        status, said = current().run(command, cwd=cwd, env=_plain_environment())
    except OSError as error:
        raise CompilerRunError(command, str(error)) from error
    if status != 0:
        output = said.decode("utf-8", errors="replace").strip()
        if os.strerror(errno.ENOSPC) in output:
            # Compilers write intermediate files to the temporary directory.
            target = command[command.index("-o") + 1] if "-o" in command[:-1] else "."
            raise disk_full((cwd or Path()) / Path(target).parent, Path(tempfile.gettempdir()))
        raise CompilerRunError(command, output or f"ended with status {status}")


def run_linker(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run a tool that works on object files: a linker, an assembler, ``objcopy``.

    Raises:
        LinkError: It failed, or could not be started.
        DiskFullError: The disk is too full for its output.
    """
    try:
        run(command, cwd=cwd)
    except CompilerRunError as error:
        raise LinkError(command=error.command, output=error.output) from error
