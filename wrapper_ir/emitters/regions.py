"""Parts that renderers of all targets share: the run, the walk over a region, the beginning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from typing_extensions import override

from wrapper_ir.emitters.facts import (
    free_region_symbols,
    launches,
    needs_streams,
    random_states,
)
from wrapper_ir.emitters.names import NamePlan, as_identifier
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.control import BufferInput, ObjectInput, Region, ScalarInput
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.kernels import KernelCall, KernelDefinition, TorchOp
from wrapper_ir.lines.program import Program
from wrapper_ir.lines.symbols import (
    AssertLayout,
    AssertSymbol,
    BindSymbol,
    ComputeSymbol,
    ItemOf,
    dims_of,
)
from wrapper_ir.lines.trace import Comment
from wrapper_ir.lines.visitor import LineVisitor
from wrapper_ir.lines.walk import Path, made_objects, regions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.lines.control import RegionLine
    from wrapper_ir.lines.layout import Device, Layout
    from wrapper_ir.lines.program import AnyLine, Origin

#: What Inductor writes before a call's handle; tools that show where code comes from look for it.
_HANDLE: Final = "[Provenance debug handles]"


# A program's beginning: lines that declare, remark, and bind symbols to its inputs' metadata.
#
# Emitters write the checks of inputs around these lines: what is fixed is compared before them,
# what depends on symbols after them. Which lines they are is a fact of the program, the same
# everywhere.


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first lines of a program.

    Attributes:
        program: The program.
        end: Index of the first line that is not part of the beginning.
        symbols: Symbols that have values by then.
        binds: Which symbol each size or stride binds, by buffer, ``size`` or ``stride``, and
            dimension.
        bound: The symbols that metadata binds, in program order.
    """

    program: Program
    end: int
    symbols: frozenset[str]
    binds: Mapping[tuple[str, str, int], str]
    bound: tuple[str, ...]

    def knows(self, name: str) -> bool:
        """Tell whether all that the layout of a buffer mentions has a value at the end."""
        return self.program.layout(name).symbols <= self.symbols

    def leaves(self, name: str) -> bool:
        """Tell whether some size or stride of an input is neither fixed nor what binds a symbol."""
        layout = self.program.layout(name)
        pairs = (("size", layout.size), ("stride", layout.stride))
        return any(
            free_symbols(value) and self.binds.get((name, kind, position)) != str(value)
            for kind, values in pairs
            for position, value in enumerate(values)
        )

    def limits(self, symbol: str) -> tuple[int | None, int | None]:
        """Return a size's range: none is negative, so a lower bound of 0 says nothing."""
        info = self.program.symbols[symbol]
        return (info.lower if (info.lower or 0) > 0 else None), info.upper

    def places(self, symbol: str) -> list[str]:
        """Return what binds a symbol, in words: ``size 0 of 'x'``."""
        return [
            f"{kind} {position} of '{buffer}'"
            for (buffer, kind, position), of in self.binds.items()
            if of == symbol
        ]


def find_beginning(program: Program) -> Beginning:
    """The lines that a program begins with."""
    inputs = {param.name for param in program.inputs if isinstance(param, BufferInput)}
    symbols = {param.symbol for param in program.inputs if isinstance(param, ScalarInput)}
    binds: dict[tuple[str, str, int], str] = {}
    bound: list[str] = []
    end = len(program.body)
    for index, line in enumerate(program.body):
        if not _is_beginning(line, inputs):
            end = index
            break
        if isinstance(line, BindSymbol):
            bound.append(line.symbol)
            for dim in dims_of(line.source):
                binds[line.source.buffer, line.source.method, dim] = line.symbol
        if isinstance(line, (BindSymbol, ComputeSymbol)):
            symbols.add(line.symbol)
    return Beginning(program, end, frozenset(symbols), binds, tuple(bound))


def _is_beginning(line: AnyLine, inputs: set[str]) -> bool:
    if isinstance(line, BindSymbol):
        return not isinstance(line.source, ItemOf) and line.source.buffer in inputs
    if isinstance(line, AssertLayout):
        return line.buffer in inputs
    return isinstance(line, (KernelDefinition, Comment, ComputeSymbol, AssertSymbol))


# State of a renderer that goes through a region, whatever the target.


class Storages:
    """Buffers by the storage that they share or may share, in one function.

    A storage ends with the last reference to it, so ending it means ending all its buffers.

    Args:
        last: The last line that touches each buffer of the region.
        lasting: Buffers that no line ends.
    """

    def __init__(self, last: Mapping[str, int], lasting: frozenset[str] = frozenset()) -> None:
        self._last = last
        self._lasting = lasting
        self._groups: dict[str, list[str]] = {}

    def define(self, name: str, sources: Sequence[str] = ()) -> None:
        """Begin a buffer; ``sources`` are buffers whose storage it shares or may share."""
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
        """End a storage at a line; return the buffers that nothing wants any more."""
        group = self._groups.get(name, [name])
        ended = [n for n in group if n not in self._lasting and self._last.get(n, -1) <= index]
        for member in ended:
            self._groups.pop(member, None)
        group[:] = [member for member in group if member not in ended]
        return ended


# What is shared by all parts of one run, and by the renderers of all kinds of lines.

Key = tuple[str, str]
"""The kind of a name (``buffer``, ``symbol``, ``kernel``, ``op``), and the IR's name."""


def wanted_names(program: Program, spell: Callable[[str], str]) -> list[tuple[Key, str]]:
    """Return everything with a name, and what it would like to be called.

    Constants come first: others set them by name.

    Args:
        program: The program.
        spell: Makes a name one that the target may use.
    """
    given = (i.object for i in program.inputs if isinstance(i, ObjectInput))
    made = made_objects(program)
    buffers = (*program.constants, *program.objects, *given, *program.buffers, *made)
    wanted = [(("buffer", name), spell(name)) for name in buffers]
    wanted += [(("symbol", name), spell(name)) for name in program.symbols]
    for name, definition in program.kernels.items():
        is_op = isinstance(definition.source, TorchOp)
        spelled = spell(as_identifier(name) if is_op else name)
        wanted.append((("op" if is_op else "kernel", name), spelled))
    return wanted


class Run:
    """One run of an emitter.

    Attributes:
        program: What is rendered.
        problems: The lines that cannot be.
    """

    def __init__(self, program: Program, problems: Problems) -> None:
        self.program = program
        self.problems = problems

    @cached_property
    def random_states(self) -> frozenset[str]:
        """Buffers declared on a GPU that may be numbers on the host."""
        return random_states(self.program)

    @cached_property
    def launches(self) -> dict[str, dict[Device, None]]:
        """The devices that each kernel is launched on."""
        return launches(self.program)


class TextRun(Run):
    """One run of an emitter that writes text.

    Attributes:
        names: The identifiers of everything that the program names.
        sections: Parts of the text by name, spliced together at the end.
        profiles: Whether PyTorch's profiler is shown each call and each allocation.
        takes_out: Whether callers may give memory for results.
    """

    def __init__(
        self,
        program: Program,
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
        self._unit = unit

    def section(self, name: str) -> CodeWriter:
        """The writer of a part of the text, made when it is first asked for."""
        return self.sections.setdefault(name, CodeWriter(self._unit))

    def buffer(self, name: str) -> str:
        """The identifier of a buffer, constant, object or input."""
        return self.names["buffer", name]

    def symbol(self, name: str) -> str:
        """The identifier of a symbol."""
        return self.names["symbol", name]

    def range_of(self, line: AnyLine, name: str) -> str:
        """Return a line's name in the profiler: its Inductor provenance handle, or ``name``."""
        origin = self.program.origin_of(line)
        return name if origin is None else origin.handle or name


R = TypeVar("R", bound=Run)
T = TypeVar("T", bound=TextRun)


class RegionWalker(LineVisitor[None], Generic[R]):
    """The walk over the lines of a region, one after the other.

    Args:
        context: The run.
        region: The region.
    """

    def __init__(self, context: R, region: Region) -> None:
        self.context = context
        self.region = region
        self.path = Path()
        self.index = 0

    def render(self, index: int, path: Path) -> None:
        """Renders the line at a position of the region."""
        self.index, self.path = index, path
        self.render_line(self.region.body[index])

    def render_line(self, line: AnyLine) -> None:
        """Renders a line; targets say what comes before and after."""
        self.visit(line)

    def refuse_streams(self, line: AnyLine, subject: str) -> None:
        """Notes a line that is not for a target that knows the caller's stream alone."""
        reason = needs_streams(line, self.context.program)
        if reason:
            self.unsupported(line, f"{reason}; {subject} on the caller's stream alone")

    def unsupported(self, line: AnyLine, reason: str) -> None:
        """Notes that a line cannot be rendered."""
        self.context.problems.add(line, self.path, reason)

    def layout(self, name: str) -> Layout:
        """The layout of a buffer."""
        return self.context.program.layout(name)

    def function_name(self, line: RegionLine, step: str) -> str:
        """Return what a function or graph of a line's region would like to be called."""
        label = "_".join(str(each.position) for each in self.path)
        return f"{line.mnemonic}_{label}_{step}"

    def symbols_of(self, line: RegionLine) -> list[str]:
        """Return the symbols that any region of a line needs from outside, sorted."""
        program = self.context.program
        found = (free_region_symbols(region, program) for _, region in regions_of(line))
        return sorted({symbol for symbols in found for symbol in symbols})


class TextWalker(RegionWalker[T]):
    """Renders a region as statements of one function.

    Args:
        context: The run.
        region: The region.
        writer: Where statements go.
    """

    comment: Callable[[str], list[str]]
    """Makes comments of a text."""

    def __init__(self, context: T, region: Region, writer: CodeWriter) -> None:
        super().__init__(context, region)
        self.writer = writer
        #: Inputs whose layout was checked on entry.
        self.checked: frozenset[str] = frozenset()
        self.show_origins = False
        self._told: int | None = None

    @override
    def render(self, index: int, path: Path) -> None:
        with self.writer.at(path):
            if self.show_origins:
                self._show_origin(self.region.body[index])
            super().render(index, path)

    def _show_origin(self, line: AnyLine) -> None:
        """Write where in the model a line comes from, once for a run of lines with one origin."""
        origin = self.context.program.origin_of(line)
        if origin is None or line.origin == self._told:
            return
        self._told = line.origin
        parts = [origin.module] if origin.module else []
        parts += [", ".join(origin.ops or origin.nodes)] if origin.ops or origin.nodes else []
        place = self.shown_place(origin)
        text = f"{': '.join(parts)} ({place})" if place else ": ".join(parts)
        if text.strip():
            self.writer.lines(*self.comment(text.strip()))
        if origin.handle:
            self.writer.lines(*self.comment(f"{_HANDLE} {origin.handle}"))
            if not isinstance(line, KernelCall):
                # tlparse marks the next line with the handle's name; our calls of ops have others.
                self.writer.lines(*self.comment(origin.handle.partition(":")[0]))

    def shown_place(self, origin: Origin) -> str:
        """Return the place in the model's source that stands for an origin."""
        return origin.place

    @override
    def visit_comment(self, line: Comment) -> None:
        self.writer.lines(*self.comment(line.text))
