"""The structure of a program: its kernels, calls and their order, and the buffers between them.

Left out is what a new release of torch changes although the model is the same: the text of kernels
and how they are launched, schemas of library ops, checks, comments, the plan of memory, hints. The
result is a program that can be printed, read and compared, but not run: it does not verify.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import wrapper_ir.lines as ir
from wrapper_ir.diffing.canonical_form import canonical, definitions
from wrapper_ir.lines.fields import as_program

if TYPE_CHECKING:
    from collections.abc import Iterator


def structure(program: ir.Program) -> ir.Program:
    """Return the structure of a program in canonical form; the function is idempotent.

    Programs have equal structures if the same kernels and library ops are called in the same order,
    on the same buffers. What kernels compute does not count, only what they take and return.

    Args:
        program: Any program, even an invalid one.
    """
    read_first = set(_read_first(as_program(program, "wir.structure")))

    def rewrite(line: ir.AnyLine) -> Iterator[ir.AnyLine]:
        yield from _structural(line, read_first)

    symbols = {n: ir.SymbolInfo(s.kind, unbacked=s.unbacked) for n, s in program.symbols.items()}
    folding = program.folding
    return canonical(
        program.replace(
            body=ir.rewrite_lines(program.body, rewrite),
            buffers=_kept_buffers(program),
            symbols=ir.FrozenMap(symbols),
            stage=ir.Stage.LOGICAL,
            in_spec="",
            out_spec="",
            unread=(),
            origins=(),
            folding=None if folding is None else structure(folding),
        )
    )


def _structural(line: ir.AnyLine, read_first: set[str]) -> Iterator[ir.AnyLine]:
    """Yield what the structure has of a line: without its origin, something simpler, or nothing."""
    match line:
        case ir.KernelDefinition():
            if not isinstance(line.source, ir.TorchOp):
                params = tuple(replace(each, name=f"p{n}") for n, each in enumerate(line.params))
                yield ir.KernelDefinition(line.name, params, _bare(line.source))
        case ir.Reuse() if line.out in read_first:
            yield ir.Reinterpret(line.out, line.donor)
        case ir.Reuse() | ir.AllocateFromPool():
            yield ir.Allocate(line.out)
        case ir.Allocate():
            yield replace(line, kept=False, origin=None)
        case ir.KernelCall():
            yield replace(line, grid=(), origin=None)
        case (
            ir.Free()
            | ir.AllocatePool()
            | ir.AssertLayout()
            | ir.AssertApart()
            | ir.AssertSymbol()
            | ir.Comment()
            | ir.Probe()
        ):
            pass
        case (
            ir.ExternKernel()
            | ir.Cond()
            | ir.Switch()
            | ir.While()
            | ir.RecordEvent()
            | ir.WaitEvent()
            | ir.Synchronize()
            | ir.Reinterpret()
            | ir.BindSymbol()
            | ir.ComputeSymbol()
        ):
            yield replace(line, origin=None)
        case _:
            assert_never(line)


def _bare(source: ir.CppKernel | ir.TritonKernel | ir.DeviceKernel) -> ir.KernelSource:
    """Return a kernel's source without its text and its launch, in the same language."""
    match source:
        case ir.CppKernel():
            return ir.CppKernel("", source.entry)
        case ir.TritonKernel():
            return ir.TritonKernel("", source.entry)
        case ir.DeviceKernel():
            return ir.DeviceKernel(source.language_name, "", source.entry)
        case _:
            assert_never(source)


def _read_first(program: ir.Program) -> Iterator[str]:
    """Yield the buffers that are read before they are written: what they were made of counts."""
    of: dict[str, str] = {}
    seen: set[str] = set()
    for does in definitions(program):
        of.update((alias.name, of.get(alias.source, alias.source)) for alias in does.aliases)
        for name in (of.get(each, each) for each in does.reads):
            if name not in seen:
                yield name
        seen.update(of.get(each, each) for each in (*does.reads, *does.writes))


def _kept_buffers(program: ir.Program) -> ir.FrozenMap[ir.Layout]:
    """Return the layouts of all buffers but those of pools."""
    pools = {line.out for _, line in ir.walk(program) if isinstance(line, ir.AllocatePool)}
    layouts = program.buffers.items()
    return ir.FrozenMap({name: layout for name, layout in layouts if name not in pools})
