"""The texts of emitters with the lines that they come from, and the code of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapper_ir.lines as ir
from wrapper_ir.api import emitted
from wrapper_ir.diffing.sequences import Matcher
from wrapper_ir.emitters import HasSourceMap, faults_of, make_emitter
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.explorer.document import NONE, Kernel, Target, Text
from wrapper_ir.explorer.programs import kernels_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.explorer.document import View
    from wrapper_ir.lines import Path, Program


def target_of(name: str, program: Program, view: View) -> Target:
    """Return an emitter's text of a planned program, or why it refuses the program.

    Args:
        name: The emitter.
        program: The program that ``view`` shows.
        view: The view, whose lines the text refers to.
    """
    emitter = make_emitter(name, {})
    try:
        artifact, prepared = emitted(program, emitter)
        with faults_of(type(emitter), "it gave its text"):
            rows = artifact.source.split("\n")
            paths = artifact.source_map.paths if isinstance(artifact, HasSourceMap) else ()
    except WrapperIRError as error:
        return Target(name, refused=str(error))
    if rows and not rows[-1]:
        rows.pop()
    known = places(prepared, program, view)
    lines = [NONE if path is None else known.get(path, NONE) for path in paths]
    lines += [NONE] * (len(rows) - len(lines))
    return Target(name, Text(rows, lines[: len(rows)]))


def places(prepared: Program, program: Program, view: View) -> Mapping[Path, int]:
    """Return the number that each line of another program has among those that are shown.

    Args:
        prepared: A program from before or after passes, which may have added, changed or removed
            lines; those that they left alone are matched in order.
        program: The program that ``view`` shows.
        view: The view.
    """
    numbers = {path: number for number, path in enumerate(view.lines.path)}
    ours, theirs = list(ir.walk(program)), list(ir.walk(prepared))
    if ours != theirs:
        matcher = Matcher(len(theirs), len(ours))
        matcher.in_order([line for _, line in theirs], [line for _, line in ours])
        pairs = [(theirs[i][0], ours[j][0]) for i, j in matcher.done().pairs]
    else:
        pairs = [(path, path) for path, _ in ours]
    if program.folding is not None and program.folding == prepared.folding:
        inner = [ir.Path((*ir.FOLDING, *path)) for path, _ in ir.walk(program.folding)]
        pairs += zip(inner, inner, strict=True)
    return {theirs: numbers[str(ours)] for theirs, ours in pairs}


def kernels(program: Program, view: View) -> list[Kernel]:
    """Return the kernels with their code, in the order of :func:`kernels_of`."""
    declared = {
        row: number
        for number, row in enumerate(view.lines.kernel)
        if view.lines.kind[number] == "declares" and row != NONE
    }
    found = []
    for row, name in enumerate(kernels_of(program)):
        source = program.kernels[name].source
        language, code = source.language, getattr(source, "code", "")
        assert language is not None
        rows = code.rstrip("\n").split("\n")
        found.append(Kernel(name, language.name, declared.get(row, NONE), rows))
    return found
