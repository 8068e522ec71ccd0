"""Beginning and end of ``call``: taking inputs, checking them, and what is kept between calls.

Inputs are checked all at once, before the program does anything. What a check costs decides its
form. Whatever is known when the file is written (type, device, fixed sizes and strides, of all
inputs) is compared by one call into torch. A size that only binds a symbol needs no check. What is
left, sizes that depend on symbols, is compared once the symbols are bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.facts import free_region_symbols, placed_results
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.literals import Node, assignment, call, statement, tuple_of
from wrapper_ir.emitters.python.region import params_of
from wrapper_ir.emitters.regions import find_beginning
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput, ObjectInput, Region, ScalarInput
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.program import SymbolKind

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.lines import RegionRenderer
    from wrapper_ir.emitters.writer import CodeWriter
    from wrapper_ir.lines.layout import Layout


# Rendering what outlives a call: one object each, taken and given back by calls.


def keep_arenas(context: Context, renderer: RegionRenderer) -> list[str]:
    """Defines the arenas that are kept, and tells the renderer of the main body of them.

    Returns:
        The variables of the file that hold them.
    """
    program = context.program
    for pool, views in context.facts.arenas.items():
        variable = context.buffer(pool)
        kept = renderer.kept_pools[pool] = context.names.fresh(f"kept_{variable}")
        device, nbytes = program.layout(pool).device, program.layout(pool).nbytes
        args: list[Node] = [] if device == CPU else [context.device(device)]
        if isinstance(nbytes, int):
            args.append(str(nbytes))
        for position, (name, start) in enumerate(views.items()):
            layout = program.layout(name)
            dtype = literals.dtype(layout.dtype)
            size, stride = context.dims(layout.size), context.dims(layout.stride)
            args.append(tuple_of([dtype, size, stride, str(start)]))
            renderer.given[name] = f"{variable}[{position}]"
        made = call(context.helper(device.kind.python.arena), *args)
        context.section("kept").lines(*statement(made, 0, head=f"{kept} = "))
    return list(renderer.kept_pools.values())


def keep_heap(context: Context) -> str | None:
    """Defines what serves library ops and results, where that is worth it; returns its variable."""
    if not context.facts.needs_heap:
        return None
    variable = context.names.fresh("kept_heap")
    context.section("kept").line(f"{variable} = {context.helper('KeptHeap')}()")
    return variable


def render_release(kept: list[str], file: CodeWriter) -> None:
    """Writes the function that frees what is kept between calls."""
    file.line("def release():")
    with file.indent():
        file.line('"""Free the memory that is kept between calls, and return its bytes."""')
        terms = [f"{name}.release()" for name in kept]
        if len(terms) <= 2:
            file.line(f"return {' + '.join(terms)}")
        else:
            keepers = tuple_of(kept)
            file.lines(*statement(keepers, file.width, head="keepers = "))
            file.line("return sum(keeper.release() for keeper in keepers)")


# Rendering what is done with memory that callers give for results.


class OutputLines:
    """The part of ``call`` that looks at what was given, and the definitions that it needs."""

    def __init__(self, context: Context, renderer: RegionRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._early = find_beginning(context.program).symbols
        renderer.takes_out = True
        for name, position in placed_results(context.program).items():
            layout = self._layout(position)
            assert layout is not None
            if layout.symbols <= self._early:
                renderer.placed[name] = (position, None)
            elif layout.symbols <= context.program.layout(name).symbols:
                renderer.placed[name] = (position, layout)

    def _layout(self, position: int) -> Layout | None:
        value = self._context.program.results[position]
        if isinstance(value, BufferValue):
            return self._context.program.layout(value.buffer)
        return None

    def take(self) -> None:
        """Writes the check of what was given, as far as sizes are known by then."""
        context, writer = self._context, self._renderer.writer
        program = context.program
        layouts = [self._layout(position) for position in range(len(program.results))]
        specs: list[Node] = [
            (
                context.spec(value.buffer, layout)
                if isinstance(value, BufferValue) and layout is not None
                else "None"
            )
            for value, layout in zip(program.results, layouts, strict=True)
        ]
        made = call(context.helper("Outputs"), *specs)
        context.section("checks").lines(*statement(made, 0, head="outputs = "))
        others = [params_of(context, p) for p in program.inputs if isinstance(p, BufferInput)]
        others += map(context.buffer, program.constants)
        writer.line("outs = outputs.fresh")
        writer.line("if out is not None:")
        with writer.indent():
            given = call("outputs.given", "out", *others)
            writer.lines(*statement(given, writer.width, head="outs = "))
            for position, layout in enumerate(layouts):
                if layout and layout.symbols and layout.symbols <= self._early:
                    self._renderer.check_out(position, layout)


_KINDS = {
    SymbolKind.INT: "int",
    SymbolKind.FLOAT: "float",
    SymbolKind.BOOL: "bool",
    SymbolKind.NONE: "type(None)",
}


class Entry:
    """The beginning of ``call``.

    Attributes:
        end: Index of the first line that is not part of the beginning: those before it declare,
            remark, and bind symbols to what the inputs' metadata says.
    """

    def __init__(self, context: Context, renderer: RegionRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._put = renderer.put
        self._writer = renderer.writer
        self._beginning = find_beginning(context.program)
        self.end = self._beginning.end
        self._checked = [
            n for n in context.facts.storages.touched_inputs if context.checks != "never"
        ]
        renderer.checked = frozenset(n for n in self._checked if self._beginning.knows(n))
        self._give()
        if context.takes_out:
            self._outputs = OutputLines(context, renderer)

    def _give(self) -> None:
        """Tells the renderer what will be there before the lines that define it."""
        for position, name in enumerate(self._context.facts.kept_buffers):
            self._renderer.given[name] = f"spare[{position}]"
        for name in self._context.facts.kept_views:
            self._renderer.given[name] = None

    # The beginning.

    def unpack(self) -> None:
        """Writes the first lines: check, unpack, empty the list."""
        params = [params_of(self._context, p) for p in self._context.program.inputs]
        all_are_checked = [self._context.buffer(n) for n in self._checked] == params
        if self._checked:
            self._define_check()
        if self._checked and all_are_checked:
            self._writer.line("check_inputs(*args)")
        if params:
            self._put(assignment(params, "args", self._writer.width, unpack=True))
        self._writer.line("args.clear()")
        if self._checked and not all_are_checked:
            names = [self._context.buffer(n) for n in self._checked]
            self._put(statement(call("check_inputs", *names), self._writer.width))
        numbers = [p.symbol for p in self._context.program.inputs if isinstance(p, ScalarInput)]
        if numbers and self._context.checks != "never":
            program = self._context.program
            used = free_region_symbols(Region((), program.body, program.results), program)
            for symbol in numbers:
                self._check_number(symbol, is_used=symbol in used)

        self._check_objects()

    def _check_objects(self) -> None:
        for item in self._context.program.inputs:
            if isinstance(item, ObjectInput) and self._context.checks != "never":
                name = self._context.buffer(item.object)
                args = [name, literals.string(item.object), literals.string(item.class_name)]
                check = call(self._context.helper("check_object"), *args)
                self._put(statement(check, self._writer.width))

    def _define_check(self) -> None:
        specs: list[Node] = [
            self._context.spec(name, self._context.program.layout(name)) for name in self._checked
        ]
        made = call(self._context.helper("InputChecks"), *specs)
        if self._context.checks == "first_call":
            made = call(self._context.helper("once"), made)
        checks = self._context.section("checks")
        checks.lines(*statement(made, 0, head="check_inputs = "))

    def _check_number(self, symbol: str, *, is_used: bool) -> None:
        info = self._context.program.symbols[symbol]
        name = self._context.symbol(symbol)
        args = [literals.string(symbol), name, _KINDS[info.kind], str(info.lower), str(info.upper)]
        while args[-1] == "None":
            args.pop()
        if not is_used:  # what a model was given None for: the place counts, not the value
            args.append("optional=True")
        self._put(statement(call(self._context.helper("check_number"), *args), self._writer.width))

    def finish(self) -> None:
        """Writes what comes when all symbols of inputs are bound: more checks, what is kept."""
        if self._context.checks != "never":
            for symbol in sorted({*self._beginning.binds.values()}):
                self._check_range(symbol)
            for name in self._checked:
                if name in self._renderer.checked and self._beginning.leaves(name):
                    self._check_rest(name)
        if self._context.takes_out:
            self._outputs.take()
        self._take_views()
        self._take_spare()

    def _check_range(self, symbol: str) -> None:
        """A symbol's range."""
        name, (low, high) = self._context.symbol(symbol), self._beginning.limits(symbol)
        if low is None and high is None:
            return
        if low is None:
            condition = f"{name} > {high}"
        elif high is None:
            condition = f"{name} < {low}"
        else:
            condition = f"not {low} <= {name} <= {high}"
        self._writer.line(f"if {condition}:")
        args = [literals.string(symbol), name, str(low), str(high)]
        args += map(literals.string, self._beginning.places(symbol)[:1])
        check = call(self._context.helper("check_symbol"), *args)
        with self._writer.indent():
            self._put(statement(check, self._writer.width))

    def _check_rest(self, name: str) -> None:
        layout = self._context.program.layout(name)
        check = call(
            self._context.helper("check_layout"),
            self._context.buffer(name),
            literals.string(name),
            literals.dtype(layout.dtype),
            self._context.device(layout.device),
            self._context.dims(layout.size),
            self._context.dims(layout.stride),
        )
        self._put(statement(check, self._writer.width))

    def _take_views(self) -> None:
        views = self._context.facts.kept_views
        if not views:
            return
        specs: list[Node] = []
        for line in views.values():
            layout = self._context.program.layout(line.out)
            old = self._context.program.layout(line.source)
            size, stride = self._context.dims(layout.size), self._context.dims(layout.stride)
            assert isinstance(layout.offset, int)
            assert isinstance(old.offset, int)
            specs.append(tuple_of([size, stride, str(layout.offset - old.offset)]))
        made = call(self._context.helper("KeptViews"), *specs)
        self._context.section("kept").lines(*statement(made, 0, head="kept_views = "))
        targets = [self._context.buffer(name) for name in views]
        sources = [self._context.buffer(line.source) for line in views.values()]
        value = call("kept_views.of", *sources)
        self._put(assignment(targets, value, self._writer.width, unpack=True))

    def _take_spare(self) -> None:
        buffers = self._context.facts.kept_buffers
        if not buffers:
            return
        specs: list[Node] = []
        for name in buffers:
            layout = self._context.program.layout(name)
            assert layout.device == CPU
            specs.append(
                tuple_of(
                    [
                        self._context.dims(layout.size),
                        self._context.dims(layout.stride),
                        literals.dtype(layout.dtype),
                    ]
                )
            )
        made = call(self._context.helper("Scratch"), *specs)
        self._context.section("kept").lines(*statement(made, 0, head="scratch = "))
        self._writer.line("spare = scratch.take()")

    def leave(self) -> None:
        """Writes what comes before the return statement."""
        if self._context.facts.kept_buffers:
            self._writer.line("scratch.give(spare)")
