"""Library ops that allocate their results become allocations and ops that write into them.

What an op allocates itself, no plan can place. Where it has an ``out=`` overload that writes where
it is told, the buffer becomes one of the program's own. Ops without one stay as they are, as does
an op whose result has a size that only the op knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.ops import OutOp, out_op
from wrapper_ir.lines import (
    Access,
    Allocate,
    BufferArg,
    ExternKernel,
    KernelDefinition,
    Region,
    Relation,
    ResultBuffer,
    ScalarInput,
    TorchOp,
    effects,
    map_regions,
)
from wrapper_ir.lines.traits import calls_op

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine, Layout, Program


def plan_externs(program: Program) -> Program:
    """The program with each op that can write into given memory made to do so.

    Results keep their names, layouts and order; a program that has none comes back as it is.
    """
    run = _Rewrite(program)
    body = run.body(program.region, frozenset())
    if not run.used:
        return program
    new = [
        KernelDefinition(op.name, (), TorchOp(op.schema))
        for op in run.used.values()
        if op.name not in program.kernels
    ]
    return program.replace(body=(*new, *body))


class _Rewrite:
    """One run over a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.used: dict[str, OutOp] = {}

    def body(self, region: Region, bound: frozenset[str]) -> tuple[AnyLine, ...]:
        """The lines of a region; ``bound`` are the symbols that have a value before it."""
        seen = set(bound)
        seen |= {item.symbol for item in region.params if isinstance(item, ScalarInput)}
        lines: list[AnyLine] = []
        for line in region.body:
            lines += self.line(line, seen)
            seen |= set(effects(line, self.program).defines_symbols)
        return tuple(lines)

    def line(self, line: AnyLine, seen: set[str]) -> list[AnyLine]:
        """Return the lines that replace a line, those in its regions included."""
        if not calls_op(line):
            return [map_regions(line, lambda inner: self.inner(inner, frozenset(seen)))]
        op, results = self.op(line), self.results(line, seen)
        if op is None or results is None or len(results) != len(op.outs):
            return [line]
        self.used[op.name] = op
        allocations = [
            Allocate(name, stream=line.stream, mempool=line.mempool, origin=line.origin)
            for name in results
        ]
        outs = tuple(
            (keyword, BufferArg(name, Access.WRITE))
            for keyword, name in zip(op.outs, results, strict=True)
        )
        call = ExternKernel(
            op.name,
            line.args,
            (*line.kwargs, *outs),
            (),
            line.device,
            line.stream,
            line.mempool,
            origin=line.origin,
        )
        return [*allocations, call]

    def inner(self, region: Region, bound: frozenset[str]) -> Region:
        """A region with its lines rewritten."""
        return Region(region.params, self.body(region, bound), region.results)

    def op(self, line: ExternKernel) -> OutOp | None:
        """The overload to call instead; none where its name stands for something else here."""
        kernels = self.program.kernels
        definition = kernels.get(line.op)
        if definition is None or not isinstance(definition.source, TorchOp):
            return None
        op = out_op(definition.source.schema)
        given = None if op is None else kernels.get(op.name)
        if op is None or (given is not None and given.source != TorchOp(op.schema)):
            return None
        return op

    def results(self, line: ExternKernel, seen: set[str]) -> list[str] | None:
        """The names of all results in order; none if one is no fresh buffer of known size."""
        found: dict[int, str] = {}
        for result in line.results:
            if not isinstance(result, ResultBuffer) or result.relation is not Relation.FRESH:
                return None
            layout = self.program.buffers.get(result.out)
            if layout is None or not (layout.symbols <= seen and _is_plain(layout)):
                return None
            place = result.path[0] if result.path else 0
            if len(result.path) > 1 or not isinstance(place, int):
                return None
            found[place] = result.out
        is_whole = found.keys() == set(range(len(found)))
        return [found[n] for n in range(len(found))] if is_whole else None


def _is_plain(layout: Layout) -> bool:
    """Return whether an allocation can have a layout: no offset, no shared elements."""
    return layout.offset == 0 and 0 not in layout.stride
