"""Whether the lines of a program do what the graph says that it was made from.

The front end records for each line the nodes that it computes, and for each call the node whose
value a buffer holds afterwards. That is the witness; nothing is searched for. Along the lines, each
storage has the root of the graph that it stands for and the version of its contents:

- a line that computes a node reads each root in a version that one of its nodes reads;
- writes of the graph happen in its order, and each of them happens;
- a result holds the value that the graph returns.

Where the witness says too little, a line is not shown, which is no fault.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._pytree import tree_leaves

import wrapper_ir.lines as ir
from wrapper_ir.analysis.collectives import worked_on
from wrapper_ir.analysis.liveness import Life, storages_of
from wrapper_ir.analysis.unread import unread_arguments
from wrapper_ir.graphs.contents import State
from wrapper_ir.graphs.findings import NotShown, Validation
from wrapper_ir.graphs.nodes import chain_of_views, changes_in_place
from wrapper_ir.graphs.places import place_in, place_of, shown
from wrapper_ir.graphs.versions import Versions, is_uninitialized, op_name
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.verify import rules
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torch.fx import Node

    from wrapper_ir.verify.rules import Rule


#: What a line takes instead of what it reads.
_NONE: Final = "none of the line's nodes takes it"


def compare_lines(program: ir.Program, graph: torch.fx.GraphModule) -> Validation:
    """Compare the lines of a program with the graph that it was made from, without running it."""
    return _Walk(program, graph).found()


@dataclass
class _Walk:
    program: ir.Program
    module: torch.fx.GraphModule
    faults: list[Diagnostic] = field(default_factory=list)
    not_shown: list[NotShown] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = self.module.graph
        self.versions = Versions(self.graph)
        self.lives = storages_of(self.program).lives
        self.states: dict[Life, State] = {}
        #: What inputs stand for at first, where that is certain.
        self.given: dict[str, Node] = {}
        self.index = 0
        #: The names of nodes in subgraphs, which may be those of others here.
        self.inner = {
            node.name
            for module in self.module.modules()
            if isinstance(module, torch.fx.GraphModule) and module is not self.module
            for node in module.graph.nodes
        }
        #: The roots that the nodes of the line take, and which of them reads each.
        self.taken: set[Node] = set()
        self.readers: dict[Node, list[Node]] = {}
        #: The nodes of the lines so far.
        self.computed: set[Node] = set()
        #: The node whose op each line calls. What makes an argument may record its node, too.
        self.calling = [self._calling(line) for line in self.program.body]
        self.called = set(self.calling)
        #: The versions of each constant that lines read; None for one that is not known.
        self.read: dict[Node, set[int | None]] = {}
        #: The nodes of each line that computes some, by its index.
        self.fused: dict[int, set[Node]] = {}

    def found(self) -> Validation:
        self._enter()
        for index, line in enumerate(self.program.body):
            self.index = index
            self._step(line)
        self._leave()
        self._check_constants()
        lines = len(self.program.body) + len(self.program.results)
        # An argument may be wrong both for what nodes take and for its position.
        faults = dict.fromkeys(self.faults)
        return Validation(lines, tuple(faults), tuple(self.not_shown))

    def _enter(self) -> None:
        """Enter what inputs and constants stand for, which have the names of nodes."""
        places = self.graph.find_nodes(op="placeholder")
        is_all = len(places) == len(self.program.inputs)  # else some bypass the program
        for position, item in enumerate(self.program.inputs):
            if isinstance(item, ir.BufferInput):
                node = places[position] if is_all else None
                self._put(item.name, State(node, 0, is_filled=True))
                if node is not None and node not in self.versions.unknown:
                    self.given[item.name] = node
        attributes = {
            str(node.target): self.versions.root(node)
            for node in self.graph.find_nodes(op="get_attr")
        }
        for name, constant in self.program.constants.items():
            self._put(name, State(attributes.get(constant.qualified_name), 0, is_filled=True))

    def _put(self, name: str, state: State) -> None:
        for life in self.lives.of(name):
            self.states[life] = state

    def _state(self, name: str) -> State | None:
        """Return what a buffer's storage stands for; None if that is not certain."""
        lives = self.lives.of(name)
        return self.states.setdefault(lives[0], State()) if len(lives) == 1 else None

    def _step(self, line: ir.AnyLine) -> None:
        found = ir.effects(line)
        origin = self.program.origin_of(line)
        names = {name.partition("[")[0] for name in origin.nodes} if origin is not None else set()
        if not found.calls:
            self._move(line, found, self._nodes(names))
        elif not names or not names.isdisjoint(self.inner):
            self._not_shown(line, "its nodes are not known")
            self._forget(found)
        else:
            nodes = self._nodes(names)
            self._note(nodes)
            # What a kernel writes under one name and reads under another may be new.
            new = self.lives.storages(set(found.writes) - set(found.reads))
            unread = unread_arguments(self.program, line)
            for name in dict.fromkeys((*found.reads, *found.writes)):
                if unread and _is_only_at(name, line, unread):
                    continue
                is_old = name in found.reads and new.isdisjoint(self.lives.storages((name,)))
                is_only_read = is_old and name not in found.writes
                self._check_read(line, name, nodes, is_read=is_old, is_only_read=is_only_read)
            self._check_positions(line, origin, unread)
            calling = self.calling[self.index]
            own = {each for each in nodes if each is calling or each not in self.called}
            self._write(worked_on(line, found), line, own, origin.values if origin else ())
            self.computed |= nodes
            self.fused[self.index] = nodes

    def _note(self, nodes: set[Node]) -> None:
        """Note which roots the nodes of a line take, and who of them reads each."""
        self.taken = {root for node in nodes for root in self.versions.takes(node)}
        self.readers = {}
        for node in nodes:
            for root in set(self.versions.reads(node)):
                self.readers.setdefault(root, []).append(node)

    def _forget(self, found: ir.Effects) -> None:
        """Enter that nothing is known of what a line writes."""
        for name in found.written:
            state = self._state(name)
            if state is not None:
                state.version = None
                state.root = state.root if name in found.writes else None
                state.is_filled, state.parts = True, None

    def _nodes(self, names: Collection[str]) -> set[Node]:
        found = {self.versions.nodes[name] for name in names if name in self.versions.nodes}
        # Who computes one of several results computes what returns them.
        parts = (node for node in found if node.target is operator.getitem)
        return found | {each for node in parts for each in node.all_input_nodes}

    def _move(self, line: ir.AnyLine, found: ir.Effects, nodes: set[Node]) -> None:
        """Enter what memory holds that changes its name, or is new, and what it is for."""
        for name in found.defines if found.takes else ():
            old = self._state(found.takes[0])
            state = State() if old is None else replace(old, parts=old.parts and {*old.parts})
            state.made_for |= nodes
            self._put(name, state)
        if ir.traits.allocates_one(line):
            is_filled = line.zeroed or 0 in self.program.buffers[line.out].size
            is_filled = is_filled or (bool(nodes) and all(map(_is_empty, nodes)))
            parts: set[ir.Layout] | None = None if is_filled else set()
            self._put(line.out, State(made_for=frozenset(nodes), is_filled=is_filled, parts=parts))
        elif ir.regions_of(line):
            self._forget(found)

    def _check_read(
        self, line: ir.AnyLine, name: str, nodes: set[Node], *, is_read: bool, is_only_read: bool
    ) -> None:
        """Check that a buffer holds what one of the nodes takes."""
        state, known = self._state(name), self.versions
        if state is not None and state.root is not None and state.root.op == "get_attr":
            self.read.setdefault(state.root, set()).add(state.version)
        if state is None:
            self._not_shown(line, f"what %{name} is a view of is not certain")
        elif state.root is None:
            taken = self.taken | nodes
            is_known = taken.isdisjoint(known.unknown) and not any(map(is_uninitialized, taken))
            is_partial = is_only_read and state.lacks_part_of(self.program.layout(name))
            if is_read and not state.is_filled and is_known:
                self._report(line, rules.WRONG_ARGUMENT, name=name, node="nothing", taken=_NONE)
            elif is_partial and is_known:
                fields = {"node": "values in a part alone", "taken": "more is taken here"}
                self._report(line, rules.WRONG_ARGUMENT, name=name, **fields)
            elif is_read and taken.isdisjoint(state.made_for):
                self._not_shown(line, f"the value of %{name} is not known")
        elif is_read and state.root not in self.taken:
            if self.taken.isdisjoint(known.unknown):
                self._report(
                    line, rules.WRONG_ARGUMENT, name=name, node=state.root.name, taken=_NONE
                )
            else:
                self._not_shown(line, f"%{name} may be what a higher-order op returned")
        elif writers := self._writers(state):
            self._check_version(line, name, state, writers, nodes)

    def _calling(self, line: ir.AnyLine) -> Node | None:
        """Return the node whose op a line calls, if it is certain."""
        if not ir.traits.calls_op(line):
            return None
        origin = self.program.origin_of(line)
        names = {name.partition("[")[0] for name in origin.nodes} if origin is not None else ()
        name = line.op.partition(".")[0]
        calling = [node for node in self._nodes(names) if op_name(node) == name]
        return calling[0] if len(calling) == 1 else None

    def _check_positions(
        self, line: ir.AnyLine, origin: ir.Origin | None, unread: frozenset[int]
    ) -> None:
        """Check that a call gets what its node takes, or what is recorded, each at its position."""
        if not ir.traits.calls(line):
            return
        calling = self.calling[self.index]
        taken: Sequence[Any] = () if calling is None else calling.args
        if not taken and origin is not None:
            taken = [self.versions.nodes.get(name) for name in origin.reads]
        for position, (arg, node) in enumerate(zip(line.args, taken, strict=False)):
            if position in unread or not isinstance(arg, ir.BufferArg):
                continue
            state, wanted = self._state(arg.buffer), self.versions.root(node)
            if state is None or state.root is None or wanted is None:
                continue
            is_known = not {wanted, state.root} & self.versions.unknown
            is_told = state.root not in self.taken  # what no node takes has been reported
            if is_known and not is_told and state.root is not wanted:
                taken_here = f"{wanted.name} is taken here"
                fields = {"name": arg.buffer, "node": state.root.name, "taken": taken_here}
                self._report(line, rules.WRONG_ARGUMENT, **fields)

    def _check_version(
        self, line: ir.AnyLine, name: str, state: State, writers: list[Node], nodes: set[Node]
    ) -> None:
        """Check that memory that the graph writes to holds what one of the nodes reads."""
        root, known = state.root, self.versions
        assert root is not None
        wanted = {node: known.before(node, root) for node in self.readers.get(root, ())}
        if not wanted:
            return
        first, last = min(wanted.values()), max(wanted.values())
        if state.version is None:
            self._not_shown(line, f"the contents of %{name} are not known")
        elif last < state.version:
            self._report(line, rules.READ_TOO_LATE, name=name, node=writers[last].name)
        elif max(self._done(root, nodes), default=0) < first and state.version < first:
            self._report(line, rules.READ_TOO_EARLY, name=name, node=writers[first - 1].name)
        elif any(at < state.version for node, at in wanted.items() if node not in self.computed):
            self._not_shown(line, f"it may read %{name} after {writers[first].name}")

    def _check_constants(self) -> None:
        """Check that constants are read that the graph reads after it has written to them."""
        for root in self.versions.writers:
            names = [
                name
                for name, constant in self.program.constants.items()
                if root.op == "get_attr" and constant.qualified_name == str(root.target)
            ]
            seen = self.read.get(root, set())
            if names and None not in seen:
                self._check_constant(root, names[0], seen)

    def _check_constant(self, root: Node, name: str, seen: set[int | None]) -> None:
        """Check that lines read a constant in the versions that the graph has written."""
        writers = self.versions.writers[root]
        for index, nodes in self.fused.items():
            self.index, line = index, self.program.body[index]
            for node in nodes - set(writers):
                version = self.versions.before(node, root)
                is_told = version in seen or not nodes.isdisjoint(writers)
                if version and not is_told and root in self.versions.reads_elements(node):
                    fields = {"name": name, "writer": writers[version - 1].name}
                    self._report(line, rules.READ_MISSING, node=node.name, **fields)

    def _done(self, root: Node | None, nodes: set[Node]) -> list[int]:
        """Return the versions of a root that some nodes make."""
        if root is None or root in self.versions.unknown:
            return []
        writers = self.versions.writers.get(root, ())
        return [version for version, each in enumerate(writers, start=1) if each in nodes]

    def _writers(self, state: State) -> list[Node]:
        """Return the nodes that write to what a storage stands for, in order."""
        if state.root is None or state.root in self.versions.unknown:
            return []
        return self.versions.writers.get(state.root, [])

    def _write(
        self, written: Sequence[str], line: ir.AnyLine, nodes: set[Node], values: tuple[str, ...]
    ) -> None:
        """Enter what the storages that a line writes stand for afterwards."""
        held = dict(zip(written, values, strict=False))
        for name in written:
            state = self._state(name)
            if state is None:
                continue
            writers = self._writers(state)
            done = self._done(state.root, nodes)
            value = self.versions.nodes.get(held.get(name, "").partition("[")[0])
            root = self.versions.root(value)
            is_whole = self._is_whole(name)
            if not state.is_filled and _changes(value) and root not in {value, *nodes}:
                # The node changes what another one made.
                self._report(line, rules.WRONG_ARGUMENT, name=name, node="nothing", taken=_NONE)
            state.made_for |= nodes
            state.is_filled, state.writer = True, line
            if state.parts is not None:
                state.write(self.program.layout(name), is_whole=is_whole)
            if done:
                if state.version is not None and min(done) > state.version + 1:
                    node = writers[state.version].name
                    self._report(line, rules.WRITE_MISSING, name=name, node=node)
                state.version = max(done)
            elif not is_whole:
                state.root = state.version = None
            elif value is not None and root is not None:
                # The line may write to the value, too.
                state.root = root
                state.version = max(self.versions.after(value, root), *self._done(root, nodes), 0)
            elif state.root is not None:
                state.root = state.version = None

    def _is_whole(self, name: str) -> bool:
        """Return whether a name stands for all elements of its storage."""
        sizes = self.program.buffers
        owner = sizes.get(self.lives.of(name)[0].owner)
        return owner is not None and sizes[name].numel == owner.numel

    def _leave(self) -> None:
        (output,) = self.graph.find_nodes(op="output")
        returned = tree_leaves(output.args[0], is_leaf=lambda each: each is None)
        for item, name in self._outside():
            state = self._state(name)
            if state is None or state.root is None or 0 in self.program.buffers[name].size:
                continue
            writers = self._writers(state)
            written = self.versions.writers.get(self.given.get(name, state.root), [])
            if state.version is not None and state.version < len(writers):
                node = writers[state.version].name
                self._at_end(name, rules.WRITE_MISSING, item, node=node)
            elif written and state.root is not self.given.get(name, state.root):
                # Something else has been written over it.
                self._at_end(name, rules.WRITE_MISSING, item, node=written[-1].name)
            elif state.version is None and writers:
                why = f"the contents of %{name} at the end are not known"
                self._not_shown(None, why, part=item)
        if len(returned) != len(self.program.results):
            return
        for position, (value, node) in enumerate(zip(self.program.results, returned, strict=True)):
            if not isinstance(value, ir.BufferValue) or not isinstance(node, torch.fx.Node):
                continue
            self._check_result(position, value.buffer, node)

    def _check_result(self, position: int, name: str, node: Node) -> None:
        """Check that a buffer holds what a node has computed, or a line that computes it."""
        state, root = self._state(name), self.versions.root(node)
        assert root is not None
        part = f"results[{position}]"
        if state is not None and not (state.is_filled or is_uninitialized(root)):
            fields = {"position": position, "node": node.name, "other": "nothing"}
            self._at_end(name, rules.WRONG_RESULT, part, **fields)
        elif state is not None and state.lacks_part_of(self.program.layout(name)):
            other = "values in a part alone"
            fields = {"position": position, "node": node.name, "other": other}
            self._at_end(name, rules.WRONG_RESULT, part, **fields)
        elif state is None or state.root is None or root in self.versions.unknown:
            makers = {node, root, *self.versions.writers.get(root, ())}
            if state is None or makers.isdisjoint(state.made_for):
                self._not_shown(None, f"the value of %{name} is not known", part=part)
        elif state.root is not root:
            fields = {"position": position, "node": node.name, "other": state.root.name}
            self._at_end(name, rules.WRONG_RESULT, part, **fields)
        elif node is not root and self.given.get(self.lives.of(name)[0].owner) is root:
            given, wanted = place_of(self.program.buffers[name]), place_in(node, root)
            if given and wanted and given != wanted:
                fields = {"given": shown(given), "wanted": shown(wanted)}
                fields |= {"position": position, "node": node.name}
                self._at_end(name, rules.WRONG_VIEW, part, **fields)

    def _outside(self) -> Iterator[tuple[str, str]]:
        """Yield the inputs and results whose contents the caller sees, with the part's name."""
        for position, item in enumerate(self.program.inputs):
            if isinstance(item, ir.BufferInput) and not item.donated:
                yield f"inputs[{position}]", item.name
        for position, value in enumerate(self.program.results):
            if isinstance(value, ir.BufferValue):
                yield f"results[{position}]", value.buffer

    def _report(self, line: ir.AnyLine, rule: Rule, **named: object) -> None:
        path, origin = self._where(line)
        message = rule.template.format_map(named)
        self.faults.append(Diagnostic(rule, message, path, "", origin, rule.hint))

    def _at_end(self, name: str, rule: Rule, part: str, **named: object) -> None:
        """Report what an input or a result holds, with the origin of the line that wrote it.

        If none has, the last one that uses its memory is named.
        """
        state = self._state(name)
        writer = None if state is None else state.writer
        if writer is None:
            last = max((life.last_use for life in self.lives.of(name)), default=-1)
            writer = None if last < 0 else self.program.body[last]
        origin = None if writer is None else self.program.origin_of(writer)
        message = rule.template.format_map({"name": name, **named})
        self.faults.append(Diagnostic(rule, message, ir.Path(), part, origin, rule.hint))

    def _not_shown(self, line: ir.AnyLine | None, why: str, part: str = "") -> None:
        path, origin = self._where(line)
        self.not_shown.append(NotShown(path, part, why, "" if origin is None else origin.place))

    def _where(self, line: ir.AnyLine | None) -> tuple[ir.Path, ir.Origin | None]:
        """Return the place of the line that is being compared, or that of no line."""
        if line is None:
            return ir.Path(), None
        return ir.Path().then("body", self.index), self.program.origin_of(line)


def _is_empty(node: Node) -> bool:
    """Return whether a node's value has no elements, as guards on products of sizes may say."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and statically_known_true(value.numel() == 0)


def _is_only_at(name: str, line: ir.AnyLine, positions: frozenset[int]) -> bool:
    """Return whether a call has a buffer at some positions, and nowhere else."""
    assert ir.traits.calls_op(line)
    others = [arg for n, arg in enumerate(line.args) if n not in positions]
    others += (arg for _, arg in line.kwargs)
    return all(arg.buffer != name for arg in buffers_in(others))


def _changes(value: Node | None) -> bool:
    """Return whether a node, or what it is a view of, changes what is there, instead of a copy."""
    return value is not None and any(map(changes_in_place, chain_of_views(value)))
