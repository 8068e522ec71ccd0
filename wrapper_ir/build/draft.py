"""A program under construction, filled in by the builder and by every front end.

A draft keeps track of the names in use, the declarations and lines so far, and the storage of each
buffer. :meth:`ProgramDraft.program` turns it into a :class:`~wrapper_ir.lines.Program`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import sympy

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import within
from wrapper_ir.lines.expr import FloorDiv, Mod, free_symbols, substitute
from wrapper_ir.lines.symbols import dims_of
from wrapper_ir.lines.traits import computes

T = TypeVar("T")

#: A size that keeps a GPU busy, in place of a hint.
_LARGE: Final = 8192


@dataclass(slots=True)
class ProgramDraft:
    """A program under construction: the tables of a ``Program``, and what is still to be added."""

    inputs: list[ir.Input] = field(default_factory=list)
    buffers: dict[str, ir.Layout] = field(default_factory=dict)
    symbols: dict[str, ir.SymbolInfo] = field(default_factory=dict)
    constants: dict[str, ir.Constant] = field(default_factory=dict)
    objects: dict[str, ir.ObjectConstant] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    #: Kernels and library ops, in the order of first use.
    definitions: dict[str, ir.KernelDefinition] = field(default_factory=dict)
    streams: list[ir.Stream] = field(default_factory=list)
    events: list[ir.Event] = field(default_factory=list)
    mempools: list[ir.MemoryPool] = field(default_factory=list)
    #: The default stream and memory pool of a line.
    stream: int = 0
    mempool: int = 0
    #: Symbols bound by a line, a region or an input. A symbol is bound once per program.
    bound: set[str] = field(default_factory=set)
    #: Names that :meth:`fresh` avoids in addition to those in use.
    reserved: set[str] = field(default_factory=set)
    #: The lines of the program and of each open region, innermost last.
    bodies: list[list[ir.AnyLine]] = field(default_factory=lambda: [[]])
    #: Sets the stream and memory pool of each emitted line to those of the enclosing block, for
    #: front ends whose lines do not name theirs.
    placed: Callable[[ir.AnyLine], ir.AnyLine] | None = None
    _origins: dict[ir.Origin, int] = field(default_factory=dict)
    #: The next number to try for each stem.
    _numbers: dict[str, int] = field(default_factory=dict)
    #: Names of values, by ``id()``. ``data`` keeps the values alive.
    _named: dict[int, list[str]] = field(default_factory=dict)
    #: What computed symbols stand for.
    _computed: dict[str, ir.Scalar] = field(default_factory=dict)
    #: Lines whose effects are not yet recorded in the three fields below.
    _unseen: list[ir.AnyLine] = field(default_factory=list)
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
        """Return an unused name: the stem, or the stem and a free number from ``first`` on.

        It is not ``among`` the given names, by default all buffers, symbols and reserved names. If
        not ``is_bare``, it always has a number: ``buf0``, not ``buf`` or ``buf_1``.
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

    def bind(self, name: str, info: ir.SymbolInfo) -> str:
        """Record that a line, region or input binds a symbol. A known symbol keeps its info."""
        self.symbols.setdefault(name, info)
        self.bound.add(name)
        return name

    def symbol(self, name: str) -> sympy.Symbol:
        """Return the sympy symbol of a declared name."""
        is_real = self.symbols[name].kind is ir.SymbolKind.FLOAT
        return ir.real_symbol(name) if is_real else ir.symbol(name)

    def expected(self, value: ir.Scalar) -> int | float:
        """Return a number at the hints, for heuristics only.

        A symbol that a line computes has the value of its expression. A symbol without a hint is
        assumed to be large, within its range.
        """
        numbers = {name: self._expected_symbol(name) for name in free_symbols(value)}
        found = substitute(value, numbers)
        is_real = isinstance(found, float) or not float(found).is_integer()
        return float(found) if is_real else int(found)

    def is_guess(self, value: ir.Scalar) -> bool:
        """Return whether :meth:`expected` takes some symbol for large, for lack of a hint."""
        names = free_symbols(value)
        if any(self.is_guess(self._computed[name]) for name in names if name in self._computed):
            return True
        return any(self.symbols[name].hint is None for name in names - self._computed.keys())

    def _expected_symbol(self, name: str) -> int:
        if name in self._computed:
            return int(self.expected(self._computed[name]))
        info = self.symbols[name]
        return within((info.lower, info.upper), _LARGE) if info.hint is None else info.hint

    # Data, declarations, origins.

    def hold(self, name: str, value: object) -> None:
        """Store the value of a constant or an object."""
        self.data[name] = value
        self._named.setdefault(id(value), []).append(name)

    def names_of(self, value: object) -> Sequence[str]:
        """Return the names of the constants and objects that hold this very value."""
        return self._named.get(id(value), ())

    def declare(self, name: str, source: ir.TorchOp, origin: int | None = None) -> str:
        """Declare a library op or a method if it is not declared yet. Return its name."""
        self.definitions.setdefault(name, ir.KernelDefinition(name, (), source, origin=origin))
        return name

    def origin(self, origin: ir.Origin) -> int:
        """Return the number of an origin. Equal origins share one."""
        return self._origins.setdefault(origin, len(self._origins))

    @property
    def origins(self) -> tuple[ir.Origin, ...]:
        """The table of origins."""
        return tuple(self._origins)

    @staticmethod
    def number(known: list[T], item: T) -> int:
        """Return the number, from 1, of a stream, event or pool. A new one is appended."""
        if item not in known:
            known.append(item)
        return known.index(item) + 1

    # Lines.

    def emit(self, line: ir.AnyLine) -> None:
        """Append a line to the innermost open region."""
        if self.placed is not None:
            line = self.placed(line)
        self.bodies[-1].append(line)
        self._unseen.append(line)
        if computes(line):
            self._computed[line.symbol] = line.value

    @contextlib.contextmanager
    def region(self, body: list[ir.AnyLine] | None = None) -> Iterator[list[ir.AnyLine]]:
        """Open a region: in the ``with`` block, lines go to ``body``, by default a new list."""
        self.bodies.append([] if body is None else body)
        try:
            yield self.bodies[-1]
        finally:
            self.bodies.pop()

    # Storage. Emitted lines are analyzed lazily, when a query needs the answer.

    def roots(self, name: str) -> frozenset[str]:
        """Return the owners of all storage that a buffer uses or may use.

        A buffer that is no view owns its storage. So does a parameter of a region.
        """
        self._analyze()
        return self._roots.get(name) or frozenset((name,))

    def owner(self, name: str) -> str:
        """Return the owner of a buffer's storage, or the buffer itself if that is not certain."""
        roots = self.roots(name)
        return next(iter(roots)) if len(roots) == 1 and self.is_certain(name) else name

    def is_certain(self, name: str) -> bool:
        """Return True if the storage of a buffer is known before the program runs."""
        self._analyze()
        return name not in self._uncertain

    def is_written(self, name: str) -> bool:
        """Return True if a line writes to the storage that a name owns."""
        self._analyze()
        return name in self._written

    def _analyze(self) -> None:
        for line in self._unseen:
            found = ir.effects(line)
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
        results: Sequence[ir.Value],
        *,
        head: Sequence[ir.AnyLine] = (),
        role: ir.GraphRole = ir.GraphRole.INFERENCE,
    ) -> ir.Program:
        """Return the finished program, with the lines of ``head`` between definitions and body."""
        return ir.Program(
            name=name,
            inputs=tuple(self.inputs),
            results=tuple(results),
            body=(*self.definitions.values(), *head, *self.bodies[0]),
            buffers=ir.FrozenMap(self.buffers),
            symbols=ir.FrozenMap(self.symbols),
            constants=ir.FrozenMap(self.constants),
            objects=ir.FrozenMap(self.objects),
            streams=tuple(self.streams),
            events=tuple(self.events),
            mempools=tuple(self.mempools),
            role=role,
            origins=self.origins,
            data=dict(self.data),
        )


def at_start(layout: ir.Layout) -> ir.Layout:
    """Return the layout with a storage offset of 0."""
    return ir.Layout(layout.dtype, layout.device, layout.size, layout.stride)


def metadata_of(
    name: str, layout: Any  # noqa: ANN401 - ours, or another object with a size and a stride
) -> Iterator[tuple[Any, ir.SymbolSource]]:
    """Yield the sizes and then the strides of a buffer, each with the source that reads it."""
    yield from ((size, ir.SizeOf(name, dim)) for dim, size in enumerate(layout.size))
    yield from ((step, ir.StrideOf(name, dim)) for dim, step in enumerate(layout.stride))


def range_checks(
    value: ir.Scalar,
    lower: ir.Scalar | None,
    upper: ir.Scalar | None,
    name: object,
    origin: int | None = None,
) -> list[ir.AssertSymbol]:
    """Return the check that a number is in its inclusive range; none if that has no bounds.

    ``name`` stands for the number in the error message.
    """
    limits = [] if lower is None else [sympy.Ge(value, lower)]
    limits += [] if upper is None else [sympy.Le(value, upper)]
    left = "" if lower is None else f"{lower} <= "
    message = f"{left}{name}" if upper is None else f"{left}{name} <= {upper}"
    return [ir.AssertSymbol(sympy.And(*limits), message, origin=origin)] if limits else []


# Symbols that the inputs of a program determine, and the lines that bind them.
#
# A size or stride that is a bare symbol gives the symbol. An expression, such as ``2*s0 + s1``,
# gives its only symbol that nothing else gives, if it is linear in it.


class Equation(NamedTuple):
    """A dim in terms of symbols, and the metadata, or the name of a bound symbol, that gives it."""

    value: ir.Dim
    given: ir.SymbolSource | str
    origin: int | None = None


def bind_given(
    draft: ProgramDraft, equations: Iterable[Equation], bind: Callable[[str], object]
) -> Iterator[ir.AnyLine]:
    """Yield the lines that bind all symbols that equations determine: bare ones, then the others.

    If several give a symbol, the first one does, or the first one without a division by something
    that may be 0. What the draft has bound already stays as it is; ``bind`` records in it that a
    line binds the symbol of this name.
    """
    left = []
    for each in equations:
        value, given, origin = each
        if not isinstance(value, sympy.Symbol):
            left.append(each)
        elif value.name not in draft.bound and not isinstance(given, str):
            bind(value.name)
            yield ir.BindSymbol(value.name, given, origin=origin)
    while solvable := [(each, form) for each in left if (form := _linear(draft, each.value))]:
        equation, form = min(solvable, key=lambda each: bool(each[1].factor.free_symbols))
        bind(form.unknown)
        yield from _solved(draft, equation, form)


class _Linear(NamedTuple):
    """A dim ``factor*unknown + rest``, where ``unknown`` is its only symbol that is not bound."""

    unknown: str
    factor: sympy.Expr
    rest: sympy.Expr


def _linear(draft: ProgramDraft, value: ir.Dim) -> _Linear | None:
    """Return the form of a dim, or None if it has another one."""
    unknown = free_symbols(value) - draft.bound
    if len(unknown) != 1:
        return None
    target, expanded = ir.symbol(*unknown), sympy.expand(value)
    form = _Linear(target.name, expanded.coeff(target, 1), expanded.coeff(target, 0))
    is_linear = sympy.expand(form.factor * target + form.rest) == expanded
    return form if is_linear and target not in form.factor.free_symbols else None


def _solved(draft: ProgramDraft, equation: Equation, form: _Linear) -> Iterator[ir.AnyLine]:
    """Yield the lines that solve an equation for its symbol, which the draft has bound.

    They check that the division leaves no remainder: there are sizes that no symbol gives.
    """
    unknown, factor, rest = form
    value, given, origin = equation
    if isinstance(given, str):
        name = words = given
    else:
        hints = {n: info.hint for n, info in draft.symbols.items() if info.hint is not None}
        hint = substitute(value, hints)
        name = draft.fresh(f"{unknown}_given")
        draft.bind(name, ir.SymbolInfo(hint=hint if type(hint) is int else None))
        yield ir.BindSymbol(name, given, origin=origin)
        place = "".join(f" {dim}" for dim in dims_of(given))
        words = f"{given.method}{place} of '{given.buffer}'"
    whole = draft.symbol(name) - rest
    if factor == 1:
        yield ir.ComputeSymbol(unknown, whole, origin=origin)
        return
    if factor.free_symbols:
        message = f"{factor} not to be 0, so that {words} gives {unknown}"
        yield ir.AssertSymbol(sympy.Ne(factor, 0), message, origin=origin)
    message = f"{words} to be {value} for some {unknown}"
    yield ir.AssertSymbol(sympy.Eq(Mod(whole, factor), 0), message, origin=origin)
    yield ir.ComputeSymbol(unknown, FloorDiv(whole, factor), origin=origin)
