"""Choices, loops and called subgraphs: the nodes that Inductor writes out as text around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.convert.regions import Branch, copied, inline_subgraph
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.lines.args import (
    Access,
    Arg,
    BufferArg,
    BufferValue,
    CallResult,
    NoneArg,
    NoneValue,
    ResultBuffer,
    ResultSymbol,
    ScalarArg,
    Value,
)
from wrapper_ir.lines.control import Cond, While
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wrapper_ir.frontends.inductor.convert.externs import ExternConverter
    from wrapper_ir.frontends.inductor.convert.state import Scope

__all__ = ["ControlConverter"]


class ControlConverter:
    """Converts nodes that hold subgraphs into a scope.

    Args:
        scope: Where the converted lines go.
        externs: Knows the names under which results are unpacked.
    """

    def __init__(self, scope: Scope, externs: ExternConverter) -> None:
        self._scope = scope
        self._externs = externs

    def convert(self, node: Any) -> None:
        """Convert a node.

        Raises:
            UnsupportedLineError: It, or something in its subgraphs, has no typed form.
        """
        if isinstance(node, ir.Conditional):
            self._cond(node)
        elif isinstance(node, ir.WhileLoop):
            self._while(node)
        else:
            self._call(node)

    def _cond(self, node: Any) -> None:
        scope, origin = self._scope, self._scope.origin(node)
        operands = [self._operand(item, origin) for item in node.operands]
        predicate = self._predicate(node.predicate, origin)
        then = Branch.convert(scope, node.true_subgraph.graph, operands)
        orelse = Branch.convert(scope, node.false_subgraph.graph, operands)
        for branch in (then, orelse):
            branch.own_results()
        passed = [i for i, param in enumerate(then.params) if param is not None]
        results = self._results(node, then.results, _outputs(node))
        scope.emit(
            Cond(
                results=results,
                predicate=predicate,
                operands=_told(operands, passed, then.written | orelse.written),
                then=then.region(passed),
                orelse=orelse.region(passed),
                origin=origin,
            )
        )

    def _predicate(self, node: Any, origin: int | None) -> BufferArg | ScalarArg:
        operand = self._operand(node, origin)
        if isinstance(operand, ScalarArg):
            return operand
        if not isinstance(operand, BufferArg):
            raise UnsupportedLineError(
                kind="predicate", text=type(node).__name__, why="it is no tensor and no number"
            )
        return operand

    def _while(self, node: Any) -> None:
        scope, origin = self._scope, self._scope.origin(node)
        given = (*node.carried_inputs, *node.additional_inputs)
        count = len(node.carried_inputs)
        operands = [self._operand(item, origin) for item in given]
        condition = Branch.convert(scope, node.cond_subgraph.graph, operands, count)
        body = Branch.convert(scope, node.body_subgraph.graph, operands, count)
        # What a round gives back as it got it does not change from round to round.
        lasting = [i for i in range(count) if body.gives_back(i) and not node.stack_output]
        carried = [i for i in range(count) if i not in lasting]
        captured = [*lasting, *range(count, len(given))]
        captured = [i for i in captured if body.params[i] is not None]
        outputs = _outputs(node)
        body.results = [body.results[i] for i in carried]
        body.own_results()
        condition.own_results()
        changing = {n: outputs[i] for n, i in enumerate(carried) if i in outputs}
        results = self._results(node, body.results, changing, dict(enumerate(carried)))
        written = condition.written | body.written
        scope.emit(
            While(
                results=results,
                carried=_told(operands, carried, written),
                captured=_told(operands, captured, written),
                condition=condition.region([*carried, *captured]),
                body=body.region([*carried, *captured]),
                stacked=bool(node.stack_output),
                origin=origin,
            )
        )
        for i in lasting:
            self._keep(node, i, operands[i], origin)

    def _keep(self, node: Any, position: int, operand: Arg, origin: int | None) -> None:
        """Give a result that is an operand a name, where something asks for it.

        It is a copy: Inductor takes it for storage of its own.
        """
        name = self._externs.leaves.get(node.get_name(), {}).get((position,))
        if name is not None and isinstance(operand, BufferArg):
            self._scope.stand_for(name, copied(self._scope, operand.buffer, origin))

    def _call(self, node: Any) -> None:
        operands = [self._operand(item, None) for item in node.inputs]
        results = inline_subgraph(self._scope, node.subgraph.graph, operands)
        leaves = self._externs.leaves.get(node.get_name(), {})
        for path, name in leaves.items():
            value = results[int(path[0])]
            if isinstance(value, BufferValue):
                self._scope.stand_for(name, value.buffer)

    def _operand(self, node: Any, origin: int | None) -> Arg:
        """Return what is passed for a node."""
        if node is None or isinstance(node, ir.NoneAsConstantBuffer):
            return NoneArg()
        if isinstance(node, ir.ShapeAsConstantBuffer):
            return ScalarArg(self._scope.scalar(node.expr))
        if isinstance(node, (ir.MutableBox, ir.ReinterpretView, ir.Buffer)):
            return BufferArg(self._scope.reference(node, origin))
        raise UnsupportedLineError(
            kind="operand of a subgraph",
            text=type(node).__name__,
            why="it is neither a tensor nor a number",
        )

    def _results(
        self,
        node: Any,
        values: Sequence[Value],
        outputs: Mapping[int, Any],
        places: Mapping[int, int] | None = None,
    ) -> tuple[CallResult, ...]:
        """Define what a choice or loop gives, under Inductor's names where it has some."""
        scope = self._scope
        results: list[CallResult] = []
        count = sum(not isinstance(value, NoneValue) for value in values)
        for position, value in enumerate(values):
            if isinstance(value, NoneValue):
                continue
            path = () if count == len(values) == 1 else (position,)
            output = outputs.get(position)
            if isinstance(value, BufferValue):
                layout = scope.layout(value.buffer) if output is None else scope.to_layout(
                    output.layout
                )
                plain = Layout(layout.dtype, layout.device, layout.size, layout.stride)
                wanted = f"{node.get_name()}_{position}" if output is None else output.get_name()
                made = scope.define(wanted, plain)
                place = position if places is None else places[position]
                self._externs.leaves.setdefault(node.get_name(), {})[(place,)] = wanted
                results.append(ResultBuffer(made, path))
            else:
                raise UnsupportedLineError(
                    kind=type(node).__name__, text=node.get_name(), why="a result is a number"
                )
        return tuple(results)


def _outputs(node: Any) -> dict[int, Any]:
    """Return the nodes that stand for the results, by position."""
    found = {}
    for output in node.outputs or ():
        if isinstance(output, ir.MultiOutput):
            found[int(output.indices[-1][1])] = output
    return found


def _told(operands: Sequence[Arg], order: Iterable[int], written: set[int]) -> tuple[Arg, ...]:
    """Return operands in order, those that a region writes to passed for writing."""
    found: list[Arg] = []
    for position in order:
        arg = operands[position]
        if isinstance(arg, BufferArg) and position in written:
            arg = BufferArg(arg.buffer, Access.READ_WRITE)
        found.append(arg)
    return tuple(found)


_ = (DType, ResultSymbol, torch)
