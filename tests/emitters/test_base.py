"""What all emitters share: the base class, the registry, the writer, the names."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, ClassVar

import pytest

import wrapper_ir as wir
from tests.emitters.corpus import FILES, program
from wrapper_ir.aot.emitter import CppEmitter
from wrapper_ir.emitters import (
    DuplicateEmitterError,
    EmitError,
    Emitter,
    EmitterLoadError,
    LogicalProgramError,
    Problems,
    UnknownEmitterError,
    Unsupported,
    emitter_class,
    emitter_names,
    make_emitter,
    option_names,
    registry,
)
from wrapper_ir.emitters.names import NamePlan, as_identifier
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.lines import Path, Program, Stage
from wrapper_ir.lines.walk import walk
from wrapper_ir.plugins import EMITTERS
from wrapper_ir.verify import VerificationError


def test_all_problems_at_once() -> None:
    with pytest.raises(EmitError) as caught:
        CppEmitter().emit(program("devices_and_streams"))
    error = caught.value
    assert len(error.problems) == 13
    assert str(error.path) == str(error.problems[0].path)
    for problem in error.problems:
        assert f": '{problem.line.mnemonic}': {problem.reason}" in str(error)
        ends = ("in C++ all streams must be of one device", "is not supported in C++ yet")
        assert problem.reason.endswith(ends)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.problems == error.problems


def test_emitters_may_raise_the_error_themselves() -> None:
    refused = wir.parse(FILES["relu_twice"].read_text())
    path, line = next(iter(walk(refused)))
    error = EmitError(emitter="mine", problems=[Unsupported(line, path, "it is odd")])
    assert str(path) in str(error)
    assert "cannot render 1 of the program's lines" in str(error)
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_what_is_wrong_with_many_lines_is_said_once() -> None:
    lines = [(path, line) for path, line in walk(program("relu_twice"))]
    (path, line), (other, _) = lines[0], lines[-1]
    problems = [Unsupported(line, path, "it is odd")] * 50
    error = EmitError(emitter="mine", problems=[*problems, Unsupported(line, other, "no")])
    assert str(error).count("it is odd") == 1
    assert "and 47 more: " in str(error)
    assert f"  {other}: '{line.mnemonic}': no" in str(error)
    assert len(error.problems) == 51


def test_programs_are_verified_first() -> None:
    broken = program("planned")
    broken = broken.replace(body=(*broken.body, wir.Allocate("buf0")))
    with pytest.raises(VerificationError):
        PythonEmitter().emit(broken)


def test_logical_programs_are_refused_by_emitters_and_planned_by_emit() -> None:
    logical = wir.parse(FILES["relu_twice"].read_text())
    assert logical.stage is Stage.LOGICAL
    with pytest.raises(LogicalProgramError, match=r"wir\.plan_memory"):
        PythonEmitter().emit(logical)
    assert wir.emit(logical).source == PythonEmitter().emit(wir.prepare(logical)).source


def test_unknown_emitters_are_named_with_what_there_is() -> None:
    with pytest.raises(UnknownEmitterError, match=r"installed emitters: .*python") as caught:
        wir.emit(program("planned"), "pyton")
    assert "did you mean 'python'?" in str(caught.value)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(OptionError, match="'python' has no option 'orignis'") as caught:
        wir.emit(program("planned"), "python", orignis=True)
    assert "did you mean 'origins'?" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("checks", "sometimes"), ("origins", 1), ("arena", "long")),
        *(("scratch_bytes", "64k"), ("scratch_bytes", True), ("scratch_bytes", -1)),
    ],
)
def test_values_of_options_are_checked(option: str, value: Any) -> None:
    with pytest.raises(OptionValueError, match=option):
        make_emitter("python", {option: value})


def test_the_python_emitter_is_installed() -> None:
    assert "python" in emitter_names()
    assert emitter_class("python") is PythonEmitter
    kinds = ("", "_limit", "_branches", "_cuts", "_results")
    graphs = tuple(f"cuda_graph{kind}" for kind in kinds)
    own = ("origins", "checks", "scratch_bytes", "arena", "out")
    assert set(option_names(PythonEmitter)) == {*own, *graphs, "profile"}


@dataclass(frozen=True)
class Mine(Emitter):
    name: ClassVar[str] = "mine"
    loud: bool = False

    def render(self, program: Program, problems: Problems) -> Any:
        return Text(program.name.upper() if self.loud else program.name)


@dataclass(frozen=True)
class Text:
    source: str

    def load(self) -> Any:
        return lambda *inputs: inputs

    def load_boxed(self) -> Any:
        return tuple


class NotAnEmitter:
    pass


def points(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> None:
    made = EntryPoints(EntryPoint(name, value, EMITTERS) for name, value in found)

    def plugins(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
        wanted = {"group": group} if name is None else {"group": group, "name": name}
        return tuple(made.select(**wanted))

    monkeypatch.setattr(registry, "plugins", plugins)


def test_emitters_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, ("mine", f"{__name__}:Mine"))
    assert wir.emit(program("planned"), "mine", loud=True).source == "PLANNED"


def test_duplicates_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, ("mine", f"{__name__}:Mine"), ("mine", "other:Mine"))
    with pytest.raises(DuplicateEmitterError, match="other:Mine"):
        emitter_class("mine")


def test_the_same_entry_point_found_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, *[("mine", f"{__name__}:Mine")] * 2)
    assert emitter_class("mine") is Mine


@pytest.mark.parametrize("value", ["no_such_module:X", f"{__name__}:nothing", f"{__name__}:FILES"])
def test_bad_entry_points(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    points(monkeypatch, ("mine", value))
    with pytest.raises(EmitterLoadError, match=re.escape(value)):
        emitter_class("mine")


def test_writer_and_source_map() -> None:
    head, body = CodeWriter(), CodeWriter()
    path = Path.parse("body[3].then[1]")
    body.line("def f():")
    with body.indent():
        with body.at(path):
            body.line("one()")
            body.verbatim('x = """\nraw\n"""')
        body.blank()
        body.line("two()")
    head.line("import this")
    head.extend(body)
    assert head.text() == 'import this\ndef f():\n    one()\n    x = """\nraw\n"""\n\n    two()\n'
    found = head.source_map()
    assert found.lines_of(path) == (3, 4, 5, 6)
    assert found.path_at(4) == path
    assert found.path_at(8) is None
    assert found.path_at(0) is None
    assert found.path_at(99) is None


def test_names_that_clash_with_nothing_stay() -> None:
    plan = NamePlan([("a", "x"), ("b", "y"), ("c", "if"), ("d", "x"), ("e", "x_1")], {"if"})
    assert [plan[key] for key in "abcde"] == ["x", "y", "if_1", "x_2", "x_1"]
    assert plan.fresh("z") == "z"
    assert plan.fresh("z") == "z_1"


def test_names_are_injective() -> None:
    wanted = [
        (n, name) for n, name in enumerate(["a", "a", "a_1", "a", "a_2", "a_1", "if", "if_1"])
    ]
    plan = NamePlan(wanted, {"if", "a_3"})
    names = [plan[n] for n, _ in wanted]
    assert len(set(names)) == len(names)
    assert not {"if", "a_3"} & set(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("aten::addmm.out", "aten_addmm_out"), ("9", "_9"), ("", "_"), ("a-b c", "a_b_c")],
)
def test_identifiers(text: str, expected: str) -> None:
    assert as_identifier(text) == expected


def test_text_is_split_between_statements() -> None:
    writer = CodeWriter()
    for number in range(4):
        writer.lines(f"f({number},", "  0);")
    pieces = [piece.text() for piece in writer.split(3, ";")]
    assert pieces == ["f(0,\n  0);\nf(1,\n  0);\n", "f(2,\n  0);\nf(3,\n  0);\n"]
    assert "".join(pieces) == writer.text()
    assert [piece.text() for piece in writer.split(100, ";")] == [writer.text()]
    assert not list(CodeWriter().split(3, ";"))
