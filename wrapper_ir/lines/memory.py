"""Lines that allocate, free, reuse and reinterpret storage."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, final

from wrapper_ir.lines.base import Def, Kill, Line, Runs, Take, Trait, Use, ViewOf
from wrapper_ir.lines.expr import Dim, dim
from wrapper_ir.lines.layout import Layout, OpaqueKind

if TYPE_CHECKING:
    from wrapper_ir.devices import DeviceKind, MemorySpace, OpaqueLayout

__all__ = ["USUAL", "Allocate", "AllocateFromPool", "AllocatePool", "Free", "MemoryKind", "Place"]
__all__ += ["Reinterpret", "Reuse"]


class MemoryKind(enum.Enum):
    """Kind of memory that a buffer lives in."""

    DEFAULT = "default"
    PINNED = "pinned"
    """Page-locked host memory."""
    SYMMETRIC = "symmetric"
    """Memory that is addressable by the peers of a process group."""


class Place(NamedTuple):
    """Memory of a device that storage lies in. Reuse and arenas do not cross places."""

    memory: MemoryKind = MemoryKind.DEFAULT
    space: str = ""


USUAL: Final = Place()
"""The place that a device allocates by default."""


@final
@dataclass(frozen=True, slots=True)
class Allocate(Line):
    """``%out = allocate : layout`` — new storage, owned by ``out``.

    The contents are undefined unless ``zeroed``. Work on ``stream`` may use the memory at once,
    since its previous use completes on that stream. ``mempool`` is a memory pool of the program; 0
    is the allocator's own. ``space`` names one of the device's own memory spaces, empty for the
    default. If ``kept``, a target may keep the memory for the next call: nothing uses it after it
    is freed.
    """

    mnemonic: ClassVar[str] = "allocate"
    runs: ClassVar[Runs] = Runs.STREAM
    traits: ClassVar[frozenset[Trait]] = frozenset(
        (Trait.ALLOCATES, Trait.TAKES_MEMORY, Trait.OPAQUE)
    )
    syntax: ClassVar[str] = (
        "{out} = allocate[ {memory}][ space {space}][ zeroed][ kept][ stream {stream}]"
        "[ mempool {mempool}] : {out:layout}"
    )
    nouns: ClassVar[Mapping[str, str]] = {"space": "the name of a memory space"}
    out: Def
    memory: MemoryKind = MemoryKind.DEFAULT
    zeroed: bool = False
    stream: int = 0
    mempool: int = 0
    kept: bool = False
    space: str = ""

    @property
    def place(self) -> Place:
        """The memory of the device that is allocated."""
        return Place(self.memory, self.space)


@final
@dataclass(frozen=True, slots=True)
class Free(Line):
    """``free %buffer`` — ends the storage and all its aliases.

    For an input, this drops the program's reference, so that the memory is released as soon as the
    caller drops its own. The memory can be reused once the stream that allocated it, and the
    streams in ``after``, have reached this line.
    """

    mnemonic: ClassVar[str] = "free"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ENDS, Trait.NO_NUMBERS, Trait.ANY_KIND})
    syntax: ClassVar[str] = "free {buffer}[ after {after}]"
    nouns: ClassVar[Mapping[str, str]] = {"after": "a stream"}
    buffer: Kill
    after: tuple[int, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Reuse(Line):
    """``%out = reuse %donor : layout`` — gives the donor's storage a new name and layout.

    Contents are preserved. The old names end.
    """

    mnemonic: ClassVar[str] = "reuse"
    runs: ClassVar[Runs] = Runs.NAMES
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.RETAKES, Trait.OPAQUE})
    syntax: ClassVar[str] = "{out} = reuse {donor} : {out:layout}"
    out: Def
    donor: Take


@final
@dataclass(frozen=True, slots=True)
class Reinterpret(Line):
    """``%out = reinterpret %source : layout`` — a view of the same storage, without a copy.

    The layout's offset counts from the start of the storage, in elements of the layout's own dtype.
    """

    mnemonic: ClassVar[str] = "reinterpret"
    runs: ClassVar[Runs] = Runs.NAMES
    syntax: ClassVar[str] = "{out} = reinterpret {source} : {out:layout}"
    out: Def
    source: ViewOf


@final
@dataclass(frozen=True, slots=True)
class AllocatePool(Line):
    """``%out = allocate_pool : layout`` — storage that ``allocate_from_pool`` cuts slices from.

    Its layout is one-dimensional. ``kept`` and ``space`` are as for ``allocate``.
    """

    mnemonic: ClassVar[str] = "allocate_pool"
    runs: ClassVar[Runs] = Runs.CALLER
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ALLOCATES, Trait.POOL})
    syntax: ClassVar[str] = "{out} = allocate_pool[ {memory}][ space {space}][ kept] : {out:layout}"
    nouns: ClassVar[Mapping[str, str]] = {"space": "the name of a memory space"}
    out: Def
    memory: MemoryKind = MemoryKind.DEFAULT
    kept: bool = False
    space: str = ""

    @property
    def place(self) -> Place:
        """The memory of the device that is allocated."""
        return Place(self.memory, self.space)


@final
@dataclass(frozen=True, slots=True)
class AllocateFromPool(Line):
    """``%out = allocate_from_pool %pool[offset] : layout`` — a slice of a pool as storage.

    ``offset`` is in bytes from the start of the pool. ``out`` owns the slice: it is freed, reused
    or returned like an allocation, and must end before the pool does.
    """

    mnemonic: ClassVar[str] = "allocate_from_pool"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.SLICES})
    syntax: ClassVar[str] = "{out} = allocate_from_pool {pool}[[{offset}]] : {out:layout}"
    out: Def
    pool: Use
    offset: Dim

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", dim(self.offset))


# Memory that is declared by the kind of a device, and its allocators.


class OwnMemory(NamedTuple):
    """Memory that the kind of a device declares: an opaque layout or a memory space."""

    name: str
    kind: DeviceKind
    declared: OpaqueLayout | MemorySpace | None

    def problem(self, allocator: str, where: str) -> str:
        """Explain why ``where`` cannot allocate it by function ``allocator``; empty if it can."""
        if self.declared is None:
            return f"devices of the kind '{self.kind.type}' have no {self.name}"
        if allocator:
            return ""
        return f"its DeviceKind declares no allocator for the {self.name} in {where}"

    @property
    def python(self) -> str:
        """The Python function that allocates it; empty if there is none."""
        return "" if self.declared is None else self.declared.allocator

    @property
    def cpp(self) -> str:
        """The C++ function that allocates it; empty if there is none."""
        return "" if self.declared is None else self.declared.cpp_allocator


def own_memory(line: Allocate | AllocatePool, layout: Layout) -> OwnMemory | None:
    """Return the device-specific memory that a line allocates; None for the default memory."""
    kind, space = layout.device.kind, line.space
    if isinstance(layout.kind, OpaqueKind):
        made = kind.memory.layouts.get(layout.kind.name)
        return OwnMemory(f"layout '{layout.kind.value}'", kind, made)
    if not space:
        return None
    if line.memory is not MemoryKind.DEFAULT:
        return OwnMemory(f"{line.memory.value} memory in the memory space '{space}'", kind, None)
    return OwnMemory(f"memory space '{space}'", kind, kind.memory.spaces.get(space))
