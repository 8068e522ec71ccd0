"""Lines that make, end and re-name storage."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, final

from wrapper_ir.lines.base import Def, Kill, Line, Take, Trait, Use, ViewOf
from wrapper_ir.lines.expr import Dim, dim
from wrapper_ir.lines.layout import OpaqueKind

if TYPE_CHECKING:
    from wrapper_ir.devices import DeviceKind, MemorySpace, OpaqueLayout
    from wrapper_ir.lines.layout import Layout


class MemoryKind(enum.Enum):
    """Memory of the device that a buffer lives in."""

    DEFAULT = "default"
    PINNED = "pinned"
    """Page-locked host memory."""
    SYMMETRIC = "symmetric"
    """Memory that the peers of a process group can address."""


class Place(NamedTuple):
    """Memory of a device that storage lies in, and stays in: reuse and arenas are of one place."""

    memory: MemoryKind = MemoryKind.DEFAULT
    space: str = ""


USUAL: Final = Place()
"""What a device allocates where nothing is said."""


@final
@dataclass(frozen=True, slots=True)
class Allocate(Line):
    """``%out = allocate : layout`` — new storage, owned by ``out``.

    Its contents are undefined unless ``zeroed``. Work on ``stream`` may use it at once, since what
    the memory was used for before is done on that stream. ``mempool`` is a memory pool of the
    program's, 0 the allocator's own. ``space`` names one of the device's own memory spaces, empty
    for the usual one. If ``kept``, a target may keep the memory for the next call: nothing looks at
    it after the program has freed it.
    """

    mnemonic: ClassVar[str] = "allocate"
    traits: ClassVar[frozenset[Trait]] = frozenset(
        (Trait.ALLOCATES, Trait.WORKS, Trait.TAKES_MEMORY, Trait.OPAQUE)
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
        """The memory of its device that it takes."""
        return Place(self.memory, self.space)


@final
@dataclass(frozen=True, slots=True)
class Free(Line):
    """``free %buffer`` — ends the storage and every alias of it.

    Of an input it drops the caller's reference, so that the caller's memory can go as soon as the
    caller lets go of it too. Others get the memory when the stream that it was allocated on has
    come so far, and the streams in ``after``.
    """

    mnemonic: ClassVar[str] = "free"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ENDS, Trait.NO_NUMBERS, Trait.ANY_KIND})
    syntax: ClassVar[str] = "free {buffer}[ after {after}]"
    nouns: ClassVar[Mapping[str, str]] = {"after": "a stream"}
    buffer: Kill
    after: tuple[int, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Reuse(Line):
    """``%out = reuse %donor : layout`` — the donor's storage goes on under a new name and layout.

    Contents are kept, old names end.
    """

    mnemonic: ClassVar[str] = "reuse"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.RETAKES, Trait.OPAQUE})
    syntax: ClassVar[str] = "{out} = reuse {donor} : {out:layout}"
    out: Def
    donor: Take


@final
@dataclass(frozen=True, slots=True)
class Reinterpret(Line):
    """``%out = reinterpret %source : layout`` — a second view of the same storage; copies nothing.

    The layout's offset counts from the start of the storage, in elements of the layout's own dtype.
    """

    mnemonic: ClassVar[str] = "reinterpret"
    syntax: ClassVar[str] = "{out} = reinterpret {source} : {out:layout}"
    out: Def
    source: ViewOf


@final
@dataclass(frozen=True, slots=True)
class AllocatePool(Line):
    """``%out = allocate_pool : layout`` — storage to be cut up by ``allocate_from_pool``.

    Its layout is one-dimensional. It may be ``kept``, and lie in a ``space``, as the storage of
    ``allocate`` may.
    """

    mnemonic: ClassVar[str] = "allocate_pool"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.ALLOCATES, Trait.POOL})
    syntax: ClassVar[str] = "{out} = allocate_pool[ {memory}][ space {space}][ kept] : {out:layout}"
    nouns: ClassVar[Mapping[str, str]] = {"space": "the name of a memory space"}
    out: Def
    memory: MemoryKind = MemoryKind.DEFAULT
    kept: bool = False
    space: str = ""

    @property
    def place(self) -> Place:
        """The memory of its device that it takes."""
        return Place(self.memory, self.space)


@final
@dataclass(frozen=True, slots=True)
class AllocateFromPool(Line):
    """``%out = allocate_from_pool %pool[offset] : layout`` — a slice of a pool as storage.

    ``offset`` is in bytes from the start of the pool.

    ``out`` is owned: it is freed, taken or returned like an allocation, and must end before the
    pool does.
    """

    mnemonic: ClassVar[str] = "allocate_from_pool"
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.SLICES})
    syntax: ClassVar[str] = "{out} = allocate_from_pool {pool}[[{offset}]] : {out:layout}"
    out: Def
    pool: Use
    offset: Dim

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", dim(self.offset))


# Memory of a device that its kind declares: who allocates what a line asks for.


class OwnMemory(NamedTuple):
    """Memory of a device that its kind declares: an opaque layout or a memory space."""

    name: str
    kind: DeviceKind
    declared: OpaqueLayout | MemorySpace | None

    def problem(self, allocator: str, where: str) -> str:
        """Why it is not allocated somewhere, by a function of which that is the name, or none."""
        if self.declared is None:
            return f"devices of the kind '{self.kind.type}' have no {self.name}"
        if allocator:
            return ""
        return f"its kind names nothing that allocates the {self.name} in {where}"

    @property
    def python(self) -> str:
        """The function that allocates it in Python; empty for none."""
        return "" if self.declared is None else self.declared.allocator

    @property
    def cpp(self) -> str:
        """The function that allocates it in C++; empty for none."""
        return "" if self.declared is None else self.declared.cpp_allocator


def own_memory(line: Allocate | AllocatePool, layout: Layout) -> OwnMemory | None:
    """Return the memory of the device's own that a line allocates; None if it is the usual one."""
    kind, space = layout.device.kind, line.space
    if isinstance(layout.kind, OpaqueKind):
        made = kind.memory.layouts.get(layout.kind.name)
        return OwnMemory(f"layout '{layout.kind.value}'", kind, made)
    if not space:
        return None
    if line.memory is not MemoryKind.DEFAULT:
        return OwnMemory(f"{line.memory.value} memory in the memory space '{space}'", kind, None)
    return OwnMemory(f"memory space '{space}'", kind, kind.memory.spaces.get(space))
