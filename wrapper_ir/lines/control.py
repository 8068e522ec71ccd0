"""Control flow: lines that hold regions.

A region may hold lines of any class, so the union of all line classes is defined here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias, final

from wrapper_ir.lines import kernels, memory, symbols, trace
from wrapper_ir.lines.args import (
    Arg,
    BufferArg,
    CallResult,
    Relation,
    ResultBuffer,
    ScalarArg,
    Value,
)
from wrapper_ir.lines.base import Block, Def, DefObject, DefSymbol, Line, Runs, Trait
from wrapper_ir.lines.layout import DType

__all__ = ["SELECTOR_TYPES", "AnyLine", "BufferInput", "Cond", "Input", "ObjectInput", "Region"]
__all__ += ["RegionLine", "ScalarInput", "Switch", "While", "passed_to_regions"]


@dataclass(frozen=True, slots=True)
class BufferInput:
    """A buffer that the caller passes in.

    It is borrowed unless ``donated``: the program may take over the storage of a donated buffer.
    ``static`` says that its memory stays at one address from call to call, as that of parameters
    does, in all processes that run the program together. Of an input that is ``realigned``, which
    nothing writes to, the program makes a copy to work on if its address is no multiple of so many
    bytes; 0: it takes any address.
    """

    syntax: ClassVar[str] = "{name} : {name:layout}[ donated][ static][ realigned {realigned}]"
    name: Def
    donated: bool = False
    static: bool = False
    realigned: int = 0


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number that the caller passes in, bound to a symbol."""

    syntax: ClassVar[str] = "{symbol}"
    symbol: DefSymbol


@dataclass(frozen=True, slots=True)
class ObjectInput:
    """An object of a custom class that the caller passes in. Calls may change its state."""

    syntax: ClassVar[str] = "{object} : {class_name:class}"
    object: DefObject
    class_name: str
    """The name under which torch registers the class: ``namespace::Class``."""


SELECTOR_TYPES: Final = tuple(t for t in DType if t.is_integral and t is not DType.UINT64)
"""Element types of a ``switch`` selector buffer. Torch cannot clamp ``u64``."""

Input: TypeAlias = BufferInput | ScalarInput | ObjectInput
"""An input of a program, or a parameter of a region."""


def input_name(item: Input) -> str:
    """Return the name of the buffer, symbol or object that an input defines."""
    match item:
        case BufferInput():
            return item.name
        case ScalarInput():
            return item.symbol
        case ObjectInput():
            return item.object


@dataclass(frozen=True, slots=True)
class Region:
    """A block of lines with explicit parameters and results, isolated from enclosing buffers.

    A region sees its parameters and its own definitions. Kernels, constants and symbols that are
    bound before it are global.
    """

    params: tuple[Input, ...]
    body: tuple[AnyLine, ...]
    results: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True)
class Cond(Line):
    """``%results = cond predicate with (operands) then {...} else {...}`` — runs one of two.

    The selected region takes the operands, and its results become those of the line.
    """

    mnemonic: ClassVar[str] = "cond"
    runs: ClassVar[Runs] = Runs.CALLER
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MAKES_RESULTS})
    syntax: ClassVar[str] = (
        "[{results:targets} = ]cond {predicate}[ with {operands}][ : {results:types}]"
    )
    results: tuple[CallResult, ...]
    predicate: BufferArg | ScalarArg
    operands: tuple[Arg, ...]
    then: Region
    orelse: Annotated[Region, Block("else")]

    @property
    def passed(self) -> tuple[Arg, ...]:
        """The arguments bound to the parameters of each region, in order."""
        return self.operands


@final
@dataclass(frozen=True, slots=True)
class Switch(Line):
    """``%results = switch selector with (operands) case0 {...} case1 {...}`` — runs one of many.

    ``selector`` is the index of the region to run. As in ``torch.switch``, a negative index selects
    the first region and one that is too large the last.
    """

    mnemonic: ClassVar[str] = "switch"
    runs: ClassVar[Runs] = Runs.CALLER
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MAKES_RESULTS, Trait.CHOOSES})
    syntax: ClassVar[str] = (
        "[{results:targets} = ]switch {selector}[ with {operands}][ : {results:types}]"
    )
    results: tuple[CallResult, ...]
    selector: BufferArg | ScalarArg
    operands: tuple[Arg, ...]
    cases: Annotated[tuple[Region, ...], Block("case")]

    @property
    def passed(self) -> tuple[Arg, ...]:
        """The arguments bound to the parameters of each region, in order."""
        return self.operands


@final
@dataclass(frozen=True, slots=True)
class While(Line):
    """``%results = while (carried) with (captured) condition {...} body {...}`` — a loop.

    ``body`` runs for as long as ``condition`` gives true. Both regions take the carried values,
    followed by the captured ones. ``condition`` has one result, ``body`` one for each carried
    value.

    With ``stacked``, the results hold the carried values of all iterations, stacked along a new
    first dimension. If the loop never runs, the only row holds the initial value.
    """

    mnemonic: ClassVar[str] = "while"
    runs: ClassVar[Runs] = Runs.CALLER
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MAKES_RESULTS, Trait.LOOPS})
    syntax: ClassVar[str] = (
        "[{results:targets} = ]while[ stacked] {carried}[ with {captured}][ : {results:types}]"
    )
    results: tuple[CallResult, ...]
    carried: tuple[Arg, ...]
    captured: tuple[Arg, ...]
    condition: Region
    body: Region
    stacked: bool = False

    @property
    def passed(self) -> tuple[Arg, ...]:
        """The arguments bound to the parameters of each region, in order."""
        return (*self.carried, *self.captured)


RegionLine: TypeAlias = Cond | Switch | While
"""A line that holds regions."""


def passed_to_regions(line: RegionLine) -> tuple[Arg, ...]:
    """Return the arguments that are bound to the parameters of each region, in order."""
    return line.passed


def shared_results(line: While) -> list[int]:
    """Return the positions of a loop's results that are or may be views of its operands."""
    buffers = [(n, each) for n, each in enumerate(line.results) if isinstance(each, ResultBuffer)]
    return [n for n, result in buffers if result.relation is not Relation.FRESH]


AnyLine: TypeAlias = (
    memory.Allocate
    | memory.Free
    | memory.Reuse
    | memory.Reinterpret
    | memory.AllocatePool
    | memory.AllocateFromPool
    | kernels.KernelDefinition
    | kernels.KernelCall
    | kernels.ExternKernel
    | symbols.BindSymbol
    | symbols.ComputeSymbol
    | symbols.AssertLayout
    | symbols.AssertSymbol
    | symbols.AssertApart
    | kernels.RecordEvent
    | kernels.WaitEvent
    | kernels.Synchronize
    | Cond
    | Switch
    | While
    | trace.Comment
    | trace.Probe
)
"""The closed set of lines."""
