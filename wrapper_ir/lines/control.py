"""Control flow: lines that hold regions.

A region holds lines of any class, so the union of all classes stands here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias, final

from wrapper_ir.lines.args import Arg, BufferArg, CallResult, ScalarArg, Value
from wrapper_ir.lines.base import Block, Def, DefObject, DefSymbol, Line, Trait
from wrapper_ir.lines.kernels import (
    ExternKernel,
    KernelCall,
    KernelDefinition,
    RecordEvent,
    Synchronize,
    WaitEvent,
)
from wrapper_ir.lines.layout import DType
from wrapper_ir.lines.memory import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.symbols import AssertLayout, AssertSymbol, BindSymbol, ComputeSymbol
from wrapper_ir.lines.trace import Comment, Probe


@dataclass(frozen=True, slots=True)
class BufferInput:
    """A buffer that the caller passes in.

    It is borrowed, unless ``donated``: then its storage may be taken over.
    """

    syntax: ClassVar[str] = "{name} : {name:layout}[ donated]"
    name: Def
    donated: bool = False


@dataclass(frozen=True, slots=True)
class ScalarInput:
    """A number that the caller passes in, bound to a symbol."""

    syntax: ClassVar[str] = "{symbol}"
    symbol: DefSymbol


@dataclass(frozen=True, slots=True)
class ObjectInput:
    """An object of a custom class that the caller passes in; calls may change its state."""

    syntax: ClassVar[str] = "{object} : {class_name:class}"
    object: DefObject
    class_name: str
    """The class as torch registers it: ``namespace::Class``."""


SELECTOR_TYPES: Final = tuple(t for t in DType if t.is_integral and t is not DType.UINT64)
"""Element types of a buffer that says which of many regions runs; torch clamps no ``u64``."""

Input: TypeAlias = BufferInput | ScalarInput | ObjectInput
"""What the caller of a program passes."""


def input_name(item: Input) -> str:
    """Return the name of an input: that of its buffer, its symbol or its object."""
    match item:
        case BufferInput():
            return item.name
        case ScalarInput():
            return item.symbol
        case ObjectInput():
            return item.object


@dataclass(frozen=True, slots=True)
class Region:
    """A block of lines with explicit inputs and results, isolated from the buffers around it.

    A region sees its parameters and its own definitions; kernels, constants and symbols bound
    before it are global.
    """

    params: tuple[Input, ...]
    body: tuple[AnyLine, ...]
    results: tuple[Value, ...]


@final
@dataclass(frozen=True, slots=True)
class Cond(Line):
    """``%results = cond predicate with (operands) then {...} else {...}`` — runs one of two.

    The region that runs takes the operands; its results become the line's.
    """

    mnemonic: ClassVar[str] = "cond"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MAKES_RESULTS})
    syntax: ClassVar[str] = (
        "[{results:targets} = ]cond {predicate}[ with {operands}][ : {results:types}]"
    )
    results: tuple[CallResult, ...]
    predicate: BufferArg | ScalarArg
    operands: tuple[Arg, ...]
    then: Region
    orelse: Annotated[Region, Block("else")]


@final
@dataclass(frozen=True, slots=True)
class Switch(Line):
    """``%results = switch selector with (operands) case0 {...} case1 {...}`` — runs one of many.

    ``selector`` is the number of the region that runs. A number below 0 runs the first, one that is
    too large the last, as in ``torch.switch``.
    """

    mnemonic: ClassVar[str] = "switch"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.MAKES_RESULTS})
    syntax: ClassVar[str] = (
        "[{results:targets} = ]switch {selector}[ with {operands}][ : {results:types}]"
    )
    results: tuple[CallResult, ...]
    selector: BufferArg | ScalarArg
    operands: tuple[Arg, ...]
    cases: Annotated[tuple[Region, ...], Block("case")]


@final
@dataclass(frozen=True, slots=True)
class While(Line):
    """``%results = while (carried) with (captured) condition {...} body {...}`` — a loop.

    ``body`` runs as long as ``condition`` gives true.

    Both regions take the carried values and then the captured ones. ``condition`` has one result,
    ``body`` one for each carried value. With
    ``stacked`` every carried value of each round is stacked along a new first dimension of the
    results; a loop that never runs gives what it was to begin with, as the only row.
    """

    mnemonic: ClassVar[str] = "while"
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


RegionLine: TypeAlias = Cond | Switch | While
"""A line that holds regions."""


def passed_to_regions(line: RegionLine) -> tuple[Arg, ...]:
    """Return the arguments that the parameters of each of a line's regions stand for, in order."""
    return (*line.carried, *line.captured) if isinstance(line, While) else line.operands


AnyLine: TypeAlias = (
    Allocate
    | Free
    | Reuse
    | Reinterpret
    | AllocatePool
    | AllocateFromPool
    | KernelDefinition
    | KernelCall
    | ExternKernel
    | BindSymbol
    | ComputeSymbol
    | AssertLayout
    | AssertSymbol
    | RecordEvent
    | WaitEvent
    | Synchronize
    | Cond
    | Switch
    | While
    | Comment
    | Probe
)
"""The closed set of lines."""
