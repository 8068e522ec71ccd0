"""Cutting a program into pieces around lines that cannot be captured as a CUDA graph.

A single op on the CPU, or a single number that the host reads, prevents capturing the program as a
whole. The lines between such obstacles can still be captured: :func:`cut` puts each run of them
into a region, the only case of a switch (``switch 0 with (operands) case0 (...) {...}``), which
decides nothing and always runs. A region sees only its parameters, so the verifier proves that a
piece is given everything it reads, declares what it writes, and returns what later lines need.
Emitters render it like any region; those that capture calls capture it.

Only whole storages cross a border. A piece receives the buffers of others that it touches and
returns its own storages that are needed later; views of these are made again after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.cuda_graphs import Obstacles, why_not_captured
from wrapper_ir.analysis.devices import only_accelerator
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.lines.base import Runs, Trait
from wrapper_ir.lines.traits import calls, declares, is_view
from wrapper_ir.lines.walk import Renaming
from wrapper_ir.options.gpu import GRAPH_BRANCHES, GRAPH_CUTS
from wrapper_ir.passes.branch import Branch

if TYPE_CHECKING:
    from collections.abc import Iterator


_FEWEST: Final = 3
"""The fewest calls in a piece: launching fewer costs the host no more than launching a graph."""

_INSIDE: Final = (Runs.NAMES, Runs.STREAM, Runs.CALLER)
"""Where lines of a piece are carried out. What the host does is done in each call."""


@dataclass(frozen=True, slots=True)
class PrepareCapture:
    """``prepare-capture`` prepares a program for calls that are captured as CUDA graphs.

    It adds branches, or cuts the program if it cannot be captured as a whole.
    """

    name: ClassVar[str] = "prepare-capture"

    branches: int = GRAPH_BRANCHES.field()
    """The maximum number of branches besides the caller's stream."""
    cuts: bool = GRAPH_CUTS.field()
    """Cut a program that cannot be captured as a whole."""

    def __call__(self, program: ir.Program) -> ir.Program:
        """Return the prepared program; a planned program is returned unchanged."""
        if program.stage is ir.Stage.PLANNED:
            return program
        if why_not_captured(program):
            return cut(program) if self.cuts else program
        return Branch(self.branches)(program)


def cut(program: ir.Program) -> ir.Program:
    """Put lines that can be captured into pieces, each the only case of a switch.

    Programs without any stay as they are, the same object: those that use several GPUs, streams,
    objects or memory pools, or have too few capturable lines in a row.
    """
    gpu = only_accelerator(program)
    if gpu is None or program.streams or program.events or program.mempools or program.objects:
        return program
    definitions = [line for line in program.body if declares(line)]
    others = [line for line in program.body if not declares(line)]
    return _Cutter(program.replace(body=(*definitions, *others))).result() or program


def _fits(line: ir.AnyLine) -> bool:
    """Return whether a line may be in a piece, as far as its class goes."""
    return line.runs in _INSIDE and Trait.POOL not in line.traits and not ir.regions_of(line)


class _Cutter:
    """Cuts one program. Positions are indices of its lines."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._effects = [ir.effects(line, program) for line in program.body]
        self._lives = Liveness(program.region, program)
        self._defined = {n: at for at, found in enumerate(self._effects) for n in found.defines}
        self._users: dict[str, list[int]] = {}
        for at, found in enumerate(self._effects):
            for name in dict.fromkeys((*found.touched, *found.peeks)):
                self._users.setdefault(name, []).append(at)
        obstacles = Obstacles(program)
        capturable = [_fits(each) and not obstacles.of(each) for each in program.body]
        #: How many lines up to each one cannot be captured. Lines of one piece agree in this.
        self._stretch = [*accumulate(not each for each in capturable)]
        self._is_capturable = capturable
        self._given = {v.buffer for v in program.results if isinstance(v, ir.BufferValue)}
        self._layouts: dict[str, ir.Layout] = dict(program.buffers)
        self._body: list[ir.AnyLine] = []
        self._count = 0

    def result(self) -> ir.Program | None:
        """Return the program with its pieces; None if there are none."""
        program = self._program
        inside = [self._may_be_inside(at) for at in range(len(program.body))]
        pieces = {at: piece for piece in self._pieces(inside) for at in piece}
        for at, line in enumerate(program.body):
            if at not in pieces:
                self._body.append(line)
            elif at == pieces[at][0]:
                self._add(pieces[at])
        if not self._count:
            return None
        return program.replace(body=tuple(self._body), buffers=ir.FrozenMap(self._layouts))

    # Choosing lines.

    def _may_be_inside(self, at: int) -> bool:
        """Return whether a line is work that can be captured, or memory for such work."""
        line, found = self._program.body[at], self._effects[at]
        if not self._is_capturable[at] or found.held or found.defines_symbols or found.objects:
            return False
        names = (*found.defines, *found.touched)
        if any(self._lives.in_flight(name, at) for name in names):
            return False  # a graph ends with all its work, but this may go on after the piece
        if any(not self._program.layout(n).device.kind.captures for n in names):
            return False
        # Views that only an op can make cannot be made again after the piece.
        views = {alias.name for alias in found.aliases}
        return is_view(line) or not any(
            name in self._given or self._stretch[user] != self._stretch[at]
            for name in views
            for user in self._users.get(name, ())
        )

    def _pieces(self, inside: list[bool]) -> Iterator[list[int]]:
        run: list[int] = []
        for at, is_inside in enumerate([*inside, False]):
            if is_inside and self._goes_on(at, run):
                run.append(at)
                continue
            yield from self._worth_it(run)
            run = [at] if is_inside and self._goes_on(at, []) else []

    def _goes_on(self, at: int, run: list[int]) -> bool:
        """Return whether a line can join the piece of the lines before it.

        A line that takes over the storage of a buffer must be in the same piece as that buffer.
        """
        return all(self._defined.get(n, -1) in run for n in self._effects[at].takes)

    def _worth_it(self, run: list[int]) -> Iterator[list[int]]:
        """Yield a run without the lines before its first call's needs and after its last call."""
        work = [at for at in run if calls(self._program.body[at])]
        if len(work) < _FEWEST:
            return
        end = max(work)
        needed = {n for at in work for n in self._effects[at].touched}
        start = min([*work, *(self._defined[n] for n in needed if self._defined.get(n, -1) in run)])
        yield [at for at in run if start <= at <= end]

    # Building one piece.

    def _add(self, lines: list[int]) -> None:
        """Append a piece, followed by the views of its storages that are needed later."""
        inside = set(lines)
        defined = [n for at in lines for n in self._effects[at].defines]
        params = self._params(lines, set(defined))
        later = [n for n in defined if self._goes_out(n, inside)]
        again = self._views(later, inside)
        results = [n for n in defined if n in self._roots(later, inside)]
        renamed = {n: self._fresh(n) for n in (*params, *results, *again)}
        names = Renaming(lambda n: renamed.get(n, n), str, str)
        body = tuple(names.value(self._program.body[at]) for at in lines)
        region = ir.Region(
            tuple(ir.BufferInput(renamed[n]) for n in params),
            body,
            tuple(ir.BufferValue(renamed[n]) for n in results),
        )
        found = tuple(ir.ResultBuffer(n, (k,)) for k, n in enumerate(results))
        operands = tuple(ir.BufferArg(n, access) for n, access in params.items())
        self._body.append(ir.Switch(found, ir.ScalarArg(0), operands, (region,)))
        self._body += [self._program.body[self._defined[n]] for n in again]
        self._count += 1

    def _params(self, lines: list[int], defined: set[str]) -> dict[str, ir.Access]:
        """Return the outer buffers that a piece touches, each with the access to its storage."""
        touched = dict.fromkeys(n for at in lines for n in self._effects[at].touched)
        written = {
            life.first
            for at in lines
            for n in self._effects[at].writes
            for life in self._lives.of(n)
        }
        found: dict[str, ir.Access] = {}
        for name in touched:
            if name in defined or name in self._program.constants:
                continue
            is_written = any(life.first in written for life in self._lives.of(name))
            found[name] = ir.Access.READ_WRITE if is_written else ir.Access.READ
        return found

    def _goes_out(self, name: str, inside: set[int]) -> bool:
        """Return whether a buffer of a piece is needed after it."""
        return name in self._given or any(at not in inside for at in self._users.get(name, ()))

    def _views(self, later: list[str], inside: set[int]) -> list[str]:
        """Return the views to make again after a piece, in order, with their sources."""
        found: dict[str, None] = {}

        def add(name: str) -> None:
            line = self._program.body[self._defined[name]]
            if not is_view(line) or name in found:
                return
            if self._defined.get(line.source, -1) in inside:
                add(line.source)
            found[name] = None

        for name in later:
            add(name)
        return list(found)

    def _roots(self, later: list[str], inside: set[int]) -> set[str]:
        """Return the storages that a piece owns and that are needed after it."""
        found = set()
        for name in later:
            line = self._program.body[self._defined[name]]
            while is_view(line):
                name = line.source
                if self._defined.get(name, -1) not in inside:
                    break
                line = self._program.body[self._defined[name]]
            else:
                found.add(name)
        return found

    def _fresh(self, name: str) -> str:
        """Return a new name for a buffer inside a piece, with the buffer's layout."""
        candidate, number = f"{name}_{self._count + 1}", 1
        while candidate in self._layouts:
            number += 1
            candidate = f"{name}_{self._count + 1}_{number}"
        self._layouts[candidate] = self._program.layout(name)
        return candidate
