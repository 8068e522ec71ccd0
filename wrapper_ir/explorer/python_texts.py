"""Texts of torch that are Python: graphs, and what Inductor wrote. They are read, never run.

Python's own parser says which rows belong to a statement and which names it binds, reads and
deletes. Comments in which torch says where something comes from are taken as its log's format.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines.program import Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The most characters of a text whose statements are looked at; a larger one is only shown.
_MOST: Final = 8 << 20

#: Comments of graphs: where in the model the nodes below come from.
_PLACE: Final = re.compile(
    r"\s*# .*?\bFile: (?P<file>.*?):(?P<line>\d{1,9}) in (?P<function>.*?), code: (?P<code>.*)$"
)

#: The classes of graphs, some of which have names that are none in Python, such as ``<lambda>``.
_CLASS: Final = re.compile(r"\bclass \S+\(torch\.nn\.Module\):")

#: Comments of Inductor's code: the call's name in its provenance, and the nodes of Dynamo's graph.
_HANDLE: Final = re.compile(r"\s*# \[Provenance debug handles\] (?P<handles>.*)$")
_NODES: Final = re.compile(r"\s*# Topologically Sorted Source Nodes: \[(?P<nodes>[^\]]*)\]")

#: Where Inductor's code finds library ops: in modules of torch, by the roots of their names.
_LIBRARIES: Final = ("torch.ops.", "extern_kernels.")


def parsed(text: str) -> ast.Module:
    """Return a text's syntax tree; an empty one if it is none of Python's."""
    try:
        return ast.parse(text) if len(text) <= _MOST else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


@dataclass(slots=True)
class GraphText:
    """A graph as torch prints it, with the node and the place in the model of each row."""

    rows: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    frames: list[Frame | None] = field(default_factory=list)

    @property
    def frame_of(self) -> dict[str, Frame]:
        """The place of each node."""
        pairs = zip(self.nodes, self.frames, strict=True)
        return {node: frame for node, frame in pairs if node and frame is not None}


def graph_text(text: str) -> GraphText:
    """Read a graph."""
    rows = text.rstrip("\n").split("\n") if text else []
    found = GraphText(rows, [""] * len(rows), _places(rows))
    for statement in _forward(parsed(_CLASS.sub("class _(torch.nn.Module):", text))):
        match statement:
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                for row in range(statement.lineno - 1, statement.end_lineno or 0):
                    # Several statements in a row: the others let go of values.
                    found.nodes[row] = found.nodes[row] or name
            case _:
                continue
    return found


def _forward(module: ast.Module) -> Sequence[ast.stmt]:
    """Return the statements of the graph itself; those of its subgraphs have names of their own."""
    for graph in module.body:
        for inner in graph.body if isinstance(graph, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                return inner.body
    return ()


def _places(rows: list[str]) -> list[Frame | None]:
    found: list[Frame | None] = []
    now: Frame | None = None
    for row in rows:
        if place := _PLACE.match(row):
            now = Frame(place["file"], int(place["line"]), place["function"], place["code"])
        elif not row.strip() or row.lstrip().startswith("#"):
            now = None
        found.append(now)
    return found


@dataclass(slots=True)
class KernelText:
    """A kernel that Inductor's code declares."""

    name: str
    language: str
    code: str


@dataclass(slots=True)
class Statement:
    """A statement of the code around kernels. Rows are counted from 0, comments above included."""

    path: str
    start: int
    end: int
    kind: str
    """As :attr:`wrapper_ir.explorer.document.Lines.kind` has it."""
    callee: str = ""
    binds: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    handles: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    """Nodes of Dynamo's graph."""


@dataclass(slots=True)
class OutputCode:
    """What Inductor wrote for a graph."""

    rows: list[str]
    kernels: list[KernelText] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


def output_code(text: str) -> OutputCode:
    """Read Inductor's code: its kernels, and the statements of each function that calls any.

    C++ has no statements that are known.
    """
    found, module = OutputCode(text.rstrip("\n").split("\n") if text else []), parsed(text)
    declared: dict[str, str] = {}
    for statement in module.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(name)], value=ast.Call(ast.Attribute() as how) as call
            ):
                if code := _longest(call):
                    found.kernels.append(KernelText(name, _language(how.attr), code))
                    span = (statement.lineno - 1, statement.end_lineno or statement.lineno)
                    made = Statement(f"kernel[{len(declared)}]", *span, "declares", name)
                    found.statements.append(_with_comments(made, found.rows))
                    declared[name] = name
            case ast.Assign(targets=[ast.Name(name)], value=ast.Attribute() as library):
                declared.setdefault(name, ast.unparse(library))
            case _:
                continue
    kernels = {each.name for each in found.kernels}
    for function in _functions(module):
        reader = _Reader(function.name, kernels, declared, found.rows)
        reader.read(function.body)
        if any(each.kind in ("kernel", "op") for each in reader.statements):
            found.statements += reader.statements
    return found


def _longest(call: ast.Call) -> str:
    """Return the code among a call's arguments: its longest text of several rows."""
    texts = (each.value for each in call.args if isinstance(each, ast.Constant))
    several = [each for each in texts if isinstance(each, str) and "\n" in each.strip()]
    return max(several, key=len, default="").strip("\n")


def _language(compiles: str) -> str:
    """Return a kernel's language by the method of torch that compiles it."""
    return {"cpp_pybinding": "C++", "cpp": "C++"}.get(compiles, compiles)


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for each in module.body:
        for inner in each.body if isinstance(each, ast.ClassDef) else (each,):
            if isinstance(inner, ast.FunctionDef):
                yield inner


class _Reader:
    """Reads the statements of one function, in order, those in blocks with them."""

    def __init__(
        self, name: str, kernels: set[str], declared: dict[str, str], rows: list[str]
    ) -> None:
        self.statements: list[Statement] = []
        self._name, self._kernels, self._declared, self._rows = name, kernels, declared, rows
        self._local: set[str] = set()

    def read(self, body: Iterable[ast.stmt]) -> None:
        """Read statements.

        What comments say of a call stands above what prepares it, such as its stream.
        """
        self._read(body)
        said = Statement("", 0, 0, "")
        for each in self.statements:
            if each.handles or each.nodes:
                said = each
            if each.kind in ("kernel", "op"):
                each.handles, each.nodes = said.handles, said.nodes
                said = Statement("", 0, 0, "")

    def _read(self, body: Iterable[ast.stmt]) -> None:
        for each in body:
            inner = [block for part in ("body", "orelse") for block in getattr(each, part, ())]
            if inner:
                self._read(inner)
            else:
                self.statements.append(self._statement(each))

    def _statement(self, each: ast.stmt) -> Statement:
        names = [node for node in ast.walk(each) if isinstance(node, ast.Name)]
        by = {how: [n.id for n in names if isinstance(n.ctx, how)] for how in _CONTEXTS}
        self._local.update(by[ast.Store])
        kind, callee = self._kind(each)
        made = Statement(
            f"{self._name}[{len(self.statements)}]",
            each.lineno - 1,
            each.end_lineno or each.lineno,
            kind,
            callee,
            list(dict.fromkeys(by[ast.Store])),
            [name for name in dict.fromkeys(by[ast.Load]) if name in self._local],
            list(dict.fromkeys(by[ast.Del])),
        )
        return _with_comments(made, self._rows)

    def _kind(self, each: ast.stmt) -> tuple[str, str]:
        """Return the kind of a statement, and what it calls."""
        if isinstance(each, ast.Delete):
            return "memory", ""
        for call in (node for node in ast.walk(each) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            root, _, rest = name.partition(".")
            if root in self._kernels:
                return "kernel", root
            if root not in self._local:
                whole = f"{self._declared.get(root, root)}.{rest}"
                if whole.startswith(_LIBRARIES):
                    return "op", name
        return "other", ""


_CONTEXTS: Final = (ast.Store, ast.Load, ast.Del)


def _with_comments(made: Statement, rows: list[str]) -> Statement:
    """Give a statement the comments above it, and what torch says in them."""
    while made.start and rows[made.start - 1].lstrip().startswith("#"):
        made.start -= 1
        row = rows[made.start]
        if handles := _HANDLE.match(row):
            made.handles = [each.strip() for each in handles["handles"].split(",")]
        elif nodes := _NODES.match(row):
            made.nodes = [each.strip() for each in nodes["nodes"].split(",") if each.strip()]
    return made
