"""Kernels on their way to machine code: a text with its types, which a step names with a symbol."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from wrapper_ir.devices import CPP, KernelLanguage
from wrapper_ir.toolchain.errors import KernelSourceError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS = frozenset(
    {"bool", "int", "long", "long long", "size_t", "ptrdiff_t", "uintptr_t"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {"unsigned", "unsigned int", "unsigned long", "unsigned long long"}
)
_FLOATS = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class CppSource:
    """One C++ kernel: its text, and the argument types with which Python calls it.

    Args:
        name: Name of the Python callable; need not occur in the text.
        code: The text, defining one function ``entry`` that returns nothing.
        arg_types: The C++ types of its parameters in order, such as ``"const float*"``,
            ``"float*"`` and ``"const int64_t"``. Pointers take tensors; integer and floating-point
            types take Python numbers.
        entry: The function's name in the text.
        isa: The instruction set that the text was written for; empty for the best this CPU has.
        extra_flags: Further compiler flags, such as ``("-DDEBUG",)``.
    """

    language: ClassVar[KernelLanguage] = CPP
    name: str
    code: str
    arg_types: tuple[str, ...]
    entry: str = "kernel"
    isa: str = ""
    extra_flags: tuple[str, ...] = ()


class KernelSource(Protocol):
    """A kernel as text, in any kernel language."""

    @property
    def language(self) -> KernelLanguage:
        """The language of the text."""

    @property
    def name(self) -> str:
        """The kernel's name in messages and files."""


S = TypeVar("S", bound=KernelSource)


# Without slots: with them, Python 3.11 cannot call the aliases of a frozen class.
@dataclass(frozen=True)
class KernelUnit(Generic[S]):
    """A kernel that other files call or launch.

    Those files use its C symbol: that of a function, or of machine code that the build embeds. It
    is derived from the kernel's content: two kernels share a symbol exactly when they are the same.
    C++ text defines ``source.entry``, which is renamed to the symbol when it is compiled.
    """

    symbol: str
    source: S

    @property
    def file(self) -> str:
        """The kernel's path in a program's folder."""
        return self.source.language.file(self.source.name)


CppUnit = KernelUnit[CppSource]
"""A C++ kernel."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel."""

    spelling: str  #: its C++ type, without the outer ``const``
    kind: str  #: ``pointer``, ``integer`` or ``floating``


def parameters(source: CppSource) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel, after checking its whole description.

    Raises:
        KernelSourceError: A name is not an identifier, a type cannot be passed from Python, or the
            text does not mention the entry.
    """
    for what, name in (("name", source.name), ("entry", source.entry)):
        if not _IDENTIFIER.fullmatch(name):
            reason = f"its {what} is not a C++ identifier"
            raise KernelSourceError(kernel=source.name, reason=reason)
    check_entry(source)
    return tuple(_parameter(source, text) for text in source.arg_types)


def check_entry(source: CppSource) -> None:
    """Raise KernelSourceError unless a kernel's text mentions its entry function."""
    if not re.search(rf"\b{source.entry}\s*\(", source.code):
        reason = f"its text defines no function {source.entry!r}"
        hint = "name the function to call with entry="
        raise KernelSourceError(kernel=source.name, reason=reason, hint=hint)


def _parameter(source: CppSource, text: str) -> Parameter:
    spelling = " ".join(text.replace("*", " * ").split()).replace(" *", "*")
    if re.fullmatch(r"[\w:<>, ]+\*( ?(const|restrict|__restrict__?))*", spelling):
        return Parameter(spelling.split("*")[0] + "*", "pointer")
    plain = spelling.removeprefix("const ").removesuffix(" const").removeprefix("std::")
    if plain in _INTEGERS:
        return Parameter(plain, "integer")
    if plain in _FLOATS:
        return Parameter(plain, "floating")
    reason = f"an argument of type {text!r} cannot be passed from Python"
    hint = "use a pointer to pass a tensor, an integer type, float or double"
    raise KernelSourceError(kernel=source.name, reason=reason, hint=hint)
