"""From a planned program to columns: lines, buffers, origins and the order of streams."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import begins_work, is_collective, waits_for_work
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.analysis.ordering import stream_of
from wrapper_ir.diffing.programs import figures
from wrapper_ir.explorer.document import (
    NONE,
    Buffers,
    Frames,
    Lines,
    Nodes,
    Order,
    Origins,
    Text,
    View,
)
from wrapper_ir.explorer.sources import source_files
from wrapper_ir.lines import traits
from wrapper_ir.lines.base import Trait
from wrapper_ir.passes.probed import calls_of
from wrapper_ir.planning.sizes import Sizes
from wrapper_ir.text.printer import ItemPrinter, text_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wrapper_ir.lines import AnyLine, Effects, Path, Program

_MEMORY: Final = (Trait.ALLOCATES, Trait.ENDS, Trait.RETAKES, Trait.SLICES)


class Rows:
    """The rows of names in a table, given out in order of their first use."""

    def __init__(self) -> None:
        self.rows: dict[object, int] = {}

    def of(self, key: object) -> int:
        """Return the row of a key, a new one if it has none."""
        return self.rows.setdefault(key, len(self.rows))


def view_of(
    program: Program, stage: ir.Stage, *, graph: Mapping[str, str], read_sources: bool
) -> View:
    """Return what is shown of a planned program by itself: no texts, no plans.

    Args:
        program: The planned program.
        stage: The stage that it was given in.
        graph: The text of each node of its ATen graph; empty if the graph is not known.
        read_sources: Whether files of the model may be read.
    """
    made = _Columns(program)
    origins, frames, nodes = _origins(program, graph)
    return View(
        name=program.name,
        role=program.role.value,
        stage=stage.value,
        figures=dataclasses.asdict(figures(program)),
        hints=dict(sorted(made.sizes.taken.items())),
        inputs=[made.buffer(i.name) for i in program.inputs if isinstance(i, ir.BufferInput)],
        results=[made.buffer(v.buffer) for v in program.results if isinstance(v, ir.BufferValue)],
        text=made.text,
        lines=made.lines,
        buffers=made.buffers,
        streams=["host", "caller", *(f"stream {n} {s.device}" for n, s in _streams(program))],
        origins=origins,
        frames=frames,
        files=source_files(program, frames, read=read_sources),
        nodes=nodes,
        orders=made.orders(),
        labels={call.label: made.number(call.path) for call in calls_of(program)},
    )


def _streams(program: Program) -> Iterator[tuple[int, ir.Stream]]:
    return enumerate(program.streams, start=1)


class _Columns:
    """The columns of one program, filled in one walk over each of its regions."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines, self.buffers, self.text = Lines(), Buffers(), Text()
        self.sizes = Sizes(program).compute(program)
        self._items = ItemPrinter(program, strict=False)
        self._rows = Rows()
        self._effects: dict[int, Effects] = {}
        self._kernels = {name: row for row, name in enumerate(kernels_of(program))}
        self._spans: list[tuple[int, int]] = []
        self._numbers: dict[Path, int] = {}
        self._storages: dict[str, str] = {}
        results = (value for value in program.results if isinstance(value, ir.BufferValue))
        roles = {value.buffer: "result" for value in results}
        roles |= dict.fromkeys(program.constants, "constant")
        roles |= {i.name: "input" for i in program.inputs if isinstance(i, ir.BufferInput)}
        self._roles = roles
        for path, name, region in ir.walk_regions(program):
            self._live(path, name, region)
        self._print()
        for name in program.buffers:
            self.buffer(name)

    def _live(self, path: Path, name: str, region: ir.Region) -> None:
        """Learn a region's storages, and the effects of its lines, from one walk."""

        def learn(_: int, line: AnyLine, found: Effects) -> None:
            self._effects[id(line)] = found

        liveness = Liveness(region, self.program, learn)
        for buffer in {n for line in region.body for n in self._effects[id(line)].defines}:
            owners = liveness.of(buffer)
            self._storages[buffer] = owners[0].first.owner if owners else buffer
        if not path:
            self._spans = list(liveness.work_spans())

    def _print(self) -> None:
        """Take the text of the program: its lines in order, without the code of kernels."""
        lines = dict(ir.walk(self.program))
        folding = self.program.folding
        if folding is not None:
            lines |= {ir.Path((*ir.FOLDING, *path)): line for path, line in ir.walk(folding)}
        in_kernel = False
        for row in text_lines(self.program, strict=False, paths=True):
            line = None if row.path is None else lines.get(row.path)
            if line is None:
                if in_kernel and row.text:
                    continue
                number = NONE
            else:
                assert row.path is not None
                number = self._line(row.path, line)
            in_kernel = line is not None and traits.declares(line) and is_code(line)
            self.text.rows.append(row.text)
            self.text.lines.append(number)

    def _line(self, path: Path, line: AnyLine) -> int:
        found = self._effects.get(id(line)) or ir.effects(line, self.program)
        lines, number = self.lines, len(self.lines.path)
        self._numbers[path] = number
        stream = stream_of(line)
        lines.path.append(str(path))
        lines.mnemonic.append(line.mnemonic)
        lines.callee.append(next(iter((*found.calls, *found.declares)), ""))
        lines.kind.append(kind_of(line))
        lines.origin.append(NONE if line.origin is None else line.origin)
        called = [
            self._kernels[name] for name in (*found.calls, *found.declares) if name in self._kernels
        ]
        lines.kernel.append(called[0] if called else NONE)
        lines.stream.append(NONE if stream is None else stream)
        lines.defines.append([self.buffer(name, number) for name in found.defines])
        lines.reads.append(self._all((*found.reads, *found.uses, *found.peeks)))
        lines.writes.append(self._all(found.writes))
        lines.ends.append(self._all((*found.kills, *found.takes)))
        return number

    def _all(self, names: Iterable[str]) -> list[int]:
        return [self.buffer(name) for name in dict.fromkeys(names)]

    def buffer(self, name: str, line: int = NONE) -> int:
        """Return the row of a buffer, and fill it in when it is first met."""
        known, row = len(self._rows.rows), self._rows.of(name)
        buffers = self.buffers
        if row == known:
            buffers.name.append(name)
            buffers.layout.append(self._items.layout_of(name))
            buffers.bytes.append(self.sizes.of(name))
            buffers.role.append(self._roles.get(name, ""))
            buffers.storage.append(row)
            buffers.line.append(line)
            owner = self._storages.get(name, name)
            buffers.storage[row] = row if owner == name else self.buffer(owner)
        if line != NONE:
            buffers.line[row] = line
        return row

    def number(self, path: Path) -> int:
        """Return the number of a line."""
        return self._numbers[path]

    def orders(self) -> list[Order]:
        """Return what orders the streams, and collectives with the lines that wait for them."""
        numbers = [self._numbers[ir.Path().then("body", n)] for n in range(len(self.program.body))]
        events = _Events()
        for number, line in zip(numbers, self.program.body, strict=True):
            events.step(line, number)
        spans = ((numbers[start], numbers[end]) for start, end in self._spans)
        return [*events.orders, *(Order("collective", *span) for span in spans)]


class _Events(ir.PartialLineVisitor[None]):
    """The waits for events, each with the line that recorded the event last."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self._recorded: dict[int, int] = {}
        self._number = NONE

    def step(self, line: AnyLine, number: int) -> None:
        """Advance over a line."""
        self._number = number
        self.visit(line)

    def visit_unsupported(self, line: AnyLine) -> None:
        """Pass over lines without events."""

    def visit_record_event(self, line: ir.RecordEvent) -> None:
        """Remember where the event was recorded."""
        self._recorded[line.event] = self._number

    def visit_wait_event(self, line: ir.WaitEvent) -> None:
        """Order the wait after the recording."""
        self.orders.append(Order("event", self._recorded.get(line.event, NONE), self._number))


def kernels_of(program: Program) -> list[str]:
    """Return the names of kernels with code, in the order of their declarations."""
    return [name for name, kernel in program.kernels.items() if is_code(kernel)]


def is_code(line: ir.KernelDefinition) -> bool:
    """Return whether a declaration brings the code of a kernel."""
    return line.source.language is not None


def kind_of(line: AnyLine) -> str:
    """Return the kind of a line, as :attr:`Lines.kind` lists them."""
    tests = {
        "declares": traits.declares(line),
        "wait": waits_for_work(line) or line.runs.orders,
        "collective": begins_work(line) or is_collective(line),
        "kernel": traits.calls_kernel(line),
        "op": traits.calls_op(line),
        "memory": any(trait in line.traits for trait in _MEMORY) or traits.is_view(line),
        "control": bool(ir.regions_of(line)),
    }
    return next((kind for kind, holds in tests.items() if holds), "other")


def _origins(program: Program, graph: Mapping[str, str]) -> tuple[Origins, Frames, Nodes]:
    """Return the origins, and the frames and nodes that they name."""
    origins, frames, nodes = Origins(), Rows(), Rows()
    ops: dict[str, str] = {}
    calls: dict[str, str] = {}
    for name in graph:
        nodes.of(name)
    for origin in program.origins:
        origins.module.append(origin.module)
        origins.ops.append(list(origin.ops))
        origins.nodes.append([nodes.of(name) for name in origin.nodes])
        if len(origin.ops) == len(origin.nodes) == 1:  # otherwise nothing says whose op it is
            ops[origin.nodes[0]] = origin.ops[0]
        calls |= {
            n: f"%{n} = {call}" for n, call in zip(origin.nodes, origin.calls, strict=False) if call
        }
        rows = [frames.of(dataclasses.replace(frame, code="")) for frame in origin.frames]
        origins.frames.append(rows)
        shown = origin.frame
        origins.shown.append(NONE if shown is None else rows[origin.frames.index(shown)])
    files = Rows()
    places = [frame for frame in frames.rows if isinstance(frame, ir.Frame)]
    columns = Frames(
        [files.of(frame.file) for frame in places],
        [frame.line for frame in places],
        [frame.function for frame in places],
    )
    names = [str(name) for name in nodes.rows]
    texts = [graph.get(name, calls.get(name, "")) for name in names]
    return origins, columns, Nodes(names, [ops.get(name, "") for name in names], texts)
