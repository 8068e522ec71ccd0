"""Errors between C++ text and a Python callable, one class per mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Excerpts of source that does not compile: the lines in question, and the first messages.


#: Compiler messages that stand for all that follow.
_MAX_MESSAGES = 12
#: Templates have names of kilobytes.
_MAX_COLUMNS = 300
_CONTEXT = 2  #: source lines shown before and after an offending one


def offending_lines(file: str, output: str) -> list[int]:
    """Return the numbers of the lines of a file that a compiler calls wrong, each once."""
    found = re.findall(rf"^{re.escape(file)}:(\d+):.*error", output, flags=re.MULTILINE)
    return list(dict.fromkeys(int(number) for number in found))


def excerpt(code: str, offending: Sequence[int]) -> str:
    """Return the offending lines of a text with their neighbours and numbers."""
    lines = code.splitlines()
    shown: dict[int, str] = {}
    for number in offending or [1]:
        for near in range(number - _CONTEXT, number + _CONTEXT + 1):
            if 1 <= near <= len(lines):
                mark = ">" if near in offending else " "
                shown[near] = f"{mark} {near:4} | {lines[near - 1]}"
    return "\n".join(shown[number] for number in sorted(shown))


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_COLUMNS else f"{line[:_MAX_COLUMNS]}..."


def shortened(output: str) -> str:
    """Return the beginning of what a compiler said, and how much more there was."""
    lines = [_cut(line) for line in output.splitlines()]
    if len(lines) <= 4 * _MAX_MESSAGES:
        return "\n".join(lines)
    kept = lines[: 4 * _MAX_MESSAGES]
    return "\n".join([*kept, f"... and {len(lines) - len(kept)} lines more"])


class IsaError(WrapperIRError):
    """An instruction set is unknown, or this CPU cannot run it.

    Fields: ``isa`` is the name asked for, ``reason`` says in words why it does not fit.
    """

    code = "WIR2101"
    template = "instruction set {isa!r} cannot be used here: {reason}"


class CompilerNotFoundError(WrapperIRError):
    """No C++ compiler answers.

    Fields: ``command`` is what was looked for, ``reason`` what happened.
    """

    code = "WIR2102"
    template = "no C++ compiler: {command!r} {reason}"
    default_hint = "install g++, or name a compiler in the environment variable CXX"


class CompilerTooOldError(WrapperIRError):
    """The C++ compiler is older than the C++ that PyTorch's headers are written in.

    Fields: ``command`` is what was started, ``version`` what it says of itself, ``name`` and
    ``least`` the first that will do.
    """

    code = "WIR2109"
    template = "the C++ compiler {command!r} is too old for C++20: {version}"
    default_hint = "install {name} {least} or newer, or name one in the environment variable CXX"


class CompileError(WrapperIRError):
    """The compiler refused generated source.

    Fields: ``unit`` names the kernel (or the file), ``command`` is the command line, ``excerpt``
    the offending source lines with their numbers, ``output`` what the compiler said.
    """

    code = "WIR2103"
    template = "{unit} does not compile\n{excerpt}\n{output}\ncommand: {command}"


class LinkError(WrapperIRError):
    """Compiled objects could not be made into a shared library.

    Fields: ``command`` is the command line, ``output`` what the linker said.
    """

    code = "WIR2104"
    template = "linking failed\n{output}\ncommand: {command}"


class CacheDirError(WrapperIRError):
    """The directory of the disk cache cannot be used.

    Fields: ``directory`` and ``reason``.
    """

    code = "WIR2105"
    template = "the cache directory {directory} cannot be used: {reason}"
    default_hint = "name a directory of your own in the environment variable WRAPPER_IR_CACHE_DIR"


class CacheDirWarning(UserWarning):
    """The directory of the disk cache cannot be used; another one is, which may not last."""


class DiskFullError(WrapperIRError):
    """A disk has no room for what is built.

    Fields: ``directory`` lies on it, ``free`` is the number of bytes left there.
    """

    code = "WIR2108"
    template = "the disk with {directory} is full: {free} bytes are left"
    default_hint = (
        "make room there (`wrapper-ir cache trim` removes what was not used for long), or name a"
        " directory on another disk in the environment variable WRAPPER_IR_CACHE_DIR"
    )


class LibraryLoadError(WrapperIRError):
    """A library was built, but the dynamic loader refused it.

    Fields: ``library`` is its file, ``reason`` the loader's message.
    """

    code = "WIR2106"
    template = "cannot load {library}: {reason}"


class KernelSourceError(WrapperIRError):
    """A kernel was described wrongly: its name, its entry or its argument types.

    Fields: ``kernel`` names it, ``reason`` says what is wrong.
    """

    code = "WIR2107"
    template = "kernel {kernel!r}: {reason}"
