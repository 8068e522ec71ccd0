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

from wrapper_ir.frontends.inductor.contract import contract_of, written_by
from wrapper_ir.frontends.inductor.errors import (
    ContractError,
    ContractWarning,
    GraphMismatchError,
)
from wrapper_ir.frontends.inductor.session import statistics
from wrapper_ir.verify import rules
from wrapper_ir.verify.contract import Contract, breaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.frontends.inductor.convert.graph import Passing
    from wrapper_ir.frontends.inductor.session import Session
    from wrapper_ir.lines.program import Program
    from wrapper_ir.verify.diagnostics import Diagnostic

_log: Final = logging.getLogger("wrapper_ir.inductor")


@dataclass(frozen=True)
class _Noted:
    """A graph that is being compiled, and its contract."""

    module: object
    contract: Contract


_noted: ContextVar[_Noted | None] = ContextVar("noted", default=None)

#: True while a graph is lowered without the passes that write in place.
_keeps_copies: ContextVar[bool] = ContextVar("keeps_copies", default=False)


def noting_contract(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's method that lowers a graph, to note its contract and to try again."""

    @wraps(stock)
    def codegen_and_compile(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours():
            return stock(self, gm, *args, **kwargs)
        token = _noted.set(_Noted(gm, contract_of(gm.graph)))
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


def unless_with_copies(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap one of Inductor's passes that make a graph write in place, so that it can be off."""

    @wraps(stock)
    def change(*args: Any, **kwargs: Any) -> Any:
        return None if _keeps_copies.get() else stock(*args, **kwargs)

    return change


def keeping_clones(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's pass that leaves out clones, unless an op writes to a view of one.

    Such a view is the base of the write, and has the offset of the clone, not of what was cloned.
    """

    @wraps(stock)
    def remove(graph: Any) -> Any:
        writing: Any = torch.ops.higher_order.auto_functionalized_v2
        found = graph.find_nodes(op="call_function", target=writing) if is_ours() else ()
        bases = (base for node in found for base in node.kwargs.get("_all_bases") or ())
        return None if any(map(_is_view_of_clone, bases)) else stock(graph)

    return remove


def _is_view_of_clone(base: Any) -> bool:
    node = base
    while node.target in (torch.ops.aten.view.dtype, torch.ops.aten.alias.default):
        node = node.args[0]
    return node is not base and node.target is torch.ops.aten.clone.default


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
    found = breaches(program, _for_program(noted.contract, program, passing))
    found = found or _reads_too_late(program, noted.module)
    if not found:
        _check_graph(program, noted.module, session.settings.validate)
        return
    error = ContractError(program, found)
    is_last = _keeps_copies.get()
    if session.settings.on_breach == "raise" or not is_last:
        raise error
    warnings.warn(str(error), ContractWarning, stacklevel=2)


def _reads_too_late(program: Program, module: Any) -> tuple[Diagnostic, ...]:
    """Return the reads that come after a write that the graph has behind them.

    Most graphs write nothing, and need no comparison.
    """
    if not any(True for node in module.graph.nodes for _ in written_by(node)):
        return ()
    from wrapper_ir.frontends.inductor.refinement import validate  # noqa: PLC0415 - seldom wanted

    faults = validate(program, module).faults
    return tuple(each for each in faults if each.rule is rules.READ_TOO_LATE)


def _check_graph(program: Program, module: Any, wanted: str) -> None:
    """Compare a program with its graph, if that is wanted."""
    if wanted == "off":
        return
    from wrapper_ir.frontends.inductor.refinement import validate  # noqa: PLC0415 - seldom wanted

    faults = validate(program, module).faults
    if faults and wanted == "error":
        raise GraphMismatchError(program, faults)
    if faults:
        warnings.warn(str(GraphMismatchError(program, faults)), ContractWarning, stacklevel=2)


def _for_program(contract: Contract, program: Program, passing: Passing) -> Contract:
    """Return the contract without what bypasses the program, and with its names of constants."""
    inputs = (each for i, each in enumerate(contract.inputs) if i not in passing.inputs)
    results = (each for i, each in enumerate(contract.results) if not passing.returns(i))
    rows = program.constants.items()
    constants = {name: contract.constants.get(each.qualified_name) for name, each in rows}
    return replace(contract, inputs=tuple(inputs), results=tuple(results), constants=constants)
