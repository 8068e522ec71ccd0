"""What lines are matched by: keys that leave names out.

Convention: keys have *levels*. At level 0 a key says what a line is by itself: its class, layouts,
numbers, the kernel that it calls. Each level more adds the keys, one level less, of the lines that
define its operands and of the lines that use what it defines. So lines that look alike are told
apart by what is around them, and a change makes keys different only nearby. Weak keys, for lines
that have changed, say less than level 0.

Keys are numbers; two programs that are compared share one :class:`Keys`.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    BindSymbol,
    BufferInput,
    ComputeSymbol,
    ExternKernel,
    Free,
    KernelCall,
    Layout,
    ObjectInput,
    Region,
    Reinterpret,
    Reuse,
    ScalarInput,
    effects,
    regions_of,
)
from wrapper_ir.lines.effects import Effects
from wrapper_ir.lines.expr_printer import COMMUTATIVE
from wrapper_ir.lines.rename import name_fields
from wrapper_ir.lines.walk import walk_regions

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from wrapper_ir.lines import AnyLine, Input, Program

__all__ = ["LEVELS", "BodyKeys", "Keys", "ProgramKeys"]

LEVELS: Final = 4

_MEMORY: Final = (Allocate, AllocateFromPool, AllocatePool, Reinterpret, Reuse)


class Keys:
    """Numbers for what is equal."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, *parts: Hashable) -> int:
        """The number of these parts, the same for equal ones."""
        return self._numbers.setdefault(parts, len(self._numbers))


@dataclasses.dataclass(slots=True)
class BodyKeys:
    """The keys of a region's lines, each by the line's position.

    Attributes:
        levels: From level 0 on.
        callee: Weak: what is called, or that memory is made, and with which layout.
        kind: Weakest: the class, or that memory is made.
        does: Level 0 of lines that compute something; of others, which look alike, None.
        effects: What each line does.
        makers: For each line the lines that define its operands, by slot.
        users: For each line the lines that use what it defines, and in which slot.
    """

    levels: list[list[int]]
    callee: list[int]
    kind: list[int]
    does: list[int | None]
    effects: list[Effects]
    makers: list[list[tuple[int, int]]]
    users: list[list[tuple[int, int]]]

    def relations(self, side: int, known: Mapping[int, int]) -> list[Hashable]:
        """Keys by what else is known: who uses a line's results, or else, who made its operands.

        Args:
            side: Which of two programs this is; lines of which nothing is known are never equal.
            known: For lines that are matched, the number of the pair.
        """
        found: list[Hashable] = []
        for number, kind in enumerate(self.kind):
            key = tuple((slot, known[n]) for n, slot in self.users[number] if n in known)
            if not key:
                key = tuple((-slot, known[n]) for n, slot in self.makers[number] if n in known)
            found.append((kind, *sorted(key)) if key else (side, number))
        return found


class ProgramKeys:
    """Makes the keys of one program.

    Args:
        program: The program.
        keys: Shared with the program that it is compared with.
        kernels: A number for each kernel, the same for kernels that are matched.
    """

    def __init__(self, program: Program, keys: Keys, kernels: Mapping[str, int]) -> None:
        self._program = program
        self._keys = keys
        self._kernels = kernels
        self._symbols = _symbol_shapes(program)
        self._exprs: dict[sympy.Basic, int] = {}
        self._layouts: dict[Layout, int] = {}
        self._digests: dict[int, int] = {}
        self._effects: dict[int, Effects] = {}

    def effects(self, line: AnyLine) -> Effects:
        """What a line of the program does, looked at once."""
        found = self._effects.get(id(line))
        if found is None:
            found = self._effects[id(line)] = effects(line, self._program)
        return found

    def layout(self, name: str) -> int:
        """The key of a buffer's layout."""
        layout = self._program.buffers.get(name)
        if layout is None:
            return self._keys.of("no layout")
        found = self._layouts.get(layout)
        if found is None:
            found = self._layouts[layout] = self._keys.of("layout", self._shape(layout))
        return found

    def body(self, region: Region) -> BodyKeys:
        """The keys of the lines of a region."""
        lines = region.body
        found = [self.effects(line) for line in lines]
        local = [self._local(line) for line in lines]
        maker = {name: n for n, each in enumerate(found) for name in each.defines}
        operands = [_operands(each) for each in found]
        users: list[list[tuple[int, int]]] = [[] for _ in local]
        makers: list[list[tuple[int, int]]] = [[] for _ in local]
        for number, names in enumerate(operands):
            for slot, name in enumerate(names, start=1):
                if name in maker:
                    users[maker[name]].append((number, slot))
                    makers[number].append((maker[name], slot))
        looks_like_many = (*_MEMORY, Free)
        return BodyKeys(
            levels=self._refined(region, local, operands, maker, users),
            callee=[self._callee(line) for line in lines],
            kind=[self._keys.of("kind", _class(line)) for line in lines],
            does=[
                None if isinstance(line, looks_like_many) else key
                for line, key in zip(lines, local, strict=True)
            ],
            effects=found,
            makers=makers,
            users=users,
        )

    # What a line is by itself.

    def _local(self, line: AnyLine) -> int:
        return self._keys.of("line", self._shape(line))

    def _callee(self, line: AnyLine) -> int:
        what: Hashable = None
        if isinstance(line, KernelCall):
            what = self._kernels.get(line.kernel)
        elif isinstance(line, ExternKernel):
            what = line.op
        elif isinstance(line, _MEMORY):
            what = self.layout(line.out)
        elif isinstance(line, BindSymbol):
            what = type(line.source).__name__
        return self._keys.of("callee", _class(line), what)

    def _shape(self, value: Any) -> Hashable:
        """A value without the names in it; numbers are told apart by their types too."""
        if isinstance(value, (str, enum.Enum)) or value is None:
            return value
        if isinstance(value, sympy.Basic):
            return self._expr(value)
        if type(value) is tuple:
            return tuple(map(self._shape, value))
        if not dataclasses.is_dataclass(value):
            return (type(value).__name__, repr(value))
        if isinstance(value, Region):
            return self._digest(value)
        return self._fields(value)

    def _fields(self, value: Any) -> Hashable:
        names = name_fields(type(value))
        parts: list[Hashable] = [type(value).__name__]
        for field in dataclasses.fields(value):
            if not field.init or field.name == "origin":
                continue
            table = names.get(field.name)
            item = getattr(value, field.name)
            if table is None:
                parts.append(self._shape(item))
            elif table == "kernels":
                parts.append(self._kernels.get(item))
            elif field.name == "out":
                parts.append(self.layout(item))
            elif type(item) is tuple:
                parts.append(len(item))
        return tuple(parts)

    def _digest(self, region: Region) -> int:
        """One key for all that a region says."""
        found = self._digests.get(id(region))
        if found is None:
            params = tuple(self._param(param) for param in region.params)
            lines = tuple(map(self._local, region.body))
            results = self._shape(region.results)
            found = self._digests[id(region)] = self._keys.of("region", params, lines, results)
        return found

    def _param(self, param: Input) -> Hashable:
        match param:
            case BufferInput():
                return (self.layout(param.name), param.donated)
            case ScalarInput():
                return self._symbols.get(param.symbol)
            case ObjectInput():
                return param.class_name

    def _expr(self, expr: sympy.Basic) -> int:
        """The key of an expression, whatever its symbols are called."""
        found = self._exprs.get(expr)
        if found is None:
            if isinstance(expr, sympy.Symbol):
                parts: Hashable = self._symbols.get(expr.name)
            elif not expr.args:
                parts = str(expr)
            else:
                inner = [self._expr(arg) for arg in expr.args]
                parts = tuple(sorted(inner) if isinstance(expr, COMMUTATIVE) else inner)
            found = self._exprs[expr] = self._keys.of("expr", type(expr).__name__, parts)
        return found

    # What is around a line.

    def _refined(
        self,
        region: Region,
        local: list[int],
        operands: list[list[str]],
        maker: Mapping[str, int],
        users: list[list[tuple[int, int]]],
    ) -> list[list[int]]:
        outside = self._outside(region)
        nowhere = self._keys.of("nowhere")
        levels = [local]
        for _ in range(LEVELS - 1):
            old = levels[-1]
            levels.append(
                [
                    self._keys.of(
                        old[number],
                        tuple(
                            old[maker[n]] if n in maker else outside.get(n, nowhere)
                            for n in operands[number]
                        ),
                        tuple(sorted((old[user], slot) for user, slot in users[number])),
                    )
                    for number in range(len(local))
                ]
            )
        return levels

    def _outside(self, region: Region) -> dict[str, int]:
        """Keys of the buffers that a region does not define by lines."""
        keys = self._keys
        found = {
            name: keys.of("constant", constant.qualified_name)
            for name, constant in self._program.constants.items()
        }
        for param in region.params:
            if isinstance(param, BufferInput):
                found[param.name] = keys.of("param", self.layout(param.name))
        return found


def _operands(found: Effects) -> list[str]:
    return [
        *found.uses,
        *found.reads,
        *found.writes,
        *found.kills,
        *found.takes,
        *found.peeks,
    ]


def _class(line: AnyLine) -> str:
    return "memory" if isinstance(line, _MEMORY) else type(line).__name__


def _symbol_shapes(program: Program) -> dict[str, Hashable]:
    """What each symbol is, without names: where its value comes from."""
    found: dict[str, Hashable] = {}
    for _, _, region in walk_regions(program):
        for param in region.params:
            if isinstance(param, ScalarInput):
                found[param.symbol] = "input"
        for line in region.body:
            if isinstance(line, BindSymbol):
                found[line.symbol] = (type(line.source).__name__, getattr(line.source, "dim", None))
            elif isinstance(line, ComputeSymbol):
                found[line.symbol] = "computed"
            elif regions_of(line) or isinstance(line, ExternKernel):
                for symbol in effects(line, program).defines_symbols:
                    found[symbol] = "result"
    return found
