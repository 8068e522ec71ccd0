"""A kernel as text, and what must be known of the text to compile several kernels as one file.

Reading the headers costs far more than compiling a kernel, so kernels are compiled together. Each
gets a namespace and its entry a symbol of its own; ``#include`` lines go to the top of the file.
That is sound for what Inductor writes. A kernel that does more with the preprocessor, or defines
several C symbols, is *solitary*: it gets a file and a library to itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from wrapper_ir.devices import CPP, KernelLanguage
from wrapper_ir.toolchain import bindings
from wrapper_ir.toolchain.bindings import Parameter
from wrapper_ir.toolchain.errors import KernelSourceError
from wrapper_ir.toolchain.headers import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wrapper_ir.devices import CppSide


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

    language: ClassVar[KernelLanguage] = CPP
    name: str
    code: str
    arg_types: tuple[str, ...]
    entry: str = "kernel"
    isa: str = ""
    extra_flags: tuple[str, ...] = ()


class KernelSource(Protocol):
    """A kernel as text, in one language or another."""

    @property
    def language(self) -> KernelLanguage:
        """The language of the text."""

    @property
    def name(self) -> str:
        """Its name in messages and files."""


S = TypeVar("S", bound=KernelSource)


# Without slots: with them, Python 3.11 cannot call the aliases of a frozen class.
@dataclass(frozen=True)
class KernelUnit(Generic[S]):
    """A kernel that the generated files call or launch.

    Attributes:
        symbol: The C symbol that they know it by: a function's, or that of its machine code, which
            the build makes. It follows from the kernel's content, so two kernels share one exactly
            when they are the same. C++ text defines ``source.entry``; whoever compiles it has to
            rename that.
        source: The kernel.
    """

    symbol: str
    source: S

    @property
    def file(self) -> str:
        """Its path in a program's folder."""
        return self.source.language.file(self.source.name)


CppUnit = KernelUnit[CppSource]
"""A C++ kernel."""


def parameters(source: CppSource) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel, after checking the whole description.

    Raises:
        KernelSourceError: A name is no identifier, a type cannot be passed from Python, or the
            text does not mention the entry.
    """
    for what, name in (("name", source.name), ("entry", source.entry)):
        if not _IDENTIFIER.fullmatch(name):
            raise KernelSourceError(kernel=source.name, reason=f"its {what} is no C++ identifier")
    check_entry(source)
    return tuple(_parameter(source, text) for text in source.arg_types)


def check_entry(source: CppSource) -> None:
    """Check that a text mentions the function that is to be called.

    Raises:
        KernelSourceError: It does not.
    """
    if not re.search(rf"\b{source.entry}\s*\(", source.code):
        raise KernelSourceError(
            kernel=source.name,
            reason=f"its text defines no function {source.entry!r}",
            hint="name the function to call with entry=",
        )


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


# Kernels put together into C++ files: as many files as compile fastest, as few as that allows.


T = TypeVar("T")

# Seconds, measured with g++ 12 on 19 kernels of a transformer's forward and backward: what a file
# costs before its first kernel, what a kernel costs, what a character of it costs.
_FILE_COST = 1.35
_FILE_COST_PRECOMPILED = 0.38
_KERNEL_COST = 0.04
_CHARACTER_COST = 2e-5

#: More files must be at least this much faster to be worth the processor time they burn.
_WORTH = 0.93


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel about to be compiled."""

    source: CppSource
    key: str  #: digest of all that its machine code depends on
    params: tuple[Parameter, ...]
    solitary: bool

    @classmethod
    def of(cls, source: CppSource, key: str) -> Kernel:
        """Return the kernel of a checked source."""
        return cls(source, key, parameters(source), is_solitary(source))

    @property
    def symbol(self) -> str:
        """Unique name of its function and namespace."""
        return f"wir_k_{self.key[:20]}"

    @property
    def doc(self) -> str:
        """One line about its parameters."""
        return f"({', '.join(' '.join(text.split()) for text in self.source.arg_types)})"

    @property
    def includes_prefix(self) -> bool:
        """True if it includes the big header, so that a precompiled one helps."""
        return f"<{PREFIX}>" in self.source.code

    @property
    def cost(self) -> float:
        """Estimated seconds to compile it, the file around it excepted."""
        return cost(self.source)

    @property
    def named(self) -> Named:
        """Name in its file."""
        return Named(self.source, self.symbol, self.symbol, f"{self.source.name}.cpp")


@dataclass(frozen=True, slots=True)
class Unit:
    """One C++ file."""

    kernels: tuple[Kernel, ...]

    @property
    def includes_prefix(self) -> bool:
        """True if one of its kernels includes the big header."""
        return any(kernel.includes_prefix for kernel in self.kernels)


def partition(kernels: Sequence[Kernel], jobs: int, *, precompiled: bool) -> list[Unit]:
    """Return the files to compile side by side.

    Every file reads the headers again, so the number of files is the smallest that comes close to
    the shortest wall time on ``jobs`` processors.
    """
    fixed = _FILE_COST_PRECOMPILED if precompiled else _FILE_COST
    costliest = sorted(kernels, key=lambda kernel: (-kernel.cost, kernel.key))
    best = [list(kernels)]
    best_time = _wall_time(best, fixed)
    for count in range(2, min(jobs, len(kernels)) + 1):
        bins = balanced(costliest, count, lambda kernel: kernel.cost)
        time = _wall_time(bins, fixed)
        if time < best_time * _WORTH:
            best, best_time = bins, time
    return [Unit(tuple(group)) for group in best]


def _wall_time(bins: Iterable[Sequence[Kernel]], fixed: float) -> float:
    return fixed + max(sum(kernel.cost for kernel in group) for group in bins)


def cost(source: CppSource) -> float:
    """Return the estimated seconds to compile a kernel, the file around it excepted."""
    return _KERNEL_COST + _CHARACTER_COST * len(source.code)


def balanced(items: Iterable[T], count: int, weight: Callable[[T], float]) -> list[list[T]]:
    """Deal things out to ``count`` bins, each to the lightest one; give the heaviest first."""
    bins: list[list[T]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for item in items:
        lightest = loads.index(min(loads))
        bins[lightest].append(item)
        loads[lightest] += weight(item)
    return bins


def unit_text(unit: Unit, side: CppSide, table: str = "") -> str:
    """Return the text of one file: headers, kernels, bindings, and perhaps the module's table."""
    names = [kernel.named for kernel in unit.kernels]
    parts = [solitary(names[0])] if unit.kernels[0].solitary else gathered(names)
    parts.append('#line 1 "bindings"\n')
    parts += [f'#include "{name}"' for name in side.headers]
    parts.append(bindings.prologue())
    for kernel in unit.kernels:
        scope = "" if kernel.solitary else f"{kernel.symbol}::"
        callee = scope + kernel.symbol
        label, around = kernel.source.name, side.kernels
        parts.append(bindings.binding(kernel.symbol, callee, label, kernel.params, around))
    parts.append(table)
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Named:
    """A kernel with what it is called in a file that it shares with others.

    Attributes:
        source: The kernel.
        symbol: Its function's name.
        namespace: What its text is put into.
        file: What the compiler's messages call its text.
        included: The file that holds its text and is included for it; empty to write it out.
    """

    source: CppSource
    symbol: str
    namespace: str
    file: str
    included: str = ""


def gathered(kernels: Sequence[Named]) -> list[str]:
    """Return the text of kernels in one file: all their headers, then a namespace for each."""
    includes: dict[str, None] = {}  # in order, each once
    bodies = []
    for kernel in kernels:
        headers, body = split_includes(kernel.source.code)
        includes.update(dict.fromkeys(headers))
        text = _renamed(kernel, body)
        bodies.append(
            f"namespace {kernel.namespace} {{\n{text}}}  // namespace {kernel.namespace}\n"
        )
    return ["".join(f"#include {header}\n" for header in includes), *bodies]


def solitary(kernel: Named) -> str:
    """Return the text of a kernel that has a file of its own."""
    # Its own #include lines stay where they are, perhaps under a condition; the big header comes
    # first, so that the entry's new name does not reach into it.
    first = f"#include <{PREFIX}>\n" if f"<{PREFIX}>" in kernel.source.code else ""
    return first + _renamed(kernel, kernel.source.code)


def _renamed(kernel: Named, text: str) -> str:
    # Headers that an included text asks for have been read by then, and guard themselves.
    shown = f'#line 1 "{kernel.file}"\n{text}\n'
    if kernel.included:
        shown = f'#include "{kernel.included}"\n'
    return (
        f"#define {kernel.source.entry} {kernel.symbol}\n"
        f"{shown}"
        f"#undef {kernel.source.entry}\n"
    )
