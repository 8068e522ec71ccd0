"""Kernels grouped into C++ files, so that the same kernels always give the same object files.

Unlike kernels for Python, which are dealt out to as many files as there are processors, these are
grouped by cost alone, because the content of a library must not depend on the machine. Their order
follows from their symbols, and these from their content.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import subprocess
from typing import TYPE_CHECKING, Final

from wrapper_ir.aot.errors import KernelIsaError
from wrapper_ir.options.declared import ISA
from wrapper_ir.toolchain import isa as isas
from wrapper_ir.toolchain import kernel_files
from wrapper_ir.toolchain.compiler import Compiler, arch_cflags, compile_flags
from wrapper_ir.toolchain.source import CppSource, CppUnit, check_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.toolchain.isa import Isa
    from wrapper_ir.toolchain.objects import Translation


#: Seconds that the kernels of a file may take to compile, beside 0.1 s for the precompiled header.
_FILE_BUDGET: Final = 1.2


def kernel_translations(
    kernels: Sequence[tuple[CppUnit, Isa]],
    compiler: Compiler,
    extra_flags: Sequence[str],
    *,
    apart: bool = False,
    included: bool = False,
) -> list[Translation]:
    """Return the files to compile, the costliest first; flags for all are such as ``("-g",)``.

    If ``apart``, each kernel is compiled alone, so that editing one recompiles no other. If
    ``included``, the files include the kernels' own files instead of their texts.
    """
    for kernel, _ in kernels if apart else ():
        check_entry(kernel.source)  # its text may have been edited
    groups: dict[tuple[Isa, tuple[str, ...], str], list[CppUnit]] = {}
    for kernel, isa in sorted(kernels, key=lambda pair: pair[0].symbol):
        alone = kernel.symbol if apart or kernel_files.is_solitary(kernel) else ""
        groups.setdefault((isa, kernel.source.extra_flags, alone), []).append(kernel)
    files: list[tuple[float, Translation]] = []
    # Unless apart, not shown under the kernel's own name, which differs between programs.
    shown = (lambda each: each.file) if apart else (lambda each: f"{each.symbol}.cpp")
    for (isa, own_flags, symbol), members in groups.items():
        flags, is_alone = (*compile_flags(compiler, isa), *own_flags, *extra_flags), bool(symbol)
        for some in kernel_files.dealt(members, _count(members)):
            file = kernel_files.kernel_file(
                some, flags, isa, alone=is_alone, shown=shown, included=included
            )
            checked = dataclasses.replace(
                file, text=file.text + kernel_files.signature_checks(some, alone=is_alone)
            )
            files.append((_total(some), checked))
    return [file for _, file in sorted(files, key=lambda pair: -pair[0])]


def _count(kernels: Sequence[CppUnit]) -> int:
    """Return the number of files of about the same cost to deal kernels out to."""
    return max(1, min(len(kernels), round(_total(kernels) / _FILE_BUDGET)))


def _total(kernels: Iterable[CppUnit]) -> float:
    return sum(map(kernel_files.cost, kernels))


# The instructions that a library may use, and the function with which it rejects other processors.
#
# A kernel's text is for one vector width. It can be compiled for any processor whose vectors are at
# least as wide; requesting narrower ones is an error.


NATIVE: Final = "native"
"""The choice to compile each kernel for the instruction set that it was captured for."""

#: Bits per vector, by the macro that chooses ATen's vector classes.
_WIDTHS: Final = {"CPU_CAPABILITY_AVX2": 256, "CPU_CAPABILITY_AVX512": 512}

#: Features that the compiler may be allowed to use, as ``__builtin_cpu_supports`` spells them; the
#: compiler then defines a macro of the same name. These are the ones that g++ 9 and clang 9 know.
#: A processor that has one also has the others introduced with it.
_X86_FEATURES: Final = (
    *("sse3", "ssse3", "sse4.1", "sse4.2", "sse4a", "popcnt", "avx", "fma", "bmi", "bmi2", "avx2"),
    *("aes", "pclmul", "avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl", "avx512ifma"),
    *("avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq", "gfni"),
    "vpclmulqdq",
)
#: Those that came with g++ 11.
_X86_NEWER_FEATURES: Final = (
    *("avx512bf16", "amx-tile", "amx-int8", "amx-bf16", "vaes", "sha", "f16c", "lzcnt", "movbe"),
)


def checked_level(name: str) -> Isa | None:
    """Return the psABI level of that name, or None for ``native``; OptionValueError for others."""
    ISA.check(name)
    return None if name == NATIVE else isas.level(name)


def isa_of(source: CppSource, name: str) -> Isa:
    """Return the instruction set to compile a kernel for; ``name`` is that of the whole library.

    Raises:
        OptionValueError: There is no such level.
        IsaError: For ``native``, this processor lacks what the kernel was written for.
        KernelIsaError: The kernel's vectors are too wide for the level.
    """
    target = checked_level(name)
    if target is None:
        return isas.resolve(source.isa)
    if not source.isa:  # the text adapts to any vector width
        return target
    written = isas.find(source.isa)
    if _width(written) > _width(target):
        raise KernelIsaError(kernel=source.name, written=source.isa, isa=name)
    # The macros choose the vector width, which must be that of the text.
    return dataclasses.replace(target, macros=written.macros)


def _width(isa: Isa) -> int:
    return max((_WIDTHS.get(macro, 0) for macro in isa.macros), default=0)


def required_features(compiler: Compiler, isas_used: Iterable[Isa]) -> tuple[str, ...]:
    """Return the features that a processor needs to run code compiled for these instruction sets.

    They are all features that the compiler may use, which for ``-march=native`` are more than the
    kernels were written for. Empty where a library cannot query its processor.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    newer = _X86_NEWER_FEATURES if compiler.gcc_major >= 11 else ()
    defined = {macro for isa in isas_used for macro in _macros(compiler, isa)}
    return tuple(name for name in (*_X86_FEATURES, *newer) if _macro(name) in defined)


def _macro(feature: str) -> str:
    return f"__{feature.upper().replace('.', '_').replace('-', '_')}__"


@functools.lru_cache(maxsize=32)
def _macros(compiler: Compiler, isa: Isa) -> frozenset[str]:
    """Return the macros that the compiler defines for an instruction set (takes about 20 ms)."""
    done = subprocess.run(
        [*compiler.command, *arch_cflags(compiler, isa), "-dM", "-E", "-x", "c++", "/dev/null"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(line.split()[1] for line in done.stdout.splitlines())


def check_text(features: Iterable[str], isa: str) -> str:
    """Return the C++ file with which a library checks that it can run on a processor.

    Its function returns null or an error message. It is compiled for the most basic processor. The
    features are spelled as ``__builtin_cpu_supports`` spells them.
    """
    where = "the processor it was made on" if isa == NATIVE else isa
    lines = [
        f'  if (!__builtin_cpu_supports("{feature}")) {{\n'
        f'    return "built for {where}: this processor has no {feature}";\n'
        "  }\n"
        for feature in features
    ]
    body = "".join(["  __builtin_cpu_init();\n", *lines]) if lines else ""
    return (
        'extern "C" __attribute__((visibility("hidden")))\n'
        "const char* wir_cpu_problem() noexcept {\n"
        f"{body}"
        "  return nullptr;\n"
        "}\n"
    )
