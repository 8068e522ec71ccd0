"""A kernel as text, and what must be known of the text to compile several kernels as one file.

Reading the headers costs far more than compiling a kernel, so kernels are compiled together. Each
gets a namespace and its entry a symbol of its own; ``#include`` lines go to the top of the file.
That is sound for what Inductor writes. A kernel that does more with the preprocessor, or defines
several C symbols, is *solitary*: it gets a file and a library to itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wrapper_ir.toolchain.errors import KernelSourceError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)[ \t]*(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]+[>\"]).*$", re.MULTILINE)
#: Pragmas whose effect ends with the statement they stand before.
_LOCAL_PRAGMA = re.compile(r"(omp|unroll|ivdep|GCC[ \t]+(ivdep|unroll)|CMT)\b")
_EXTERN_C = re.compile(r"\bextern[ \t]+\"C\"")

_INTEGERS = frozenset(
    {"bool", "int", "long", "long long", "size_t", "ptrdiff_t", "uintptr_t"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {"unsigned", "unsigned int", "unsigned long", "unsigned long long"}
)
_FLOATS = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class CppSource:
    """One C++ kernel: its text, and the types with which Python calls it.

    Args:
        name: What the Python callable is called; need not occur in the text.
        code: The text, defining one function ``entry`` that returns nothing.
        arg_types: The C++ types of its parameters in order, such as ``"const float*"``,
            ``"float*"`` and ``"const int64_t"``. Pointers take tensors; integers and floating-point
            types take Python numbers.
        entry: The function's name in the text.
        isa: The instruction set the text was made for; empty for whatever this CPU has.
        extra_flags: Further compiler flags, such as ``("-DDEBUG",)``.
    """

    name: str
    code: str
    arg_types: tuple[str, ...]
    entry: str = "kernel"
    isa: str = ""
    extra_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel."""

    spelling: str  #: its C++ type, without the outer ``const``
    kind: str  #: ``pointer``, ``integer`` or ``floating``


def parameters(source: CppSource) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel, after checking the whole description.

    Raises:
        KernelSourceError: A name is no identifier, a type cannot be passed from Python, or the
            text does not mention the entry.
    """
    for what, name in (("name", source.name), ("entry", source.entry)):
        if not _IDENTIFIER.fullmatch(name):
            raise KernelSourceError(kernel=source.name, reason=f"its {what} is no C++ identifier")
    if not re.search(rf"\b{source.entry}\s*\(", source.code):
        raise KernelSourceError(
            kernel=source.name,
            reason=f"its text defines no function {source.entry!r}",
            hint="name the function to call with entry=",
        )
    return tuple(_parameter(source, text) for text in source.arg_types)


def _parameter(source: CppSource, text: str) -> Parameter:
    spelling = " ".join(text.replace("*", " * ").split()).replace(" *", "*")
    if re.fullmatch(r"[\w:<>, ]+\*( ?(const|restrict|__restrict__?))*", spelling):
        return Parameter(spelling.split("*")[0] + "*", "pointer")
    plain = spelling.removeprefix("const ").removesuffix(" const").removeprefix("std::")
    if plain in _INTEGERS:
        return Parameter(plain, "integer")
    if plain in _FLOATS:
        return Parameter(plain, "floating")
    raise KernelSourceError(
        kernel=source.name,
        reason=f"an argument of type {text!r} cannot be passed from Python",
        hint="use a pointer to pass a tensor, an integer type, float or double",
    )


def is_solitary(source: CppSource) -> bool:
    """Return whether the text must not share a file or a library with other kernels."""
    code = source.code
    if len(_EXTERN_C.findall(code)) > 1 or 'R"' in code:
        return True
    return not all(
        _LOCAL_PRAGMA.match(match[2]) if match[1] == "pragma" else _INCLUDE.match(match[0])
        for match in _DIRECTIVE.finditer(code)
    )


def split_includes(code: str) -> tuple[tuple[str, ...], str]:
    """Return the headers a text includes, and the text with those lines made empty."""
    return tuple(_INCLUDE.findall(code)), _INCLUDE.sub("", code)
