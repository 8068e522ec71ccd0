"""Parts that renderers of all targets share: the run, the walk over a region, the beginning."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import free_region_symbols, random_states
from wrapper_ir.analysis.cuda_graphs import copied_inputs, why_not_captured
from wrapper_ir.analysis.devices import only_accelerator
from wrapper_ir.analysis.liveness import mutated_inputs, storages_of
from wrapper_ir.analysis.ops import draws
from wrapper_ir.analysis.ordering import needs_streams
from wrapper_ir.emitters.names import NamePlan, as_identifier
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.symbols import dims_of
from wrapper_ir.toolchain.manifest import CaptureFacts

if TYPE_CHECKING:

    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.options.gpu import Captures


#: The prefix that Inductor writes before a call's handle; provenance tools look for it.
_HANDLE: Final = "[Provenance debug handles]"


# A program's beginning: declarations, comments, and lines that bind symbols to input metadata.
#
# Emitters write the input checks around these lines: fixed properties are compared before them,
# properties that depend on symbols after them. All emitters agree on which lines these are.


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first lines of a program, up to ``end``.

    Attributes:
        symbols: Symbols that have values by then.
        binds: The symbol that each size or stride binds, by buffer, ``size`` or ``stride``, and
            dimension.
        bound: The symbols that metadata binds, in program order.
    """

    program: ir.Program
    end: int
    symbols: frozenset[str]
    binds: Mapping[tuple[str, str, int], str]
    bound: tuple[str, ...]

    def knows(self, name: str) -> bool:
        """Return whether all symbols in a buffer's layout have values at the end."""
        return self.program.layout(name).symbols <= self.symbols

    def leaves(self, name: str) -> bool:
        """Return whether an input has a size or stride that is neither fixed nor binds a symbol."""
        layout = self.program.layout(name)
        pairs = (("size", layout.size), ("stride", layout.stride))
        return any(
            free_symbols(value) and self.binds.get((name, kind, position)) != str(value)
            for kind, values in pairs
            for position, value in enumerate(values)
        )

    def limits(self, symbol: str) -> tuple[int | None, int | None]:
        """Return a size's range. Sizes are not negative, so a lower bound of 0 counts as none."""
        info = self.program.symbols[symbol]
        return (info.lower if (info.lower or 0) > 0 else None), info.upper

    def places(self, symbol: str) -> list[str]:
        """Return descriptions of the metadata that a symbol is bound to: ``size 0 of 'x'``."""
        return [
            f"{kind} {position} of '{buffer}'"
            for (buffer, kind, position), of in self.binds.items()
            if of == symbol
        ]


def find_beginning(program: ir.Program) -> Beginning:
    """Return the lines that a program begins with."""
    given = {param.name for param in program.inputs if isinstance(param, ir.BufferInput)}
    given |= program.constants.keys()
    symbols = {param.symbol for param in program.inputs if isinstance(param, ir.ScalarInput)}
    binds: dict[tuple[str, str, int], str] = {}
    bound: list[str] = []
    end = len(program.body)
    for index, line in enumerate(program.body):
        if not _is_beginning(line, given):
            end = index
            break
        if isinstance(line, ir.BindSymbol):
            bound.append(line.symbol)
            for dim in dims_of(line.source):
                binds[line.source.buffer, line.source.method, dim] = line.symbol
        if isinstance(line, (ir.BindSymbol, ir.ComputeSymbol)):
            symbols.add(line.symbol)
    return Beginning(program, end, frozenset(symbols), binds, tuple(bound))


def _is_beginning(line: ir.AnyLine, given: set[str]) -> bool:
    if isinstance(line, ir.BindSymbol):
        return not isinstance(line.source, ir.ItemOf) and line.source.buffer in given
    if isinstance(line, ir.AssertLayout):
        return line.buffer in given
    return isinstance(line, (ir.KernelDefinition, ir.Comment, ir.ComputeSymbol, ir.AssertSymbol))


# State of a renderer during its walk over a region, for any target.


class Storages:
    """Buffers of one function, grouped by the storage that they share or may share.

    A storage ends with the last reference to it, so ending it means ending all its buffers, except
    ``lasting`` ones. ``last`` is the last line that touches each buffer of the region.
    """

    def __init__(self, last: Mapping[str, int], lasting: frozenset[str] = frozenset()) -> None:
        self._last = last
        self._lasting = lasting
        self._groups: dict[str, list[str]] = {}

    def define(self, name: str, sources: Sequence[str] = ()) -> None:
        """Add a buffer; ``sources`` are buffers whose storage it shares or may share."""
        group = [name]
        for source in sources:
            other = self._groups.get(source)
            if other is not None and other is not group:
                other.extend(group)
                for member in group:
                    self._groups[member] = other
                group = other
        self._groups[name] = group

    def sharing(self, name: str) -> Sequence[str]:
        """Return the buffers of a buffer's storage, itself included."""
        return self._groups.get(name, ())

    def end(self, name: str, index: int) -> list[str]:
        """End a storage after a line; return the buffers that are no longer needed."""
        group = self._groups.get(name, [name])
        ended = [n for n in group if n not in self._lasting and self._last.get(n, -1) <= index]
        for member in ended:
            self._groups.pop(member, None)
        group[:] = [member for member in group if member not in ended]
        return ended


# State shared by all parts of one run.

Key = tuple[str, str]
"""The kind of a name (``buffer``, ``symbol``, ``kernel``, ``op``), and the IR's name."""


def wanted_names(program: ir.Program, spell: Callable[[str], str]) -> list[tuple[Key, str]]:
    """Return everything that has a name, with its preferred identifier, made by ``spell``.

    Constants come first, because users set them by name.
    """
    given = (i.object for i in program.inputs if isinstance(i, ir.ObjectInput))
    made = storages_of(program).made_objects
    buffers = (*program.constants, *program.objects, *given, *program.buffers, *made)
    wanted = [(("buffer", name), spell(name)) for name in buffers]
    wanted += [(("symbol", name), spell(name)) for name in program.symbols]
    for name, definition in program.kernels.items():
        is_op = isinstance(definition.source, ir.TorchOp)
        spelled = spell(as_identifier(name) if is_op else name)
        wanted.append((("op" if is_op else "kernel", name), spelled))
    return wanted


class Run:
    """One run of an emitter: the program to render, and the lines that cannot be rendered."""

    def __init__(self, program: ir.Program, problems: Problems) -> None:
        self.program = program
        self.problems = problems

    @cached_property
    def random_states(self) -> frozenset[str]:
        """Buffers declared on a GPU that may be numbers on the host."""
        return random_states(self.program)

    @cached_property
    def launches(self) -> dict[str, dict[ir.Device, None]]:
        """The devices that each kernel is launched on, in order of first launch."""
        launches: dict[str, dict[ir.Device, None]] = {}
        for _, line in ir.walk(self.program):
            if isinstance(line, ir.KernelCall):
                launches.setdefault(line.kernel, {})[line.device] = None
        return launches


class TextRun(Run):
    """One run of an emitter that writes text.

    Attributes:
        names: The identifiers of everything that the program names.
        sections: Parts of the text by name, joined at the end.
        profiles: Whether each call and each allocation is shown to PyTorch's profiler.
        takes_out: Whether callers may provide memory for results.
        keepers: The variables that keep memory for single lines from call to call.
    """

    def __init__(
        self,
        program: ir.Program,
        problems: Problems,
        names: NamePlan[Key],
        *,
        unit: str,
        takes_out: bool,
        profiles: bool,
    ) -> None:
        super().__init__(program, problems)
        self.names = names
        self.sections: dict[str, CodeWriter] = {}
        self.profiles = profiles
        self.takes_out = takes_out
        self.keepers: list[str] = []
        self._unit = unit

    def section(self, name: str) -> CodeWriter:
        """Return the writer for a part of the text, created on first use."""
        return self.sections.setdefault(name, CodeWriter(self._unit))

    def buffer(self, name: str) -> str:
        """Return the identifier of a buffer, constant, object or input."""
        return self.names["buffer", name]

    def symbol(self, name: str) -> str:
        """Return the identifier of a symbol."""
        return self.names["symbol", name]

    def range_of(self, line: ir.AnyLine, name: str) -> str:
        """Return a line's name in the profiler: its Inductor provenance handle, or ``name``."""
        origin = self.program.origin_of(line)
        return name if origin is None else origin.handle or name


R = TypeVar("R", bound=Run)
T = TypeVar("T", bound=TextRun)


class RegionWalker(ir.LineVisitor[None], Generic[R]):
    """A walk over the lines of a region, in order."""

    def __init__(self, context: R, region: ir.Region) -> None:
        self.context = context
        self.region = region
        self.path: ir.Path = ir.Path()
        self.index: int = 0

    def render(self, index: int, path: ir.Path) -> None:
        """Render the line at a position of the region."""
        self.index, self.path = index, path
        self.render_line(self.region.body[index])

    def render_line(self, line: ir.AnyLine) -> None:
        """Render a line; targets override this to add text before and after it."""
        self.visit(line)

    def refuse_streams(self, line: ir.AnyLine, subject: str) -> None:
        """Record a line that needs more than the caller's stream, for targets without others."""
        reason = needs_streams(line, self.context.program)
        if reason:
            self.unsupported(line, f"{reason}; {subject} on the caller's stream alone")

    def unsupported(self, line: ir.AnyLine, reason: str) -> None:
        """Record that a line cannot be rendered."""
        self.context.problems.add(line, self.path, reason)

    def layout(self, name: str) -> ir.Layout:
        """Return the layout of a buffer."""
        return self.context.program.layout(name)

    def function_name(self, line: ir.RegionLine, step: str) -> str:
        """Return the preferred name for the function or graph of a line's region."""
        label = "_".join(str(each.position) for each in self.path)
        return f"{line.mnemonic}_{label}_{step}"

    def symbols_of(self, line: ir.RegionLine) -> list[str]:
        """Return the symbols that any region of a line needs from outside, sorted."""
        program = self.context.program
        found = (free_region_symbols(region, program) for _, region in ir.regions_of(line))
        return sorted({symbol for symbols in found for symbol in symbols})


class TextWalker(RegionWalker[T]):
    """Renders a region as statements of one function, into a writer."""

    comment: Callable[[str], list[str]]
    """Formats a text as comment lines."""

    def __init__(self, context: T, region: ir.Region, writer: CodeWriter) -> None:
        super().__init__(context, region)
        self.writer = writer
        #: Buffers whose layout needs no check: constants, and inputs that were checked on entry.
        self.checked: frozenset[str] = frozenset(context.program.constants)
        #: Inputs to let go of before a line, by its position.
        self.spent: Mapping[int, Sequence[str]] = {}
        self.show_origins = False
        self._shown_origin: int | None = None

    @override
    def render(self, index: int, path: ir.Path) -> None:
        with self.writer.at(path):
            if index in self.spent:
                self.end(*self.spent[index])
            if self.show_origins:
                self._show_origin(self.region.body[index])
            super().render(index, path)

    @abstractmethod
    def end(self, *names: str) -> None:
        """Write the end of storages, each under one of its names."""

    def _show_origin(self, line: ir.AnyLine) -> None:
        """Write where in the model a line comes from, once for a run of lines with one origin."""
        origin = self.context.program.origin_of(line)
        if origin is None or line.origin == self._shown_origin:
            return
        self._shown_origin = line.origin
        parts = [origin.module] if origin.module else []
        parts += [", ".join(origin.ops or origin.nodes)] if origin.ops or origin.nodes else []
        place = self.shown_place(origin)
        text = f"{': '.join(parts)} ({place})" if place else ": ".join(parts)
        if text.strip():
            self.writer.lines(*self.comment(text.strip()))
        if origin.handle:
            self.writer.lines(*self.comment(f"{_HANDLE} {origin.handle}"))
            if not isinstance(line, ir.KernelCall):
                # tlparse looks for the handle's name in the next line; our op calls lack it.
                self.writer.lines(*self.comment(origin.handle.partition(":")[0]))

    def shown_place(self, origin: ir.Origin) -> str:
        """Return the place in the model's source to show for an origin."""
        return origin.place

    @override
    def visit_comment(self, line: ir.Comment) -> None:
        self.writer.lines(*self.comment(line.text))


# The facts that text or a library needs to capture a program's calls as CUDA graphs.


def capture_facts(program: ir.Program, options: Captures) -> CaptureFacts:
    """Return the facts about a program that capturing its calls depends on."""
    reasons = why_not_captured(program)
    if reasons:
        return CaptureFacts(program.name, reasons=reasons)
    device = only_accelerator(program)
    constants = [name for name in program.constants if program.layout(name).device == device]
    # What a forward saves must last until its backward, and gradients until they are used.
    is_inference = program.role is ir.GraphRole.INFERENCE
    return CaptureFacts(
        program.name,
        str(device),
        tuple(mutated_inputs(program)),
        tuple(constants),
        options.cuda_graph_limit,
        options.cuda_graph_results if is_inference else "fresh",
        is_random=any(draws(program, line) for _, line in ir.walk(program)),
        has_branches=any(stream.captured for stream in program.streams),
        copied=copied_inputs(program),
    )
