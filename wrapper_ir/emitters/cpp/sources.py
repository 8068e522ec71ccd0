"""A program emitted as C++, as data: source files, and kernels to compile beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines.program import Program
from wrapper_ir.toolchain.manifest import CaptureFacts, Sources

MAIN_FILE = "program.cpp"
"""The file with the tables and the entry, which every program has."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CppSources(Sources):
    """An emitted program; ``wrapper_ir.aot`` builds, loads and packages it.

    Attributes:
        source: The text of the whole program for readers: the files of ``sources``, concatenated.
        source_map: The map from lines of ``source`` to lines of the program.
        program: The program that it was made from. Values of constants are in ``program.data``.
        maps: The source map of each file of ``sources``.
        options: The emitter's options that are not at their defaults.
        graphs: How the loaded program captures its calls as CUDA graphs; None if it does not.
    """

    source: str
    source_map: SourceMap
    program: Program
    maps: Mapping[str, SourceMap] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    graphs: CaptureFacts | None = None
