"""Inductor's index expressions, and the least sizes for which they stay within buffers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sympy

from wrapper_ir.frontends.common.exported import LEAST_TRACED
from wrapper_ir.frontends.inductor.compat import SymT, ValueRanges, bound_sympy, ir, symbol_is_type
from wrapper_ir.lines import expr as ours
from wrapper_ir.lines.memory import Reinterpret
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.lines.program import Program

    Values = Mapping[sympy.Symbol, Any]


#: The most places of one access to compute, where interval arithmetic does not settle it.
_MOST_POINTS: Final = 256


class Index(NamedTuple):
    """The places of one access: those at ``expr``, for all variables from 0 up to their counts.

    Values of the other symbols are given with each question.
    """

    expr: Any
    ranges: tuple[tuple[sympy.Symbol, Any], ...]

    def bounds(self, values: Values) -> Any:
        """Return bounds of the places, as interval arithmetic finds them; None if there are none.

        Raises:
            ArithmeticError, TypeError, ValueError: A count is no number, or below 0.
        """
        counts = self._counts(values)
        if 0 in counts.values():
            return None
        loops = {variable: ValueRanges(0, count - 1) for variable, count in counts.items()}
        return bound_sympy(self._expr(values), loops)

    def places(self, values: Values) -> Iterator[int]:
        """Yield places: all of them, or those for variables near their ends."""
        expr, counts = self._expr(values), self._counts(values)
        most = int(_MOST_POINTS ** (1 / max(len(counts), 1)) + 1e-9)
        ends = [
            [*range(n)] if n <= most else [*range(most - most // 2), *range(n - most // 2, n)]
            for n in counts.values()
        ]
        for point in itertools.product(*ends):
            numbers = map(sympy.Integer, point)
            yield int(expr.xreplace(dict(zip(counts, numbers, strict=True))))

    def last(self, values: Values) -> int:
        """Return the place where all variables are largest; -1 if there is none."""
        ends = {name: sympy.Integer(n - 1) for name, n in self._counts(values).items()}
        return -1 if -1 in ends.values() else int(self._expr(values).xreplace(ends))

    def symbols(self) -> set[sympy.Symbol]:
        """Return the symbols on which it depends, its variables among them."""
        values = (self.expr, *(count for _, count in self.ranges))
        return {symbol for value in values for symbol in sympy.sympify(value).free_symbols}

    def _expr(self, values: Values) -> Any:
        # A bare symbol becomes the plain number that stands for it.
        return sympy.sympify(sympy.sympify(self.expr).xreplace(values))

    def _counts(self, values: Values) -> dict[sympy.Symbol, int]:
        counts = {name: int(sympy.sympify(n).xreplace(values)) for name, n in self.ranges}
        if min(counts.values(), default=0) < 0:
            raise ValueError("no tensor has less than no elements")
        return counts


def _elements(layout: Any) -> Index:
    """Return the places of all elements of a layout."""
    names = [sympy.Symbol(f"_{dim}", integer=True) for dim in range(len(layout.size))]
    steps = (name * stride for name, stride in zip(names, layout.stride, strict=True))
    return Index(sum(steps, layout.offset), tuple(zip(names, layout.size, strict=True)))


# The least sizes at which a captured program stays within its buffers.
#
# Torch traces with inputs whose sizes are neither 0 nor 1, and what follows from that alone leaves
# no guard: in ``x[1]`` and ``x[:2]`` nothing asks whether there are two rows. Code for larger sizes
# is right for 0 and 1 as well, unless it reads rows that are not there. So each access is computed
# for these sizes, with the example's for all others.


class _Access(NamedTuple):
    """Elements of a storage that code touches.

    The expressions are of torch's symbols in kernels and of a program's in views.
    """

    place: Index  #: of these elements
    storage: Index  #: all of it, as far as its layout spans
    itemsizes: tuple[int, int] = (1, 1)  #: of the accessed elements, and of the storage's

    def fits(self, values: Values) -> bool:
        """Return whether all these elements lie in the storage, for these values of symbols."""
        try:
            bounds = self.place.bounds(values)
            if bounds is None:
                return True
            taken, held = self.itemsizes
            limit = (self.storage.last(values) + 1) * held // taken
            if bounds.lower >= 0 and bounds.upper < limit:
                return True
            return all(0 <= place < limit for place in self.place.places(values))
        except (ArithmeticError, TypeError, ValueError):  # it has no such number
            return False

    def symbols(self) -> set[sympy.Symbol]:
        """Return the symbols on which it depends, its variables among them."""
        return self.place.symbols() | self.storage.symbols()


def least_sizes(graph: Any, program: Program) -> dict[str, int]:
    """Return the least value of each symbol at which a scheduled graph stays within its buffers.

    A symbol is absent if it does so at 0, or if the trace did not exclude 0 and 1. The program has
    the same names for symbols.
    """
    known, environment = graph.sizevars.backed_var_to_val, graph.sizevars.shape_env
    sizes = [
        symbol
        for symbol, value in known.items()
        if symbol_is_type(symbol, SymT.SIZE)
        and environment.var_to_range[symbol].lower == LEAST_TRACED <= value
    ]
    if not sizes:
        return {}
    accesses = {each for part in _graphs(graph) for each in _of_kernels(part)}
    accesses |= set(_of_views(program))
    example = _named({symbol: int(value) for symbol, value in known.items() if value.is_Integer})
    # A masked access may reach outside of its buffer at any size; the mask is not known here.
    checked = [access for access in accesses if access.fits(example)]

    def outside(values: Values) -> list[_Access]:
        """Return the accesses that do not fit; none for sizes that the program refuses anyway."""
        if any(_is_refused(guard.expr, values) for guard in environment.guards):
            return []
        return [access for access in checked if not access.fits(values)]

    least: dict[str, int] = {}
    for value in (0, 1):
        for chosen in ([each] for each in sizes):
            values = example | _named(dict.fromkeys(chosen, value))
            if outside(values):
                least[chosen[0].name] = value + 1
    for value in (0, 1):
        chosen = [each for each in sizes if least.get(each.name, 0) <= value]
        values = example | _named(dict.fromkeys(chosen, value))
        for access in outside(values):
            names = {symbol.name for symbol in access.symbols()}
            least |= {each.name: value + 1 for each in chosen if each.name in names}
    return least


def _is_refused(condition: Any, values: Values) -> bool:
    """Return whether a check of the program fails for some values of symbols."""
    try:
        return bool(condition.xreplace(values) == sympy.false)
    except ZeroDivisionError:  # nothing says how such a check ends
        return False


def _named(values: Mapping[sympy.Symbol, int]) -> dict[sympy.Symbol, sympy.Integer]:
    """Return the values by torch's symbols and by a program's symbols of the same names."""
    numbers = {symbol: sympy.Integer(value) for symbol, value in values.items()}
    return numbers | {ours.symbol(symbol.name): number for symbol, number in numbers.items()}


def _graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph and those of its branches and loops."""
    yield graph
    for operation in graph.operations:
        for field in vars(operation).values():
            for each in field if isinstance(field, (list, tuple)) else (field,):
                if isinstance(each, ir.Subgraph) and hasattr(each.graph, "scheduler"):
                    yield from _graphs(each.graph)


def _of_kernels(graph: Any) -> Iterator[_Access]:
    """Yield what each kernel reads and writes where it computes the places from its loops."""
    plain = graph.sizevars.remove_precomputed_replacements
    for node in graph.scheduler.nodes:
        for part in node.get_nodes():
            for dep in part.read_writes.reads | part.read_writes.writes:
                layout = _layout(graph, dep.name)
                if layout is None or not hasattr(dep, "var_names"):
                    continue  # an op's, which takes tensors
                ranges = zip(dep.var_names, map(plain, dep.size), strict=True)
                yield _Access(Index(plain(dep.index), tuple(ranges)), _elements(layout))


def _layout(graph: Any, name: str) -> Any:
    """Return the layout of the storage that Inductor's name stands for; None if it is another's."""
    buffer = graph.try_get_buffer(name)
    layout = getattr(buffer, "layout", None) or getattr(
        getattr(getattr(buffer, "data", None), "data", None), "layout", None
    )
    plain = isinstance(layout, (ir.FixedLayout, ir.FlexibleLayout))
    return layout if plain and not isinstance(layout, ir.NonOwningLayout) else None


def _of_views(program: Program) -> Iterator[_Access]:
    """Yield what each view spans of the storage that it is a view of."""
    roots: dict[str, str] = {}
    for _, line in walk(program):
        if isinstance(line, Reinterpret):
            root = roots[line.out] = roots.get(line.source, line.source)
            layout, storage = program.layout(line.out), program.layout(root)
            itemsizes = layout.dtype.itemsize, storage.dtype.itemsize
            yield _Access(_elements(layout), _elements(storage), itemsizes)
