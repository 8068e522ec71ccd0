"""One form for programs that are the same but for names, places and the machine they come from.

Convention: names say what a thing is and how many came before it (``input0``, ``buf3``,
``kernel1``, ``s0``), in the order in which the program defines them. What depends on the machine is
left out: instruction sets and compiler flags for them, directories, what compilers hash. So a file
of it changes when the program does. It is for reading and comparing: its kernels are those of the
program, but nothing says any more what they were tuned for.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from wrapper_ir.lines import (
    BufferInput,
    CppKernel,
    KernelDefinition,
    ObjectInput,
    Origin,
    Program,
    ScalarInput,
    TorchOp,
    TritonKernel,
    effects,
    walk_regions,
)
from wrapper_ir.lines.given import as_program
from wrapper_ir.lines.origin import Frame, is_torchs_own
from wrapper_ir.lines.program import FrozenMap
from wrapper_ir.lines.rename import Renaming
from wrapper_ir.lines.walk import rewrite_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines import AnyLine, KernelSource

__all__ = ["canonical", "canonical_source"]

V = TypeVar("V")

#: Compiler flags that name a machine.
_MACHINE_FLAG: Final = re.compile(r"[-/](?:m|arch)")

#: Directories of files that a kernel's text names.
_DIRECTORY: Final = re.compile(
    r"""(?<=["'<])(?:[A-Za-z]:)?[/\\][^"'<>\n]*[/\\](?=[^"'<>/\\\n]+["'>])"""
)

#: What Triton's templates write of the machine and of the source they were made from.
_HASH: Final = re.compile(r"('(?:backend_hash|kernel_hash)': )'[^']*'")


def canonical(program: Program) -> Program:
    """The program in its canonical form, which is canonical itself.

    Programs that differ only in the names of buffers, kernels and symbols, in origins that no line
    has, or in the machine that they were captured on have equal ones, origins included.

    Args:
        program: Any program, even a faulty one.
    """
    buffers, symbols = _numbered(as_program(program, "wir.canonical"))
    kernels = {
        name: f"kernel{number}"
        for number, name in enumerate(
            n for n, d in program.kernels.items() if not isinstance(d.source, TorchOp)
        )
    }
    named = Renaming(
        lambda name: buffers.get(name, name),
        lambda name: kernels.get(name, name),
        lambda name: symbols.get(name, name),
    ).program(program)
    origins = _Origins(program.origins)
    body = rewrite_lines(named.body, lambda line: (origins.placed(_without_machine(line)),))
    return named.replace(
        name="program",
        body=body,
        origins=tuple(origins.kept),
        buffers=_ordered(named.buffers, buffers.values()),
        symbols=_ordered(named.symbols, symbols.values()),
    )


class _Numbers:
    """New names, numbered by kind in the order in which they are asked for."""

    def __init__(self) -> None:
        self.table: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def add(self, names: Iterable[str], kind: str) -> None:
        """Names things of a kind that have no new name yet."""
        for name in names:
            if name not in self.table:
                self.table[name] = f"{kind}{self._count[kind]}"
                self._count[kind] += 1


def _numbered(program: Program) -> tuple[dict[str, str], dict[str, str]]:
    """New names of buffers and symbols, in the order in which they are defined."""
    buffers, symbols = _Numbers(), _Numbers()
    buffers.add((i.name for i in program.inputs if isinstance(i, BufferInput)), "input")
    buffers.add(program.constants, "constant")
    buffers.add(program.objects, "object")
    for _, _, region in walk_regions(program):
        for param in region.params:
            match param:
                case BufferInput():
                    buffers.add((param.name,), "buf")
                case ScalarInput():
                    symbols.add((param.symbol,), "s")
                case ObjectInput():
                    buffers.add((param.object,), "object")
        for line in region.body:
            found = effects(line, program)
            buffers.add(found.defines, "buf")
            buffers.add(found.defines_objects, "object")
            symbols.add(found.defines_symbols, "s")
    # What nothing defines is a fault, which is to stay one.
    buffers.add(program.buffers, "buf")
    symbols.add(program.symbols, "s")
    return buffers.table, symbols.table


def _ordered(table: FrozenMap[V], names: Iterable[str]) -> FrozenMap[V]:
    return FrozenMap({name: table[name] for name in names if name in table})


def _without_machine(line: AnyLine) -> AnyLine:
    if not isinstance(line, KernelDefinition):
        return line
    return dataclasses.replace(line, source=canonical_source(line.source))


def canonical_source(source: KernelSource) -> KernelSource:
    """A kernel's source without its own name, and without what the machine decides."""
    match source:
        case TorchOp():
            return source
        case CppKernel():
            flags = tuple(flag for flag in source.flags if not _MACHINE_FLAG.match(flag))
            entry, code = _renamed_entry(source.entry, source.code)
            return CppKernel(_plain(code), entry, flags=flags)
        case TritonKernel():
            entry, code = _renamed_entry(source.entry, source.code)
            return dataclasses.replace(source, entry=entry, code=_plain(code))


def _plain(code: str) -> str:
    return _HASH.sub(r"\1''", _DIRECTORY.sub("", code))


def _renamed_entry(entry: str, code: str) -> tuple[str, str]:
    """The function called ``kernel``, or, where the text has that word already, a little longer."""
    if not entry:
        return entry, code
    word = re.compile(rf"(?<!\w){re.escape(entry)}(?!\w)")
    parts = word.split(code)
    name = "kernel"
    while any(re.search(rf"(?<!\w){name}(?!\w)", part) for part in parts):
        name += "_"
    return name, name.join(parts)


class _Origins:
    """The origins that lines have, numbered as they are met; equal ones share a number."""

    def __init__(self, origins: tuple[Origin, ...]) -> None:
        self._origins = origins
        self._numbers: dict[Origin, int] = {}

    @property
    def kept(self) -> Iterable[Origin]:
        """The origins in their new order."""
        return self._numbers

    def placed(self, line: AnyLine) -> AnyLine:
        """The line with the new number of its origin."""
        if line.origin is None:
            return line
        number = None
        if 0 <= line.origin < len(self._origins):
            origin = _without_directories(self._origins[line.origin])
            number = self._numbers.setdefault(origin, len(self._numbers))
        return dataclasses.replace(line, origin=number)


def _without_directories(origin: Origin) -> Origin:
    frames = (f for f in origin.frames if not is_torchs_own(f.file))
    named = (Frame(re.split(r"[/\\]", f.file)[-1], f.line, f.function, f.code) for f in frames)
    return dataclasses.replace(origin, frames=tuple(named))
