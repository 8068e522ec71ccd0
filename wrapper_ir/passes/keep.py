"""The pass that marks allocations whose memory may be kept for the next call.

Memory can be kept between calls if it is of the usual kind, the main body allocates and frees it,
and nothing reads it later. On a CPU this saves a page fault for every 4 KiB touched, on a GPU the
host's time for each allocation. Storage of nested regions lives for one run of its region.
Storage passed to custom ops or regions is not kept: they may hold on to a buffer, which the next
call would overwrite.

Emitters keep what is marked.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wrapper_ir.analysis.devices import accelerators_of, is_on_one_stream
from wrapper_ir.analysis.kept import can_keep, kept_pools
from wrapper_ir.analysis.liveness import StorageMap
from wrapper_ir.lines import GraphRole
from wrapper_ir.lines.traits import allocates, takes_memory
from wrapper_ir.options.declared import ARENA

if TYPE_CHECKING:
    from collections.abc import Collection

    from wrapper_ir.lines import Program


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
    program: Program,
    host: int = 0,
    device: int = 0,
    *,
    arena: str = "call",
) -> Program:
    """Mark the allocations whose memory may be kept for the next call.

    Args:
        program: A planned program.
        host: The most bytes of fixed-size buffers to keep on the CPU. None are kept in training,
            which has many buffers and long calls.
        device: The same for another device, before the factor of its kind. It serves one stream:
            with several devices or streams, none are kept.
        arena: ``"kept"`` to also keep pools, whatever their size.

    Returns:
        The marked program; the same object if nothing can be kept or something is marked already.

    Raises:
        OptionValueError: The arena lifetime is unknown.
    """
    ARENA.check(arena)
    if any(allocates(line) and line.kept for line in program.body):
        return program
    is_bounded = program.role is GraphRole.INFERENCE and (host or device)
    if arena != "kept" and not is_bounded:
        return program
    storages = StorageMap(program)
    names = set(kept_pools(program, storages.lives)) if arena == "kept" else set()
    names -= storages.handled  # pools that are used as buffers themselves
    if is_bounded:
        factors = [each.kind.memory.keep_factor for each in accelerators_of(program)]
        elsewhere = device * sum(factors) if is_on_one_stream(program) else 0
        names |= _fixed(program, storages, host, elsewhere, names)
    if not names:
        return program
    return program.replace(
        body=tuple(
            dataclasses.replace(line, kept=True) if allocates(line) and line.out in names else line
            for line in program.body
        )
    )


def _fixed(
    program: Program, storages: StorageMap, host: int, device: int, besides: Collection[str]
) -> set[str]:
    """Return the fixed-size allocations to keep: those that end in the program, within budget."""
    # An op whose result is larger than its output buffer resizes that buffer for good.
    ending = storages.ending() - storages.outgoing()
    ending -= storages.with_pools(storages.lives.storages(storages.resizable))
    found: set[str] = set()
    left = {True: host, False: device}
    for life in storages.lives.lives:
        line = program.body[life.start] if life in ending and life.is_owned else None
        if line is None or not allocates(line) or line.out in besides:
            continue
        layout = program.layout(line.out)
        if layout.is_opaque or (takes_memory(line) and line.mempool):
            continue
        if not can_keep(layout.device, line.place):
            continue
        nbytes, is_host = layout.nbytes, layout.device.kind.memory.on_host
        if isinstance(nbytes, int) and layout.is_static and nbytes <= left[is_host]:
            found.add(line.out)
            left[is_host] -= nbytes
    return found
