"""What each rank's program says to the others, in its order, as a tree of branches and loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import (
    Call,
    Kind,
    call_of,
    shared_with_peers,
    waits_for_work,
    why_unknown,
)
from wrapper_ir.lines.expr import product
from wrapper_ir.lines.traits import is_slice, loops
from wrapper_ir.verify.collectives import Event
from wrapper_ir.verify.ranks.report import RankProblem, Where
from wrapper_ir.verify.ranks.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wrapper_ir.analysis.collectives import Group


class Tensor(NamedTuple):
    """The facts about a tensor that ranks have to agree on."""

    dtype: ir.DType
    numel: ir.Dim
    row: ir.Dim
    """The elements of a row, which an uneven all-to-all counts by."""

    def __str__(self) -> str:
        return f"{self.dtype.value}[{self.numel}]"


class Key(NamedTuple):
    """The part of one call that all members of a group have to say alike."""

    op: str
    dtypes: tuple[ir.DType, ...]
    sizes: tuple[ir.Dim, ...]
    reduction: str
    root: str
    places: tuple[ir.Dim, ...]
    """Where in its pool the memory begins that peers access: they look for it at their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Post:
    """A call of a collective."""

    event: Event
    call: Call
    tensors: tuple[Tensor, ...]
    values: tuple[int, ...]
    """How what it sends was made: see :mod:`values`."""
    places: tuple[ir.Dim, ...]
    """Bytes from the start of its pool to each buffer that peers access."""
    where: tuple[str, str, str]
    """Path, what it says, and source, for :class:`Where`."""

    @property
    def key(self) -> Key:
        """The part that others have to say alike. Rows for each member are compared apart."""
        facts = self.call.facts
        has_rows = facts.kind is Kind.ALL_TO_ALL and not facts.protocol
        sizes = () if has_rows else tuple(each.numel for each in self.tensors)
        dtypes = tuple(each.dtype for each in self.tensors)
        return Key(str(facts), dtypes, sizes, self.call.reduction, self.call.root, self.places)


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A wait for work that calls started."""

    event: Event
    where: tuple[str, str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A line with regions that talk: a loop, or a choice among several."""

    is_loop: bool
    parts: tuple[tuple[Node, ...], ...]
    where: tuple[str, str, str]


Node: TypeAlias = Post | Wait | Nest


@dataclass(slots=True)
class Schedule:
    """All that one program says to other ranks."""

    nodes: tuple[Node, ...] = ()
    posts: list[Post] = field(default_factory=list)
    """All calls, those in regions too."""
    unknown: list[tuple[str, tuple[str, str, str]]] = field(default_factory=list)
    """Lines that talk in a way that nothing is known of, each with the reason and its place."""

    def says_unknown(self, rank: int) -> Iterator[RankProblem]:
        """Yield what is not shown because nothing is known of an op."""
        for why, where in self.unknown:
            op = where[1]
            yield RankProblem("unknown", f"what {op} does: it {why}", (Where(rank, *where),))


def schedule_of(program: ir.Program, events: tuple[Event, ...]) -> Schedule:
    """Return the schedule of a program, given its events as the verifier saw them."""
    return _Reader(program, events).read()


class _Reader:
    def __init__(self, program: ir.Program, events: tuple[Event, ...]) -> None:
        self._program = program
        self._events = {event.place.path: event for event in events}
        self._found = Schedule()
        self._values = Values(program)
        self._starts: dict[str, ir.Dim] = {}
        """Bytes from the start of its pool to the storage of each buffer; 0 if it is in none."""

    def read(self) -> Schedule:
        if self._events:
            nodes = self._nodes(self._program.region, ir.Path(), "body")
            self._found.nodes = tuple(nodes)
        return self._found

    def _nodes(self, region: ir.Region, parent: ir.Path, name: str) -> Iterator[Node]:
        for index, line in enumerate(region.body):
            path = parent.then(name, index)
            event = self._events.get(path)
            if event is not None:
                yield from self._node(line, path, event)
            regions = ir.regions_of(line)
            if regions:
                parts = tuple(tuple(self._nodes(inner, path, each)) for each, inner in regions)
                if any(parts):
                    where = (str(path), line.mnemonic, self._program.source_of(line))
                    yield Nest(loops(line), parts, where)
            self._follow(line)
            if not parent:
                self._values.step(line)

    def _follow(self, line: ir.AnyLine) -> None:
        """Note where in a pool the storage of a line's buffers is."""
        found = ir.effects(line, self._program)
        if is_slice(line):
            self._starts[line.out] = line.offset
        for name, source in (
            *((alias.name, alias.source) for alias in found.aliases),
            *zip(found.defines, found.takes, strict=False),
        ):
            if source in self._starts:
                self._starts[name] = self._starts[source]

    def _place(self, name: str) -> ir.Dim:
        layout = self._program.layout(name)
        return ir.dim(self._starts.get(name, 0) + layout.offset * layout.dtype.itemsize)

    def _node(self, line: ir.AnyLine, path: ir.Path, event: Event) -> Iterator[Node]:
        source = self._program.source_of(line)
        if waits_for_work(line):
            yield Wait(event, (str(path), "wait_tensor", source))
            return
        call = call_of(self._program, line)
        if call is None:
            why = why_unknown(event.line.op) or "is not torch's, and may talk to other ranks"
            self._found.unknown.append((why, (str(path), event.line.op, source)))
            return
        tensors = tuple(map(self._tensor, call.sent))
        values = tuple(map(self._values.of, call.sent))
        places = tuple(map(self._place, shared_with_peers(self._program, line)))
        says = _described(call, tensors)
        post = Post(event, call, tensors, values, places, (str(path), says, source))
        self._found.posts.append(post)
        if call.group:
            yield post
        else:
            why = "does not name its group"
            self._found.unknown.append((why, post.where))

    def _tensor(self, name: str) -> Tensor:
        layout = self._program.layout(name)
        return Tensor(layout.dtype, layout.numel, product(layout.size[1:]))


def _described(call: Call, tensors: tuple[Tensor, ...]) -> str:
    """Return a call in words."""
    if call.facts.kind is Kind.MESSAGES:
        words = [f"{'send to' if m.is_sent else 'receive from'} {m.peer}" for m in call.messages]
        return f"{', '.join(words) or 'messages'} in {call.group!r}"
    more = [f"'{call.reduction}'"] if call.reduction else []
    more += [f"from {call.root}"] if call.root else []
    more += ["of " + ", ".join(f"%{n} ({t})" for n, t in zip(call.sent, tensors, strict=True))]
    return f"{call.facts} {' '.join(more)} in {call.group!r}"


# What one group hears of a rank.


class Nested(NamedTuple):
    """A branch or loop, as a group hears it."""

    is_loop: bool
    parts: tuple[tuple[Key | Nested, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """A call of a rank in a group, or a branch or loop with some."""

    key: Key | Nested
    node: Post | Nest

    @property
    def values(self) -> tuple[int, ...]:
        """Numbers for how what it sends was made; none for branches and loops."""
        return self.node.values if isinstance(self.node, Post) else ()


def heard(nodes: tuple[Node, ...], group: Group) -> Iterator[Heard]:
    """Yield what a group hears of a rank. Branches that all say the same are none."""
    for node in nodes:
        if isinstance(node, Post):
            if node.call.group == group and node.call.facts.kind is not Kind.MESSAGES:
                yield Heard(node.key, node)
        elif isinstance(node, Nest):
            parts = tuple(tuple(heard(part, group)) for part in node.parts)
            keys = tuple(tuple(each.key for each in part) for part in parts)
            if not any(keys):
                continue
            if not node.is_loop and len(set(keys)) == 1:
                yield from parts[0]
            else:
                yield Heard(Nested(node.is_loop, keys), node)


def nested_posts(nodes: tuple[Node, ...]) -> Iterator[Post]:
    """Yield the calls inside of branches and loops."""
    for node in nodes:
        if isinstance(node, Nest):
            for part in node.parts:
                yield from (each for each in part if isinstance(each, Post))
                yield from nested_posts(part)


def by_group(schedules: Mapping[int, Schedule], group: Group) -> dict[int, tuple[Heard, ...]]:
    """Return what a group hears of each rank."""
    return {rank: tuple(heard(each.nodes, group)) for rank, each in schedules.items()}
