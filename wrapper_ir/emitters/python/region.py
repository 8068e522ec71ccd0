"""The part of rendering a region that does not depend on the line."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.statements import (
    LINE_LENGTH,
    Node,
    call,
    statement,
    tuple_of,
)
from wrapper_ir.emitters.regions import Origins, Storages, described
from wrapper_ir.lines.args import BufferValue, NoneValue, Value
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, Region, ScalarInput
from wrapper_ir.lines.visitor import LineVisitor
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.kernels import Definitions
    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import AnyLine


class RegionBase(LineVisitor[None]):
    """Shared by the renderers of all lines: where they are in a region, and how they write.

    Args:
        context: The run.
        region: The region.
        writer: Where statements go.
        last: The last line that touches each buffer of the region.
        definitions: Where kernels and ops go; regions inside others define none.
    """

    def __init__(
        self,
        context: Context,
        region: Region,
        writer: CodeWriter,
        last: Mapping[str, int],
        definitions: Definitions | None = None,
    ) -> None:
        self.context = context
        self.region = region
        self.writer = writer
        self.path = Path()
        self.index = 0
        self._definitions = definitions
        constants = frozenset(context.program.constants)
        #: Variables that hold a reference to a storage; it goes with the last of them.
        self.bindings = Storages(last, constants)
        for name in (*(p.name for p in region.params if isinstance(p, BufferInput)), *constants):
            self.bindings.define(name)
        #: Whether callers may give memory for results.
        self.takes_out = False
        #: Allocations that are a result: its position, and its layout if that is yet to be checked.
        self.placed: dict[str, tuple[int, Layout | None]] = {}
        #: Arenas that outlive the call, by pool: the variable of the file that holds each.
        self.kept_pools: dict[str, str] = {}
        self._pools: dict[tuple[str, str], str] = {}
        #: Variables that hold the raw handles of streams, by GPU and stream.
        self._handles: dict[tuple[int, int], str] = {}
        self._origins = Origins(context.program)
        #: Buffers that are there before the line that defines them is reached.
        self.given: dict[str, str | None] = {}
        #: Inputs whose layout was checked on entry.
        self.checked: frozenset[str] = frozenset()
        self.show_origins = False

    # Walking.

    def render(self, index: int, path: Path) -> None:
        """Renders the line at a position of the region."""
        line = self.region.body[index]
        self.index, self.path = index, path
        with self.writer.at(path):
            if self.show_origins:
                self._show_origin(line)
            self.visit(line)

    def returned(self) -> None:
        """Renders the return statement."""
        values = [self.value(v) for v in self.region.results]
        value = call("outputs.put", "outs", *values) if self.takes_out else tuple_of(values)
        self.put(statement(value, self.writer.width, head="return "))

    def value(self, value: Value) -> str:
        """One result of a program or region."""
        match value:
            case BufferValue():
                return self.context.buffer(value.buffer)
            case NoneValue():
                return "None"
            case _:
                return self.context.expr(value.value)

    def check_out(self, position: int, layout: Layout) -> None:
        """Writes a check of what was given for a result whose layout depends on symbols."""
        size, stride = self.context.dims(layout.size), self.context.dims(layout.stride)
        check = call("outputs.check", "outs", str(position), size, stride)
        self.put(statement(check, self.writer.width))

    def put(self, lines: Sequence[str]) -> None:
        """Writes the lines of a statement."""
        for line in lines:
            self.writer.line(line)

    @contextlib.contextmanager
    def profiled(self, name: str) -> Iterator[None]:
        """Shows the profiler what is written in the block, where that is asked for."""
        if not self.context.profiles:
            yield
            return
        self.writer.line(f"with torch.profiler.record_function({literals.string(name)}):")
        with self.writer.indent():
            yield

    def unsupported(self, line: AnyLine, reason: str) -> None:
        """Notes that a line cannot be rendered."""
        self.context.problems.add(line, self.path, reason)

    def layout(self, name: str) -> Layout:
        """The layout of a buffer."""
        return self.context.program.layout(name)

    def assign(self, name: str, value: Node, sources: Sequence[str] = ()) -> None:
        """Writes an assignment to a buffer's variable."""
        target = self.context.buffer(name)
        self.put(statement(value, self.writer.width, head=f"{target} = "))
        self.bindings.define(name, sources)

    def give_back(self, pool: str) -> None:
        """Writes the end of an arena that outlives the call."""
        self.bindings.end(pool, self.index)
        self._pools = {key: name for key, name in self._pools.items() if key[0] != pool}
        self.writer.line(f"{self.kept_pools[pool]}.give({self.context.buffer(pool)})")

    def delete(self, name: str) -> None:
        """Writes the end of a storage: all its variables go."""
        names = self.bindings.end(name, self.index)
        names.sort(key=lambda member: member != name)  # the one that the line names first
        ended = [self.context.buffer(member) for member in names]
        ended += [self._pools.pop(key) for key in sorted(self._pools) if key[0] == name]
        text = "del "
        for position, variable in enumerate(ended):
            joint = "" if text == "del " else ", "
            if self.writer.width + len(text + joint + variable) > LINE_LENGTH:
                self.writer.line(text)
                text, joint = "del ", ""
            text += joint + variable
            if position == len(ended) - 1:
                self.writer.line(text)

    def _show_origin(self, line: AnyLine) -> None:
        origin = self._origins.news(line)
        text = described(origin, origin.place) if origin is not None else ""
        if text:
            self.writer.lines(*literals.comment(text))


def params_of(context: Context, param: Input) -> str:
    """The variable of an input or parameter."""
    match param:
        case BufferInput():
            return context.buffer(param.name)
        case ScalarInput():
            return context.symbol(param.symbol)
        case ObjectInput():
            return context.buffer(param.object)
