"""What a made-up program has so far: who sees which storage, and what may be done to it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

import wrapper_ir as wir
from wrapper_ir.build import Buffer
from wrapper_ir.lines import Layout
from wrapper_ir.lines.expr import substitute

#: Sizes, small and often zero or one: there the faults are.
SIZES = (0, 1, 1, 2, 3, 4, 5, 8)

#: Element types: few, so that buffers go together, and at times any of the others.
DTYPES = ("f32", "f32", "f64", "i64", "i64", "i32", "u8", "bool", "bf16")
RARE = (
    *("f16", "i16", "i8", "u16", "u32", "u64", "c64", "c128", "c32"),
    *("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu"),
)


@dataclass(eq=False)
class Root:
    """A storage.

    Attributes:
        owner: The name that owns it.
        owned: Whether the program may free it or hand it on.
        writable: Whether it may be written to.
        pool: The pool that it is cut from.
        held: Whether an object may hold it: it is handed on to nothing.
    """

    owner: Buffer
    owned: bool
    writable: bool = True
    pool: Root | None = None
    slices: int = 0
    held: bool = False


@dataclass
class Scope:
    """The buffers of a region."""

    vars: dict[Buffer, Root] = field(default_factory=dict)

    def end(self, root: Root) -> None:
        self.vars = {buffer: each for buffer, each in self.vars.items() if each is not root}


class State:
    """Names, numbers and chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.planned = self.chance.random() < 0.4
        self.b = wir.Builder(
            f"fuzz_{seed}",
            role=self.chance.choice(("inference", "inference", "forward", "backward")),
            stage="planned" if self.planned else "logical",
            check_inputs=self.chance.random() < 0.7,
        )
        self.scope = Scope()
        self.numbers: list[Any] = []
        """Integer expressions that all have values."""
        self.floats: list[Any] = [0.0, 1, 2.0]
        self.truths: list[Any] = [True, False]
        """The same for numbers of other kinds."""
        self.values: dict[str, Any] = {}
        """Of the symbols that inputs decide."""
        self.sizes: list[Any] = []
        """Expressions that may be a size."""
        self.kernels: dict[tuple[str, ...], Any] = {}
        self.depth = 0
        self.pools: list[Root] = []
        """The pools of the region."""
        self.used: dict[Buffer, int] = {}
        """Where the next slice of a pool may begin, in bytes."""
        self.units: dict[Buffer, Any] = {}
        """The symbolic size that a pool's bytes are counted in."""
        self.cut_behind: set[Buffer] = set()
        """Pools with slices behind those of known sizes."""

    # Chance.

    def pick(self, items: Any) -> Any:
        items = list(items)
        return self.chance.choice(items) if items else None

    def maybe(self, probability: float = 0.5) -> bool:
        return self.chance.random() < probability

    def dtype(self) -> str:
        found: str = self.pick(RARE if self.maybe(0.15) else DTYPES)
        return found

    def shape(self, rank: int | None = None) -> tuple[Any, ...]:
        """Sizes, some of them symbols."""
        rank = self.pick((0, 1, 1, 2, 2, 3)) if rank is None else rank
        return tuple(
            self.pick(self.sizes) if self.sizes and self.maybe(0.25) else self.pick(SIZES)
            for _ in range(rank)
        )

    # Buffers.

    def own(self, buffer: Buffer) -> Buffer:
        """Enters what owns its storage."""
        self.scope.vars[buffer] = Root(buffer, owned=True)
        return buffer

    def see(self, buffer: Buffer, source: Buffer) -> Buffer:
        """Enters a view."""
        self.scope.vars[buffer] = self.scope.vars[source]
        return buffer

    def root(self, buffer: Buffer) -> Root:
        return self.scope.vars[buffer]

    def find(
        self,
        *,
        dtype: tuple[str, ...] = (),
        dense: bool = False,
        static: bool = False,
        symbolic: bool = False,
        written: bool = False,
        like: Buffer | None = None,
        avoid: tuple[Buffer, ...] = (),
        rank: int | None = None,
    ) -> Buffer | None:
        """Some buffer that fits, or nothing.

        Args:
            dtype: Its element types.
            dense: It is row-major.
            static: Its layout is known numbers.
            symbolic: Its layout is not.
            written: It can be written to.
            like: It has that one's sizes and dtype.
            avoid: It shares no storage with these.
            rank: Its number of dimensions.
        """
        roots = [self.root(buffer) for buffer in avoid]

        def fits(buffer: Buffer, root: Root) -> bool:
            layout = buffer.layout
            return (
                (not dtype or layout.dtype.short in dtype)
                and (not dense or layout.is_contiguous)
                and (not static or layout.is_static)
                and not (symbolic and layout.is_static)
                and (not written or (root.writable and is_distinct(layout)))
                and (like is None or (like.size == buffer.size and like.dtype is buffer.dtype))
                and root not in roots
                and (rank is None or layout.rank == rank)
            )

        return self.pick(buffer for buffer, root in self.scope.vars.items() if fits(buffer, root))

    def concrete(self, value: Any) -> int | None:
        """The value of a dim for the inputs there will be, where they decide it."""
        found = substitute(value, self.values)
        return found if isinstance(found, int) else None


def is_distinct(layout: Layout) -> bool:
    """Whether no two elements share memory, as far as that is easy to see."""
    if layout.is_contiguous:
        return True
    if not layout.is_static:
        return False
    pairs = [(s, n) for s, n in zip(layout.stride, layout.size, strict=True) if n != 1]
    if any(n == 0 for _, n in pairs):
        return True
    reach = 0
    for step, size in sorted(pairs):
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True


def torch_dtype(layout: Layout) -> torch.dtype:
    found: torch.dtype = getattr(torch, layout.dtype.torch_name)
    return found


def example(layout: Layout) -> torch.Tensor:
    """A tensor of a static layout, of zeros, in memory of its own."""
    span = layout.offset + layout.extent
    base = torch.zeros(int(span), dtype=torch_dtype(layout))
    return base.as_strided(layout.size, layout.stride, int(layout.offset) if layout.extent else 0)


def layout_of(tensor: torch.Tensor) -> Layout:
    """The layout of a tensor."""
    dtype = wir.DType.from_torch_name(str(tensor.dtype))
    offset = tensor.storage_offset()
    return Layout(dtype, wir.Device("cpu"), tuple(tensor.shape), tensor.stride(), offset)
