"""The beginning and end of ``call``: unpacking and checking inputs, and memory kept between calls.

All inputs are checked before the program does anything, each property as cheaply as possible.
Properties that are known when the file is written (type, device, fixed sizes and strides, of all
inputs) are compared by a single call into torch. A size that only binds a symbol needs no check.
Sizes that depend on symbols are compared once the symbols are bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import (
    free_region_symbols,
    placed_results,
    realigned_inputs,
    stored_inputs,
)
from wrapper_ir.analysis.kept import source_of
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.literals import Node, call, keyword, statement, tuple_of
from wrapper_ir.emitters.python.region import params_of
from wrapper_ir.emitters.regions import find_beginning

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.lines import RegionRenderer
    from wrapper_ir.emitters.writer import CodeWriter


# Memory that outlives a call: one object each, which calls take and give back.


def keep_arenas(context: Context, renderer: RegionRenderer) -> list[str]:
    """Define the kept arenas, tell the renderer of the main body, and return their variables."""
    program = context.program
    for pool, views in context.kept.arenas.items():
        variable = context.buffer(pool)
        kept = renderer.kept_pools[pool] = context.names.fresh(f"kept_{variable}")
        device, nbytes = program.layout(pool).device, program.layout(pool).nbytes
        args: list[Node] = [] if device == ir.CPU else [context.device(device)]
        if isinstance(nbytes, int):
            args.append(str(nbytes))
        for position, (name, start) in enumerate(views.items()):
            layout = program.layout(name)
            dtype = literals.dtype(layout.dtype)
            size, stride = context.dims(layout.size), context.dims(layout.stride)
            args.append(tuple_of([dtype, size, stride, str(start)]))
            renderer.given[name] = f"{variable}[{position}]"
        made = call(context.imported(device.kind.python.arena), *args)
        context.define("kept", kept, made)
    return list(renderer.kept_pools.values())


def keep_heap(context: Context) -> str | None:
    """Define the heap that serves library ops and results, if it pays off; return its variable."""
    if not context.kept.needs_heap:
        return None
    variable = context.names.fresh("kept_heap")
    context.define("kept", variable, call(context.helper("KeptHeap")))
    return variable


def render_release(kept: list[str], file: CodeWriter) -> None:
    """Write the function that frees the memory kept between calls."""
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


#: The module's variable that compares what is fixed of all inputs.
_INPUTS: Final = "check_inputs"

#: All variables of a module through which ``call`` compares inputs, and nothing else.
CHECKS: Final = (_INPUTS, "check_layout", "check_number", "check_object")

_KINDS = {
    ir.SymbolKind.INT: "int",
    ir.SymbolKind.FLOAT: "float",
    ir.SymbolKind.BOOL: "bool",
    ir.SymbolKind.NONE: "type(None)",
}


class Entry:
    """The beginning of ``call``: the lines before ``end``.

    They declare, remark, and bind symbols to the inputs' metadata.
    """

    def __init__(self, context: Context, renderer: RegionRenderer) -> None:
        self._context = context
        self._program = context.program
        self._renderer = renderer
        self._put = renderer.put
        self._writer = renderer.writer
        self._beginning = find_beginning(context.program)
        self.end: int = self._beginning.end
        is_checked = context.options.checks != "never"
        self._checked = context.kept.storages.touched_inputs if is_checked else ()
        renderer.checked |= frozenset(n for n in self._checked if self._beginning.knows(n))
        #: Buffers that are results, by position; callers may provide memory for them.
        self._results = {
            position: value.buffer
            for position, value in enumerate(context.program.results)
            if isinstance(value, ir.BufferValue)
        }
        self._give()

    def _give(self) -> None:
        """Announce to the renderer the buffers that exist before the lines that define them."""
        renderer, lasting = self._renderer, self._context.kept
        for position, name in enumerate(lasting.buffers):
            renderer.given[name] = f"spare[{position}]"
        renderer.given.update(dict.fromkeys(lasting.views))
        renderer.takes_out = self._context.takes_out
        placed = placed_results(self._program) if renderer.takes_out else {}
        for name, position in placed.items():
            layout = self._program.layout(self._results[position])
            if layout.symbols <= self._beginning.symbols:
                renderer.placed[name] = (position, None)
            elif layout.symbols <= self._program.layout(name).symbols:
                renderer.placed[name] = (position, layout)

    # The beginning.

    def unpack(self) -> None:
        """Write the first lines: check, unpack and empty the list."""
        params = [params_of(self._context, p) for p in self._program.inputs]
        names = [self._context.buffer(n) for n in self._checked]
        if names:
            self._define_check()
        self._realign()
        if names and names == params:
            self._writer.line(f"{_INPUTS}(*args)")
        if params:
            self._renderer.unpack(params, "args")
        self._writer.line("args.clear()")
        if names and names != params:
            self._put(call(_INPUTS, *names))
        if self._context.options.checks == "never":
            return
        numbers = [p.symbol for p in self._program.inputs if isinstance(p, ir.ScalarInput)]
        if numbers:
            body = ir.Region((), self._program.body, self._program.results)
            used = free_region_symbols(body, self._program)
            for symbol in numbers:
                self._check_number(symbol, is_used=symbol in used)
        for item in self._program.inputs:
            if isinstance(item, ir.ObjectInput):
                texts = map(literals.string, (item.object, item.class_name))
                helper = self._context.helper("check_object")
                self._put(call(helper, self._context.buffer(item.object), *texts))

    def _realign(self) -> None:
        """Write the line that copies inputs at odd addresses."""
        found = realigned_inputs(self._program)
        if found:  # multiples of the largest power of two are multiples of all
            how = keyword("alignment", str(max(found.values())))
            made = call(self._context.helper("Realigned"), *map(str, found), how)
            self._context.define("checks", "realign", made)
            self._writer.line("realign(args)")

    def _define_check(self) -> None:
        layout, stored = self._program.layout, stored_inputs(self._program)
        specs = [
            self._context.spec(name, layout(name), plain=name in stored) for name in self._checked
        ]
        made = call(self._context.helper("InputChecks"), *specs)
        if self._context.options.checks == "first_call":
            made = call(self._context.helper("once"), made)
        self._context.define("checks", _INPUTS, made)

    def _check_number(self, symbol: str, *, is_used: bool) -> None:
        info = self._program.symbols[symbol]
        name = self._context.symbol(symbol)
        args = [literals.string(symbol), name, _KINDS[info.kind], str(info.lower), str(info.upper)]
        while args[-1] == "None":
            args.pop()
        if not is_used:  # the model was given None here: the value does not matter
            args.append("optional=True")
        self._put(call(self._context.helper("check_number"), *args))

    def finish(self) -> None:
        """Write the rest once all symbols of inputs are bound: further checks, kept memory."""
        if self._context.options.checks != "never":
            for symbol in sorted({*self._beginning.binds.values()}):
                self._check_range(symbol)
            for name in self._checked:
                if name in self._renderer.checked and self._beginning.leaves(name):
                    self._check_rest(name)
        if self._context.takes_out:
            self._take_outputs()
        self._take_views()
        self._take_spare()

    def _check_range(self, symbol: str) -> None:
        """Write the check of a symbol's range."""
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
        with self._writer.indent():
            self._put(call(self._context.helper("check_symbol"), *args))

    def _check_rest(self, name: str) -> None:
        context, layout = self._context, self._program.layout(name)
        args: list[Node] = [context.buffer(name), literals.string(name)]
        args += [literals.dtype(layout.dtype), context.device(layout.device)]
        dims = context.dims(layout.size), context.dims(layout.stride)
        self._put(call(context.helper("check_layout"), *args, *dims))

    def _take_outputs(self) -> None:
        """Write the check of memory provided for results, as far as sizes are known."""
        context, writer, program = self._context, self._writer, self._program
        layouts = {n: program.layout(name) for n, name in self._results.items()}
        specs: list[Node] = [
            context.spec(self._results[n], layouts[n]) if n in layouts else "None"
            for n in range(len(program.results))
        ]
        context.define("checks", "outputs", call(context.helper("Outputs"), *specs))
        others = [params_of(context, p) for p in program.inputs if isinstance(p, ir.BufferInput)]
        others += map(context.buffer, program.constants)
        writer.line("outs = outputs.fresh")
        writer.line("if out is not None:")
        with writer.indent():
            self._put(call("outputs.given", "out", *others), head="outs = ")
            for position, layout in layouts.items():
                if layout.symbols and layout.symbols <= self._beginning.symbols:
                    self._renderer.check_out(position, layout)

    def _take_views(self) -> None:
        context, views = self._context, self._context.kept.views
        if not views:
            return
        specs: list[Node] = []
        for line in views.values():
            layout, old = self._program.layout(line.out), self._program.layout(source_of(line))
            size, stride = context.dims(layout.size), context.dims(layout.stride)
            assert isinstance(layout.offset, int)
            assert isinstance(old.offset, int)
            specs.append(tuple_of([size, stride, str(layout.offset - old.offset)]))
        context.define("kept", "kept_views", call(context.helper("KeptViews"), *specs))
        sources = [context.buffer(source_of(line)) for line in views.values()]
        self._renderer.unpack(list(map(context.buffer, views)), call("kept_views.of", *sources))

    def _take_spare(self) -> None:
        context, layouts = self._context, map(self._program.layout, self._context.kept.buffers)
        specs = [
            tuple_of([context.dims(e.size), context.dims(e.stride), literals.dtype(e.dtype)])
            for e in layouts
        ]
        if specs:
            context.define("kept", "scratch", call(context.helper("Scratch"), *specs))
            self._writer.line("spare = scratch.take()")

    def leave(self) -> None:
        """Write the lines before the return statement."""
        if self._context.kept.buffers:
            self._writer.line("scratch.give(spare)")
