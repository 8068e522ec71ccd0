"""A function whose calls are captured as CUDA graphs and replayed.

The first call with inputs of certain sizes runs the program, which is the warm-up that a capture
needs. The second one is captured, which computes nothing, and replayed; later ones are replayed.

A graph reads and writes fixed addresses. If an input was at the same address in the first two
calls, the graph uses it in place. Others are copied to a buffer of the graph before a replay, and
back afterwards if the program writes to them. Addresses are compared in every call. If an input
moves unexpectedly, the call is captured again.

NCCL wants all ranks to capture the same calls and to replay graphs of the same capture. Addresses
differ from rank to rank. So a program that calls collectives names the inputs that are ``copied``
wherever they are, which are all but those whose memory stays where it is on every rank.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from wrapper_ir.runtime._private import tensor_guard
from wrapper_ir.runtime.addresses import Addresses
from wrapper_ir.runtime.apart import extent
from wrapper_ir.runtime.cuda_graphs import results as memory
from wrapper_ir.runtime.cuda_graphs.overlaps import Overlaps
from wrapper_ir.runtime.cuda_graphs.recorder import CudaRecorder, Recorder, Recording
from wrapper_ir.runtime.cuda_graphs.status import GraphStatus, Journal, everything
from wrapper_ir.runtime.living import register

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_Call: TypeAlias = "Callable[..., tuple[Any, ...]]"

_KINDS: Final = (Tensor, torch.nn.Parameter, int, float, bool, type(None))
"""The legal types of inputs."""

_MOVES: Final = 3
"""After this many captures caused by moves, every input except parameters is copied."""

_OVERLAPS: Final = "an input that the program writes to shares memory with another"

_PATIENCE: Final = 64
"""Capturing stops once captures exceed replays of earlier captures by more than this."""


V = TypeVar("V")


class Cache(OrderedDict[Hashable, V]):
    """An LRU cache of at most ``limit`` values."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def recent(self, key: Hashable) -> V | None:
        """Return the value of a key, and make it the most recently used."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def room(self) -> V | None:
        """Make room for one more value; return the evicted one."""
        return None if len(self) < self._limit else self.popitem(last=False)[1]

    def put(self, key: Hashable, value: V) -> None:
        """Store a value; evict the least recently used one if there are too many."""
        self.pop(key, None)
        self.room()
        self[key] = value


class _Warm(NamedTuple):
    """The record of warm-up calls, for the call to be captured."""

    threads: set[int]  #: the threads that ran it, since libraries set up handles for each thread
    pointers: dict[int, int]  #: the addresses of its tensors, by position


class _Graph(NamedTuple):
    """A captured call."""

    key: Hashable
    recording: Recording
    results: memory.Results
    guard: Callable[..., bool] | None
    checked: tuple[int, ...]  #: positions of the inputs that the guard checks
    numbers: tuple[tuple[int, Any], ...]  #: other inputs
    arity: int
    fixed: dict[int, int]  #: addresses of inputs that are used in place, by position
    inputs: Addresses  #: the same, for comparison
    moving: tuple[int, ...]  #: positions of inputs that are copied
    places: list[Tensor]  #: the buffers that they are copied to
    copy: Callable[[list[Tensor], list[Tensor]], None]
    in_place: tuple[int, ...]  #: positions of inputs that it writes to where they are
    back: tuple[tuple[int, Tensor], ...]  #: those that are copied back, with their buffers
    overlaps: Overlaps  #: of those with what the program writes to
    constants: Addresses


class CudaGraphs:
    """A decorator that captures the calls of a function and replays them.

    Args:
        program: The program's name.
        device: Its GPU.
        writes: Positions of inputs that it writes to.
        constants: Returns its current constants on the GPU.
        limit: The most graphs to keep: one for each set of sizes and numbers.
        results: ``fresh`` for new memory in each call, or ``shared`` for the graph's memory, which
            the next call overwrites.
        shared: Positions of results that are ``shared`` in any case.
        settled: Positions of inputs whose address changes after the warm-up, but not after the
            captured call.
        copied: Positions of inputs that are copied even if they were not seen to move.
        branches: True if the program puts work on branches. These are ordered by names, so tensors
            that it writes must not share memory with others.
        checks: True to compare layouts of parameters in every call too, as for other inputs.
        reasons: The reasons why its calls cannot be captured, if there are any.
        recorder: The recorder of captures.

    The function takes the list of inputs and empties it. Calls of several threads take turns; the
    GPU does their work one after another.
    """

    def __init__(  # noqa: PLR0913 - all but two are named
        self,
        program: str,
        device: torch.device | None = None,
        *,
        writes: Sequence[int] = (),
        constants: Callable[[], list[Tensor]] = list,
        limit: int = 8,
        results: str = "fresh",
        shared: Sequence[int] = (),
        settled: Sequence[int] = (),
        copied: Sequence[int] = (),
        branches: bool = False,
        checks: bool = True,
        reasons: tuple[str, ...] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self._journal = Journal(program, reasons)
        self._writes = tuple(writes)
        self._constants = constants
        self._is_shared = results == "shared"
        self._has_branches = branches
        self._shared = frozenset(shared)
        self._settled = frozenset(settled)
        self._checks = checks
        self._recorder = recorder or CudaRecorder(device or torch.device("cuda"))
        self._graphs: Cache[_Graph] = Cache(limit)
        self._warm: Cache[_Warm] = Cache(4 * limit)
        self._latest: _Graph | None = None
        self._moving: set[int] = set(copied)
        self._moves = 0
        self._lock = threading.RLock()
        register(self)
        everything.add(self)

    @property
    def status(self) -> GraphStatus:
        """The status of calls so far."""
        return self._journal.status(len(self._graphs))

    def release(self) -> int:
        """Drop the graphs; return the bytes of their input buffers. Later calls capture again."""
        with self._lock:
            graphs = list(self._graphs.values())
            self._drop(*graphs)
            return sum(extent(place) for graph in graphs for place in graph.places)

    def __call__(self, call: _Call) -> _Call:
        """Return the function with its calls captured and replayed if possible."""

        @functools.wraps(call)
        def run(args: list[Any], out: Sequence[Any] | None = None) -> tuple[Any, ...]:
            journal = self._journal
            if journal.refused:
                journal.ran(*journal.refused)
            elif out is not None:
                journal.ran("they are given memory for results")
            elif self._recorder.is_recording():
                journal.ran("they are part of another capture")
            else:
                with self._lock:
                    return self._run(call, args)
            return call(args) if out is None else call(args, out=out)

        run.cuda_graphs = self  # type: ignore[attr-defined]
        return run

    def _run(self, call: _Call, args: list[Any]) -> tuple[Any, ...]:
        graph = self._latest
        if graph is not None and _fits(graph, args):
            return self._replay(call, graph, args)
        reason = self._unfit(args)
        if reason:
            self._journal.ran(reason)
            return call(args)
        key = _key(args)
        graph = self._graphs.recent(key)
        if graph is not None:
            self._latest = graph
            return self._replay(call, graph, args)
        warm = self._warmth(key)
        if warm is None:
            return self._warm_up(call, key, args)
        return self._capture(call, key, warm.pointers, args)

    def _warmth(self, key: Hashable) -> _Warm | None:
        """Return the warm-up record of a kind of call, if this thread has made one."""
        warm = self._warm.recent(key)
        return warm if warm is not None and threading.get_ident() in warm.threads else None

    def _warm_up(self, call: _Call, key: Hashable, args: list[Any]) -> tuple[Any, ...]:
        """Run the program, so that this thread may capture the next call of this kind."""
        warm, thread = self._warm.recent(key), threading.get_ident()
        threads = {thread} if warm is None else warm.threads | {thread}
        pointers = {n: arg.data_ptr() for n, arg in enumerate(args) if isinstance(arg, Tensor)}
        self._journal.ran()
        results = call(args)
        self._warm.put(key, _Warm(threads, pointers))  # a failed call is no warm-up
        return results

    def _unfit(self, args: list[Any]) -> str:
        """Return why a call with these inputs cannot be captured; empty if it can."""
        for number, arg in enumerate(args):
            if type(arg) not in _KINDS:
                return f"input {number} is a {type(arg).__name__}"
            if not isinstance(arg, Tensor):
                continue
            if arg.layout is not torch.strided or arg.is_conj() or arg.is_neg():
                return f"input {number} is not stored plainly"
        return ""

    # Capturing.

    def _capture(
        self, call: _Call, key: Hashable, before: dict[int, int], args: list[Any]
    ) -> tuple[Any, ...]:
        """Capture a call and replay it; if that fails, run the program."""
        journal = self._journal
        if 2 * journal.captures > _PATIENCE + journal.replays:  # each capture is replayed at once
            return self._give_up(call, args, "their sizes or addresses change all the time")
        moving = self._to_copy(before, args)
        for n in moving:
            if memory.is_sparse_in_memory(args[n]):
                journal.ran(f"input {n} moves, and has much memory between its elements")
                return call(args)
            if n in self._writes and memory.is_expanded(args[n]):
                journal.ran(f"input {n} moves, and is written to where it is expanded")
                return call(args)
        if self._has_branches and self._overlap_now(args):
            journal.ran(_OVERLAPS)
            return call(args)
        oldest = self._graphs.room()
        if oldest is not None:
            self._drop(oldest)
        try:
            graph = self._record(call, key, moving, args)
        except memory.UncopiedError as error:
            return self._give_up(call, args, str(error))
        except Exception as error:
            return self._give_up(call, args, f"capture failed: {_first_line(error)}")
        journal.captures += 1
        self._graphs.put(key, graph)
        self._latest = graph
        return self._replay(call, graph, args)

    def _to_copy(self, before: dict[int, int], args: list[Any]) -> tuple[int, ...]:
        """Return the positions of inputs to copy to buffers of the graph."""
        device = self._recorder.device
        self._note_moves(before, args)
        if self._moves >= _MOVES:
            self._moving |= {n for n in before if not isinstance(args[n], torch.nn.Parameter)}
        return tuple(sorted(n for n in self._moving if args[n].device == device))

    def _note_moves(self, before: dict[int, int], args: list[Any]) -> None:
        """Record the inputs whose addresses have changed."""
        moved = {n for n, pointer in before.items() if args[n].data_ptr() != pointer}
        self._moving |= moved - self._settled if self._moves < _MOVES else moved

    def _record(
        self, call: _Call, key: Hashable, moving: tuple[int, ...], args: list[Any]
    ) -> _Graph:
        recorder = self._recorder
        places = [memory.place_like(args[n]) for n in moving]
        # Valid contents, in case the capture reads them.
        memory.copy(places, [args[n] for n in moving])
        given = list(args)
        for n, place in zip(moving, places, strict=True):
            given[n] = place
        recording, captured = recorder.record(lambda: call(list(given)))
        tensors = {n: arg for n, arg in enumerate(given) if isinstance(arg, Tensor)}
        constants = self._constants()
        shared = range(len(captured)) if self._is_shared else self._shared
        planner = memory.Planner(captured, tensors, constants, recorder.device, shared=shared)
        checked = [
            n for n in tensors if self._checks or not isinstance(args[n], torch.nn.Parameter)
        ]
        originals = [args[n] for n in checked]
        shapes = [tuple(tensor.shape) for tensor in originals]
        strides = [tensor.stride() for tensor in originals]
        fixed = {
            n: arg.data_ptr()
            for n, arg in tensors.items()
            if n not in moving and arg.device == recorder.device
        }
        are_dense = all(memory.is_dense(p.shape, p.stride()) for p in places)
        return _Graph(
            key,
            recording,
            memory.Results(planner),
            tensor_guard(originals, shapes, strides),
            tuple(checked),
            tuple((n, arg) for n, arg in enumerate(args) if n not in tensors),
            len(args),
            fixed,
            Addresses(fixed),
            moving,
            places,
            memory.copy_dense if are_dense else memory.copy,
            tuple(n for n in self._writes if n not in moving),
            tuple((n, places[moving.index(n)]) for n in self._writes if n in moving),
            Overlaps(moving, self._writes, fixed, {n: extent(each) for n, each in tensors.items()}),
            Addresses({n: constant.data_ptr() for n, constant in enumerate(constants)}),
        )

    def _give_up(self, call: _Call, args: list[Any], reason: str) -> tuple[Any, ...]:
        """Run the program in this call and in all later ones."""
        self._journal.refused = (reason,)  # and no call will be captured any more
        self._journal.ran(reason)
        self._drop(*self._graphs.values())
        return call(args)

    def _drop(self, *graphs: _Graph) -> None:
        """Drop graphs once the GPU is done with them."""
        if graphs:
            self._recorder.wait()
        self._latest = None
        for graph in graphs:
            self._graphs.pop(graph.key, None)

    # Replaying.

    def _replay(self, call: _Call, graph: _Graph, args: list[Any]) -> tuple[Any, ...]:
        if not (graph.inputs.hold(args) and graph.constants.hold(self._constants())):
            return self._again(call, graph, args)
        if graph.overlaps.are_in(args):
            self._journal.ran(_OVERLAPS)
            return call(args)
        self._recorder.order(graph.places)
        if graph.moving:
            graph.copy(graph.places, [args[n] for n in graph.moving])
        graph.recording.replay()
        if graph.back:
            _copy_back(graph, args)
        if graph.in_place:  # autograd is told; inference tensors have no version, and are skipped
            torch.autograd.graph.increment_version([args[n] for n in graph.in_place])
        self._journal.replays += 1
        results = graph.results.give(args)
        args.clear()
        return results

    def _again(self, call: _Call, graph: _Graph, args: list[Any]) -> tuple[Any, ...]:
        """Capture a call again after its inputs or constants have moved."""
        self._moves += 1
        before = dict(graph.fixed)
        if self._moves <= _MOVES:  # a parameter that was replaced is likely to stay
            for n in graph.fixed:
                if isinstance(args[n], torch.nn.Parameter):
                    before[n] = args[n].data_ptr()
        self._drop(graph)
        if self._warmth(graph.key) is None:
            self._note_moves(before, args)
            return self._warm_up(call, graph.key, args)
        return self._capture(call, graph.key, before, args)

    def _overlap_now(self, args: list[Any]) -> bool:
        """Return whether a tensor that is written to shares memory with another."""
        tensors = [*args, *self._constants()]
        extents = {
            n: extent(each)
            for n, each in enumerate(tensors)
            if isinstance(each, Tensor) and each.device == self._recorder.device
        }
        return Overlaps(extents, self._writes, {}, extents).are_in(tensors)


def _copy_back(graph: _Graph, args: list[Any]) -> None:
    """Copy written inputs back from their buffers."""
    for n, place in graph.back:
        with torch.inference_mode() if args[n].is_inference() else torch.no_grad():
            args[n].copy_(place)


def _fits(graph: _Graph, args: list[Any]) -> bool:
    """Return whether a call's inputs match those of a captured call."""
    if graph.guard is None or len(args) != graph.arity:
        return False
    for n, value in graph.numbers:
        if args[n] is not value and _number(args[n]) != _number(value):
            return False
    if len(graph.checked) == graph.arity:
        return graph.guard(*args)
    return graph.guard(*[args[n] for n in graph.checked])


def _key(args: list[Any]) -> Hashable:
    """Return the cache key of a graph: layouts of tensors, and numbers."""
    return tuple(
        (
            (type(arg), arg.dtype, arg.device, tuple(arg.shape), arg.stride())
            if isinstance(arg, Tensor)
            else _number(arg)
        )
        for arg in args
    )


def _number(arg: Any) -> Hashable:  # noqa: ANN401 - number or None
    """Return the identity of a number: zeros differ by sign, and NaN equals itself."""
    return type(arg), arg.hex() if isinstance(arg, float) else arg


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
