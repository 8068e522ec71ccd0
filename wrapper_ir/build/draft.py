"""A program in the making, which the builder and every front end fill.

It knows which names are taken, what has been declared, which lines there are, and whose storage
each buffer is. A front end says in calls of it what it has found; at the end it asks for the
:class:`~wrapper_ir.lines.Program`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import sympy

from wrapper_ir.lines import (
    AnyLine,
    AssertSymbol,
    Constant,
    Event,
    FrozenMap,
    GraphRole,
    Input,
    KernelDefinition,
    Layout,
    MemoryPool,
    ObjectConstant,
    Origin,
    Program,
    SizeOf,
    Stage,
    Stream,
    StrideOf,
    SymbolInfo,
    SymbolKind,
    SymbolSource,
    TorchOp,
    Value,
    effects,
    real_symbol,
    symbol,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from wrapper_ir.lines.expr import Scalar

T = TypeVar("T")


@dataclass(slots=True)
class ProgramDraft:
    """All that is said of a program so far.

    Attributes:
        inputs: What the caller passes, in order.
        buffers: Layout of every buffer, those of regions included.
        symbols: What is known of every symbol.
        constants: The tensors that belong to the program.
        objects: The objects of custom classes that belong to it.
        data: Values of constants and objects, by name.
        definitions: Kernels and library ops, in the order of first use.
        streams: The streams besides the caller's, counted from 1.
        events: The events, counted from 1.
        mempools: The memory pools besides the allocator's own, counted from 1.
        stream: The stream of lines that do not say theirs.
        mempool: The memory pool of lines that do not say theirs.
        bound: Symbols that a line, a region or an input binds; each is bound once in a program.
        reserved: Names that fresh ones must differ from besides those in use.
        bodies: Lines of the program and of the regions that are open, innermost last.
        placed: Gives each line that is emitted the stream and the memory pool of the block that it
            stands in, for front ends whose lines do not say theirs.
    """

    inputs: list[Input] = field(default_factory=list)
    buffers: dict[str, Layout] = field(default_factory=dict)
    symbols: dict[str, SymbolInfo] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    objects: dict[str, ObjectConstant] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, KernelDefinition] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    mempools: list[MemoryPool] = field(default_factory=list)
    stream: int = 0
    mempool: int = 0
    bound: set[str] = field(default_factory=set)
    reserved: set[str] = field(default_factory=set)
    bodies: list[list[AnyLine]] = field(default_factory=lambda: [[]])
    placed: Callable[[AnyLine], AnyLine] | None = None
    _origins: dict[Origin, int] = field(default_factory=dict)
    #: The next number to try behind each stem.
    _numbers: dict[str, int] = field(default_factory=dict)
    #: Names of data, by the value's identity; ``data`` keeps the value alive.
    _named: dict[int, list[str]] = field(default_factory=dict)
    #: Lines whose effects are not in the three below yet.
    _unseen: list[AnyLine] = field(default_factory=list)
    _roots: dict[str, frozenset[str]] = field(default_factory=dict)
    _uncertain: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)

    # Names.

    def fresh(
        self,
        stem: str,
        among: Container[str] | None = None,
        *,
        first: int = 1,
        is_bare: bool = True,
    ) -> str:
        """Return a name that nothing else has: the stem, or the stem with the first free number.

        Args:
            stem: What the name begins with.
            among: The names that it must differ from; by default all of buffers and symbols, and
                those that are reserved.
            first: The first number to try.
            is_bare: Whether the stem alone will do; else it is ``buf0``, not ``buf_1``.
        """
        taken = self._is_taken if among is None else among.__contains__
        if is_bare and not taken(stem):
            return stem
        start = f"{stem}_" if is_bare else stem
        number = self._numbers.get(stem, first)
        while taken(f"{start}{number}"):
            number += 1
        self._numbers[stem] = number + 1
        return f"{start}{number}"

    def _is_taken(self, name: str) -> bool:
        return name in self.reserved or name in self.buffers or name in self.symbols

    # Symbols.

    def bind(self, name: str, info: SymbolInfo) -> str:
        """Note that a line, a region or an input binds a symbol; what is known of it stays so."""
        self.symbols.setdefault(name, info)
        self.bound.add(name)
        return name

    def symbol(self, name: str) -> sympy.Symbol:
        """Return the symbol of a declared name."""
        is_real = self.symbols[name].kind is SymbolKind.FLOAT
        return real_symbol(name) if is_real else symbol(name)

    # What the program owns, declares and comes from.

    def hold(self, name: str, value: object) -> None:
        """Keep the value of a constant or an object."""
        self.data[name] = value
        self._named.setdefault(id(value), []).append(name)

    def names_of(self, value: object) -> Sequence[str]:
        """Return the constants and objects whose value is this very one."""
        return self._named.get(id(value), ())

    def declare(self, name: str, source: TorchOp, origin: int | None = None) -> str:
        """Declare a library op, or a method, unless that is done, and return its name."""
        self.definitions.setdefault(name, KernelDefinition(name, (), source, origin=origin))
        return name

    def origin(self, origin: Origin) -> int:
        """Return the number of an origin; equal ones have the same."""
        return self._origins.setdefault(origin, len(self._origins))

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The table of origins."""
        return tuple(self._origins)

    @staticmethod
    def number(known: list[T], item: T) -> int:
        """Return the number of a stream, an event or a pool in its list, where a new one goes."""
        if item not in known:
            known.append(item)
        return known.index(item) + 1

    # Lines.

    def emit(self, line: AnyLine) -> None:
        """Append a line to the region that is open."""
        if self.placed is not None:
            line = self.placed(line)
        self.bodies[-1].append(line)
        self._unseen.append(line)

    @contextlib.contextmanager
    def region(self, body: list[AnyLine] | None = None) -> Iterator[list[AnyLine]]:
        """Have lines go to the body of a region, a new one unless it is given, in a block."""
        self.bodies.append([] if body is None else body)
        try:
            yield self.bodies[-1]
        finally:
            self.bodies.pop()

    # Storage. What the lines so far say of it is looked at when somebody asks.

    def roots(self, name: str) -> frozenset[str]:
        """Return the names whose storage a buffer is or may be: its own, or those it is a view of.

        Parameters of a region are names of their own.
        """
        self._look()
        return self._roots.get(name) or frozenset((name,))

    def owner(self, name: str) -> str:
        """Return the name that owns a buffer's storage; its own where that is not certain."""
        roots = self.roots(name)
        return next(iter(roots)) if len(roots) == 1 and self.is_certain(name) else name

    def is_certain(self, name: str) -> bool:
        """Return whether it is known of a buffer whose storage it is."""
        self._look()
        return name not in self._uncertain

    def is_written(self, name: str) -> bool:
        """Return whether some line writes to the storage that a name owns."""
        self._look()
        return name in self._written

    def _look(self) -> None:
        for line in self._unseen:
            found = effects(line)
            for name, source, may in found.aliases:
                sources = self._roots.get(source) or frozenset((source,))
                self._roots[name] = self._roots.get(name, frozenset()) | sources
                if may or source in self._uncertain:
                    self._uncertain.add(name)
            for name in found.writes:
                self._written |= self._roots.get(name) or {name}
        self._unseen.clear()

    # The end.

    def program(
        self,
        name: str,
        results: Sequence[Value],
        *,
        head: Sequence[AnyLine] = (),
        role: GraphRole = GraphRole.INFERENCE,
        stage: Stage = Stage.LOGICAL,
    ) -> Program:
        """Return the program.

        Args:
            name: Its name.
            results: What the caller gets, in order.
            head: Lines before the others, behind the definitions.
            role: Which graph of a model it is.
            stage: Whether the ends of storage are explicit.
        """
        return Program(
            name=name,
            inputs=tuple(self.inputs),
            results=tuple(results),
            body=(*self.definitions.values(), *head, *self.bodies[0]),
            buffers=FrozenMap(self.buffers),
            symbols=FrozenMap(self.symbols),
            constants=FrozenMap(self.constants),
            objects=FrozenMap(self.objects),
            streams=tuple(self.streams),
            events=tuple(self.events),
            mempools=tuple(self.mempools),
            role=role,
            stage=stage,
            origins=self.origins,
            data=dict(self.data),
        )


def at_start(layout: Layout) -> Layout:
    """Return the layout at the start of a storage of its own."""
    return Layout(layout.dtype, layout.device, layout.size, layout.stride)


def metadata_of(
    name: str, layout: Any  # noqa: ANN401 - ours, or another object with a size and a stride
) -> Iterator[tuple[Any, SymbolSource]]:
    """Yield the sizes and then the strides of a buffer, each with what reads it off the tensor.

    Args:
        name: The buffer.
        layout: Its layout, ours or a front end's.
    """
    yield from ((size, SizeOf(name, dim)) for dim, size in enumerate(layout.size))
    yield from ((step, StrideOf(name, dim)) for dim, step in enumerate(layout.stride))


def range_checks(
    value: Scalar,
    lower: Scalar | None,
    upper: Scalar | None,
    name: object,
    origin: int | None = None,
) -> list[AssertSymbol]:
    """Return the check that a number is in its range, none where the range has no bounds.

    Args:
        value: The number.
        lower: Its least value, if any.
        upper: Its largest value, if any.
        name: What errors call it.
        origin: The origin of the check.
    """
    limits = [] if lower is None else [sympy.Ge(value, lower)]
    limits += [] if upper is None else [sympy.Le(value, upper)]
    message = f"{name} is outside its range"
    return [AssertSymbol(sympy.And(*limits), message, origin=origin)] if limits else []
