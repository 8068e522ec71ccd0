"""Facts about collectives: what each sends and writes, its group, and whether it goes on.

A functional collective starts work and returns; what it writes is there once ``wait_tensor`` was
called on it. Until then it may read its arguments. An op of symmetric memory is done when it
returns, in the order of its stream. Schemas say which arguments are tensors, and most of what is
written; they name the group, the reduction, the root and the peer. What they do not say is in
:data:`_TABLE`. Ops of these namespaces without such facts are in :data:`UNKNOWN`, with the reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.traits import calls_op, op_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Kind(enum.Enum):
    """A way in which the members of a group work together."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    MESSAGES = "messages"
    """Sends and receives: each has a peer, and nobody else takes part."""
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Collective:
    """The facts about an op that schemas do not state."""

    op: str
    kind: Kind
    protocol: str = ""
    """How ranks talk to each other, where there are several ways: all have to use the same."""
    in_flight: bool = False
    """Work goes on after the op returns, until ``wait_tensor`` on what it writes."""
    one_piece: bool = False
    """It takes the memory of what it writes as one piece, whatever the strides are."""
    sends: str = ""
    """The argument with what this rank gives, if that is not the first with tensors."""

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.protocol})" if self.protocol else self.kind.value


#: Op, kind and protocol, and then: ``flies`` if work goes on after it, ``piece`` if it works on
#: memory as one piece, the argument with what it sends.
_TABLE: Final = """
_c10d_functional::all_gather_into_tensor                   all_gather        flies
_c10d_functional::all_gather_into_tensor_coalesced         all_gather        flies
_c10d_functional::all_gather_into_tensor_out               all_gather        flies
_c10d_functional::all_reduce                               all_reduce        flies
_c10d_functional::all_reduce_                              all_reduce        flies piece
_c10d_functional::all_reduce_coalesced                     all_reduce        flies
_c10d_functional::all_reduce_coalesced_                    all_reduce        flies
_c10d_functional::all_to_all_single                        all_to_all        flies
_c10d_functional::batch_p2p_ops                            messages          flies
_c10d_functional::broadcast                                broadcast         flies
_c10d_functional::broadcast_                               broadcast         flies piece
_c10d_functional::irecv                                    messages          flies
_c10d_functional::isend                                    messages          flies
_c10d_functional::reduce_scatter_tensor                    reduce_scatter    flies
_c10d_functional::reduce_scatter_tensor_coalesced          reduce_scatter    flies
_c10d_functional::reduce_scatter_tensor_out                reduce_scatter    flies
_c10d_functional::wait_tensor                              wait
_c10d_functional::wait_tensors                             wait
_c10d_functional_autograd::all_gather_into_tensor          all_gather        flies
_c10d_functional_autograd::all_to_all_single               all_to_all        flies
_c10d_functional_autograd::reduce_scatter_tensor           reduce_scatter    flies
_dtensor::shard_dim_alltoall                               all_to_all:shards
c10d_functional::all_gather_into_tensor                    all_gather        flies
c10d_functional::all_gather_into_tensor_coalesced          all_gather        flies
c10d_functional::all_reduce                                all_reduce        flies
c10d_functional::all_reduce_coalesced                      all_reduce        flies
c10d_functional::all_to_all_single                         all_to_all        flies
c10d_functional::batch_p2p_ops                             messages          flies
c10d_functional::broadcast                                 broadcast         flies
c10d_functional::irecv                                     messages          flies
c10d_functional::isend                                     messages          flies
c10d_functional::reduce_scatter_tensor                     reduce_scatter    flies
c10d_functional::reduce_scatter_tensor_coalesced           reduce_scatter    flies
c10d_functional::wait_tensor                               wait
symm_mem::_low_contention_all_gather                       all_gather:low_contention flies
symm_mem::_low_contention_all_gather_ce_multicast          all_gather:multicast
symm_mem::_low_contention_all_gather_ce_multicast_out      all_gather:multicast
symm_mem::_low_contention_reduce_scatter                   reduce_scatter:low_contention flies
symm_mem::all_to_all_vdev                                  all_to_all:vdev
symm_mem::all_to_all_vdev_2d                               all_to_all:vdev_2d
symm_mem::all_to_all_vdev_2d_offset                        all_to_all:vdev_2d_offset
symm_mem::fused_all_gather_matmul                          all_gather:matmul
symm_mem::fused_all_gather_scaled_matmul                   all_gather:scaled_matmul
symm_mem::fused_matmul_reduce_scatter                      reduce_scatter:matmul
symm_mem::fused_scaled_matmul_reduce_scatter               reduce_scatter:scaled_matmul
symm_mem::multi_root_tile_reduce                           reduce:tiles
symm_mem::multimem_all_gather_out                          all_gather:multimem
symm_mem::multimem_all_reduce_                             all_reduce:multimem piece
symm_mem::multimem_one_shot_all_reduce                     all_reduce:multimem_one_shot
symm_mem::multimem_one_shot_all_reduce_out                 all_reduce:multimem_one_shot
symm_mem::multimem_one_shot_reduce_out                     reduce:multimem_one_shot
symm_mem::nccl_all_to_all_nd                               all_to_all:nd
symm_mem::nccl_reduce_scatter_offset                       reduce_scatter:offset
symm_mem::nvshmem_all_to_all                               all_to_all:nvshmem
symm_mem::nvshmem_broadcast                                broadcast:nvshmem piece
symm_mem::one_shot_all_reduce                              all_reduce:one_shot
symm_mem::one_shot_all_reduce_copy                         all_reduce:one_shot local_input
symm_mem::one_shot_all_reduce_copy_out                     all_reduce:one_shot local_input
symm_mem::one_shot_all_reduce_out                          all_reduce:one_shot
symm_mem::reduce_scatter_out                               reduce_scatter:one_shot
symm_mem::tile_reduce                                      reduce:tile
symm_mem::two_shot_all_reduce_                             all_reduce:two_shot piece
symm_mem::two_shot_all_reduce_out                          all_reduce:two_shot
"""

#: Ops that let peers access memory of this rank, and the arguments with that memory.
_SHARED: Final = """
symm_mem::_low_contention_all_gather_ce_multicast_out      out
symm_mem::all_to_all_vdev                                  input out out_splits_offsets
symm_mem::all_to_all_vdev_2d                               input out out_splits_offsets
symm_mem::all_to_all_vdev_2d_offset                        input out out_splits_offsets
symm_mem::get_remote_tensors                               x
symm_mem::memcpy_to_multicast_                             symm_mem_out
symm_mem::memset32_                                        input
symm_mem::multi_root_tile_reduce                           in_tiles
symm_mem::multimem_all_gather_out                          out
symm_mem::multimem_all_reduce_                             input
symm_mem::multimem_one_shot_all_reduce                     input
symm_mem::multimem_one_shot_all_reduce_out                 input
symm_mem::multimem_one_shot_reduce_out                     input
symm_mem::nccl_get                                         tensor
symm_mem::nccl_put                                         tensor
symm_mem::nccl_put_with_signal                             tensor
symm_mem::nvshmem_all_to_all                               input out
symm_mem::nvshmem_broadcast                                input
symm_mem::nvshmem_get                                      tensor
symm_mem::nvshmem_put                                      tensor
symm_mem::nvshmem_put_with_signal                          tensor
symm_mem::one_shot_all_reduce                              input
symm_mem::one_shot_all_reduce_copy                         symm_buffer
symm_mem::one_shot_all_reduce_copy_out                     symm_buffer
symm_mem::one_shot_all_reduce_out                          input
symm_mem::reduce_scatter_out                               input
symm_mem::stream_write_value32_                            input
symm_mem::tile_reduce                                      in_tile
symm_mem::two_shot_all_reduce_                             input
symm_mem::two_shot_all_reduce_out                          input
"""

_NO_GROUP: Final = "takes its group as an object, of which a program knows nothing"
_ONE_SIDED: Final = "one side reads or writes memory of a peer: no second call answers it"
_RETURNS_PEERS: Final = "returns memory of peers"
_LOCAL: Final = "touches memory of this rank that peers look at: nobody else takes part"

UNKNOWN: Final[Mapping[str, str]] = {
    "_c10d_functional::_wrap_tensor_autograd": "makes a tensor that waits when it is used",
    "_dtensor::mesh_get_process_group": "returns the group of a mesh as an object",
    "c10d::": _NO_GROUP,
    "c10d::check_for_nan": "reads a tensor of this rank: nobody else takes part",
    "symm_mem::_async_input_mm": "waits for signals in memory, not for a call",
    "symm_mem::_barrier": _NO_GROUP,
    "symm_mem::_rendezvous": _NO_GROUP,
    "symm_mem::get_remote_tensors": _RETURNS_PEERS,
    "symm_mem::memcpy_to_multicast_": _ONE_SIDED,
    "symm_mem::memset32_": _LOCAL,
    "symm_mem::nccl_get": _ONE_SIDED,
    "symm_mem::nccl_get_out": _ONE_SIDED,
    "symm_mem::nccl_put": _ONE_SIDED,
    "symm_mem::nccl_put_signal": _ONE_SIDED,
    "symm_mem::nccl_put_with_signal": _ONE_SIDED,
    "symm_mem::nccl_wait_for_signal": "waits for a signal, not for a call",
    "symm_mem::nccl_wait_signal": "waits for a signal, not for a call",
    "symm_mem::nvshmem_get": _ONE_SIDED,
    "symm_mem::nvshmem_get_out": _ONE_SIDED,
    "symm_mem::nvshmem_put": _ONE_SIDED,
    "symm_mem::nvshmem_put_with_signal": _ONE_SIDED,
    "symm_mem::nvshmem_wait_for_signal": "waits for a signal, not for a call",
    "symm_mem::stream_write_value32_": _LOCAL,
}
"""Ops, or whole namespaces, that ranks talk through in ways that no line states, and why not."""

NAMESPACES: Final = (
    *("_c10d_functional::", "_c10d_functional_autograd::", "_dtensor::", "c10d::"),
    *("c10d_functional::", "symm_mem::"),
)
"""The namespaces of ops through which ranks talk to each other."""

WAIT: Final = "_c10d_functional::wait_tensor"
"""The op that waits for work on a tensor."""


_NOBODY_WAITS: Final = (_ONE_SIDED, _RETURNS_PEERS, _LOCAL)
"""Why ops are unknown after which peers may go on to access memory."""


@cache
def _shared() -> dict[str, tuple[str, ...]]:
    rows = (row.split() for row in _SHARED.split("\n") if row)
    return {op: tuple(names) for op, *names in rows}


@cache
def _table() -> dict[str, Collective]:
    found = {}
    for op, what, *more in (row.split() for row in _TABLE.split("\n") if row):
        kind, _, protocol = what.partition(":")
        sends = next((word for word in more if word not in ("flies", "piece")), "")
        facts = Collective(op, Kind(kind), protocol, "flies" in more, "piece" in more, sends)
        found[op] = facts
    return found


def facts_of(op: str) -> Collective | None:
    """Return the facts about an op, if it is a collective that the table knows."""
    return _table().get(op.partition(".")[0])


def why_unknown(op: str) -> str:
    """Return why nothing is known of an op through which ranks may talk; empty for others."""
    name = op.partition(".")[0]
    namespace = name[: name.find("::") + 2]
    if namespace not in NAMESPACES or name in _table():
        return ""
    return UNKNOWN.get(name) or UNKNOWN.get(namespace) or "has no facts here"


# Facts about lines.


def begins_work(line: ir.AnyLine) -> bool:
    """Return whether a line starts work that goes on after it."""
    facts = facts_of(op_of(line))
    return facts is not None and facts.in_flight


def ignores_strides(line: ir.AnyLine) -> bool:
    """Return whether a line works on the memory of what it writes as one piece.

    Lists of tensors are copied where they have gaps.
    """
    facts = facts_of(op_of(line))
    return facts is not None and facts.one_piece


def waits_for_work(line: ir.AnyLine) -> bool:
    """Return whether a line waits for the work on its arguments."""
    facts = facts_of(op_of(line))
    return facts is not None and facts.kind is Kind.WAIT


def is_collective(line: ir.AnyLine) -> bool:
    """Return whether others may use a line's arguments, perhaps after it returns."""
    return op_of(line).startswith(NAMESPACES)


def shared_with_peers(program: ir.Program, line: ir.AnyLine) -> tuple[str, ...]:
    """Return the buffers that a line lets peers access in the memory of this rank."""
    names = _shared().get(op_of(line).partition(".")[0], ())
    definition = program.kernels.get(op_of(line)) if names else None
    if definition is None or not isinstance(definition.source, ir.TorchOp) or not calls_op(line):
        return ()
    given = ir.parse_schema(definition.source.schema).given(line.args, line.kwargs)
    return tuple(each.buffer for each in buffers_in([given[n] for n in names if n in given]))


def leaves_peers_running(line: ir.AnyLine) -> bool:
    """Return whether peers may go on to access memory after a line, without a wait for them."""
    return UNKNOWN.get(op_of(line).partition(".")[0]) in _NOBODY_WAITS


def worked_on(line: ir.AnyLine, found: ir.Effects) -> list[str]:
    """Return the buffers that work writes which a line starts.

    Schemas do not say that receiving writes.
    """
    return list(dict.fromkeys((*found.written, *_received(line))))


def _received(line: ir.AnyLine) -> Sequence[str]:
    found = messages(line) if calls_op(line) else ()
    return [each.buffer for each in found if not each.is_sent]


# Messages.


@dataclass(frozen=True, slots=True)
class Message:
    """One send or receive of a line."""

    is_sent: bool
    peer: int
    """The rank in the group that it goes to or comes from."""
    tag: int
    buffer: str


def messages(line: ir.ExternKernel) -> tuple[Message, ...]:
    """Return the messages of a line, as far as it states them."""
    facts = facts_of(line.op)
    if facts is None or facts.kind is not Kind.MESSAGES:
        return ()
    args = line.args[:4]
    rows = _rows(line.op, tuple(map(_items, args)) if _is_batch(line.op) else args)
    return tuple(
        Message(kind in _SENDS, int(peer.value), int(tag.value), tensor.buffer)
        for kind, peer, tag, tensor in rows
        if isinstance(peer, ir.ScalarArg) and isinstance(peer.value, int)
        if isinstance(tag, ir.ScalarArg) and isinstance(tag.value, int)
        if isinstance(tensor, ir.BufferArg)
    )


def _items(arg: ir.Arg) -> Sequence[ir.Arg]:
    return arg.items if isinstance(arg, ir.ListArg) else (arg,)


#: What says in a line, and in a graph, that a message is sent.
_SENDS: Final = (ir.StringArg("isend"), "isend")


def _name_of(op: str) -> str:
    return op.partition(".")[0].partition("::")[2]


def _is_batch(op: str) -> bool:
    return _name_of(op) == "batch_p2p_ops"


def _rows(op: str, args: Sequence[Any]) -> Iterable[tuple[Any, Any, Any, Any]]:
    """Return kind, peer, tag and tensor of each message of a call."""
    if _is_batch(op):
        return zip(*args[:4], strict=True)
    return [(_name_of(op), args[1], args[2], args[0])]


# Facts about calls in a graph, of which ``args`` are the arguments.


def received(op: str, args: Sequence[Any]) -> Sequence[Any]:
    """Return what a call writes messages to, each where it is in the result; None for one sent.

    Schemas do not say that receiving writes to an argument and returns it.
    """
    facts = facts_of(op)
    if facts is None or facts.kind is not Kind.MESSAGES:
        return ()
    return [None if kind in _SENDS else tensor for kind, _, _, tensor in _rows(op, args)]


def waited_for(op: str, args: Sequence[Any]) -> Sequence[Any]:
    """Return what a call waits for, which is also what it returns."""
    facts = facts_of(op)
    if facts is None or facts.kind is not Kind.WAIT:
        return ()
    return args[0] if isinstance(args[0], (list, tuple)) else args[:1]


# Calls.

_REDUCTIONS: Final = ("reduce_op", "reduceOp", "red_op")
_ROOTS: Final = ("src", "root", "roots")


Group: TypeAlias = str | tuple[int, ...]
"""A group: its name or, for ops that list them, its ranks."""


@dataclass(frozen=True, slots=True)
class Call:
    """The part of a line that the other members of its group have to match."""

    facts: Collective
    group: Group
    """Empty if the line states none."""
    sent: tuple[str, ...]
    """The buffers that it gives."""
    reduction: str = ""
    root: str = ""
    size: int | None = None
    """The number of members, if the line states it."""
    splits: tuple[tuple[ir.Dim, ...], tuple[ir.Dim, ...]] = ((), ())
    """Rows given to and taken from each member; empty if all are alike."""
    messages: tuple[Message, ...] = ()


def call_of(program: ir.Program, line: ir.AnyLine) -> Call | None:
    """Return what a line says to its group; nothing for waits and other lines."""
    facts = facts_of(op_of(line))
    if facts is None or facts.kind is Kind.WAIT or not calls_op(line):
        return None
    source = program.kernels[line.op].source
    assert isinstance(source, ir.TorchOp)
    schema = ir.parse_schema(source.schema)
    given = schema.given(line.args, line.kwargs)
    tensors = [a.name for a in schema.args if a.type.base == "Tensor" and a.name in given]
    sends = facts.sends or next(iter(tensors), "")
    size = given.get("group_size")
    return Call(
        facts,
        _group(given),
        tuple(each.buffer for each in buffers_in([given[sends]])) if sends else (),
        _text(given, _REDUCTIONS),
        _text(given, _ROOTS) if facts.kind is not Kind.MESSAGES else "",
        size.value if isinstance(size, ir.ScalarArg) and isinstance(size.value, int) else None,
        (_dims(given.get("input_split_sizes")), _dims(given.get("output_split_sizes"))),
        messages(line),
    )


def _group(given: Mapping[str, ir.Arg]) -> Group:
    name = given.get("group_name")
    if isinstance(name, ir.StringArg):
        return name.value
    return tuple(each for each in _dims(given.get("ranks")) if isinstance(each, int))


def _text(given: Mapping[str, ir.Arg], names: Sequence[str]) -> str:
    arg = next((given[name] for name in names if name in given), None)
    if isinstance(arg, ir.StringArg):
        return arg.value.lower()
    return ", ".join(map(str, _dims(arg)))


def _dims(arg: ir.Arg | None) -> tuple[ir.Dim, ...]:
    items = () if arg is None else _items(arg)
    return tuple(ir.dim(each.value) for each in items if isinstance(each, ir.ScalarArg))
