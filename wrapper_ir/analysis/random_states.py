"""States of random numbers, which ops return on the host whatever they declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.analysis.ops import may_drop, schema_of
from wrapper_ir.lines.args import BufferArg, BufferValue, ResultBuffer
from wrapper_ir.lines.control import BufferInput, RegionLine
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU
from wrapper_ir.lines.traits import calls_kernel, calls_op
from wrapper_ir.lines.walk import regions_of, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import AnyLine, Program


def random_states(program: Program) -> frozenset[str]:
    """Return the buffers declared on a GPU that may actually be numbers on the host.

    Attention ops return the state of random numbers on the host, whatever they declare, except
    while a CUDA graph is being captured. Ops accept it from either place; a kernel would not.
    """
    inputs = {item.name for item in program.inputs if isinstance(item, BufferInput)}
    found = {name for name in inputs if _may_be_a_state(program.layout(name))}
    passed: set[str] = set()
    lines = [line for _, line in walk(program)]
    for line in lines:
        if calls_op(line) and may_drop(schema_of(program, line.op)):
            made = effects(line, program).defines
            found.update(name for name in made if _may_be_a_state(program.layout(name)))
        elif calls_kernel(line):
            passed.update(arg.buffer for arg in line.args if isinstance(arg, BufferArg))
    known = 0
    while known < len(found):  # a region's results have other names outside
        known = len(found)
        found.update(name for line in lines for name in _renamed(line, program, found))
    return frozenset(found - passed)


def _renamed(line: AnyLine, program: Program, names: Collection[str]) -> Iterator[str]:
    """Yield other names that a line gives to buffers."""
    for name, source, _ in effects(line, program).aliases:
        if source in names:
            yield name
    if not isinstance(line, RegionLine):
        return
    for _, region in regions_of(line):
        for made, value in zip(line.results, region.results, strict=False):
            if isinstance(value, BufferValue) and value.buffer in names:
                assert isinstance(made, ResultBuffer)
                yield made.out


def _may_be_a_state(layout: Layout) -> bool:
    is_number = not layout.size and layout.dtype.torch_name in ("int64", "uint64")
    return is_number and layout.device != CPU
