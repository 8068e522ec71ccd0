"""The canonical form: equal for programs that differ only in names and in the capturing machine.

Convention: a name consists of a kind and a number (``input0``, ``buf3``, ``kernel1``, ``s0``), in
the order of definition. Everything that depends on the machine is removed: instruction sets and
their compiler flags, directories, hashes made by compilers. A file in this form therefore changes
only when the program does. It is for reading and comparing: the kernels are the program's, but
their tuning is lost.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import wrapper_ir.lines as ir
from wrapper_ir.diffing.keys import roles_of
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.program import is_torchs_own
from wrapper_ir.lines.walk import Renaming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


V = TypeVar("V")

#: Compiler flags that select a machine.
_MACHINE_FLAG: Final = re.compile(r"[-/](?:m|arch)")

#: Directories in file names within a kernel's text.
_DIRECTORY: Final = re.compile(
    r"""(?<=["'<])(?:[A-Za-z]:)?[/\\][^"'<>\n]*[/\\](?=[^"'<>/\\\n]+["'>])"""
)

#: Hashes in Triton templates, of the machine and of the template's source.
_HASH: Final = re.compile(r"('(?:backend_hash|kernel_hash)': )'[^']*'")


def canonical(program: ir.Program) -> ir.Program:
    """Return the canonical form of a program; the function is idempotent.

    Programs have equal canonical forms, origins included, if they differ only in the names of
    buffers, kernels and symbols, in unused origins, or in the machine they were captured on.

    Args:
        program: Any program, even an invalid one.
    """
    buffers, symbols = _numbered(as_program(program, "wir.canonical"))
    own = (name for name, d in program.kernels.items() if not isinstance(d.source, ir.TorchOp))
    kernels = {name: f"kernel{number}" for number, name in enumerate(own)}
    named = renaming(buffers, kernels, symbols).program(program)
    numbers: dict[ir.Origin, int] = {}

    def rewrite(line: ir.AnyLine) -> tuple[ir.AnyLine]:
        return (_renumbered(_without_machine(line), program.origins, numbers),)

    return named.replace(
        name="program",
        body=ir.rewrite_lines(named.body, rewrite),
        origins=tuple(numbers),
        buffers=_ordered(named.buffers, buffers.values()),
        symbols=_ordered(named.symbols, symbols.values()),
        folding=None if program.folding is None else canonical(program.folding),
    )


def renaming(*tables: Mapping[str, str]) -> Renaming:
    """Return a renaming by tables of buffers, kernels and symbols; other names are kept."""

    def rename(name: str, table: Mapping[str, str]) -> str:
        return table.get(name, name)

    return Renaming(*(partial(rename, table=table) for table in tables))


def definitions(program: ir.Program) -> Iterator[ir.Effects]:
    """Yield the effects of parameters and lines; a region follows the line that contains it."""
    for _, _, region in ir.walk_regions(program):
        yield from (ir.effects(item, program) for item in (*region.params, *region.body))


def _numbered(program: ir.Program) -> tuple[dict[str, str], dict[str, str]]:
    """Return new names of buffers and symbols, in order of definition."""
    buffers: dict[str, str] = {}
    symbols: dict[str, str] = {}
    count: Counter[str] = Counter()

    def add(table: dict[str, str], names: Iterable[str], kind: str) -> None:
        for name in names:
            if name not in table:
                table[name] = f"{kind}{count[kind]}"
                count[kind] += 1

    add(buffers, (i.name for i in program.inputs if isinstance(i, ir.BufferInput)), "input")
    add(buffers, program.constants, "constant")
    add(buffers, program.objects, "object")
    for does in definitions(program):
        add(buffers, does.defines, "buf")
        add(buffers, does.defines_objects, "object")
        add(symbols, does.defines_symbols, "s")
    # An undefined name is an error in the program, and must remain one.
    add(buffers, program.buffers, "buf")
    add(symbols, program.symbols, "s")
    return buffers, symbols


def _ordered(table: ir.FrozenMap[V], names: Iterable[str]) -> ir.FrozenMap[V]:
    return ir.FrozenMap({name: table[name] for name in names if name in table})


def _without_machine(line: ir.AnyLine) -> ir.AnyLine:
    values = ((field, getattr(line, field)) for field in roles_of(line))
    sources = {field: value for field, value in values if isinstance(value, ir.KernelSource)}
    changes: Any = {field: canonical_source(source) for field, source in sources.items()}
    return dataclasses.replace(line, **changes) if changes else line


def canonical_source(source: ir.KernelSource) -> ir.KernelSource:
    """Return a kernel's source without its own name and without machine-dependent parts."""
    if isinstance(source, ir.TorchOp):
        return source
    entry, code = _renamed_entry(source.entry, source.code)
    code = _HASH.sub(r"\1''", _DIRECTORY.sub("", code))
    if isinstance(source, ir.CppKernel):
        flags = tuple(flag for flag in source.flags if not _MACHINE_FLAG.match(flag))
        return ir.CppKernel(code, entry, flags=flags)
    if isinstance(source, ir.DeviceKernel):
        left_out = source.language.machine_options
        options = tuple(option for option in source.options if option[0] not in left_out)
        return dataclasses.replace(source, entry=entry, code=code, options=options)
    return dataclasses.replace(source, entry=entry, code=code)


def _renamed_entry(entry: str, code: str) -> tuple[str, str]:
    """Rename the function to ``kernel``, with underscores appended until the name is unique."""
    if not entry:
        return entry, code
    word = re.compile(rf"(?<!\w){re.escape(entry)}(?!\w)")
    parts = word.split(code)
    name = "kernel"
    while any(re.search(rf"(?<!\w){name}(?!\w)", part) for part in parts):
        name += "_"
    return name, name.join(parts)


def _renumbered(
    line: ir.AnyLine, origins: Sequence[ir.Origin], numbers: dict[ir.Origin, int]
) -> ir.AnyLine:
    """Return the line with the new number of its origin; equal origins share a number."""
    if line.origin is None:
        return line
    number = None
    if 0 <= line.origin < len(origins):
        number = numbers.setdefault(_without_directories(origins[line.origin]), len(numbers))
    return dataclasses.replace(line, origin=number)


def _without_directories(origin: ir.Origin) -> ir.Origin:
    frames = (f for f in origin.frames if not is_torchs_own(f.file))
    named = (ir.Frame(re.split(r"[/\\]", f.file)[-1], f.line, f.function, f.code) for f in frames)
    return dataclasses.replace(origin, frames=tuple(named))
