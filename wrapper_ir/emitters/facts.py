"""Facts about a program that emitters need before they render its lines.

Which memory and which views are kept from call to call, which streams and devices are in use. All
of it follows from declarations and the storage map; nothing here looks at what a line computes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.liveness import StorageMap
from wrapper_ir.analysis.ops import PRODUCTS, may_drop, schema_of
from wrapper_ir.lines.args import BufferArg, BufferValue, ResultBuffer
from wrapper_ir.lines.control import BufferInput, Region, RegionLine, ScalarInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.kernels import ExternKernel, KernelCall, RecordEvent, Synchronize, WaitEvent
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.memory import (
    USUAL,
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Free,
    MemoryKind,
    Reinterpret,
    Reuse,
)
from wrapper_ir.lines.program import AnyLine, GraphRole, Program, SymbolKind
from wrapper_ir.lines.symbols import BindSymbol, ItemOf
from wrapper_ir.lines.traits import allocates, calls_op
from wrapper_ir.lines.walk import regions_of, walk

if TYPE_CHECKING:
    from wrapper_ir.analysis.liveness import Life
    from wrapper_ir.lines.layout import Layout


# Arenas that outlive a call, and their views that are the same in every call.

#: Allocations of at least this many bytes come from the system, page by page. Heaps serve them
#: from the same size on: `kLeast` in native/src/heap.cpp.
_MUCH: Final = 128 * 1024


def kept_arenas(
    program: Program, storages: StorageMap, unsteady: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the pools that are kept from call to call, with the views that are kept with each.

    Views are in program order: name to start in the pool, in bytes. Views of the storage of
    ``unsteady`` buffers, which may be resized, are not kept.
    """
    found: dict[str, dict[str, int]] = {
        line.out: {}
        for line in program.body
        if isinstance(line, AllocatePool)
        and line.kept
        and line.place == USUAL
        and program.layout(line.out).device.kind.python.arena
    }
    steady = {name: views for name, views in found.items() if program.layout(name).is_static}
    resized = storages.lives.storages(unsteady)
    starts: dict[str, tuple[str, int]] = {}
    for line in program.body:
        match line:
            case AllocateFromPool(out=name, pool=pool, offset=int(start)):
                place = (pool, start)
            case Reinterpret(out=name, source=source) if source in starts:
                place = starts[source]
            case Reuse(out=name, donor=source) if source in starts:
                place = starts[source]
            case _:
                continue
        starts[name] = place
        if place[0] in steady and resized.isdisjoint(storages.lives.storages((name,))):
            begin = _start(program.layout(name), place[1])
            if begin is not None:
                steady[place[0]][name] = begin
    return found


def allocates_much(program: Program, kept: Collection[str]) -> bool:
    """Return whether a call allocates a lot of CPU memory outside of ``kept`` pools.

    It may do so for results, in ops, or in regions.
    """
    for _, line in walk(program):
        if isinstance(line, (Allocate, AllocatePool, ExternKernel)):
            for name in effects(line, program).defines:
                nbytes = program.layout(name).nbytes
                is_small = isinstance(nbytes, int) and nbytes < _MUCH
                if not is_small and name not in kept and program.layout(name).device == CPU:
                    return True
    return False


def _start(layout: Layout, base: int) -> int | None:
    """Return where a view begins, in bytes from the start of its pool; None if that varies."""
    if not layout.is_static or not isinstance(layout.offset, int):
        return None
    start = base + layout.offset * layout.dtype.itemsize
    return start if start % layout.dtype.itemsize == 0 else None


def needs_streams(line: AnyLine, program: Program) -> str:
    """Return why a line needs more than the caller's stream; "" if it does not.

    In calls that are not captured, branches of a graph are the caller's stream.
    """
    match line:
        case RecordEvent() | WaitEvent() if is_on_branches(line, program):
            return ""
        case RecordEvent() | WaitEvent() | Synchronize():
            return "it puts streams in order"
        case Free() if line.after:
            return "its memory is used on several streams"
        case Allocate() | ExternKernel() if line.mempool:
            return "its memory is from a memory pool of the user's"
        case Allocate() | KernelCall() | ExternKernel() if line.stream and not is_on_branches(
            line, program
        ):
            return f"it is on stream {line.stream}"
        case _:
            return ""


def users_object(line: AnyLine, program: Program) -> str:
    """Return which stream, event or memory pool of the user a line depends on; "" for none."""
    stream, event = getattr(line, "stream", 0), getattr(line, "event", 0)
    if stream and program.streams[stream - 1].user_object is not None:
        return f"stream {stream} is the user's"
    if event and program.events[event - 1].user_object is not None:
        return f"event {event} is the user's"
    return pool_of(line)


def pool_of(line: AnyLine) -> str:
    """Return the memory pool that a line allocates from; "" for none."""
    pool = getattr(line, "mempool", 0)
    return f"its memory is from memory pool {pool}" if pool else ""


def has_users_queues(program: Program) -> bool:
    """Return whether a program uses streams or events of the user's."""
    streams = (stream.user_object for stream in program.streams)
    events = (event.user_object for event in program.events)
    return any(number is not None for number in (*streams, *events))


def stream_of(line: AnyLine) -> int | None:
    """Return the stream that a line must run on; None if it runs nothing on a stream."""
    match line:
        case Allocate() | KernelCall() | ExternKernel():
            return line.stream
        case AllocatePool() | BindSymbol(source=ItemOf()):
            return 0
        case _:
            return 0 if regions_of(line) else None


def is_branched(program: Program) -> bool:
    """Return whether there are streams besides the caller's, all of them captured."""
    return bool(program.streams) and all(stream.captured for stream in program.streams)


def needs_queues(program: Program) -> bool:
    """Return whether a program has streams or events, or waits for all streams of a device."""
    if program.streams or program.events:
        return True
    return any(isinstance(line, Synchronize) for line in program.body)


def is_on_branches(
    line: Allocate | KernelCall | ExternKernel | RecordEvent | WaitEvent, program: Program
) -> bool:
    """Return whether a line runs on a branch of a captured graph, or only orders branches."""
    if line.stream:
        return program.streams[line.stream - 1].captured
    if not isinstance(line, RecordEvent | WaitEvent) or line.device == CPU:
        return False
    return is_branched(program)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a program's body.

    Attributes:
        storages: The program's storage map.
        kept_views: Views that are kept from call to call, name to line.
        kept_buffers: Allocations whose memory is kept from call to call, in order.
        arenas: Pools that are kept from call to call, each with the starts of its kept views.
        needs_heap: Whether to keep other large memory too: results, and what ops allocate.
    """

    storages: StorageMap
    kept_views: Mapping[str, Reinterpret] = field(default_factory=dict)
    kept_buffers: tuple[str, ...] = ()
    arenas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    needs_heap: bool = False
    may_pass_autograd: bool = False
    """Whether all library ops are plain ones, and enough of them for bypassing autograd to pay."""


def gather(
    program: Program, storages: StorageMap, *, arena: str = "call", is_checked: bool = True
) -> Facts:
    """Gather the facts about a planned program, whose marks say what is kept.

    Args:
        program: The program.
        storages: Its storage map.
        arena: ``kept`` if pools outlive a call.
        is_checked: Whether inputs are checked in every call. Unchecked inputs may make ops resize
            their outputs.
    """
    unsteady = storages.resizable if is_checked else storages.written_by_ops
    is_kept = arena == "kept"
    arenas = kept_arenas(program, storages, unsteady) if is_kept else {}
    return Facts(
        storages,
        kept_views=_kept_views(program, storages),
        kept_buffers=_on_host(program, storages, arenas) if is_checked else (),
        arenas=arenas,
        needs_heap=is_kept and allocates_much(program, arenas),
        may_pass_autograd=_may_pass_autograd(program, storages),
    )


def spent_inputs(program: Program, storages: StorageMap) -> dict[int, list[str]]:
    """Return the inputs to let go of before a line, by the line's position.

    A call may hold the last reference to an input: autograd hands over tensors that it saved. So
    the call lets go of each input before the first line after its last use that may allocate.
    Inputs that lines free or take over end there, and those that something else may still read,
    a result or work on another stream, last until the end of the call.
    """
    taking = [n for n, line in enumerate(program.body) if _may_allocate(line)]
    found: dict[int, list[str]] = {}
    for name in storages.touched_inputs:
        lives = storages.lives.of(name)
        if all(life.end is None and not _is_read_on(life) for life in lives):
            next_one = bisect_right(taking, max(life.last_use for life in lives))
            if next_one < len(taking):
                found.setdefault(taking[next_one], []).append(name)
    return found


def _may_allocate(line: AnyLine) -> bool:
    return allocates(line) or calls_op(line) or bool(regions_of(line))


def _is_read_on(life: Life) -> bool:
    """Return whether something may read a storage after the last line that uses it."""
    return life.leaves or life.escapes or life.is_held or any(life.streams)


def _kept_views(program: Program, storages: StorageMap) -> dict[str, Reinterpret]:
    """Return static views of inputs and constants that neither escape nor are written through.

    A backward graph has none: apart from the weights, of which it takes few views, its inputs are
    new tensors in every call.
    """
    if program.role is GraphRole.BACKWARD:
        return {}
    outer = {i.name for i in program.inputs if isinstance(i, BufferInput) and not i.donated}
    outer |= set(program.constants)
    escaping, lives = storages.escaping(), storages.lives
    taken = storages.taken()
    return {
        line.out: line
        for line in program.body
        if isinstance(line, Reinterpret)
        and line.source in outer
        and program.layout(line.out).is_static
        and program.layout(line.out).dtype is program.layout(line.source).dtype
        and line.out not in storages.written
        and line.out not in escaping
        and taken.isdisjoint(lives.storages((line.source,)))
    }


def _on_host(
    program: Program, storages: StorageMap, arenas: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...]:
    """Return the kept buffers in host memory: torch's allocator keeps accelerator memory."""
    return tuple(
        name
        for name in kept_buffers(program, storages)
        if name not in arenas
        and program.layout(name).device.kind.memory.on_host
        and program.layout(name).is_static
    )


def kept_buffers(
    program: Program, storages: StorageMap, *, arenas: bool = False
) -> tuple[str, ...]:
    """Return the allocations and pools whose memory is kept for the next call, in order.

    These are the marked ones, except those that an op may resize for good; an op cannot resize
    memory inside a pool that is an arena, as pools are with ``arenas``. The verifier rejects marks
    on memory that third-party code may hold on to.
    """
    resized = storages.with_pools(storages.lives.storages(storages.resizable))
    found: list[str] = []
    for line in program.body:
        if not isinstance(line, (Allocate, AllocatePool)) or not line.kept:
            continue
        lives = storages.lives.storages((line.out,))
        is_arena = arenas and isinstance(line, AllocatePool) and line.out not in storages.handled
        if line.place != USUAL:
            continue
        if is_arena or lives.isdisjoint(resized):
            found.append(line.out)
    return tuple(found)


#: With fewer library ops, bypassing autograd costs more than it saves.
_WORTH_PASSING: Final = 4


def _may_pass_autograd(program: Program, storages: StorageMap) -> bool:
    ops = [line.op for line in program.body if isinstance(line, ExternKernel)]
    if len(ops) < _WORTH_PASSING or not PRODUCTS.issuperset(ops):
        return False
    if any(isinstance(line, RegionLine) for line in program.body):
        return False
    outer = {i.name for i in program.inputs if isinstance(i, BufferInput)} | set(program.constants)
    written = storages.lives.storages(storages.written_by_ops)
    return written.isdisjoint(storages.lives.storages(outer))


def placed_results(program: Program) -> dict[str, int]:
    """Return the allocations that end up as results, with each result's position.

    If the caller provides memory for such a result, the allocation can be a view of that memory
    from the start. Allocation and result have the same dtype and the same bytes, without gaps; in
    between, the storage may have other views and names. Symbols of the result's layout are bound
    by then.
    """
    lines = {
        line.out: line for line in program.body if isinstance(line, (Allocate, Reinterpret, Reuse))
    }
    found: dict[str, int] = {}
    for position, value in enumerate(program.results):
        if not isinstance(value, BufferValue):
            continue
        line = lines.get(value.buffer)
        while line is not None and not isinstance(line, Allocate):
            line = lines.get(line.source if isinstance(line, Reinterpret) else line.donor)
        if line is None or line.memory is not MemoryKind.DEFAULT:
            continue
        if line.space or program.layout(line.out).is_opaque:  # callers have no such memory
            continue
        if _is_whole(program.layout(value.buffer), program.layout(line.out)):
            found.setdefault(line.out, position)
    return found


def _is_whole(view: Layout, whole: Layout) -> bool:
    """Return whether two layouts cover every element of a storage once, at equal addresses."""
    return (
        view.dtype is whole.dtype
        and view.device == whole.device
        and view.offset == whole.offset == 0
        and view.numel == whole.numel
        and view.symbols <= whole.symbols
        and view.is_dense
        and whole.is_dense
    )


def only_accelerator(program: Program) -> Device | None:
    """Return the accelerator that a program runs on, if there is exactly one."""
    found = {program.layout(name).device for name in (*program.buffers, *program.constants)}
    used = [device for device in found if device.kind.is_accelerator]
    return used[0] if len(used) == 1 else None


def accelerators_of(program: Program) -> tuple[Device, ...]:
    """Return the devices besides the host that lines use and C++ supports, numbered and sorted.

    An input that no line touches may be on any device.
    """
    away = {
        name: each.device
        for name, each in program.buffers.items()
        if each.device.type != CPU.type and each.device.kind.cpp is not None
    }
    if not away:
        return ()
    used = {
        away[name]
        for _, line in walk(program)
        for found in (effects(line, program),)
        for name in (*found.defines, *found.touched)
        if name in away
    }
    pairs = {(each.type, each.index or 0) for each in used}
    return tuple(Device(*pair) for pair in sorted(pairs))


def random_states(program: Program) -> frozenset[str]:
    """Return the buffers declared on a GPU that may actually be numbers on the host.

    Attention ops return the state of random numbers on the host, whatever they declare, except
    while a CUDA graph is being captured. Ops accept it from either place; a kernel would not.
    """
    inputs = {item.name for item in program.inputs if isinstance(item, BufferInput)}
    found = {name for name in inputs if _may_be_a_state(program.layout(name))}
    passed: set[str] = set()
    lines = [line for _, line in walk(program)]
    for line in lines:
        if isinstance(line, ExternKernel) and may_drop(schema_of(program, line.op)):
            made = effects(line, program).defines
            found.update(name for name in made if _may_be_a_state(program.layout(name)))
        elif isinstance(line, KernelCall):
            passed.update(arg.buffer for arg in line.args if isinstance(arg, BufferArg))
    known = 0
    while known < len(found):  # a region's results have other names outside
        known = len(found)
        found.update(name for line in lines for name in _renamed(line, program, found))
    return frozenset(found - passed)


def _renamed(line: AnyLine, program: Program, names: Collection[str]) -> Iterator[str]:
    """Yield other names that a line gives to buffers."""
    for name, source, _ in effects(line, program).aliases:
        if source in names:
            yield name
    if not isinstance(line, RegionLine):
        return
    for _, region in regions_of(line):
        for made, value in zip(line.results, region.results, strict=False):
            if isinstance(value, BufferValue) and value.buffer in names:
                assert isinstance(made, ResultBuffer)
                yield made.out


def _may_be_a_state(layout: Layout) -> bool:
    is_number = not layout.size and layout.dtype.torch_name in ("int64", "uint64")
    return is_number and layout.device != CPU


def free_region_symbols(region: Region, program: Program) -> tuple[str, ...]:
    """Return the symbols that a region uses but does not bind, sorted."""
    lines = [line for _, line in walk(region)]
    regions = [region, *(inner for line in lines for _, inner in regions_of(line))]
    bound = {p.symbol for each in regions for p in each.params if isinstance(p, ScalarInput)}
    used: set[str] = set()
    for value in (value for each in regions for value in each.results):
        used |= free_symbols(getattr(value, "value", None))
    for line in lines:
        found = effects(line, program)
        used |= found.uses_symbols
        bound.update(found.defines_symbols)
        for name in (*found.touched, *found.defines):
            if name in program.buffers:
                used |= program.layout(name).symbols
    return tuple(sorted(used - bound))


# Values for symbols of made-up inputs.


def example_symbols(program: Program) -> dict[str, str]:
    """Return the symbols of a program's inputs, sorted, each with a valid value as Python text."""
    found: set[str] = set()
    for param in program.inputs:
        if isinstance(param, ScalarInput):
            found.add(param.symbol)
        elif isinstance(param, BufferInput):
            found |= program.layout(param.name).symbols
    return {name: _example(program, name) for name in sorted(found)}


def _example(program: Program, name: str) -> str:
    info = program.symbols[name]
    if info.kind in _PLAIN_EXAMPLES:
        return _PLAIN_EXAMPLES[info.kind]
    low = 2 if info.lower is None else max(info.lower, 2)
    return str(info.hint if info.hint is not None else min(low, info.upper or low))


_PLAIN_EXAMPLES: Final = {SymbolKind.BOOL: "True", SymbolKind.FLOAT: "1.0", SymbolKind.NONE: "None"}
