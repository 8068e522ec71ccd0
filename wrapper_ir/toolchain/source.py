"""Kernels as text, and the analysis of that text that lets several kernels share a C++ file.

Reading the headers costs far more than compiling a kernel, so kernels are compiled together. Each
kernel gets a namespace and its entry a unique symbol; ``#include`` lines move to the top of the
file. That is sound for the text that Inductor writes. A kernel that uses the preprocessor for more,
or defines several C symbols, is *solitary*: it gets a file and a library to itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar

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
    """A kernel that the generated files call or launch.

    Attributes:
        symbol: The C symbol that those files use: that of a function, or of machine code that the
            build embeds. It is derived from the kernel's content, so two kernels share a symbol
            exactly when they are the same. C++ text defines ``source.entry``, which must be renamed
            to the symbol when it is compiled.
        source: The kernel.
    """

    symbol: str
    source: S

    @property
    def file(self) -> str:
        """The kernel's path in a program's folder."""
        return self.source.language.file(self.source.name)


CppUnit = KernelUnit[CppSource]
"""A C++ kernel."""


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
    """Return whether a kernel must not share a file or a library with other kernels."""
    code = source.code
    if len(_EXTERN_C.findall(code)) > 1 or 'R"' in code:
        return True
    return not all(
        _LOCAL_PRAGMA.match(match[2]) if match[1] == "pragma" else _INCLUDE.match(match[0])
        for match in _DIRECTIVE.finditer(code)
    )


def split_includes(code: str) -> tuple[tuple[str, ...], str]:
    """Return the headers that a text includes, and the text with those lines blanked."""
    return tuple(_INCLUDE.findall(code)), _INCLUDE.sub("", code)


# Kernels grouped into C++ files: no more files than the shortest compile time needs.


T = TypeVar("T")

# Compile times in seconds, measured with g++ 12 on 19 kernels of a transformer's forward and
# backward: per file, per kernel, and per character of a kernel.
_FILE_COST = 1.35
_FILE_COST_PRECOMPILED = 0.38
_KERNEL_COST = 0.04
_CHARACTER_COST = 2e-5

#: Using more files must cut the time to this fraction to be worth the extra processor time.
_WORTH = 0.93


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is to be compiled."""

    source: CppSource
    key: str  #: digest of everything that its machine code depends on
    params: tuple[Parameter, ...]
    solitary: bool

    @classmethod
    def of(cls, source: CppSource, key: str) -> Kernel:
        """Check a source and return its kernel."""
        return cls(source, key, parameters(source), is_solitary(source))

    @property
    def symbol(self) -> str:
        """The unique name of its function and namespace."""
        return f"wir_k_{self.key[:20]}"

    @property
    def doc(self) -> str:
        """A one-line docstring: its parameter types."""
        return f"({', '.join(' '.join(text.split()) for text in self.source.arg_types)})"

    @property
    def includes_prefix(self) -> bool:
        """True if it includes Inductor's big header, so that a precompiled one helps."""
        return f"<{PREFIX}>" in self.source.code

    @property
    def cost(self) -> float:
        """Estimated seconds to compile it, without the file around it."""
        return cost(self.source)

    @property
    def named(self) -> Named:
        """The kernel with its names in its file."""
        return Named(self.source, self.symbol, self.symbol, f"{self.source.name}.cpp")


def partition(kernels: Sequence[Kernel], jobs: int, *, precompiled: bool) -> list[list[Kernel]]:
    """Return the kernels of each file; the files are compiled in parallel.

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
    return best


def _wall_time(bins: Iterable[Sequence[Kernel]], fixed: float) -> float:
    return fixed + max(sum(kernel.cost for kernel in group) for group in bins)


def cost(source: CppSource) -> float:
    """Return the estimated seconds to compile a kernel, without the file around it."""
    return _KERNEL_COST + _CHARACTER_COST * len(source.code)


def balanced(items: Iterable[T], count: int, weight: Callable[[T], float]) -> list[list[T]]:
    """Deal items, heaviest first, out to ``count`` bins, each to the lightest bin so far."""
    bins: list[list[T]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for item in items:
        lightest = loads.index(min(loads))
        bins[lightest].append(item)
        loads[lightest] += weight(item)
    return bins


def unit_text(kernels: Sequence[Kernel], side: CppSide, table: str = "") -> str:
    """Return the text of one file: headers, kernels, bindings, and perhaps the module's table."""
    names = [kernel.named for kernel in kernels]
    parts = [solitary(names[0])] if kernels[0].solitary else gathered(names)
    parts.append('#line 1 "bindings"\n')
    parts += [f'#include "{name}"' for name in side.headers]
    parts.append(bindings.PROLOGUE)
    for kernel in kernels:
        scope = "" if kernel.solitary else f"{kernel.symbol}::"
        callee = scope + kernel.symbol
        label, around = kernel.source.name, side.kernels
        parts.append(bindings.binding(kernel.symbol, callee, label, kernel.params, around))
    parts.append(table)
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Named:
    """A kernel with its names in a C++ file.

    Attributes:
        source: The kernel.
        symbol: The name that its function gets.
        namespace: The namespace around its text.
        file: The file name of its text in compiler messages.
        included: The file with its text, to include; empty to write the text out.
    """

    source: CppSource
    symbol: str
    namespace: str
    file: str
    included: str = ""


def gathered(kernels: Sequence[Named]) -> list[str]:
    """Return the text of several kernels: all their headers, then a namespace for each."""
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
    # Its own #include lines stay in place, perhaps under a condition. The big header goes first, so
    # that the macro that renames the entry does not apply to it.
    first = f"#include <{PREFIX}>\n" if f"<{PREFIX}>" in kernel.source.code else ""
    return first + _renamed(kernel, kernel.source.code)


_SIGNATURES: Final = """\
#line 1 "signatures"
#include <cstdint>
#include <type_traits>
namespace wir_signatures {
struct Pointer {};
// Whether a parameter takes an argument that is passed as another type, in the same register.
template <class Given, class Taken>
constexpr bool takes =
    std::is_same_v<Given, Pointer> ? std::is_pointer_v<Taken>
    : std::is_integral_v<Given>    ? std::is_integral_v<Taken> && sizeof(Taken) <= sizeof(Given)
                                   : std::is_same_v<Given, Taken>;
template <class... Given, class Result, class... Taken>
constexpr bool fits(Result (*)(Taken...)) {
  if constexpr (sizeof...(Given) != sizeof...(Taken)) {
    return false;
  } else {
    return (takes<Given, Taken> && ...);
  }
}
}  // namespace wir_signatures
"""


def signature_checks(kernels: Sequence[Named], *, alone: bool) -> str:
    """Return assertions that kernels take the parameters with which other files declare them.

    Files that call a kernel declare it for themselves, and C has no types that a linker could
    compare: a number for a parameter that is a reference would be taken for an address.

    Args:
        kernels: The kernels of a file.
        alone: Whether the only one is outside of any namespace.
    """
    lines = [_SIGNATURES]
    for kernel in kernels:
        given = [
            "wir_signatures::Pointer" if parameter.kind == "pointer" else parameter.spelling
            for parameter in parameters(kernel.source)
        ]
        callee = kernel.symbol if alone else f"{kernel.namespace}::{kernel.symbol}"
        lines.append(
            f"static_assert(wir_signatures::fits<{', '.join(given)}>(&{callee}),\n"
            f"              \"kernel '{kernel.source.name}' takes other parameters than the program"
            ' declares: numbers by value, buffers as pointers");\n'
        )
    return "".join(lines)


def _renamed(kernel: Named, text: str) -> str:
    # The headers of an included text have been read by then, and have include guards.
    body = f'#line 1 "{kernel.file}"\n{text}\n'
    if kernel.included:
        body = f'#include "{kernel.included}"\n'
    entry = kernel.source.entry
    return f"#define {entry} {kernel.symbol}\n{body}#undef {entry}\n"
