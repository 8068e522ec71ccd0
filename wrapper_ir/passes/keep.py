"""The pass that marks allocations whose memory may be kept for the next call.

Memory can be kept between calls if it is of the usual kind, the main body allocates and frees it,
and nothing reads it later. On a CPU this saves a page fault for every 4 KiB touched, on a GPU the
host's time for each allocation. Storage of nested regions lives for one run of its region.
Storage passed to custom ops or regions is not kept: they may hold on to a buffer, which the next
call would overwrite.

Memory that peers address is kept wherever that is possible, in each buffer by itself: the ranks of
a group have to meet before they can address an allocation, and do so once for each.

Emitters keep what is marked.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.analysis.devices import accelerators_of, is_on_one_stream
from wrapper_ir.analysis.kept import can_keep, kept_pools
from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.lines import GraphRole, MemoryKind, Program
from wrapper_ir.lines.traits import allocates, takes_memory
from wrapper_ir.options.declared import ARENA
from wrapper_ir.verify import verify_marks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class KeepStorage:
    """``keep-storage`` marks the memory of a planned program that is kept between calls.

    Emitters name it with their options, and keep what is marked.
    """

    name: ClassVar[str] = "keep-storage"

    host: int = 0
    """The maximum number of bytes, in buffers of fixed size, to keep on the CPU."""
    device: int = 0
    """The same for another device, times what its kind says (``Memory.keep_factor``)."""
    arena: str = ARENA.field()
    """The lifetime of arenas: with ``"kept"``, pools are kept as well."""

    def __call__(self, program: Program) -> Program:
        """Return the marked program."""
        return keep_storage(program, self.host, self.device, arena=self.arena)


def keep_storage(
    program: Program, host: int = 0, device: int = 0, *, arena: str = "call"
) -> Program:
    """Mark the allocations whose memory may be kept for the next call.

    Args:
        program: A planned program.
        host: The most bytes of fixed-size buffers to keep on the CPU. None are kept in training,
            which has many buffers and long calls.
        device: The same for another device, before the factor of its kind. It serves one stream:
            with several devices or streams, none are kept.
        arena: ``"kept"`` to also keep pools, whatever their size.

    Memory that peers address is marked whatever the budgets, if the caller's stream alone uses it.

    Returns:
        The marked program; the same object if nothing can be kept or something is marked already.

    Raises:
        OptionValueError: The arena lifetime is unknown.
    """
    ARENA.check(arena)
    if any(allocates(line) and line.kept for line in program.body):
        return program
    is_bounded = program.role is GraphRole.INFERENCE and (host or device)
    sizes = _fixed_sizes(program) if is_bounded else {}
    shared = _shared(program)
    if arena != "kept" and not (sizes or shared):
        return program
    storages = storages_of(program)
    names = set(kept_pools(program, storages.lives)) if arena == "kept" else set()
    names -= storages.handled  # pools that are used as buffers themselves
    if sizes:
        factors = [each.kind.memory.keep_factor for each in accelerators_of(program)]
        elsewhere = device * sum(factors) if is_on_one_stream(program) else 0
        others = {name: nbytes for name, nbytes in sizes.items() if name not in names}
        names |= _affordable(program, others, {True: host, False: elsewhere})
    if shared:
        names |= _met_once(program, shared)
    if not names:
        return program
    marked = program.replace(
        body=tuple(
            dataclasses.replace(line, kept=True) if allocates(line) and line.out in names else line
            for line in program.body
        )
    )
    storages_of(marked, like=program)
    verify_marks(program, marked)
    return marked


def _fixed_sizes(program: Program) -> dict[str, int]:
    """Return the bytes of the allocations of fixed size that can be kept, by name."""
    found: dict[str, int] = {}
    for line in program.body:
        if not allocates(line) or (takes_memory(line) and line.mempool):
            continue
        layout = program.layout(line.out)
        if not layout.is_static or layout.is_opaque or not can_keep(layout.device, line.place):
            continue
        if isinstance(nbytes := layout.nbytes, int):
            found[line.out] = nbytes
    return found


def _affordable(program: Program, sizes: Mapping[str, int], budgets: dict[bool, int]) -> set[str]:
    """Return the allocations to keep: those that end in the program, within the budgets.

    Budgets are in bytes: on the host (True) and elsewhere (False).
    """
    # An op whose result is larger than its output buffer resizes that buffer for good.
    storages = storages_of(program)
    ending = storages.ending() - storages.outgoing()
    ending -= storages.with_pools(storages.lives.storages(storages.resizable))
    found: set[str] = set()
    for life in storages.lives.lives:
        if life.owner not in sizes or life not in ending:
            continue
        nbytes, is_host = sizes[life.owner], program.layout(life.owner).device.kind.memory.on_host
        if nbytes <= budgets[is_host]:
            found.add(life.owner)
            budgets[is_host] -= nbytes
    return found


def _shared(program: Program) -> set[str]:
    """Return the allocations that peers address."""
    found = (line for line in program.body if allocates(line))
    return {line.out for line in found if line.memory is MemoryKind.SYMMETRIC}


def _met_once(program: Program, shared: Collection[str]) -> set[str]:
    """Return the allocations that peers address and that later calls can use again.

    Who holds on to one keeps it: targets give such memory to a call only if it is idle. Ops cannot
    resize it.
    """
    return {
        first.owner
        for first, chain in storages_of(program).lives.chains.items()
        if first.owner in shared and chain[-1].end is not None
        if all(life.is_callers and not (life.leaves or life.is_held) for life in chain)
    }
