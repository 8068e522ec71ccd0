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
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wrapper_ir.diffing.keys import roles_of
from wrapper_ir.lines import (
    BufferInput,
    CppKernel,
    KernelSource,
    Origin,
    Program,
    TorchOp,
    effects,
    walk_regions,
)
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.program import Frame, FrozenMap, is_torchs_own
from wrapper_ir.lines.walk import Renaming, rewrite_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wrapper_ir.lines import AnyLine
    from wrapper_ir.lines.effects import Effects

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
    """Return the program in its canonical form, which is canonical itself.

    Programs that differ only in the names of buffers, kernels and symbols, in origins that no line
    has, or in the machine that they were captured on have equal ones, origins included.

    Args:
        program: Any program, even a faulty one.
    """
    buffers, symbols = _numbered(as_program(program, "wir.canonical"))
    own = (name for name, d in program.kernels.items() if not isinstance(d.source, TorchOp))
    kernels = {name: f"kernel{number}" for number, name in enumerate(own)}
    named = renaming(buffers, kernels, symbols).program(program)
    origins = _Origins(program.origins)
    body = rewrite_lines(named.body, lambda line: (origins.placed(_without_machine(line)),))
    return named.replace(
        name="program",
        body=body,
        origins=tuple(origins.kept),
        buffers=_ordered(named.buffers, buffers.values()),
        symbols=_ordered(named.symbols, symbols.values()),
    )


def renaming(*tables: Mapping[str, str]) -> Renaming:
    """Return a renaming by tables of buffers, kernels and symbols; other names stay."""

    def rename(name: str, table: Mapping[str, str]) -> str:
        return table.get(name, name)

    return Renaming(*(partial(rename, table=table) for table in tables))


def definitions(program: Program) -> Iterator[Effects]:
    """Yield what parameters and lines do, regions after the line that holds them."""
    for _, _, region in walk_regions(program):
        yield from (effects(item, program) for item in (*region.params, *region.body))


def _numbered(program: Program) -> tuple[dict[str, str], dict[str, str]]:
    """Return new names of buffers and symbols, in the order in which they are defined."""
    buffers: dict[str, str] = {}
    symbols: dict[str, str] = {}
    count: Counter[str] = Counter()

    def add(table: dict[str, str], names: Iterable[str], kind: str) -> None:
        for name in names:
            if name not in table:
                table[name] = f"{kind}{count[kind]}"
                count[kind] += 1

    add(buffers, (i.name for i in program.inputs if isinstance(i, BufferInput)), "input")
    add(buffers, program.constants, "constant")
    add(buffers, program.objects, "object")
    for found in definitions(program):
        add(buffers, found.defines, "buf")
        add(buffers, found.defines_objects, "object")
        add(symbols, found.defines_symbols, "s")
    # A name that nothing defines is a fault, which is to stay one.
    add(buffers, program.buffers, "buf")
    add(symbols, program.symbols, "s")
    return buffers, symbols


def _ordered(table: FrozenMap[V], names: Iterable[str]) -> FrozenMap[V]:
    return FrozenMap({name: table[name] for name in names if name in table})


def _without_machine(line: AnyLine) -> AnyLine:
    values = ((field, getattr(line, field)) for field in roles_of(line))
    sources = {field: value for field, value in values if isinstance(value, KernelSource)}
    changes: Any = {field: canonical_source(source) for field, source in sources.items()}
    return dataclasses.replace(line, **changes) if changes else line


def canonical_source(source: KernelSource) -> KernelSource:
    """Return a kernel's source without its own name, and without what the machine decides."""
    if isinstance(source, TorchOp):
        return source
    entry, code = _renamed_entry(source.entry, source.code)
    code = _HASH.sub(r"\1''", _DIRECTORY.sub("", code))
    if isinstance(source, CppKernel):
        flags = tuple(flag for flag in source.flags if not _MACHINE_FLAG.match(flag))
        return CppKernel(code, entry, flags=flags)
    return dataclasses.replace(source, entry=entry, code=code)


def _renamed_entry(entry: str, code: str) -> tuple[str, str]:
    """Name the function ``kernel``, or, where the text has that word, a little longer."""
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
        """Return the origins in their new order."""
        return self._numbers

    def placed(self, line: AnyLine) -> AnyLine:
        """Return the line with the new number of its origin."""
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
