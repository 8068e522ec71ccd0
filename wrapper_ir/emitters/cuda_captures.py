"""Obstacles to capturing a program's calls as CUDA graphs, found before it runs.

A graph repeats work on the GPU and nothing else. Whatever the host computes, reads or decides
during a call would be replayed as it was at capture. Obstacles that only a run reveals make the
capture fail; see ``wrapper_ir.runtime.cuda_graphs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import Liveness, mutated_inputs
from wrapper_ir.analysis.ops import draws, drops
from wrapper_ir.emitters.facts import needs_streams, only_accelerator
from wrapper_ir.lines.args import BufferArg, BufferValue, ScalarArg
from wrapper_ir.lines.control import Cond, ObjectInput, Region, Switch, While
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import (
    CppKernel,
    DeviceKernel,
    ExternKernel,
    KernelCall,
    KernelDefinition,
)
from wrapper_ir.lines.program import GraphRole
from wrapper_ir.lines.schema import GENERATOR
from wrapper_ir.lines.symbols import BindSymbol, ItemOf, StorageOffsetOf
from wrapper_ir.lines.trace import Probe
from wrapper_ir.lines.walk import regions_of, walk
from wrapper_ir.options.gpu import Captures
from wrapper_ir.toolchain.manifest import CaptureFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines.program import AnyLine, Program


_MOST: Final = 3
"""The most reasons that are reported."""


def hand_graphs_on(source: object, function: object) -> None:
    """Expose the graphs of a module or function on the function that users call."""
    if hasattr(source, "cuda_graphs"):
        function.cuda_graphs = source.cuda_graphs  # type: ignore[attr-defined]


def capture_facts(program: Program, options: Captures) -> CaptureFacts:
    """Return the facts about a program that capturing its calls depends on."""
    reasons = why_not_captured(program)
    if reasons:
        return CaptureFacts(program.name, reasons=reasons)
    device = only_accelerator(program)
    constants = [name for name in program.constants if program.layout(name).device == device]
    # What a forward saves must last until its backward, and gradients until they are used.
    is_inference = program.role is GraphRole.INFERENCE
    return CaptureFacts(
        program.name,
        str(device),
        tuple(mutated_inputs(program)),
        tuple(constants),
        options.cuda_graph_limit,
        options.cuda_graph_results if is_inference else "fresh",
        is_random=any(draws(program, line) for _, line in walk(program)),
        has_branches=any(stream.captured for stream in program.streams),
    )


def why_not_captured(program: Program) -> tuple[str, ...]:
    """Return the reasons that prevent capturing a program, as far as known before it runs."""
    devices = {layout.device for layout in program.buffers.values()}
    gpus = sorted(str(device) for device in devices if device.kind.captures)
    if not gpus:
        return ("the program has no GPU buffers",)
    if len(gpus) > 1:
        return (_several(gpus),)
    obstacles = Obstacles(program)
    found = ((path, line, obstacles.of(line)) for path, line in walk(program))
    reasons = (
        reason if isinstance(line, Probe) else f"{path}: {reason}"
        for path, line, reason in found
        if reason
    )
    return tuple(dict.fromkeys(reasons))[:_MOST]


def _several(gpus: Sequence[str]) -> str:
    listed = ", ".join(gpus)
    if any(":" not in name for name in gpus):
        return f"it names a GPU without a number beside others, so they may be two: {listed}"
    return f"it runs on several GPUs: {listed}"


class Obstacles:
    """The obstacles to capturing a program, line by line."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._unbacked = {name for name, info in program.symbols.items() if info.unbacked}
        inputs = (each for each in program.inputs if isinstance(each, ObjectInput))
        self._has_generators = GENERATOR in {each.class_name for each in inputs}

    def of(self, line: AnyLine) -> str:
        """Return why a line cannot be captured, regions aside; "" if it can."""
        match line:
            case Cond() | Switch() | While():
                is_choice = piece_of(line) is None
                return f"'{line.mnemonic}' decides on the host what runs" if is_choice else ""
            case Probe():
                return "it shows values while it runs"
            case BindSymbol(source=ItemOf(buffer=name)):
                return f"the host reads '{name}'"
            case BindSymbol(source=StorageOffsetOf(buffer=name)):
                return f"it depends on where '{name}' begins in its storage"
            case KernelCall() | ExternKernel() if reason := self._of_call(line):
                return reason
            case _:
                reason = needs_streams(line, self._program)
                return f"{reason}, and a graph is captured on one stream" if reason else ""

    def _of_call(self, line: KernelCall | ExternKernel) -> str:
        """Return why a call cannot be captured; "" if it can."""
        program, unbacked = self._program, self._unbacked
        name = line.kernel if isinstance(line, KernelCall) else line.op
        if effects(line).objects or effects(line).defines_objects:
            return f"'{name}' may change an object, which a replay does not"
        if isinstance(line, KernelCall) and (why := _of_kernel(program.kernels[name])):
            return why
        is_trained = program.role is not GraphRole.INFERENCE
        # A captured backward may follow a forward that was not captured, or vice versa; the op
        # would then read the state from the wrong memory.
        if is_trained and isinstance(line, ExternKernel) and drops(program, line):
            return f"'{name}' keeps the state of its random numbers elsewhere in a graph"
        if self._has_generators and draws(program, line):
            return f"'{name}' may draw from a generator that the program is given"
        found = effects(line, program)
        for buffer in dict.fromkeys((*found.reads, *found.written)):
            if not program.layout(buffer).device.kind.captures:
                return f"'{name}' works on memory of the CPU, '{buffer}'"
        if not unbacked.isdisjoint(found.defines_symbols):
            return f"the host reads a number that '{name}' computes"
        for buffer in found.defines:
            if not unbacked.isdisjoint(program.layout(buffer).symbols):
                return f"'{name}' decides on the GPU how large '{buffer}' is"
        return ""


def piece_of(line: AnyLine) -> Region | None:
    """Return the region of a switch with a single case, which decides nothing; else None."""
    if not isinstance(line, Switch) or len(line.cases) != 1:
        return None
    return line.cases[0] if isinstance(line.selector, ScalarArg) else None


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a program that can be captured although the whole cannot.

    Attributes:
        region: The only case of its switch.
        place: The switch's path in the program.
        writes: Positions of operands that it writes to.
        settled: Positions of operands made by other pieces, which stay in place once those are
            captured.
        shared: Positions of results that no caller sees and that may stay in the graph's memory.
        constants: The constants that it touches.
        is_random: Whether it may draw random numbers.
        limit: How many graphs are kept of it.
    """

    region: Region
    place: str
    writes: tuple[int, ...]
    settled: tuple[int, ...]
    shared: tuple[int, ...]
    constants: tuple[str, ...]
    is_random: bool
    limit: int


def pieces(program: Program, options: Captures | None = None) -> dict[int, Piece]:
    """Return the pieces of a program, by the position of their switches in its body.

    There are none if the whole program can be captured, or if it runs on several GPUs.
    """
    regions = {n: region for n, line in enumerate(program.body) if (region := piece_of(line))}
    if not regions or only_accelerator(program) is None or not why_not_captured(program):
        return {}
    obstacles = Obstacles(program)
    lives = Liveness(program.region, program)
    results = [value.buffer for value in program.results if isinstance(value, BufferValue)]
    given = {life.first for name in results for life in lives.of(name)}
    limit = (options or Captures()).cuda_graph_limit
    found: dict[int, Piece] = {}
    made: set[Life] = set()
    for position, region in regions.items():
        if any(obstacles.of(line) or regions_of(line) for line in region.body):
            continue
        switch = program.body[position]
        assert isinstance(switch, Switch)
        operands = [(n, arg) for n, arg in enumerate(switch.operands) if isinstance(arg, BufferArg)]
        touched = {name for line in region.body for name in effects(line, program).touched}
        defined = [lives.of(name) for name in effects(switch, program).defines]
        found[position] = Piece(
            region,
            f"body[{position}]",
            writes=tuple(n for n, arg in operands if arg.access.writes),
            settled=tuple(
                n for n, arg in operands if any(life.first in made for life in lives.of(arg.buffer))
            ),
            shared=tuple(
                n
                for n, each in enumerate(defined)
                if not any(life.first in given or life.is_held for life in each)
            ),
            constants=tuple(name for name in program.constants if name in touched),
            is_random=any(draws(program, line) for line in region.body),
            limit=limit,
        )
        made |= {life.first for each in defined for life in each}
    return found


def _of_kernel(kernel: KernelDefinition) -> str:
    """Return why launches of a kernel cannot be captured; "" if they can."""
    if isinstance(kernel.source, CppKernel):
        return f"the kernel '{kernel.name}' runs on the CPU"
    if isinstance(kernel.source, DeviceKernel):
        return f"kernel '{kernel.name}' is not declared capturable"
    return ""
