"""Kernels put together into C++ files, so that the same kernels make the same object files.

Unlike kernels for Python, which are dealt out to as many files as there are processors, these are
grouped by their cost alone: what a library consists of must not depend on the machine. Their order
follows from their symbols, which follow from their content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain.compiler import compile_flags
from wrapper_ir.toolchain.headers import PREFIX
from wrapper_ir.toolchain.isa import cpu_identity
from wrapper_ir.toolchain.objects import Translation
from wrapper_ir.toolchain.source import is_solitary, split_includes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.emitters.cpp.artifact import KernelUnit
    from wrapper_ir.toolchain.compiler import Compiler
    from wrapper_ir.toolchain.isa import Isa


# Estimated seconds to compile a kernel; see wrapper_ir.toolchain.units for where they come from.
_KERNEL_COST: Final = 0.04
_CHARACTER_COST: Final = 2e-5
#: What a file may cost, beside the 0.4 s that it takes to read the precompiled header.
_FILE_BUDGET: Final = 1.2


def kernel_translations(
    kernels: Sequence[tuple[KernelUnit, Isa]], compiler: Compiler, extra_flags: Sequence[str]
) -> list[Translation]:
    """Returns the files to compile, the costliest first.

    Args:
        kernels: Each with the instruction set to compile it for.
        compiler: What will compile them.
        extra_flags: For all files, such as ``("-g",)``.
    """
    groups: dict[tuple[Isa, tuple[str, ...], str], list[KernelUnit]] = {}
    for kernel, isa in sorted(kernels, key=lambda pair: pair[0].symbol):
        alone = kernel.symbol if is_solitary(kernel.source) else ""
        groups.setdefault((isa, kernel.source.extra_flags, alone), []).append(kernel)
    made: list[tuple[float, Translation]] = []
    for (isa, own_flags, alone), members in groups.items():
        flags = (*compile_flags(compiler, isa), *own_flags, *extra_flags)
        made += [
            (_total(some), _translation(some, flags, isa, alone=bool(alone)))
            for some in _dealt(members)
        ]
    return [translation for _, translation in sorted(made, key=lambda pair: -pair[0])]


def _cost(kernel: KernelUnit) -> float:
    return _KERNEL_COST + _CHARACTER_COST * len(kernel.source.code)


def _total(kernels: Iterable[KernelUnit]) -> float:
    return sum(map(_cost, kernels))


def _dealt(kernels: Sequence[KernelUnit]) -> list[list[KernelUnit]]:
    """Deals kernels out to files of about the same cost."""
    count = max(1, min(len(kernels), round(_total(kernels) / _FILE_BUDGET)))
    bins: list[list[KernelUnit]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for kernel in sorted(kernels, key=lambda kernel: (-_cost(kernel), kernel.symbol)):
        lightest = loads.index(min(loads))
        bins[lightest].append(kernel)
        loads[lightest] += _cost(kernel)
    return bins


def _translation(
    kernels: Sequence[KernelUnit], flags: tuple[str, ...], isa: Isa, *, alone: bool
) -> Translation:
    text = _solitary(kernels[0]) if alone else _gathered(kernels)
    return Translation(
        name="kernels.cpp",
        text=text,
        flags=flags,
        what=f"kernel {kernels[0].source.name!r}",
        parts={_file(k): (f"kernel {k.source.name!r}", k.source.code) for k in kernels},
        header=PREFIX if f"<{PREFIX}>" in text else "",
        processor=cpu_identity() if isa.native else "",
    )


def _file(kernel: KernelUnit) -> str:
    # Not the kernel's name: the same kernel in another program has another name.
    return f"{kernel.symbol}.cpp"


def _gathered(kernels: Sequence[KernelUnit]) -> str:
    """One file of kernels, each in a namespace of its own, their headers at the top."""
    includes: dict[str, None] = {}  # in order, each once
    bodies = []
    for kernel in kernels:
        headers, body = split_includes(kernel.source.code)
        includes.update(dict.fromkeys(headers))
        bodies.append(
            f"namespace {kernel.symbol}_ns {{\n"
            f"#define {kernel.source.entry} {kernel.symbol}\n"
            f'#line 1 "{_file(kernel)}"\n'
            f"{body}\n"
            f"#undef {kernel.source.entry}\n"
            f"}}  // namespace {kernel.symbol}_ns\n"
        )
    return "".join([*(f"#include {header}\n" for header in includes), *bodies])


def _solitary(kernel: KernelUnit) -> str:
    # Its own #include lines stay where they are, perhaps under a condition; the big header comes
    # first, so that the entry's new name does not reach into it.
    source = kernel.source
    first = f"#include <{PREFIX}>\n" if f"<{PREFIX}>" in source.code else ""
    return (
        f"{first}#define {source.entry} {kernel.symbol}\n"
        f'#line 1 "{_file(kernel)}"\n'
        f"{source.code}\n"
        f"#undef {source.entry}\n"
    )
