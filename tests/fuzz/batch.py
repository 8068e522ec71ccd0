"""Many programs in one C++ library: one compiler run instead of hundreds.

What the emitter wrote is compiled as it is. Macros make the two names that every program has
different; kernels are named by their content, and equal ones are there once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.aot.build.library import build_loadable
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.aot.load import load_library, unboxed, with_objects
from wrapper_ir.emitters.cpp.renderer import MAIN_FILE
from wrapper_ir.toolchain.manifest import Manifest, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.emitter import CppArtifact
    from wrapper_ir.lines import Program
    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.source import CppUnit

#: What all programs may include, outside of what the macros change.
_HEADERS = ("memory", "utility", "wir/arena.h", "wir/control.h", "wir/generated.h", "wir/out.h")

#: Appended to the emitter's own ``-O1``, which would take twice as long.
QUICK = ("-O0",)

#: What the library shows: every program.
EXPORTS = "{ global: wir_program_info*; local: *; };\n"


def build(
    artifacts: Sequence[CppArtifact],
    *,
    cache: DiskCache | None = None,
    flags: tuple[str, ...] = QUICK,
) -> Path:
    """The library of some programs."""
    kernels: dict[str, CppUnit] = {}
    texts = [f"#include <{name}>\n" for name in _HEADERS]
    for number, artifact in enumerate(artifacts):
        kernels |= {kernel.symbol: kernel for kernel in artifact.kernels}
        texts += _apart(_one_file(artifact), number)
    sources: Mapping[str, str] = {MAIN_FILE: "".join(texts)}
    parts = frozenset(part for each in artifacts for part in each.manifest.parts)
    made = Sources(sources, tuple(kernels.values()), manifest=Manifest(parts))
    options = BuildOptions(jobs=1, cache=cache, extra_flags=flags)
    return build_loadable(made, options, exports=EXPORTS)


def load(library: Path, program: Program, number: int) -> Callable[..., tuple[Any, ...]]:
    """The function of one of a library's programs, on that program's constants."""
    constants = tuple(program.data[name] for name in program.constants)
    how: Any = {"name": program.name, "symbol": _symbol(number), "boxed": bool(program.objects)}
    function: Callable[..., tuple[Any, ...]] = load_library(library, constants, **how)
    if not program.objects:
        return function
    objects = tuple(program.data[name] for name in program.objects)
    return unboxed(with_objects(function, lambda: objects, len(program.inputs)), program.name)


def _symbol(number: int) -> str:
    return f"wir_program_info_{number}"


def _one_file(artifact: CppArtifact) -> str:
    """The text of a program; long ones have a header and files that include it."""
    headers = [text for name, text in artifact.sources.items() if not name.endswith(".cpp")]
    files = [text for name, text in artifact.sources.items() if name.endswith(".cpp")]
    own = [f'#include "{name}"' for name in artifact.sources]
    lines = "\n".join([*headers, *files]).splitlines()
    return "\n".join(line for line in lines if line not in (*own, "#pragma once"))


def _apart(text: str, number: int) -> list[str]:
    shown = f'__attribute__((visibility("default"))) {_symbol(number)}'
    return [
        f"#define wir_program wir_program_{number}\n",
        f"#define wir_program_info {shown}\n",
        text,
        "\n#undef wir_program\n#undef wir_program_info\n",
    ]
