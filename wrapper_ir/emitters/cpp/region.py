"""The parts of rendering a region that do not depend on the line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ordering import needs_streams, pool_of, stream_of, users_object
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CExpr, CType, convert, symbol_type
from wrapper_ir.emitters.cpp.literals import call
from wrapper_ir.emitters.cpp.state import (
    Place,
    element_type,
    make_data,
    make_view,
    needs_handle,
    place_of,
)
from wrapper_ir.emitters.regions import Storages, TextWalker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.emitters.cpp.exprs import CppExprs
    from wrapper_ir.emitters.cpp.kernels import CppRun
    from wrapper_ir.emitters.writer import CodeWriter


class RegionBase(TextWalker["CppRun"]):
    """Base of the renderers of all lines: writing, and the place of each buffer.

    ``last`` is the last line that touches each buffer. The variables of ``framed`` regions live in
    the frame, for functions that share them.
    """

    comment: Callable[[str], list[str]] = staticmethod(literals.comment)

    def __init__(
        self,
        context: CppRun,
        region: ir.Region,
        writer: CodeWriter,
        last: Mapping[str, int],
        *,
        framed: bool = False,
    ) -> None:
        super().__init__(context, region, writer)
        self.framed = framed
        self.exprs: CppExprs = context.printer("frame.") if framed else context.exprs
        self.places: dict[str, Place] = {}
        #: Variables of objects.
        self.objects: dict[str, str] = {}
        #: Whether a statement uses the state.
        self.uses_state: bool = False
        self._stream = 0
        #: Buffers of which a tensor of the exact layout is needed, not just an address.
        self.tensors: frozenset[str] = needs_handle(region, context)
        self._storages = Storages(last)

    # Walking.

    @override
    def render_line(self, line: ir.AnyLine) -> None:
        if reason := needs_streams(line, self.context.program):
            self._refuse_queues(line, reason)
        self.go_on(self._stream_of(self.index))
        try:
            self.visit(line)
        except ir.UnsupportedExprError as error:
            self.unsupported(line, error.message)

    def _refuse_queues(self, line: ir.AnyLine, reason: str) -> None:
        """Record a line that needs streams that C++ does not have."""
        device = self.context.accelerator
        if device is None or not device.kind.cpp_queues:
            self.refuse_streams(line, "C++ code runs")
        elif self.context.mixes_streams:
            self.unsupported(line, f"{reason}; in C++ all streams must be of one device")
        elif what := self._out_of_reach(line):
            self.unsupported(line, f"{what}, which only emitted Python can look up")

    def _out_of_reach(self, line: ir.AnyLine) -> str:
        """Return which object of the user's a line depends on that C++ cannot look up; or ""."""
        device = self.context.accelerator
        side = device.kind.cpp if device is not None else None
        if side is not None and side.user_queues:
            return pool_of(line)
        return users_object(line, self.context.program)

    def _stream_of(self, index: int) -> int | None:
        """Return the stream for a line; None if it can stay on the current one."""
        line = self.region.body[index]
        if not (isinstance(line, ir.Probe) and line.when is ir.When.BEFORE):
            return stream_of(line)
        # On the stream of the call that it precedes.
        return self._stream_of(index + 1) if index + 1 < len(self.region.body) else None

    def go_on(self, stream: int | None) -> None:
        """Write a change of stream for the following lines, if there is one."""
        if stream is not None and stream != self._stream:
            self.put(f"call.queues->enter({stream});")
            self._stream = stream

    # Writing.

    def put(self, text: str) -> None:
        """Write a statement."""
        self.context.put(self.writer, text)

    def put_call(self, line: ir.KernelCall | ir.ExternKernel, text: str, around: str = "") -> None:
        """Write the statement of a call, and objects that live as long as it runs.

        ``around`` is the type of an object that the device needs around the call; "" for none.
        """
        objects = [f"const {around} around{{}};"] if around else []
        if self.context.profiles:
            name = line.kernel if isinstance(line, ir.KernelCall) else line.op
            name = literals.string(self.context.range_of(line, name))
            objects.insert(0, f"const wir::Mark mark({name});")
        if not objects:
            self.put(text)
            return
        self.put("{")
        with self.writer.indent():
            for each in (*objects, text):
                self.put(each)
        self.put("}")

    def shown(self, line: ir.AnyLine, name: str, value: str) -> str:
        """Return a value wrapped so that the profiler sees its computation, if profiling is on."""
        if not self.context.profiles:
            return value
        name = literals.string(self.context.range_of(line, name))
        return call("wir::marked", name, f"[&] {{ return {value}; }}")

    def mark(self, line: ir.AnyLine) -> None:
        """Write that the following statements belong to this line, for errors."""
        self.put(f"call.line = {self.context.line_number(self.path, line)};")

    def declare(self, name: str, type_: str, value: str = "") -> str:
        """Write the definition of a variable; return the expression that reads it."""
        variable = self.variable(name)
        if not self.framed:
            self.put(f"{type_} {name} = {value};" if value else f"{type_} {name}{{}};")
            return variable
        self.context.section("frame").line(f"{type_.removeprefix('const ')} {name}{{}};")
        if value:
            self.put(f"{variable} = {value};")
        return variable

    def variable(self, name: str) -> str:
        """Return the expression that reads a variable."""
        return f"frame.{name}" if self.framed else name

    # Numbers.

    def expr(self, value: ir.Scalar, type_: CType | None = None) -> CExpr:
        """Return a number or expression, converted to a type if one is given."""
        found = self.exprs.expr(value)
        return found if type_ is None else convert(found, type_)

    def count(self, value: ir.Dim) -> str:
        """Return a size, stride or offset as the C shim takes it."""
        return self.expr(value, CType.INT64).text

    def dims(self, name: str, layout: ir.Layout) -> tuple[str, str, str]:
        """Return rank, sizes and strides as arguments; write tables of those that vary."""
        return (
            str(layout.rank),
            self._numbers(f"{name}_size", layout.size),
            self._numbers(f"{name}_stride", layout.stride),
        )

    def spec(self, name: str, *, anywhere: bool = False) -> str:
        """Return a buffer's ``wir::TensorSpec``; write tables of sizes and strides that vary."""
        layout = self.layout(name)
        if layout.is_static:
            return self.context.shared_spec(layout, anywhere=anywhere)
        dims = self.dims(self.context.buffer(name), layout)
        return self.context.tensor_spec(layout, dims, anywhere=anywhere)

    def _numbers(self, preferred: str, values: Sequence[ir.Dim]) -> str:
        known = self.context.array(values)
        if known is not None:
            return known
        name = self.context.names.fresh(preferred)
        items = ", ".join(map(self.count, values))
        self.put(f"const std::int64_t {name}[] = {{{items}}};")
        return name

    # Buffers.

    def define(self, name: str, place: Place, sources: Sequence[str] = ()) -> None:
        """Begin a buffer; ``sources`` are buffers whose storage it shares or may share."""
        self.places[name] = place
        self._storages.define(name, sources)

    def define_tensor(self, name: str, value: str, sources: Sequence[str] = ()) -> None:
        """Begin a buffer as a new ``wir::Tensor`` of its layout."""
        variable = self.declare(self.context.buffer(name), "wir::Tensor", value)
        self.define(name, place_of(variable, self.layout(name), owned=True), sources)

    def base(self, name: str) -> Place:
        """Return a tensor of a buffer's storage, perhaps of another layout."""
        found = self.places.get(name)
        return self.context.state.base(name) if found is None else found

    def handle(self, name: str) -> str:
        """Return a buffer as a tensor of its layout."""
        found = self.places.get(name)
        assert found is None or found.exact, name
        return self.read(found or self.context.state.handle(name)).handle

    def read(self, place: Place) -> Place:
        """Record that a statement uses the handle of a place."""
        self.uses_state = self.uses_state or place.in_state
        return place

    def pointer(self, name: str) -> str:
        """Return the address of a buffer's first element; write its lookup the first time."""
        place = self.places.get(name)
        if place is None:
            self.uses_state = True
            return self.context.state.pointer(name)
        if place.pointer is not None and not place.stale:
            return place.pointer
        layout = self.layout(name)
        value = make_data(self.read(place), layout, self.count(place.start(layout)))
        if place.pointer is None:
            preferred = self.context.names.fresh(f"{self.context.buffer(name)}_ptr")
            place.pointer = self.declare(preferred, f"{element_type(layout.dtype)}*", value)
        else:
            self.put(f"{place.pointer} = {value};")
            place.stale = False
        return place.pointer

    def new_view(self, base: Place, name: str) -> str:
        """Return a call that makes a view of a place's storage with a buffer's layout."""
        layout = self.layout(name)
        start = base.start(layout)
        elements = "" if base.dtype is not layout.dtype else self.count(_divided(start, layout))
        dims = self.dims(self.context.buffer(name), layout)
        return make_view(self.read(base), layout, dims, self.count(start), elements)

    def forget_addresses(self, name: str) -> None:
        """Mark the addresses of a storage as stale, since its memory may have moved."""
        for member in self._storages.sharing(name):
            place = self.places.get(member)
            if place is not None and place.pointer is not None:
                self.places[member] = replace(place, stale=True)

    @override
    def end(self, *names: str, moved: bool = False) -> None:
        """Write the end of storages: release each tensor of theirs that is no longer needed.

        If ``moved``, the tensors of the named buffers live on under other names.
        """
        inputs: list[str] = []
        for name in names:
            for member in self._storages.end(name, self.index):
                place = self.places.pop(member, None)
                if place is None or (moved and member == name):
                    continue
                if place.owned:
                    self.put(f"{place.handle}.reset();")
                elif place.input is not None:
                    inputs.append(str(place.input))
        if inputs:
            self.put(f"{call('wir::release', 'call', *inputs)};")

    def symbol_type(self, name: str) -> CType:
        """Return the type of a symbol's variable."""
        return symbol_type(self.context.program.symbols[name].kind)

    def symbol_value(self, name: str) -> str:
        """Return the expression that reads a symbol's variable."""
        return self.variable(self.context.symbol(name))

    @override
    def shown_place(self, origin: ir.Origin) -> str:
        frame = origin.frames[-1] if origin.frames else None
        return "" if frame is None else f"{frame.file}:{frame.line}"


def _divided(start: ir.Dim, layout: ir.Layout) -> ir.Dim:
    """Return a number of bytes in elements; it is a multiple of their size."""
    size = layout.dtype.itemsize
    return start // size if isinstance(start, int) else ir.dim(start / size)
