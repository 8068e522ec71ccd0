"""The contract between a graph and its program, compared in every compilation.

Inductor makes functional graphs write in place. Its passes decide that from fake values and
patterns, and some have been wrong: an input was overwritten that the graph leaves alone, a result
was the input itself. So the contract of a graph is noted before Inductor's passes change it, and
the program is compared with it. A graph that fails is lowered again with the passes off that write
in place, which costs copies. If it still fails, that is an error: Inductor's own wrapper would do
the same to the caller's memory.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.contract import contract_of, memory_of
from wrapper_ir.frontends.inductor.errors import ContractWarning
from wrapper_ir.frontends.inductor.mismatches import ContractError, GraphMismatchError
from wrapper_ir.frontends.inductor.session import statistics
from wrapper_ir.frontends.inductor.untried import validation
from wrapper_ir.graphs.nodes import chain_of_views, written_by
from wrapper_ir.graphs.refinement import compare_lines
from wrapper_ir.graphs.versions import Versions
from wrapper_ir.lines.walk import Path, walk
from wrapper_ir.verify import rules
from wrapper_ir.verify.contract import Contract, breaches
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wrapper_ir.frontends.inductor.convert.graph import Passing
    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.lines.program import Program

_log: Final = logging.getLogger("wrapper_ir.inductor")


@dataclass(frozen=True)
class _Noted:
    """A graph that is being compiled, its contract, and the arguments whose new values it reads."""

    module: object
    contract: Contract
    reread: frozenset[str]


_noted: ContextVar[_Noted | None] = ContextVar("noted", default=None)

#: Ops that Inductor takes for copies with an argument of zero, and those with one of zero or one.
_SUMS: Final = (torch.ops.aten.add, torch.ops.aten.sub)
_ARITHMETIC: Final = (*_SUMS, torch.ops.aten.mul, torch.ops.aten.div)

#: True while a graph is lowered without the passes that write in place.
_keeps_copies: ContextVar[bool] = ContextVar("keeps_copies", default=False)


def noting_contract(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's method that lowers a graph, to note its contract and to try again."""

    @wraps(stock)
    def codegen_and_compile(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours():
            return stock(self, gm, *args, **kwargs)
        reread = frozenset(root.name for _, root, _ in _overtaken(gm.graph))
        token = _noted.set(_Noted(gm, contract_of(gm.graph), reread))
        # The passes change subgraphs, too. Copies share the values.
        parts = [each for each in gm.modules() if isinstance(each, torch.fx.GraphModule)]
        kept = [copy.deepcopy(each.graph) for each in parts]
        try:
            return stock(self, gm, *args, **kwargs)
        except ContractError as error:
            told = "; ".join(f"{each.message} ({each.source})" for each in error.diagnostics)
            _log.info("a graph is lowered again, with a copy for each write: %s", told)
            statistics.count_relowered()
            for part, graph in zip(parts, kept, strict=True):
                part.graph = graph
            with _with_copies():
                return stock(self, gm, *args, **kwargs)
        finally:
            _noted.reset(token)

    return codegen_and_compile


def _overtaken(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, ...]]:
    """Yield what reads an argument's memory behind the copy to it, the argument and the copy."""
    copy = torch.ops.aten.copy_.default
    if graph.find_nodes(op="call_function", target=copy):
        yield from Versions(graph).overtaken()


def unless_with_copies(
    is_ours: Callable[[], bool], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap one of Inductor's passes that make a graph write in place, so that it can be off."""

    @wraps(stock)
    def change(graph: Any, *args: Any, **kwargs: Any) -> Any:
        is_off = _keeps_copies.get() or (
            is_ours() and _writes_through_bits(getattr(graph, "graph", graph))
        )
        return None if is_off else stock(graph, *args, **kwargs)

    return change


def _writes_through_bits(graph: torch.fx.Graph) -> bool:
    """Return whether a pass may make an op write to a view of another element type.

    Inductor's loops then convert numbers, where the bits are to be stored.
    """
    nodes = (node for node in graph.nodes if node.target in compat.inplaceable_ops)
    firsts = (node.args[0] for node in nodes if node.args)
    return any(isinstance(each, torch.fx.Node) and _is_of_bits(each) for each in firsts)


def _is_of_bits(node: torch.fx.Node) -> bool:
    return any(each.target is torch.ops.aten.view.dtype for each in chain_of_views(node))


def keeping_storages(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a pass of Inductor's that leaves out ops which only copy, such as ``clone`` or ``+ 0``.

    It puts what was copied in the place of the copy, which may begin elsewhere in its storage, and
    have other strides. Who counts from the beginning of the storage then finds other elements. So
    the pass does not run where such a node is a view of a copy.

    The pass that leaves out arithmetic takes ``neutral``, the nodes of zeros and those of ones. It
    makes results share memory, which get a copy here, and gives what stays the fake value of what
    was left out, so that its views seem to have other memory.
    """

    @wraps(stock)
    def remove(graph: Any, *neutral: Any) -> Any:
        nodes: torch.fx.Graph = getattr(graph, "graph", graph)
        if not is_ours():
            return stock(graph, *neutral)
        if _counts_from_copy(nodes):
            return None
        if neutral:
            _copy_sums(nodes, *neutral)
        values = {node: node.meta.get("val") for node in nodes.nodes if neutral}
        done = stock(graph, *neutral)
        for node in values.keys() & {*nodes.nodes}:
            if _differs_in_memory(values[node], node.meta.get("val")):
                node.meta["val"] = values[node]
        return done

    return remove


def _copy_sums(graph: torch.fx.Graph, zeros: Iterable[Any], ones: Iterable[Any]) -> None:
    """Copy results that may be what a zero was added to, if the caller has that as well."""
    (output,) = graph.find_nodes(op="output")
    results = {memory_of(each) for each in tree_leaves(output.args)} - {None}
    given = {memory_of(each) for each in graph.find_nodes(op="placeholder")} - {None} | results
    for packet in _ARITHMETIC:
        neutral = {0, *zeros} if packet in _SUMS else {1, *ones}
        for node in graph.find_nodes(op="call_function", target=packet.Tensor):
            is_left_out = any(each in neutral for each in node.args[:2])
            is_same = is_left_out and any(memory_of(each) in given for each in node.args[:2])
            if is_same and memory_of(node) in results:
                with graph.inserting_after(node):
                    copied = graph.call_function(torch.ops.aten.clone.default, (node,))
                # The copy has the memory, since views of it are told by that.
                copied.meta = node.meta
                node.meta = {**node.meta, "val": node.meta["val"].clone()}
                node.replace_all_uses_with(copied, lambda user, own=copied: user is not own)


def _differs_in_memory(one: object, other: object) -> bool:
    """Return whether two fake values of one node are certainly alike but for their memory.

    The pass has compared sizes and types. Strides are compared without a guard on symbols.
    """
    if one is other or not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return bool(compat.statically_known_true(compat.sym_eq(one.stride(), other.stride())))


def _counts_from_copy(graph: torch.fx.Graph) -> bool:
    """Return whether a node counts from the beginning of memory that a copy may have made."""
    aten = torch.ops.aten
    for op in (aten.as_strided.default, aten.as_strided_scatter.default):
        calls = graph.find_nodes(op="call_function", target=op)
        if any(_may_be_left_out(chain_of_views(node.args[0])[-1]) for node in calls):
            return True
    writing: Any = torch.ops.higher_order.auto_functionalized_v2
    calls = graph.find_nodes(op="call_function", target=writing)
    bases = [base for node in calls for base in node.kwargs.get("_all_bases") or ()]
    # A base that is a copy itself is cloned again where that is needed.
    roots = (root for base in bases if (root := chain_of_views(base)[-1]) is not base)
    return any(map(_may_be_left_out, roots))


def _may_be_left_out(node: torch.fx.Node) -> bool:
    """Return whether a node calls an op that Inductor may take for a copy."""
    packet = getattr(node.target, "overloadpacket", None)
    return node.target in compat.noop_registry or packet in _ARITHMETIC


@contextlib.contextmanager
def _with_copies() -> Iterator[None]:
    token = _keeps_copies.set(True)
    try:
        yield
    finally:
        _keeps_copies.reset(token)


def check_contract(program: Program, module: object, passing: Passing, session: Session) -> None:
    """Compare a program with the contract of its graph.

    Raises:
        ContractError: It does to its caller's memory what the graph does not.
    """
    noted = _noted.get()
    if noted is None or noted.module is not module:
        return
    wanted = validation(session.settings.validate)
    unlike = _unlike_graph(program, noted.module, wanted)
    late = (*(each for each in unlike if each.rule is rules.READ_TOO_LATE), *_late(program, noted))
    found = breaches(program, _for_program(noted.contract, program, passing)) or late
    if not found:
        _tell(program, unlike, wanted)
        return
    error = ContractError(program, found)
    is_last = _keeps_copies.get()
    if session.settings.on_breach == "raise" or not is_last:
        raise error
    warnings.warn(str(error), ContractWarning, stacklevel=2)


def _late(program: Program, noted: _Noted) -> Iterator[Diagnostic]:
    """Yield where Inductor's passes have put a read of an argument behind the copy to it.

    That makes another graph, which the program's lines may well follow.
    """
    module: Any = noted.module
    for node, root, writer in _overtaken(module.graph):
        if root.name in noted.reread:
            continue
        lines = ((path, program.origin_of(line)) for path, line in walk(program))
        found = ((p, origin) for p, origin in lines if origin and node.name in origin.nodes)
        path, origin = next(found, (Path(), None))
        rule, fields = rules.READ_TOO_LATE, {"name": root.name, "node": writer.name}
        message = rule.template.format_map(fields)
        yield Diagnostic(rule, message, path, origin=origin, hint=rule.hint)


def _unlike_graph(program: Program, module: Any, wanted: str) -> tuple[Diagnostic, ...]:
    """Compare a program with its graph, if that is wanted or the graph writes to memory.

    Most graphs write nothing, so that the order of their lines cannot be wrong.
    """
    writes = any(True for node in module.graph.nodes for _ in written_by(node))
    if wanted == "off" and not writes:
        return ()
    return compare_lines(program, module).faults


def _tell(program: Program, unlike: tuple[Diagnostic, ...], wanted: str) -> None:
    """Raise or warn of what differs from the graph, as is wanted."""
    if not unlike or wanted == "off":
        return
    error = GraphMismatchError(program, unlike)
    if wanted == "error":
        raise error
    warnings.warn(str(error), ContractWarning, stacklevel=2)


def _for_program(contract: Contract, program: Program, passing: Passing) -> Contract:
    """Return the contract without what bypasses the program, and with its names of constants."""
    inputs = (each for i, each in enumerate(contract.inputs) if i not in passing.inputs)
    results = (each for i, each in enumerate(contract.results) if not passing.returns(i))
    rows = program.constants.items()
    constants = {name: contract.constants.get(each.qualified_name) for name, each in rows}
    return replace(contract, inputs=tuple(inputs), results=tuple(results), constants=constants)
