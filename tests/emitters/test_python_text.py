"""The text that the Python emitter writes: pure, safe, mapped back to the program."""

from __future__ import annotations

import ast
import builtins
import keyword
from typing import TYPE_CHECKING, Any

import black
import pytest
import torch

import wrapper_ir as wir
from tests import warm
from tests.emitters.corpus import CASES, FILES, program
from wrapper_ir.emitters.python import PythonArtifact, literals
from wrapper_ir.emitters.python.literals import assignment, call, list_of, statement, tuple_of
from wrapper_ir.lines import (
    CPU,
    Access,
    Allocate,
    BufferArg,
    BufferParam,
    BufferValue,
    Comment,
    Constant,
    CppKernel,
    DType,
    Frame,
    FrozenMap,
    KernelCall,
    KernelDefinition,
    Layout,
    Origin,
    Program,
    Stage,
    walk,
)

if TYPE_CHECKING:
    from pathlib import Path


def emit(program: Program, **options: Any) -> PythonArtifact:
    artifact = wir.emit(program, "python", **options)
    assert isinstance(artifact, PythonArtifact)
    return artifact


@pytest.mark.parametrize("name", CASES)
def test_emitting_twice_gives_the_same(name: str) -> None:
    made = program(name)
    assert emit(made).source == emit(made).source


@pytest.mark.parametrize("name", CASES)
def test_imports_only_torch_and_the_runtime(name: str) -> None:
    tree = ast.parse(emit(program(name)).source)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    assert found <= {"torch", "wrapper_ir.runtime"}


@pytest.mark.parametrize("name", CASES)
def test_every_line_of_call_is_mapped(name: str) -> None:
    artifact = emit(program(name))
    lines = artifact.source.splitlines()
    assert len(lines) == len(artifact.source_map.paths)
    paths = dict(walk(artifact.program))
    assert {p for p in artifact.source_map.paths if p is not None} <= paths.keys()
    for path, line in paths.items():
        if line.mnemonic in ("call", "extern", "free", "reuse", "allocate"):
            assert artifact.source_map.lines_of(path), f"{path} {line}"


def test_errors_say_which_line_of_the_program_ran() -> None:
    made = program("extern_out")
    function = wir.compile(made)
    made.data["bias"].resize_(2)
    with pytest.raises(RuntimeError) as caught:
        function(torch.randn(4, 8))
    assert caught.value.__notes__ == ["while running body[4] of the program"]
    assert "aten_addmm_out" in "".join(_traceback_text(caught.value))


def _traceback_text(error: BaseException) -> list[str]:
    import traceback

    return traceback.format_exception(error)


# Text from outside.

NASTY = [
    '"""',
    "'''",
    '"""\nimport os; os._exit(3)\n"""',
    "\\",
    "\\\\",
    'ends with a quote"',
    "ends with a backslash\\",
    "\\N{BULLET} \\x41 \\u0041 {braces} %s",
    "line\rfeed\r\nand\vmore\fthan\x85that\u2028\u2029",
    "bidi \u202e\u2066 override",
    "nul \x00 escape \x1b[31m",
    "é 漢字 😀",
    "\t\ttabs and trailing blanks  \n",
    "# type: ignore",
    "fmt: off",
    "-*- coding: utf-7 -*-",
    "",
]


@pytest.mark.parametrize("text", NASTY)
def test_strings_are_only_strings(text: str) -> None:
    for literal in (literals.string(text), literals.source_literal(text)):
        assert ast.literal_eval(literal) == text
        assert literal.isascii()
        assert set(map(ord, literal)) <= {9, 10, *range(32, 127)}
    assert "\n" not in literals.string(text)


@pytest.mark.parametrize("text", NASTY)
def test_comments_are_only_comments(text: str) -> None:
    lines = literals.comment(text)
    assert all(line.startswith("#") and line.isprintable() and line.isascii() for line in lines)
    source = "\n".join(lines) + "\nx = 1\n"
    assert ast.dump(ast.parse(source)) == ast.dump(ast.parse("x = 1"))
    assert black.format_str(f"x  =  1\n{source}", mode=black.Mode()).startswith("x = 1\n")
    compile(source.encode(), "m", "exec")  # no comment says how the file is encoded


@pytest.mark.parametrize("text", NASTY)
def test_nothing_in_a_program_becomes_code(text: str) -> None:
    layout = Layout.contiguous(DType.FLOAT32, (4,))
    param = BufferParam("out", DType.FLOAT32, Access.WRITE)
    code = f'extern "C" void kernel(float* out) {{ out[0] = 1; }}\n/* {text} */\n'
    made = Program(
        results=(BufferValue("x"),),
        body=(
            KernelDefinition("k", (param,), CppKernel(code)),
            Comment(text, origin=0),
            Allocate("x", origin=0),
            KernelCall("k", (BufferArg("x", Access.WRITE),), CPU, origin=1),
        ),
        buffers=FrozenMap({"x": layout, "c": layout}),
        constants=FrozenMap({"c": Constant(text)}),
        stage=Stage.PLANNED,
        origins=(Origin(module=text), Origin(frames=(Frame(text, 3, text, text),), ops=(text,))),
    )
    source = emit(made, origins=True).source
    assert source.isascii()
    assert black.format_str(source, mode=black.Mode()) == source
    tree = ast.parse(source)
    defined = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert defined == ["call", "make_inputs"]
    constants = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert code in constants


def test_names_of_programs() -> None:
    source = emit(program("names")).source
    tree = ast.parse(source)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert not names & set(keyword.kwlist)
    stored = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    assert not stored & {"torch", "args", "call", "int", "max"}


def test_origins_are_told_on_request_only() -> None:
    made = program("planned")
    lines = tuple(line if line.mnemonic == "kernel" else _with_origin(line) for line in made.body)
    frame = Frame("model.py", 12, "forward", "return relu(x)")
    made = made.replace(
        body=lines, origins=(Origin(("relu",), ("aten.relu",), (frame,), "encoder.0"),)
    )
    assert "model.py" not in emit(made).source
    assert "    # encoder.0: aten.relu (model.py:12)\n" in emit(made, origins=True).source


def _with_origin(line: Any) -> Any:
    import dataclasses

    return dataclasses.replace(line, origin=0)


def test_files_run_as_programs(tmp_path: Path) -> None:
    for name in ("extern_out", "dynamic_shapes"):
        file = tmp_path / "wrapper.py"
        file.write_text(emit(program(name)).source)
        done = warm.run(file, "--calls", "2", "--batches", "1")
        assert done.returncode == 0, done.stderr
        assert "result 0: float32" in done.stdout
        assert "us a call" in done.stdout


def test_reserved_words_cover_what_the_file_calls() -> None:
    """A buffer named as something that the file itself uses must be called otherwise."""
    from wrapper_ir.emitters.python import context

    reserved = context._RESERVED | context._BUILTINS | context._DUNDERS
    for name in FILES:
        if name not in CASES:
            continue
        tree = ast.parse(emit(program(name)).source)
        functions = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert {f for f in functions if hasattr(builtins, f)} <= reserved


# Layout of statements, against black itself.

LONG = [f"argument_{n}" for n in range(12)]
NODES = {
    "short": call("f", "a", "b"),
    "body fits": call("f", *LONG[:6]),
    "one a line": call("f", *LONG),
    "one argument": call("f", "x" * 90),
    "tuple": tuple_of(LONG),
    "list": list_of(LONG),
    "tuple of one": tuple_of(["x" * 90]),
    "list of one": list_of(["x" * 90]),
    "empty": call("f" * 90),
    "empty tuple": tuple_of([]),
    "nested": call("f", call("g", *LONG), tuple_of(LONG[:3]), list_of(LONG)),
    "nested fits": call("f", call("g", *LONG[:3]), tuple_of(LONG[:3])),
    "text": call("f", '"name"', 'r"""a\nb\n"""'),
    "name": "x",
    "long name": "x" * 80,
    "dotted name": "torch.ops.aten." + "x" * 60,
    "very long dotted name": "torch.ops.aten." + "x" * 90,
    "sum": " + ".join(LONG),
    "sum inside": call("f", " + ".join(LONG), "x"),
    "long text": call("f", '"' + "x" * 90 + '"', 'entry="' + "x" * 90 + '"'),
}


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
@pytest.mark.parametrize("head", ["", "return ", "x = ", f"{'x' * 40} = "])
@pytest.mark.parametrize("depth", [0, 1])
def test_statements_are_laid_out_as_black_does(node: Any, head: str, depth: int) -> None:
    if head == "return " and not depth:
        return
    lines = statement(node, 4 * depth, head=head)
    compare_with_black(lines, depth)


@pytest.mark.parametrize("targets", [["x"], ["x", "y"], LONG, LONG[:6]], ids=str)
@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_assignments_are_laid_out_as_black_does(targets: list[str], node: Any) -> None:
    compare_with_black(assignment(targets, node, 4, unpack=True), 1)


def compare_with_black(lines: list[str], depth: int) -> None:
    text = "".join(f"{'    ' * depth}{line}\n" for line in lines)
    source = f"def f():\n{text}" if depth else text
    assert black.format_str(source, mode=black.Mode()) == source


def test_names_longer_than_a_line_are_deleted() -> None:
    text = str(program("relu_twice")).replace("%buf0", "%" + "b" * 100)
    tree = ast.parse(emit(wir.parse(text)).source)
    deleted = [node.targets for node in ast.walk(tree) if isinstance(node, ast.Delete)]
    assert "b" * 100 in [ast.unparse(target) for targets in deleted for target in targets]
