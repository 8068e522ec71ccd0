"""Errors between C++ text and a Python callable, one class per mistake."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError

__all__ = [
    "CacheDirError",
    "CacheDirWarning",
    "CompileError",
    "CompilerNotFoundError",
    "CompilerTooOldError",
    "DiskFullError",
    "IsaError",
    "KernelSourceError",
    "LibraryLoadError",
    "LinkError",
]


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
