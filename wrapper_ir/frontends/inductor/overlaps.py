"""Arguments that Inductor's graphs are wrong for: lazily negated ones, and some that share memory.

A graph that writes to an argument is right only for arguments that overlap as its examples did:
AOTAutograd traces overlapping ones by their joint storage, and separate ones as separate tensors.
It guards on that only where a size is symbolic and the examples share a storage, and Dynamo has no
guard for tensors that may or may not share one. So a graph that writes compares what overlaps in
each call, and a call with other arguments runs op by op. The key of AOTAutograd's cache tells sizes
but not what overlaps; that we put into the key.

Parameters, buffers and the state of optimizers (torch calls them static) are not compared: who
passes a view of one beside it? Comparing hundreds of them would take longer than some calls.
"""

from __future__ import annotations

import contextlib
import warnings
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, wraps
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from wrapper_ir.aot.load import module_if_made
from wrapper_ir.frontends.inductor import compat

#: Untyped, because torch declares subclasses that hold other tensors as no tensors.
is_wrapper: Any = compat.is_traceable_wrapper_subclass
storage_key: Any = compat.StorageWeakRef

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


class OpByOpWarning(UserWarning):
    """A graph runs op by op, for arguments that kernels would take for what they are not."""


class _Place(NamedTuple):
    """Where a tensor lies: the number of its storage among others, and its offset there.

    AOTAutograd writes the offset into the graph that takes one base in the place of arguments, and
    no guard compares it. One that varies is None: then it is computed in each call, and guarded.
    """

    storage: int
    offset: int | None


class _Lent(NamedTuple):
    """The tensors that the caller passes anew in each call, by position among the arguments."""

    positions: tuple[int, ...] = ()
    overlapping: frozenset[int] = frozenset()  #: those that overlap with another one
    places: tuple[_Place, ...] = ()  #: where these lie, in order


#: The arguments that overlap in the graph that is being compiled: positions and base tensors.
_overlapping: ContextVar[tuple[tuple[int, str], ...]] = ContextVar("overlapping", default=())


#: AOTAutograd's description of the graph that is being compiled, if it comes from its cache.
_cached: ContextVar[Any] = ContextVar("cached", default=None)


def overlapping() -> tuple[tuple[int, str], ...]:
    """Return the positions of the arguments that overlap in the graph that is being compiled.

    With each comes the layout of the tensor that it is a view of, if any: that may be the base
    which AOTAutograd puts in the place of such arguments.
    """
    return _overlapping.get()


def with_overlaps(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that ours compare what overlaps."""

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        trace = compat.TracingContext.try_get()
        if trace is None or not isinstance(model, torch.fx.GraphModule) or not is_ours():
            return stock(model, inputs, *args, **kwargs)
        if any(isinstance(value, torch.Tensor) and value.is_neg() for value in inputs):
            # Inductor's kernels read the memory behind the lazy minus sign of ``x.conj().imag``.
            warnings.warn(
                "a graph runs op by op: one argument is lazily negated, such as the imaginary "
                "part of a conjugate; pass x.resolve_neg() to have it compiled",
                OpByOpWarning,
                stacklevel=2,
            )
            return model.forward
        lent = _lent(trace, model, inputs)
        pattern, cached = _overlapping.set(_bases(inputs, lent.overlapping)), _cached.set(None)
        try:
            compiled = stock(model, inputs, *args, **kwargs)
            metadata = _cached.get() or trace.fw_metadata
        finally:
            _overlapping.reset(pattern)
            _cached.reset(cached)
        written = _written(metadata, lent.positions, len(inputs))
        if len(lent.positions) > 1 and written:
            return _comparing(compiled, model, lent, written)
        return compiled

    return compile_graph


def noting_metadata(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap AOTAutograd's method that loads an entry of its cache, to note what it says."""

    @wraps(stock)
    def wrap_post_compile(entry: Any, *args: Any, **kwargs: Any) -> Any:
        _cached.set(entry.runtime_metadata)
        return stock(entry, *args, **kwargs)

    return wrap_post_compile


def with_plain_gradients(stock: Any) -> Any:
    """Wrap AOTAutograd's static method that takes a gradient for a compiled backward.

    Kernels of a backward, stock's too, read the memory behind the lazy minus sign of a gradient.
    Nothing guards on it, and whoever calls ``backward`` cannot resolve it.
    """
    theirs: Any = stock.__func__

    @wraps(theirs)
    def process(x: Any, *args: Any, **kwargs: Any) -> Any:
        is_lazy = isinstance(x, torch.Tensor) and x.is_neg() and not x.is_complex()
        return theirs(x.resolve_neg() if is_lazy else x, *args, **kwargs)

    return staticmethod(process)


def _lent(
    trace: compat.TracingContext, model: torch.fx.GraphModule, inputs: Sequence[Any]
) -> _Lent:
    places = model.graph.find_nodes(op="placeholder")
    positions = tuple(
        position
        for position, (node, value) in enumerate(zip(places, inputs, strict=False))
        if _has_storage(value)
        and getattr(node, "_dynamo_source", None) is not None
        and not node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    )
    env = trace.fake_mode.shape_env if trace.fake_mode is not None else None
    with contextlib.nullcontext() if env is None else env.suppress_guards():
        overlapping = _overlaps(inputs, positions)
        return _Lent(positions, overlapping, _places(inputs, sorted(overlapping)))


def _places(args: Sequence[Any], positions: Sequence[int]) -> tuple[_Place, ...]:
    numbers: dict[Any, int] = {}
    found = []
    for position in positions:
        offset = args[position].storage_offset()
        storage = numbers.setdefault(storage_key(args[position].untyped_storage()), len(numbers))
        found.append(_Place(storage, offset if type(offset) is int else None))
    return tuple(found)


def _fit(places: Sequence[_Place], known: Sequence[_Place]) -> bool:
    """Return whether tensors lie as those that a graph was compiled for, where that is fixed."""
    return all(
        place.storage == other.storage and other.offset in (None, place.offset)
        for place, other in zip(places, known, strict=True)
    )


def _bases(inputs: Sequence[Any], positions: Collection[int]) -> tuple[tuple[int, str], ...]:
    """Return these positions in order, and the layouts of the tensors that inputs are views of."""
    bases = ((position, inputs[position]._base) for position in sorted(positions))
    told = ((at, "" if base is None else f"{base.shape} {base.stride()}") for at, base in bases)
    return tuple(told)


def _has_storage(value: Any) -> bool:
    is_plain = isinstance(value, torch.Tensor) and value.layout == torch.strided
    return is_plain and not is_wrapper(value)


def _overlaps(args: Sequence[Any], positions: Sequence[int]) -> frozenset[int]:
    """Return those positions of tensors that overlap with another one."""
    groups: dict[Any, list[int]] = {}
    for position in positions:
        groups.setdefault(storage_key(args[position].untyped_storage()), []).append(position)
    found: set[int] = set()
    for group in groups.values():
        if len(group) > 1:
            tensors = [args[position] for position in group]
            numbers = [n for t in tensors for n in (*t.shape, *t.stride(), t.storage_offset())]
            symbolic = not all(type(number) is int for number in numbers)
            overlapping = compat.compute_overlapping_tensors(tensors, symbolic=symbolic)
            found |= {group[index] for index in overlapping}
    return frozenset(found)


def _placed(args: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """Return all that tells which of these tensors overlap: where they lie in which storage.

    That is less work than to compare them.
    """
    numbers: dict[Any, int] = {}  # of storages: each has one object in Python
    found: list[Any] = []
    for position in positions:
        tensor = args[position]
        storage = numbers.setdefault(tensor.untyped_storage(), len(numbers))
        found += storage, tensor.storage_offset(), tensor.dtype, tensor.shape, tensor.stride()
    return found


def _written(metadata: Any, positions: Sequence[int], count: int) -> Collection[int]:
    """Return which of these positions a graph with ``count`` arguments writes to."""
    infos = () if metadata is None else metadata.input_info
    written = {position for position, info in enumerate(infos) if info.mutates_data}
    if len(infos) == count:
        return written.intersection(positions)
    # A base that AOTAutograd has put in the place of arguments moves the others.
    return positions if written else ()


def _comparing(
    compiled: Any, model: torch.fx.GraphModule, lent: _Lent, written: Collection[int]
) -> Callable[..., Any]:
    """Return a compiled graph that runs op by op for arguments that overlap in another way."""
    positions, known, places = lent
    # Otherwise no base is in the place of those that overlap: the graph knows no offsets.
    is_placed = not known.isdisjoint(written)
    overlapping = sorted(known)
    ordered = tuple(sorted(positions, key=lambda position: position not in written))
    are_alone = _comparison(ordered, len(written))
    last: Any = None  # where arguments lay that overlapped as they should

    @wraps(compiled)
    def call(*args: Any) -> Any:
        nonlocal last
        # Slices of one tensor, none of them written to, may overlap or not.
        if not known and are_alone(args):
            return compiled(*args)
        given = _placed(args, positions)
        if given == last or (
            _overlaps(args, positions) == known
            and (not is_placed or _fit(_places(args, overlapping), places))
        ):
            last = given
            return compiled(*args)
        warnings.warn(
            "a call of a compiled function runs op by op: it writes to an argument that shares "
            "memory with another one in another way than in the call that it was compiled for",
            OpByOpWarning,
            stacklevel=2,
        )
        return model(*args)

    return call


def _comparison(positions: Sequence[int], count: int) -> Callable[[tuple[Any, ...]], bool]:
    """Return what tells whether the first ``count`` of these arguments share no storage.

    In C++ it takes a thirtieth of the time, which is a tenth of a call with hundreds of arguments.
    """
    if (module := module_if_made()) is not None:
        return partial(module.are_alone, positions, count)
    pick, storage = itemgetter(*positions), torch.Tensor.untyped_storage

    def are_alone(args: tuple[Any, ...]) -> bool:
        storages = [*map(storage, pick(args))]  # each has one object in Python
        first = {*storages[:count]}
        return len(first) == count and first.isdisjoint(storages[count:])

    return are_alone


def with_views_of_bases(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Any:
    """Wrap AOTAutograd's function that describes a graph with one base in the place of arguments.

    A result that is a view of an argument is made again from it in each call, by the steps with
    which the function made it. Torch takes the same steps from the base, which is another tensor:
    of ``(b, b[1:])`` it returns ``b[0]`` for ``pair[1][0]``. Without steps it goes by the sizes,
    strides and offset of what the graph returns.
    """

    @wraps(stock)
    def describe(metadata: Any, places: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        made, *others = stock(metadata, places, *args, **kwargs)
        of_inputs = compat.OutputType.alias_of_input, compat.OutputType.is_input
        for position, info in enumerate(metadata.output_info if is_ours() else ()):
            # An argument that a base has replaced has a tuple for a place.
            if info.output_type in of_inputs and not isinstance(places[info.base_idx], int):
                said = made.output_info[position]
                made.output_info[position] = replace(said, view_meta_sequence=None)
        return made, *others

    return describe
