"""The contract between a graph and its program, compared in every compilation.

Inductor makes functional graphs write in place. Its passes decide that from fake values and
patterns, and some have been wrong: an input was overwritten that the graph leaves alone, a result
was the input itself. So the contract of a graph is noted before Inductor's passes change it, and
the program is compared with it. A graph that fails is lowered again with the passes off that write
in place, which costs copies. If it still fails, that is an error: Inductor's own wrapper would do
the same to the caller's memory.
"""

from __future__ import annotations

import copy
import logging
import warnings
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.contract import contract_of
from wrapper_ir.frontends.inductor.errors import ContractWarning
from wrapper_ir.frontends.inductor.in_place import keeps_copies, with_copies
from wrapper_ir.frontends.inductor.mismatches import ContractError, GraphMismatchError
from wrapper_ir.frontends.inductor.session import statistics
from wrapper_ir.frontends.inductor.untried import validation
from wrapper_ir.graphs.nodes import written_by
from wrapper_ir.graphs.refinement import compare_lines
from wrapper_ir.graphs.versions import Versions
from wrapper_ir.lines.walk import Path, walk
from wrapper_ir.verify import rules
from wrapper_ir.verify.contract import Contract, breaches
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def noting_contract(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's method that lowers a graph, to note its contract and to try again."""

    @wraps(stock)
    def codegen_and_compile(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
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
            with with_copies():
                return stock(self, gm, *args, **kwargs)
        finally:
            _noted.reset(token)

    return codegen_and_compile


def _overtaken(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, ...]]:
    """Yield what reads an argument's memory behind the copy to it, the argument and the copy."""
    copy = torch.ops.aten.copy_.default
    if graph.find_nodes(op="call_function", target=copy):
        yield from Versions(graph).overtaken()


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
    is_last = keeps_copies.get()
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
