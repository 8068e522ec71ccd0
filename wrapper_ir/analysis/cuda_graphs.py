"""Obstacles to capturing a program's calls as CUDA graphs, found before it runs.

A graph repeats work on the GPU and nothing else. Whatever the host computes, reads or decides
during a call would be replayed as it was at capture. Obstacles that only a run reveals make the
capture fail; see ``wrapper_ir.runtime.cuda_graphs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import is_collective
from wrapper_ir.analysis.devices import only_accelerator
from wrapper_ir.analysis.liveness import Life, storages_of
from wrapper_ir.analysis.ops import draws, drops
from wrapper_ir.analysis.ordering import needs_streams
from wrapper_ir.lines.base import Runs
from wrapper_ir.lines.schema import GENERATOR
from wrapper_ir.lines.traits import binds, calls, calls_kernel, calls_op, chooses, op_of, shows
from wrapper_ir.options.gpu import Captures

_MOST: Final = 3
"""The most reasons that are reported."""


def why_not_captured(program: ir.Program) -> tuple[str, ...]:
    """Return the reasons that prevent capturing a program, as far as known before it runs."""
    devices = {layout.device for layout in program.buffers.values()}
    gpus = sorted(str(device) for device in devices if device.kind.captures)
    if not gpus:
        return ("the program has no GPU buffers",)
    if len(gpus) > 1:
        return (f"it runs on several GPUs: {', '.join(gpus)}",)
    obstacles = Obstacles(program)
    found = ((path, line, obstacles.of(line)) for path, line in ir.walk(program))
    reasons = (
        reason if shows(line) else f"{path}: {reason}" for path, line, reason in found if reason
    )
    return tuple(dict.fromkeys(reasons))[:_MOST]


def copied_inputs(program: ir.Program) -> tuple[int, ...]:
    """Return the positions of the inputs that graphs of a program copy wherever they are.

    Only a program that calls collectives has any. NCCL wants all ranks to capture the same calls
    and to replay graphs of the same capture, so where an input is on one rank must not decide
    whether it captures a call again.
    """
    device = only_accelerator(program)
    if not any(is_collective(line) for _, line in ir.walk(program)):
        return ()
    return tuple(
        position
        for position, param in enumerate(program.inputs)
        if isinstance(param, ir.BufferInput)
        and not param.static
        and program.layout(param.name).device == device
    )


class Obstacles:
    """The obstacles to capturing a program, line by line."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._unbacked = {name for name, info in program.symbols.items() if info.unbacked}
        classes = {each.class_name for each in program.inputs if isinstance(each, ir.ObjectInput)}
        classes |= {each.class_name for each in program.objects.values()}
        self._has_generators = GENERATOR in classes

    def of(self, line: ir.AnyLine) -> str:
        """Return why a line cannot be captured, regions aside; "" if it can."""
        if ir.regions_of(line):
            is_choice = piece_of(line) is None
            return f"'{line.mnemonic}' decides on the host what runs" if is_choice else ""
        if shows(line):
            return "it shows values while it runs"
        found = ir.effects(line, self._program)
        if line.runs is Runs.HOST:
            reason = _of_host(line, found)
        else:
            reason = self._of_call(line, found) if calls(line) else self._of_memory(line, found)
        if reason:
            return reason
        reason = needs_streams(line, self._program)
        return f"{reason}, and a graph is captured on one stream" if reason else ""

    def _of_call(self, line: ir.KernelCall | ir.ExternKernel, found: ir.Effects) -> str:
        """Return why a call cannot be captured; "" if it can."""
        program, unbacked = self._program, self._unbacked
        name = _name_of(line)
        if found.objects or found.defines_objects:
            return f"'{name}' may change an object, which a replay does not"
        if calls_kernel(line) and (why := _of_kernel(program.kernels[name])):
            return why
        is_trained = program.role is not ir.GraphRole.INFERENCE
        # A captured backward may follow a forward that was not captured, or vice versa; the op
        # would then read the state from the wrong memory.
        if is_trained and calls_op(line) and drops(program, line):
            return f"'{name}' keeps the state of its random numbers elsewhere in a graph"
        if self._has_generators and draws(program, line):
            return f"'{name}' may draw from a generator that the program is given"
        if reason := self._of_memory(line, found):
            return reason
        if not unbacked.isdisjoint(found.defines_symbols):
            return f"the host reads a number that '{name}' computes"
        for buffer in found.defines:
            if not unbacked.isdisjoint(program.layout(buffer).symbols):
                return f"'{name}' decides on the GPU how large '{buffer}' is"
        return ""

    def _of_memory(self, line: ir.AnyLine, found: ir.Effects) -> str:
        """Return which memory of the host a line works on; "" for none."""
        results = found.defines if calls(line) else ()
        for buffer in dict.fromkeys((*found.reads, *found.writes, *results)):
            if not self._program.layout(buffer).device.kind.captures:
                return f"'{_name_of(line)}' works on memory of the CPU, '{buffer}'"
        return ""


def _of_host(line: ir.AnyLine, found: ir.Effects) -> str:
    """Return why what the host does differs from call to call; "" if sizes alone decide it."""
    for name in (*found.reads, *found.writes):
        return f"the host reads '{name}'"
    if binds(line) and isinstance(line.source, ir.StorageOffsetOf):
        return f"it depends on where '{line.source.buffer}' begins in its storage"
    return ""


def _name_of(line: ir.AnyLine) -> str:
    """Return the kernel or op that a line calls, or else what the line is called."""
    return line.kernel if calls_kernel(line) else op_of(line) or line.mnemonic


def piece_of(line: ir.AnyLine) -> ir.Region | None:
    """Return the region of a switch with a single case, which decides nothing; else None."""
    if not chooses(line) or len(line.cases) != 1:
        return None
    return line.cases[0] if isinstance(line.selector, ir.ScalarArg) else None


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

    region: ir.Region
    place: str
    writes: tuple[int, ...]
    settled: tuple[int, ...]
    shared: tuple[int, ...]
    constants: tuple[str, ...]
    is_random: bool
    limit: int


def pieces(program: ir.Program, options: Captures | None = None) -> dict[int, Piece]:
    """Return the pieces of a program, by the position of their switches in its body.

    There are none if the whole program can be captured, or if it runs on several GPUs.
    """
    regions = {n: region for n, line in enumerate(program.body) if (region := piece_of(line))}
    if not regions or only_accelerator(program) is None or not why_not_captured(program):
        return {}
    obstacles = Obstacles(program)
    lives = storages_of(program).lives
    results = [value.buffer for value in program.results if isinstance(value, ir.BufferValue)]
    given = {life.first for name in results for life in lives.of(name)}
    limit = (options or Captures()).cuda_graph_limit
    found: dict[int, Piece] = {}
    made: set[Life] = set()
    for position, region in regions.items():
        if any(obstacles.of(line) or ir.regions_of(line) for line in region.body):
            continue
        switch = program.body[position]
        assert chooses(switch)
        operands = [
            (n, arg) for n, arg in enumerate(switch.operands) if isinstance(arg, ir.BufferArg)
        ]
        touched = {name for line in region.body for name in ir.effects(line, program).touched}
        defined = [lives.of(name) for name in ir.effects(switch, program).defines]
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


def _of_kernel(kernel: ir.KernelDefinition) -> str:
    """Return why launches of a kernel cannot be captured; "" if they can."""
    if isinstance(kernel.source, ir.CppKernel):
        return f"the kernel '{kernel.name}' runs on the CPU"
    if isinstance(kernel.source, ir.DeviceKernel):
        return f"kernel '{kernel.name}' is not declared capturable"
    return ""
