"""Rendering what outlives a call: one object each, taken and given back by calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.statements import Node, call, statement, tuple_of
from wrapper_ir.lines.layout import CPU

if TYPE_CHECKING:
    from wrapper_ir.emitters.python.context import Context
    from wrapper_ir.emitters.python.lines import RegionRenderer
    from wrapper_ir.emitters.writer import CodeWriter


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
