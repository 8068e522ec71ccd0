"""Errors on the way from C++ text to a Python callable, one class per mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Excerpts of source that does not compile: the offending lines, and the first messages.


_MAX_LINES = 48  #: lines of compiler output that are shown
_MAX_COLUMNS = 300  #: names of template instances run to kilobytes
_CONTEXT = 2  #: source lines shown before and after an offending one


def offending_lines(file: str, output: str) -> list[int]:
    """Return the numbers of the lines in which a compiler reports errors, each once."""
    found = re.findall(rf"^{re.escape(file)}:(\d+):.*error", output, flags=re.MULTILINE)
    return list(dict.fromkeys(int(number) for number in found))


def excerpt(code: str, offending: Sequence[int]) -> str:
    """Return the offending lines of a text, numbered, with a few lines of context."""
    lines = code.splitlines()
    shown: dict[int, str] = {}
    for number in offending or [1]:
        for near in range(number - _CONTEXT, number + _CONTEXT + 1):
            if 1 <= near <= len(lines):
                mark = ">" if near in offending else " "
                shown[near] = f"{mark} {near:4} | {lines[near - 1]}"
    return "\n".join(shown[number] for number in sorted(shown))


def shortened(output: str) -> str:
    """Return the beginning of a compiler's output, and how many more lines there were."""
    lines = output.splitlines()
    shown = [f"{line[:_MAX_COLUMNS]}..." if line[_MAX_COLUMNS:] else line for line in lines]
    if lines[_MAX_LINES:]:
        shown[_MAX_LINES:] = [f"... and {len(lines) - _MAX_LINES} more lines"]
    return "\n".join(shown)


class IsaError(WrapperIRError):
    """An instruction set is unknown, or this CPU cannot run it.

    Fields: ``isa`` is the requested name, ``reason`` says why it cannot be used.
    """

    code = "WIR2101"
    template = "instruction set {isa!r} cannot be used here: {reason}"


class CompilerNotFoundError(WrapperIRError):
    """No working C++ compiler was found.

    Fields: ``command`` is the compiler's command, ``reason`` says what is wrong with it.
    """

    code = "WIR2102"
    template = "no C++ compiler: {command!r} {reason}"
    default_hint = "install g++, or set the environment variable CXX to a C++ compiler"


class CompilerTooOldError(WrapperIRError):
    """The C++ compiler does not know C++20, which PyTorch's headers need.

    Fields: ``command`` is the compiler's command, ``version`` the version it reports, ``name`` and
    ``least`` are the kind of compiler and the first major version that will do.
    """

    code = "WIR2109"
    template = "the C++ compiler {command!r} is too old for C++20: {version}"
    default_hint = "install {name} {least} or newer, or set the environment variable CXX to one"


class CompileError(WrapperIRError):
    """The compiler rejected generated source.

    Fields: ``unit`` names the kernel (or the file), ``command`` is the command line, ``excerpt``
    the numbered offending source lines, ``output`` the compiler's output.
    """

    code = "WIR2103"
    template = "{unit} does not compile\n{excerpt}\n{output}\ncommand: {command}"


class LinkError(WrapperIRError):
    """Compiled objects could not be linked into a shared library.

    Fields: ``command`` is the command line, ``output`` the linker's output.
    """

    code = "WIR2104"
    template = "linking failed\n{output}\ncommand: {command}"


class CacheDirError(WrapperIRError):
    """The directory of the disk cache cannot be used.

    Fields: ``directory`` and ``reason``.
    """

    code = "WIR2105"
    template = "the cache directory {directory} cannot be used: {reason}"
    default_hint = "set the environment variable WRAPPER_IR_CACHE_DIR to a directory that you own"


class CacheDirWarning(UserWarning):
    """The cache directory cannot be used; a temporary one, which may not last, replaces it."""


class DiskFullError(WrapperIRError):
    """A disk is too full for a build.

    Fields: ``directory`` lies on the disk, ``free`` is the number of bytes left there.
    """

    code = "WIR2108"
    template = "the disk with {directory} is full: {free} bytes are left"
    default_hint = (
        "free some space (`wrapper-ir cache trim` removes entries not used for a long time), or set"
        " the environment variable WRAPPER_IR_CACHE_DIR to a directory on another disk"
    )


class LibraryLoadError(WrapperIRError):
    """The dynamic loader rejected a library.

    Fields: ``library`` is its file, ``reason`` the loader's message.
    """

    code = "WIR2106"
    template = "cannot load {library}: {reason}"


class KernelSourceError(WrapperIRError):
    """A kernel's description is wrong: its name, its entry or its argument types.

    Fields: ``kernel`` names it, ``reason`` says what is wrong.
    """

    code = "WIR2107"
    template = "kernel {kernel!r}: {reason}"
