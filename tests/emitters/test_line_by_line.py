"""Every call in an emitted text is that of a line: emitters make up no copies and no memory.

The program is the one that was rendered, after the passes that the emitter names. A line that
calls something is one call in the text, an allocation is one (and one more that fills it with
zeros), and other lines call only what looks: views, addresses, metadata, numbers and checks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx.programs import EXTRA
from tests.emitters.fx.support import ABSENT
from wrapper_ir.emitters.fx import FxArtifact
from wrapper_ir.emitters.fx.calls import CallLines
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines import (
    Access,
    Allocate,
    AllocatePool,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    Program,
    walk,
)
from wrapper_ir.lines.control import RegionLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.emitters.artifact import Artifact
    from wrapper_ir.lines import AnyLine

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

NAMES = [*corpus.CASES, *EXTRA]

#: Emitted so that no memory is kept, which is allocated before the lines of a call.
OPTIONS: dict[str, dict[str, Any]] = {
    "python": {"scratch_bytes": 0},
    "cpp": {"scratch_bytes": 0},
    "fx": {},
}


def program(name: str) -> Program:
    return EXTRA[name].program() if name in EXTRA else corpus.program(name)


def wanted(line: AnyLine) -> int:
    """The number of calls that a line is."""
    if isinstance(line, Allocate):
        return 1 + line.zeroed
    return int(isinstance(line, (AllocatePool, KernelCall, ExternKernel)))


def differences(artifact: Artifact) -> list[str]:
    """The lines of the rendered program that are fewer or more calls than they should be."""
    rendered: Any = artifact
    lines = {str(path): line for path, line in walk(rendered.program)}
    found = Counter(path for path, callee in calls(artifact) if path not in skipped(lines))
    rows = []
    for path in {**lines, **dict.fromkeys(found)}:
        line = lines.get(path)
        count = 0 if line is None else wanted(line)
        if path not in skipped(lines) and found[path] != count:
            callees = [callee for where, callee in calls(artifact) if where == path]
            rows.append(f"{path or 'no line'} {line}: {callees}, not {count}")
    return rows


def skipped(lines: dict[str, AnyLine]) -> set[str]:
    """Lines with regions, which call these, and definitions, which are not part of a call."""
    return {p for p, line in lines.items() if isinstance(line, (RegionLine, KernelDefinition))}


def calls(artifact: Artifact) -> Iterator[tuple[str, str]]:
    """Yield the path and the callee of each call that does something."""
    if isinstance(artifact, FxArtifact):
        yield from calls_in_graphs(artifact)
    elif artifact.source.startswith('"""'):
        yield from calls_in_python(artifact)
    else:
        yield from calls_in_cpp(artifact)


_NUMBERS = (
    r"-?(wir::)?(abs|bit_\w+|ceil|cos|exp|float_pow|floor|log2?|max|min|mod|pow|round|shift_\w+|sin|sqrt"
    r"|tanh|to_real|truncate|truth|\w+_div|\w+_mod|\w+_item)"
)

# Python: a statement is a call, or the assignment of one.

_LOOKS = re.compile(
    r"reinterpret_\w+|check_\w+|refuse_\w+|show_\w+|args\.clear|kept_views\w*\.of|outputs\.\w+"
    r"|\w+\.(size|stride|storage_offset|item|data_ptr)"
    rf"|{_NUMBERS}"
)


def calls_in_python(artifact: Any) -> Iterator[tuple[str, str]]:
    module = ast.parse(artifact.source)
    parts = [each for each in module.body if isinstance(each, ast.FunctionDef)]
    for function in parts:
        if function.name in ("make_inputs", "release"):
            continue
        for statement in ast.walk(function):
            value = getattr(statement, "value", None)
            if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(value, ast.Call):
                callee = ast.unparse(value.func)
                path = artifact.source_map.path_at(statement.lineno)
                if not _LOOKS.fullmatch(callee):
                    yield str(path or ""), callee


# C++: likewise, in the functions of the program and of its regions. A statement may take lines.

_STATEMENT = re.compile(
    r"(?:(?:const )?[\w:<>]+\*? \*?\w+(?:\[\])? = )?([\w:.>-]+)(?:<[\w: ]+\*?>)?[({]"
)
_LOOKS_CPP = re.compile(
    r"wir::(data\w*|view\w*|share|release|check_\w+|refuse_\w+|size|stride|offset_of|Tensor|Int|Real)"
    rf"|std::\w+|static_cast|if|show\w*|wir::probe\w*|[\w.]+\.(reset|release)|{_NUMBERS}"
)


def calls_in_cpp(artifact: Any) -> Iterator[tuple[str, str]]:
    is_inside, statement = False, ""
    for number, text in enumerate(artifact.source.splitlines(), start=1):
        is_inside = (is_inside and text != "}") or re.match(r"void \w+\(", text) is not None
        statement += text.strip() if is_inside else ""
        if not statement.endswith((";", "{", "}")):
            continue
        match = _STATEMENT.match(statement)
        if match and not statement.startswith("void ") and not _LOOKS_CPP.fullmatch(match[1]):
            yield str(artifact.source_map.path_at(number) or ""), match[1]
        statement = ""


# Graphs: a node is a call. Arithmetic and metadata are nodes, too.

_VIEWS = ("as_strided", "view", "slice", "getitem", "sym_", "scalar_tensor", "item")


def calls_in_graphs(artifact: FxArtifact) -> Iterator[tuple[str, str]]:
    lines = {str(path): line for path, line in walk(artifact.program)}
    module = artifact.graph_module
    graphs = [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.graph.nodes):
        if node.op != "call_function":
            continue
        path = node.meta.get("wrapper_ir_path", "")
        line = lines.get(path)
        name = str(node.target)
        is_own = (
            isinstance(line, ExternKernel) and line.op.partition("::")[2].partition(".")[0] in name
        )
        if not is_own and (not looks_like_an_op(node.target) or looks(name)):
            continue
        yield path, name


def looks_like_an_op(target: Any) -> bool:
    return isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))


def looks(name: str) -> bool:
    namespace, _, rest = name.partition(".")
    if namespace == "wrapper_ir":
        return rest.startswith(("check", "show", "lay_out"))
    return rest.startswith(_VIEWS)


@pytest.mark.parametrize("target", OPTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_each_line_is_one_call(name: str, target: str) -> None:
    if target == "fx" and name in ABSENT:
        pytest.skip("this release of torch has no op for it")
    assert differences(wir.emit(program(name), target, **OPTIONS[target])) == []


# What was once made up would be found.


def test_a_copy_that_an_emitter_makes_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = CallLines._passed

    def copied(self: Any, line: Any, arg: Any) -> Any:
        node = plain(self, line, arg)
        is_written = getattr(arg, "access", None) is Access.READ_WRITE
        return self.call(torch.ops.aten.clone.default, node) if is_written else node

    monkeypatch.setattr(CallLines, "_passed", copied)
    rows = differences(wir.emit(program("written_views"), "fx"))
    assert all("aten.clone.default" in row for row in rows)
    assert rows


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_a_call_in_text_that_is_of_no_line_is_found(target: str) -> None:
    artifact: Any = wir.emit(program("extern_out"), target, **OPTIONS[target])
    lines = artifact.source.splitlines(keepends=True)
    at = next(
        n
        for n, text in enumerate(lines)
        if re.match(r" *(wir::(?:check|addmm)\(|aten_addmm_out\()", text)
    )
    source = "".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])
    paths = artifact.source_map.paths
    twice = SourceMap((*paths[: at + 1], paths[at], *paths[at + 1 :]))
    (row,) = differences(replace(artifact, source=source, source_map=twice))
    assert "not 1" in row
