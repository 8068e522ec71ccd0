"""The structure of a program: its kernels, calls and their order, and the buffers between them.

Left out is what a new release of torch changes although the model is the same: the text of kernels
and how they are launched, schemas of library ops, checks, comments, the plan of memory, hints. The
result is a program that can be printed, read and compared, but not run: it does not verify.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.diffing.canonical_form import canonical, definitions
from wrapper_ir.lines.fields import as_program

if TYPE_CHECKING:
    from collections.abc import Iterator

Lines: TypeAlias = tuple[ir.AnyLine, ...]


def structure(program: ir.Program) -> ir.Program:
    """Return the structure of a program in canonical form; the function is idempotent.

    Programs have equal structures if the same kernels and library ops are called in the same order,
    on the same buffers. What kernels compute does not count, only what they take and return.

    Args:
        program: Any program, even an invalid one.
    """
    visitor = _Structural(frozenset(_read_first(as_program(program, "wir.structure"))))
    symbols = {n: ir.SymbolInfo(s.kind, unbacked=s.unbacked) for n, s in program.symbols.items()}
    folding = program.folding
    return canonical(
        program.replace(
            body=ir.rewrite_lines(program.body, visitor.visit),
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


class _Structural(ir.LineVisitor["Lines"]):
    """What the structure has of a line: without its origin, something simpler, or nothing."""

    def __init__(self, read_first: frozenset[str]) -> None:
        self._read_first = read_first

    def _as_it_is(self, line: ir.AnyLine) -> Lines:
        return (replace(line, origin=None),)

    def _left_out(self, line: ir.AnyLine) -> Lines:
        return ()

    visit_extern_kernel = visit_reinterpret = visit_bind_symbol = visit_compute_symbol = _as_it_is
    visit_cond = visit_switch = visit_while = _as_it_is
    visit_record_event = visit_wait_event = visit_synchronize = _as_it_is
    visit_free = visit_allocate_pool = visit_comment = visit_probe = _left_out
    visit_assert_layout = visit_assert_apart = visit_assert_symbol = _left_out

    @override
    def visit_kernel_definition(self, line: ir.KernelDefinition) -> Lines:
        if isinstance(line.source, ir.TorchOp):
            return ()
        params = tuple(replace(each, name=f"p{n}") for n, each in enumerate(line.params))
        return (ir.KernelDefinition(line.name, params, _bare(line.source)),)

    @override
    def visit_kernel_call(self, line: ir.KernelCall) -> Lines:
        return (replace(line, grid=(), origin=None),)

    @override
    def visit_allocate(self, line: ir.Allocate) -> Lines:
        return (replace(line, kept=False, origin=None),)

    @override
    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> Lines:
        return (ir.Allocate(line.out),)

    @override
    def visit_reuse(self, line: ir.Reuse) -> Lines:
        if line.out in self._read_first:
            return (ir.Reinterpret(line.out, line.donor),)
        return (ir.Allocate(line.out),)


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
    pools = {
        name
        for _, line in ir.walk(program)
        if ir.traits.allocates(line) and not ir.traits.allocates_one(line)
        for name in ir.effects(line).defines
    }
    layouts = program.buffers.items()
    return ir.FrozenMap({name: layout for name, layout in layouts if name not in pools})
