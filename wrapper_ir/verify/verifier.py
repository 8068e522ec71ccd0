"""The walk over a program: the checks at each line and their order."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import wrapper_ir.lines as ir
from wrapper_ir.analysis.devices import device_of
from wrapper_ir.analysis.ops import escapes_to
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.fields import Misfit, misfits
from wrapper_ir.lines.traits import calls_op, loops
from wrapper_ir.lines.visitor import LINES_ARE_CLOSED
from wrapper_ir.text.words import MAX_DEPTH
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import Calls, Kernels
from wrapper_ir.verify.collectives import Collectives, Event
from wrapper_ir.verify.control import Control
from wrapper_ir.verify.diagnostics import Diagnostic
from wrapper_ir.verify.externs import Externs, Objects
from wrapper_ir.verify.lifetimes import Lifetimes
from wrapper_ir.verify.overlaps import Overlaps
from wrapper_ir.verify.peers import Peers, is_for_peers
from wrapper_ir.verify.pools import Pools
from wrapper_ir.verify.state import Frame, Kind, Place, State, Storages
from wrapper_ir.verify.streams import Streams
from wrapper_ir.verify.symbols import Symbols
from wrapper_ir.verify.tables import (
    Opaque,
    check_device,
    check_folding,
    check_layouts_used,
    check_tables,
)

#: A program without tables, to get the effects of a line without the symbols in layouts.
_NOWHERE: Final = ir.Program()


class Verdict(NamedTuple):
    """The diagnostics of a program in the order of its text, and the storage it may not keep.

    The latter is named by the allocations of its body, whether these are marked as kept or not.
    ``schedule`` is what it says to other ranks.
    """

    found: tuple[Diagnostic, ...]
    not_to_keep: frozenset[str] = frozenset()
    schedule: tuple[Event, ...] = ()

    @property
    def faults(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are no warnings."""
        return tuple(each for each in self.found if not each.rule.is_warning)


def check_program(program: ir.Program) -> Verdict:
    """Check a program.

    If any value has the wrong type, only that is reported, since all other checks rely on types.
    """
    wrong = misfits(program)
    if wrong:
        return Verdict(tuple(map(_wrong_type, wrong)))
    verifier = _Verifier(program)
    found = verifier.run()
    if program.folding is not None:
        inner = check_program(program.folding).found
        found += tuple(replace(each, path=ir.Path((*ir.FOLDING, *each.path))) for each in inner)
    not_to_keep = frozenset(verifier.lifetimes.not_to_keep)
    return Verdict(found, not_to_keep, tuple(verifier.collectives.schedule))


def _wrong_type(found: Misfit) -> Diagnostic:
    rule = rules.WRONG_TYPE
    what = found.part or "the line"
    message = rule.template.format(what=what, found=found.found, expected=found.expected)
    hint = rule.hint if found.part else LINES_ARE_CLOSED
    return Diagnostic(rule, message, found.path, hint=hint)


class _Verifier(ir.PartialLineVisitor[None]):
    """One walk over a program.

    Checks that apply to all lines are in :meth:`line`, based on effects. The visitor's methods add
    the checks of specific classes, and run after the definitions of a line are entered.
    """

    def __init__(self, program: ir.Program) -> None:
        self.state = State(program)
        self.symbols = Symbols(self.state)
        self.lifetimes = Lifetimes(self.state, self.symbols)
        self.kernels = Kernels(self.state)
        self.calls = Calls(self.state, self.symbols, self.kernels, self.lifetimes)
        self.externs = Externs(self.state, self.symbols, self.kernels)
        self.overlaps = Overlaps(self.state, self.lifetimes)
        self.collectives = Collectives(self.state, self.lifetimes)
        self.peers = Peers(self.state, self.lifetimes)
        self.control = Control(self.state, self.symbols, self.lifetimes)
        self.objects = Objects(self.state, self.lifetimes)
        self.pools = Pools(self.state, self.lifetimes)
        self.streams = Streams(self.state, self.lifetimes)
        self.opaque = Opaque(self.state)

    def run(self) -> tuple[Diagnostic, ...]:
        """Check the whole program."""
        check_tables(self.state)
        self.opaque.check_tables()
        check_folding(self.state)
        self.symbols.check_table()
        self.lifetimes.define_constants()
        self.objects.define_constants()
        self.region(self.state.root, Kind.INPUT)
        check_layouts_used(self.state, self.lifetimes.buffers)
        return self.state.diagnostics()

    def region(self, frame: Frame, kind: Kind) -> list[Storages]:
        """Check a region, and return the storages that each result may be in."""
        state = self.state
        outside = state.frame, state.index
        state.frame, state.index = frame, None
        self.params(frame, kind)
        for state.index, line in enumerate(frame.region.body):
            self.line(line)
        state.index = None
        leaving = self.results(frame)
        self.lifetimes.end_region()
        if frame is state.root:
            self.streams.finish()
        frame.active = frame is state.root
        state.frame, state.index = outside
        return leaving

    def params(self, frame: Frame, kind: Kind) -> None:
        """Define inputs or parameters, numbers first since layouts may use them."""
        part = "inputs" if kind is Kind.INPUT else "params"
        for position, item in enumerate(frame.region.params):
            if isinstance(item, ir.ScalarInput):
                self.symbols.bind(item.symbol, Place(frame, None, f"{part}[{position}]"))
        for position, item in enumerate(frame.region.params):
            place = Place(frame, None, f"{part}[{position}]")
            if isinstance(item, ir.BufferInput):
                self.lifetimes.define_borrowed(item, place, kind)
            elif isinstance(item, ir.ObjectInput):
                self.objects.define(item, place)

    def results(self, frame: Frame) -> list[Storages]:
        """Check the results of a region."""
        self.opaque.check_results()
        leaving: list[Storages] = []
        for position, value in enumerate(frame.region.results):
            place = Place(frame, None, f"results[{position}]")
            storages: Storages = ()
            if isinstance(value, ir.BufferValue):
                storages = self.lifetimes.result(value.buffer, position, place)
                self.collectives.check_result(value.buffer, place)
            elif isinstance(value, ir.ScalarValue):
                self.symbols.need(free_symbols(value.value), place)
                self.symbols.check_kinds(value.value, place)
            leaving.append(storages)
        self.collectives.check_end(frame)
        return leaving

    def line(self, line: ir.AnyLine) -> None:
        """Check one line: its uses, regions, ends and definitions, then its class."""
        state, lifetimes = self.state, self.lifetimes
        if line.origin is not None and not 0 <= line.origin < len(state.program.origins):
            count = len(state.program.origins)
            state.report(rules.BAD_ORIGIN, origin=line.origin, count=count)
        device = device_of(line)
        if device is not None:
            check_device(state, device)
        found = ir.effects(line, state.program)
        self.opaque.check_line(line, found)
        # The results of a call do not depend on their layouts, so the symbols in those may be bound
        # later, from the sizes of the results.
        is_result = Trait.MAKES_RESULTS in line.traits
        named = ir.effects(line, _NOWHERE) if is_result and found.uses_symbols else found
        if self.symbols.missing(named.uses_symbols):
            self.symbols.need(named.uses_symbols, self.state.here())
        # Lines on metadata and frees need no values of the symbols in layouts.
        needs_layout = Trait.NO_NUMBERS not in line.traits
        for name in dict.fromkeys((*found.uses, *found.reads, *found.writes)):
            lifetimes.use(name, needs_layout=needs_layout)
        for name in found.writes:
            lifetimes.write(name)
        # After the writes, since a kernel may read all of a buffer that it first writes in parts.
        views = {alias.source for alias in found.aliases}
        for name in found.reads:
            if name not in views:  # views may need only metadata
                lifetimes.check_contents(name)
        for name in found.peeks:
            lifetimes.peek(name)
        if isinstance(line, ir.RegionLine):
            self.regions(line)
        self.collectives.check(line, found)
        self.peers.check(line, found)
        self.pools.check(line, found)
        self.lets_go(line, found)
        self.defines(line, found)
        self.streams.check(line, found)
        self.visit(line)

    def lets_go(self, line: ir.AnyLine, found: ir.Effects) -> None:
        """Record storage that escapes to other code, and end storage."""
        if escapes_to(line, found):
            for name in found.touched:
                self.lifetimes.escape(name)
        for name in found.kills:
            self.lifetimes.kill(name)

    def defines(self, line: ir.AnyLine, found: ir.Effects) -> None:
        """Enter the symbols, buffers and objects that a line defines, and check its objects."""
        here = self.state.here()
        for name in found.defines_symbols:
            self.symbols.bind(name, here)
        is_result = Trait.MAKES_RESULTS in line.traits
        for name in found.defines:
            if found.takes:
                self.lifetimes.take(found.takes[0], name)
            else:
                aliases = [alias for alias in found.aliases if alias.name == name]
                self.lifetimes.define(name, aliases, is_result=is_result)
        if found.objects or found.held:
            self.objects.check(found)
        if found.defines_objects and calls_op(line):
            for result in line.results:
                if isinstance(result, ir.ResultObject):
                    self.objects.define(result, here)

    def regions(self, line: ir.RegionLine) -> None:
        """Check the regions of a line and their interfaces."""
        self.control.check_entry(line)
        if loops(line):
            self.control.check_carried(line)
        holder = self.state.here()
        for rank, (name, region) in enumerate(ir.regions_of(line)):
            frame = Frame(region, name, holder, self.state.frame.depth + 1, rank)
            if frame.depth > MAX_DEPTH:
                self.state.report(rules.TOO_DEEP, limit=MAX_DEPTH)
                return
            leaving = self.region(frame, Kind.PARAM)
            self.control.check_results(line, frame, leaving)
        self.control.give_up(line)

    # Checks of specific classes. The effects of other lines are sufficient.

    def visit_unsupported(self, line: ir.AnyLine) -> None:
        """Do nothing."""

    def visit_allocate(self, line: ir.Allocate) -> None:
        """Record whether the contents are undefined and the memory is kept."""
        self.lifetimes.begin(
            line.out, blank=not line.zeroed, kept=line.kept, for_peers=is_for_peers(line)
        )

    def visit_allocate_pool(self, line: ir.AllocatePool) -> None:
        """Record that the buffer is a pool with undefined contents."""
        self.pools.enter_pool(line)
        for_peers = is_for_peers(line)
        self.lifetimes.begin(line.out, blank=True, kept=line.kept, for_peers=for_peers)

    def visit_allocate_from_pool(self, line: ir.AllocateFromPool) -> None:
        """Check the place of the slice. Its contents are undefined if the pool's are."""
        self.symbols.check_kinds(line.offset, self.state.here())
        self.pools.enter_slice(line)
        pool = self.lifetimes.storages(line.pool)
        for_peers = any(storage.for_peers for storage in pool)
        blank = self.lifetimes.is_blank(line.pool)
        self.lifetimes.begin(line.out, blank=blank, for_peers=for_peers)

    def visit_kernel_definition(self, line: ir.KernelDefinition) -> None:
        """Declare the kernel."""
        self.kernels.declare(line)

    def visit_kernel_call(self, line: ir.KernelCall) -> None:
        """Check the arguments against the kernel's parameters."""
        self.calls.check(line)

    def visit_extern_kernel(self, line: ir.ExternKernel) -> None:
        """Check arguments and results against the op's schema, and overlaps of arguments."""
        self.overlaps.check(line, self.externs.check(line))
        self.collectives.start(line)

    def visit_bind_symbol(self, line: ir.BindSymbol) -> None:
        """Check the source of the symbol."""
        self.symbols.check_bind(line)

    def visit_compute_symbol(self, line: ir.ComputeSymbol) -> None:
        """Check the kind of the value."""
        self.symbols.check_value(line.symbol, line.value, self.state.here())

    def visit_assert_symbol(self, line: ir.AssertSymbol) -> None:
        """Check that the condition is a boolean."""
        self.symbols.check_assert(line)

    def visit_probe(self, line: ir.Probe) -> None:
        """Check the kinds of the symbols shown."""
        for value in line.scalars:
            self.symbols.check_kinds(value, self.state.here())
