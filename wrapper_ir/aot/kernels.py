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
from wrapper_ir.toolchain.source import is_solitary
from wrapper_ir.toolchain.units import Named, balanced, cost, gathered, solitary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.emitters.cpp.artifact import KernelUnit
    from wrapper_ir.toolchain.compiler import Compiler
    from wrapper_ir.toolchain.isa import Isa


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
    return cost(kernel.source)


def _total(kernels: Iterable[KernelUnit]) -> float:
    return sum(map(_cost, kernels))


def _dealt(kernels: Sequence[KernelUnit]) -> list[list[KernelUnit]]:
    """Deals kernels out to files of about the same cost."""
    count = max(1, min(len(kernels), round(_total(kernels) / _FILE_BUDGET)))
    costliest = sorted(kernels, key=lambda kernel: (-_cost(kernel), kernel.symbol))
    return balanced(costliest, count, _cost)


def _translation(
    kernels: Sequence[KernelUnit], flags: tuple[str, ...], isa: Isa, *, alone: bool
) -> Translation:
    names = [_named(kernel) for kernel in kernels]
    text = solitary(names[0]) if alone else "".join(gathered(names))
    return Translation(
        name="kernels.cpp",
        text=text,
        flags=flags,
        what=f"kernel {kernels[0].source.name!r}",
        parts={k.file: (f"kernel {k.source.name!r}", k.source.code) for k in names},
        header=PREFIX if f"<{PREFIX}>" in text else "",
        processor=cpu_identity() if isa.native else "",
    )


def _named(kernel: KernelUnit) -> Named:
    # Not the kernel's name: the same kernel in another program has another name.
    return Named(kernel.source, kernel.symbol, f"{kernel.symbol}_ns", f"{kernel.symbol}.cpp")
