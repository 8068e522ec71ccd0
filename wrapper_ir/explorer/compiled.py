"""What stock torch compiled, from its logs to views: source, graphs, Inductor's code, kernels.

A view is made for each text that Inductor wrote. Where the log has Inductor's provenance
(``INDUCTOR_PROVENANCE=1``), a statement belongs to the nodes that it names; nodes keep their names
through the passes of one graph. Otherwise comments above calls name nodes of Dynamo's graph.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.explorer.document import (
    NONE,
    Buffers,
    Document,
    Finding,
    Frames,
    Graph,
    Kernel,
    Lines,
    Nodes,
    Origins,
    Text,
    View,
)
from wrapper_ir.explorer.logs import Log, Record, TraceError, read_logs
from wrapper_ir.explorer.page import Page
from wrapper_ir.explorer.programs import Rows
from wrapper_ir.explorer.python_texts import GraphText, Statement, graph_text, output_code
from wrapper_ir.explorer.sources import files_of
from wrapper_ir.lines.program import Frame, is_torchs_own

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

#: The graphs of ATen ops by the events that have them: what their code does.
_ROLES: Final = {
    "aot_inference_graph": "inference",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
}
_DYNAMO: Final = "dynamo_output_graph"
_AFTER: Final = "inductor_post_grad_graph"
_CODE: Final = "inductor_output_code"
_MAPPINGS: Final = "inductor_provenance_tracking_node_mappings"
_STACKS: Final = "inductor_provenance_tracking_kernel_stack_traces"
_REASONS: Final = {"recompile_reasons": "recompiled", "dynamo_graph_break_reason": "graph break"}
_METRICS: Final = "compilation_metrics"
_START: Final = "dynamo_start"
_KINDS: Final = (*_ROLES, _DYNAMO, _AFTER, _CODE, _MAPPINGS, _STACKS, *_REASONS, _METRICS, _START)

#: The most views of a page.
_MOST: Final = 200

_PLACE: Final = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d{1,9}), in (?P<function>.*)')


def explore_trace(folder: str | os.PathLike[str], *, sources: bool = True) -> Page:
    """Return a page of what torch compiled, from the logs that ``TORCH_TRACE=DIR`` left.

    The program need not know of wrapper_ir: logs of stock torch have the model's source lines,
    Dynamo's graph, the graphs of ATen ops and what Inductor wrote for them. With
    ``INDUCTOR_PROVENANCE=1`` they also say which nodes a kernel computes.

    Args:
        folder: The directory.
        sources: Whether files of the model may be read. Only Python files are in which each line
            that the logs quote still stands.

    Raises:
        TraceError: There are no such logs in it, or one is damaged. One that ends in the middle, as
            a process that died leaves it, is shown as far as it goes.
    """
    logs = read_logs(folder, _KINDS)
    views, faults = [], [fault for log in logs for fault in log.faults]
    for log in logs:
        owner = f"rank {log.rank} " if log.rank is not None else ""
        for compilation in _compilations(log):
            views += [
                _Made(owner, log, compilation, code, read=sources).view
                for code in compilation.codes
            ]
    if not views:
        reason = "they tell of no graph that was compiled"
        raise TraceError(where=str(folder), reason="; ".join((reason, *faults)))
    if len(views) > _MOST:
        faults.append(f"only the first {_MOST} of {len(views)} graphs are shown")
    for fault in faults:
        views[0].findings.append(Finding("log", NONE, fault))
    return Page(Document(views[:_MOST]))


@dataclass(slots=True)
class _Code:
    """What Inductor wrote, with the graph that it was written for."""

    text: str = ""
    after: str = ""
    role: str = ""
    aten: str = ""
    mappings: dict[str, Any] = field(default_factory=dict)
    stacks: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Compilation:
    """What a log says of one compilation: those of its last attempt."""

    id: str
    attempt: int = 0
    start: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    dynamo: str = ""
    aten: dict[str, str] = field(default_factory=dict)
    after: str = ""
    codes: list[_Code] = field(default_factory=list)
    reasons: list[tuple[str, str]] = field(default_factory=list)


def _compilations(log: Log) -> list[_Compilation]:
    """Return the compilations of a log that have graphs, in order."""
    found: dict[str, _Compilation] = {}
    for record in log.records:
        now = found.setdefault(record.compile_id, _Compilation(record.compile_id))
        if record.attempt > now.attempt:  # Dynamo began again: what it had is void
            fresh = _Compilation(now.id, record.attempt, reasons=now.reasons)
            now = found[record.compile_id] = fresh
        _take(now, record)
    for each in found.values():
        for code in each.codes:
            code.role, code.aten = _aten_of(code, each.aten)
        if not each.codes and (each.dynamo or each.aten):
            each.codes = [_Code(role=role, aten=text) for role, text in each.aten.items()] or [
                _Code()
            ]
    return [each for each in found.values() if each.codes]


def _take(now: _Compilation, record: Record) -> None:
    kind, payload = record.kind, record.payload
    last = now.codes[-1] if now.codes else _Code()
    if kind in _ROLES:
        now.aten[_ROLES[kind]] = payload
    elif kind in _REASONS:
        now.reasons.append((_REASONS[kind], _words(payload)))
    elif kind == _DYNAMO:
        now.dynamo = payload
    elif kind == _AFTER:
        now.after = payload
    elif kind == _CODE:
        now.codes.append(_Code(payload, now.after))
        now.after = ""
    elif kind == _MAPPINGS:
        last.mappings = _object(payload)
    elif kind == _STACKS:
        last.stacks = _object(payload)
    elif kind == _METRICS:
        now.metrics = record.about
    elif kind == _START:
        now.start = record.about


def _aten_of(code: _Code, graphs: dict[str, str]) -> tuple[str, str]:
    """Return the graph of ATen ops that code was written for: it shares its nodes."""
    own = set(graph_text(code.after).nodes)
    shared = {role: len(own & set(graph_text(text).nodes)) for role, text in graphs.items()}
    role = max(shared, key=shared.__getitem__, default="")
    return role, graphs.get(role, "")


def _object(payload: str) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _words(payload: str) -> str:
    """Return a reason as text: one line of a list, or the text itself."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return payload.strip()
    each = found if isinstance(found, list) else [found]
    return "; ".join(str(item).strip() for item in each)


def _names(found: dict[str, Any], part: str) -> dict[str, list[str]]:
    """Return a mapping of names to lists of names from Inductor's provenance."""
    table = found.get(part)
    pairs = table.items() if isinstance(table, dict) else ()
    return {key: [str(each) for each in value] for key, value in pairs if isinstance(value, list)}


def _short(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame.portable.file.rpartition('/')[2]}:{frame.line}"


class _Made:
    """Makes the view of one text of Inductor's."""

    def __init__(
        self, owner: str, log: Log, compilation: _Compilation, code: _Code, *, read: bool
    ) -> None:
        self._log, self._compilation, self._code = log, compilation, code
        self._output = output_code(code.text)
        self._graphs = {
            "Dynamo graph": graph_text(compilation.dynamo),
            "ATen graph": graph_text(code.aten),
            "After passes": graph_text(code.after),
        }
        self._frames, self._nodes, self._buffers = Rows(), Rows(), Buffers()
        self._origins, self._quoted = Origins(), dict[str, dict[int, str]]()
        self._computed: dict[str, dict[str, set[int]]] = {}
        self._variables: dict[tuple[str, str], int] = {}
        kernels = [
            Kernel(k.name, k.language, NONE, k.code.split("\n")) for k in self._output.kernels
        ]
        self._kernels = {kernel.name: row for row, kernel in enumerate(kernels)}
        lines = self._lines()
        for row, statement in enumerate(self._output.statements):
            if statement.kind == "declares":
                kernels[self._kernels[statement.callee]].line = row
        graphs = [self._graph(title, text) for title, text in self._graphs.items() if text.rows]
        function = self._function()
        self.view = View(
            name=f"{owner}{compilation.id} {_short(function)}".strip() or "graph",
            role=code.role,
            stage="",
            figures=self._figures(lines),
            hints={},
            inputs=[],
            results=[],
            text=self._text(),
            lines=lines,
            buffers=self._buffers,
            streams=["host"],
            origins=self._origins,
            frames=Frames(),
            files=[],
            nodes=self._node_columns(),
            kernels=kernels,
            findings=[Finding(kind, NONE, text) for kind, text in compilation.reasons],
            graphs=graphs,
            language="python",
            facts=self._facts(function),
        )
        self._add_frames(read=read)

    def _text(self) -> Text:
        lines = [NONE] * len(self._output.rows)
        for number, each in enumerate(self._output.statements):
            lines[each.start : each.end] = [number] * (each.end - each.start)
        return Text(self._output.rows, lines)

    def _lines(self) -> Lines:
        lines = Lines()
        for number, each in enumerate(self._output.statements):
            lines.path.append(each.path)
            lines.mnemonic.append(each.kind)
            lines.callee.append(each.callee)
            lines.kind.append(each.kind)
            lines.origin.append(self._origin(number, each))
            lines.kernel.append(self._kernels.get(each.callee, NONE))
            lines.stream.append(NONE)
            function = each.path.partition("[")[0]
            binds, reads, deletes = (
                [self._variable(function, name, number) for name in names]
                for names in (each.binds, each.reads, each.deletes)
            )
            lines.defines.append(binds)
            lines.reads.append(reads)
            lines.writes.append([])
            lines.ends.append(deletes)
        return lines

    def _variable(self, function: str, name: str, line: int) -> int:
        row = self._variables.get((function, name))
        if row is None:
            row = self._variables[function, name] = len(self._variables)
            for column, value in zip(
                (getattr(self._buffers, part) for part in Buffers.__slots__),
                (name, "", NONE, "", row, line),
                strict=True,
            ):
                column.append(value)
        return row

    def _origin(self, number: int, statement: Statement) -> int:
        """Return the origin of a statement: nodes of each graph, and places in the model."""
        found = self._computes(statement)
        for title, names in found.items():
            table = self._computed.setdefault(title, {})
            for name in names:
                table.setdefault(name, set()).add(number)
        frames = self._places(statement, found)
        if not frames and not any(found.values()):
            return NONE
        rows = [self._frame(frame) for frame in frames]
        own = [
            row for row, frame in zip(rows, frames, strict=True) if not is_torchs_own(frame.file)
        ]
        self._origins.module.append("")
        self._origins.ops.append([])
        self._origins.nodes.append([self._nodes.of(name) for name in found["After passes"]])
        self._origins.frames.append(rows)
        self._origins.shown.append((own or rows or [NONE])[-1])
        return len(self._origins.module) - 1

    def _places(self, statement: Statement, computed: dict[str, list[str]]) -> list[Frame]:
        """Return the places that a statement comes from, those of the last nodes last.

        Stacks, which have no order among each other, add outer frames.
        """
        places = [(text.frame_of, computed[title]) for title, text in self._graphs.items()]
        known = (
            [frame_of[name] for name in names if name in frame_of] for frame_of, names in places
        )
        last = [frames for frames in known if frames][-1:]
        found: dict[tuple[str, int], Frame] = {}
        for frame in (*self._stacked(statement), *(frame for frames in last for frame in frames)):
            found.pop((frame.file, frame.line), None)
            found[frame.file, frame.line] = frame
        return list(found.values())

    def _computes(self, statement: Statement) -> dict[str, list[str]]:
        """Return the nodes that a statement computes, by graph."""
        mappings = self._code.mappings
        computed = _names(mappings, "cppCodeToPost")
        names = [name for handle in statement.handles for name in computed.get(handle, [])]
        # In the order of the graph: the log has them in none.
        order = {name: n for n, name in enumerate(self._graphs["After passes"].nodes)}
        names = sorted(dict.fromkeys(names), key=lambda name: order.get(name, 0))
        before = _names(mappings, "postToPre")
        traced = [each for name in names for each in before.get(name, [])]
        return {
            "Dynamo graph": list(dict.fromkeys(traced or statement.nodes)),
            "ATen graph": names,
            "After passes": names,
        }

    def _stacked(self, statement: Statement) -> Iterator[Frame]:
        """Yield the places in the model that the log has for a call."""
        for handle in statement.handles:
            stacks = self._code.stacks.get(handle)
            for stack in stacks if isinstance(stacks, list) else ():
                rows = str(stack).split("\n")
                for row, code in zip(rows, [*rows[1:], ""], strict=True):
                    if place := _PLACE.match(row):
                        file, line = place["file"], int(place["line"])
                        yield Frame(file, line, place["function"], code.strip())

    def _frame(self, frame: Frame) -> int:
        rows = self._quoted.setdefault(frame.file, {})
        rows[frame.line] = rows.get(frame.line) or frame.code
        return self._frames.of(Frame(frame.file, frame.line, frame.function))

    def _graph(self, title: str, text: GraphText) -> Graph:
        computed = self._computed.get(title, {})
        return Graph(
            title,
            text.rows,
            [sorted(computed.get(name, ())) if name else [] for name in text.nodes],
            [NONE if frame is None else self._frame(frame) for frame in text.frames],
        )

    def _node_columns(self) -> Nodes:
        graph = self._graphs["After passes"]
        texts = {
            name: row.strip() for name, row in zip(graph.nodes, graph.rows, strict=True) if name
        }
        names = [str(name) for name in self._nodes.rows]
        return Nodes(names, [""] * len(names), [texts.get(name, "") for name in names])

    def _add_frames(self, *, read: bool) -> None:
        """Give the view the places, once all are known, and their files."""
        places = [frame for frame in self._frames.rows if isinstance(frame, Frame)]
        files = {name: number for number, name in enumerate(self._quoted)}
        self.view.frames = Frames(
            [files[frame.file] for frame in places],
            [frame.line for frame in places],
            [frame.function for frame in places],
        )
        self.view.files = files_of(self._quoted, read=read)

    def _figures(self, lines: Lines) -> dict[str, int | None]:
        counts = {kind: lines.kind.count(kind) for kind in ("declares", "kernel", "op")}
        count = len(lines.path) - counts["declares"]
        return {
            "lines": count,
            "kernels": counts["declares"],
            "calls": counts["kernel"],
            "ops": counts["op"],
        }

    def _function(self) -> Frame | None:
        """Return the function that Dynamo compiled: the innermost of the stack."""
        stack = self._compilation.start.get("stack")
        match stack[-1] if isinstance(stack, list) and stack else None:
            case {"name": str(name), "line": int(line), "filename": file}:
                return Frame(self._log.string(file), line, name)
            case _:
                return None

    def _facts(self, function: Frame | None) -> dict[str, str]:
        """Return what else is known, by what it is called on the page."""
        metrics = self._compilation.metrics
        found = {
            "compile id": self._compilation.id,
            "function": (
                f"{function.function} at {function.file}:{function.line}" if function else ""
            ),
            "log": self._log.file,
        }
        seconds = metrics.get("entire_frame_compile_time_s")
        if isinstance(seconds, (int, float)):
            found["compiled in"] = f"{seconds:.3g} s"
        if metrics.get("fail_reason"):
            found["failed"] = f"{metrics.get('fail_type')}: {metrics['fail_reason']}"
        if self._code.text and not self._code.mappings and not self._code.stacks:
            found["kernels"] = "INDUCTOR_PROVENANCE=1 logs which nodes each computes"
        return {name: words for name, words in found.items() if words}
