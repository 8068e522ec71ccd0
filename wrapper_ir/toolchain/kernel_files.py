"""Kernels as C++ files: several in one, each in its namespace, and how many files are worth it.

Reading the headers costs far more than compiling a kernel, so kernels are compiled together. Each
kernel gets a namespace and its entry a unique symbol; ``#include`` lines move to the top of the
file. That is sound for the text that Inductor writes. A kernel that uses the preprocessor for more,
or defines several C symbols, is *solitary*: it gets a file and a library to itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain.headers import PREFIX
from wrapper_ir.toolchain.isa import Isa, cpu_identity
from wrapper_ir.toolchain.objects import Translation
from wrapper_ir.toolchain.source import CppUnit, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)[ \t]*(.*)$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]+[>\"]).*$", re.MULTILINE)
#: Pragmas whose effect ends with the statement they stand before.
_LOCAL_PRAGMA = re.compile(r"(omp|unroll|ivdep|GCC[ \t]+(ivdep|unroll)|CMT)\b")
_EXTERN_C = re.compile(r"\bextern[ \t]+\"C\"")


def is_solitary(kernel: CppUnit) -> bool:
    """Return whether a kernel must not share a file or a library with other kernels."""
    code = kernel.source.code
    if len(_EXTERN_C.findall(code)) > 1 or 'R"' in code:
        return True
    return not all(
        _LOCAL_PRAGMA.match(match[2]) if match[1] == "pragma" else _INCLUDE.match(match[0])
        for match in _DIRECTIVE.finditer(code)
    )


def kernel_file(
    kernels: Sequence[CppUnit],
    flags: tuple[str, ...],
    isa: Isa,
    *,
    alone: bool,
    shown: Callable[[CppUnit], str],
    included: bool = False,
) -> Translation:
    """Return the file of some kernels, with every flag except include paths.

    If ``alone``, the only one is outside of any namespace. ``shown`` gives the file name of a
    kernel's text in compiler messages. If ``included``, the file includes the kernels' own files.
    """
    bodies = []
    includes: dict[str, None] = {}  # in order, each once
    for kernel in kernels:
        headers, text = ((), kernel.source.code) if alone else split_includes(kernel.source.code)
        includes.update(dict.fromkeys(headers))
        # The headers of an included text have been read by then, and have include guards.
        body = f'#line 1 "{shown(kernel)}"\n{text}\n'
        if included:
            body = f'#include "{kernel.file}"\n'
        bodies.append(_renamed(kernel, body, alone=alone))
    reads_prefix = any(includes_prefix(kernel) for kernel in kernels)
    if alone and reads_prefix:
        # Its own #include lines stay in place, perhaps under a condition. The big header goes
        # first, so that the macro that renames the entry does not apply to it.
        includes[f"<{PREFIX}>"] = None
    return Translation(
        name="kernels.cpp",
        text="".join([*(f"#include {header}\n" for header in includes), *bodies]),
        flags=flags,
        what=f"kernel {kernels[0].source.name!r}",
        parts={shown(k): (f"kernel {k.source.name!r}", k.source.code) for k in kernels},
        header=PREFIX if reads_prefix else "",
        processor=cpu_identity() if isa.native else "",
    )


def _renamed(kernel: CppUnit, body: str, *, alone: bool) -> str:
    entry, space = kernel.source.entry, f"{kernel.symbol}_ns"
    text = f"#define {entry} {kernel.symbol}\n{body}#undef {entry}\n"
    return text if alone else f"namespace {space} {{\n{text}}}  // namespace {space}\n"


def qualified(kernel: CppUnit, *, alone: bool) -> str:
    """Return the name of a kernel's function in its file."""
    return kernel.symbol if alone else f"{kernel.symbol}_ns::{kernel.symbol}"


def includes_prefix(kernel: CppUnit) -> bool:
    """Return whether a kernel includes Inductor's big header, so that a precompiled one helps."""
    return f"<{PREFIX}>" in kernel.source.code


def split_includes(code: str) -> tuple[tuple[str, ...], str]:
    """Return the headers that a text includes, and the text with those lines blanked."""
    return tuple(_INCLUDE.findall(code)), _INCLUDE.sub("", code)


def signature_checks(kernels: Sequence[CppUnit], *, alone: bool) -> str:
    """Return assertions that kernels take the parameters with which other files declare them.

    See ``wir/signature.h``.
    """
    lines = ['#line 1 "signatures"\n#include <wir/signature.h>\n']
    for kernel in kernels:
        given = [
            "wir_signatures::Pointer" if parameter.kind == "pointer" else parameter.spelling
            for parameter in parameters(kernel.source)
        ]
        fits = f"fits<{', '.join(given)}>(&{qualified(kernel, alone=alone)})"
        lines.append(
            f"static_assert(wir_signatures::{fits},\n"
            f"              \"kernel '{kernel.source.name}' takes other parameters than the program"
            ' declares: numbers by value, buffers as pointers");\n'
        )
    return "".join(lines)


# Kernels grouped into C++ files: no more files than the shortest compile time needs.

# Compile times in seconds, measured with g++ 12 on 19 kernels of a transformer's forward and
# backward: per file, per kernel, and per character of a kernel.
_FILE_COST: Final = 1.35
_FILE_COST_PRECOMPILED: Final = 0.12
_KERNEL_COST: Final = 0.04
_CHARACTER_COST: Final = 2e-5

#: Using more files must cut the time to this fraction, and by these seconds, to be worth the extra
#: processor time.
_WORTH: Final = 0.93
_LEAST_GAIN: Final = 0.1


def cost(kernel: CppUnit) -> float:
    """Return the estimated seconds to compile a kernel, without the file around it."""
    return _KERNEL_COST + _CHARACTER_COST * len(kernel.source.code)


def partition(kernels: Sequence[CppUnit], jobs: int, *, precompiled: bool) -> list[list[CppUnit]]:
    """Return the kernels of each file; the files are compiled in parallel.

    Every file reads the headers again, so the number of files is the smallest that comes close to
    the shortest wall time on ``jobs`` processors.
    """
    fixed = _FILE_COST_PRECOMPILED if precompiled else _FILE_COST
    best = [list(kernels)]
    best_time = _wall_time(best, fixed)
    for count in range(2, min(jobs, len(kernels)) + 1):
        bins = dealt(kernels, count)
        time = _wall_time(bins, fixed)
        if time < min(best_time * _WORTH, best_time - _LEAST_GAIN):
            best, best_time = bins, time
    return best


def _wall_time(bins: Iterable[Sequence[CppUnit]], fixed: float) -> float:
    return fixed + max(sum(map(cost, group)) for group in bins)


def dealt(kernels: Sequence[CppUnit], count: int) -> list[list[CppUnit]]:
    """Deal kernels, costliest first, out to ``count`` files, each to the cheapest file so far."""
    bins: list[list[CppUnit]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for kernel in sorted(kernels, key=lambda each: (-cost(each), each.symbol)):
        lightest = loads.index(min(loads))
        bins[lightest].append(kernel)
        loads[lightest] += cost(kernel)
    return bins
