"""``validate``: whether a program does what the graph says that it was made from.

The lines are compared with the graph's nodes by what the front end recorded; see ``refinement``.
What that takes on trust, that a kernel computes the nodes recorded for it, a run tries.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from wrapper_ir.debugging.against_graph import NoOriginsError, compare_with_graph, module_of
from wrapper_ir.debugging.runs import INTERPRETER
from wrapper_ir.graphs.refinement import compare_lines
from wrapper_ir.interpreter import made_up_inputs
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.walk import Path
from wrapper_ir.verify import rules
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.debugging.against_graph import Comparison, Graph, Unlike
    from wrapper_ir.graphs.findings import Validation
    from wrapper_ir.lines.program import Program


def validate(
    program: Program,
    graph: Graph,
    *,
    run: bool = False,
    inputs: Sequence[Any] | None = None,
    seed: int = 0,
) -> Validation:
    """Compare a program with the graph that it was made from.

    The walk along the lines costs a fraction of compiling, and calls nothing. With ``run=True`` the
    reference interpreter runs the program, and its graph runs op by op beside it; each buffer that
    is known to hold the value of one node is compared with that, and so are inputs and results at
    the end. Each value goes on from the program's own, so that one wrong kernel is one fault.

    Args:
        program: A program of ``wir.record()`` or ``capture``, planned or not.
        graph: Its graph, from ``graphs`` of the same recording.
        run: Whether to compare values as well.
        inputs: The program's inputs for the run. By default they are made up from its layouts, in
            two ways: normally distributed, and the same without signs.
        seed: The seed of inputs that are made up.

    Returns:
        Faults, and what is not shown. In ``faults`` are lines that differ from the graph, in order,
        and then values (WIR1139) in the order of the calls.

    Raises:
        OptionValueError: ``graph`` is not a graph.
        OtherGraphError: The program was not made from this graph.
        NoTypicalValueError: No inputs can be made up.
    """
    as_program(program, "wir.validate")
    found = compare_lines(program, module_of(graph))
    if not run:
        return found
    if inputs is None:  # where a variance is below zero, all that follows is NaN
        draws = [made_up_inputs(program, seed, positive=each) for each in (False, True)]
    else:
        draws = [tuple(inputs)]
    try:
        runs = [compare_with_graph(program, e, graph, INTERPRETER, ends=True) for e in draws]
    except NoOriginsError:
        return found  # where nothing is recorded, nothing is shown, either
    faults = (*found.faults, *_faults(program, runs))
    count, skipped = runs[0].compared, runs[0].skipped
    return dataclasses.replace(found, faults=faults, compared=count, skipped=skipped)


def _faults(program: Program, runs: Sequence[Comparison]) -> Iterator[Diagnostic]:
    """Yield the values that differ in some run, in the order of calls."""
    rule = rules.WRONG_VALUE
    unlike = {(e.call, e.part, e.buffer): e for run in reversed(runs) for e in run.differences}
    known = filter(None, map(program.origin_of, program.body)) if unlike else ()
    origins = {node: origin for origin in known for node in origin.nodes}
    for each in sorted(unlike.values(), key=_order):
        what = f"%{each.buffer}" if each.buffer else each.part
        message = rule.template.format(what=what, node=each.node, words=each.words)
        path = Path() if each.call is None else each.call.path
        line = None if each.call is None else each.call.line
        origin = origins.get(each.node) if line is None else program.origin_of(line)
        yield Diagnostic(rule, message, path, each.part, origin, rule.hint)


def _order(unlike: Unlike) -> tuple[int, str]:
    """Return what sorts differences: calls by their numbers, then inputs and results."""
    return sys.maxsize if unlike.call is None else unlike.call.number, unlike.part
