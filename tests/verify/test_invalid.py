"""Every rule has an invalid program, and says what is wrong where it is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT
from tools import rule_table
from wrapper_ir.lines import (
    Access,
    AnyLine,
    AssertLayout,
    BufferArg,
    BufferInput,
    BufferParam,
    BufferValue,
    Cond,
    CppKernel,
    DType,
    ExternKernel,
    Free,
    FrozenMap,
    KernelCall,
    KernelDefinition,
    Layout,
    ListArg,
    Program,
    Region,
    Reinterpret,
    ScalarArg,
    Switch,
    SymbolInfo,
    TorchOp,
)
from wrapper_ir.text import parse, print_program
from wrapper_ir.text.errors import UnprintableError
from wrapper_ir.verify import RULES, VerificationError, diagnose, verify
from wrapper_ir.verify.diagnostics import annotated

INVALID = Path(__file__).parents[1] / "invalid"
FILES = sorted(INVALID.glob("*.wir"))

_REMARK = re.compile(r"(.*?) ; (?:error|warning): (.*)")
_SHOWN = re.compile(r" *\d+ \|(?: (.*))?")
_ERROR = re.compile(r" *\| *\^ (?:error|warning): (WIR\d{4}) .*")

FLOATS = Layout.contiguous(DType.FLOAT32, (4,))
RELU = KernelDefinition("aten::relu", (), TorchOp("aten::relu(Tensor self) -> Tensor"))
BUMP = KernelDefinition(
    "bump",
    (BufferParam("data", DType.FLOAT32, Access.READ_WRITE),),
    CppKernel('extern "C" void kernel(float* data) { data[0] += 1; }'),
)


def expected(text: str) -> tuple[list[str], list[tuple[int, str]]]:
    """The program's text without remarks, and line number and code of each fault to come."""
    plain: list[str] = []
    faults: list[tuple[int, str]] = []
    for line in text.splitlines():
        if line.startswith(";"):
            continue
        found = _REMARK.fullmatch(line)
        plain.append(found[1] if found else line)
        if found:
            faults += [(len(plain) - 1, code.strip()) for code in found[2].split(",")]
    return plain, faults


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_faults_are_those_that_the_sample_says_and_no_others(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    plain, faults = expected(text)
    program = parse(text)
    # Line numbers of the sample and of the printed program are then the same.
    assert print_program(program, strict=False).splitlines() == plain
    seen: list[tuple[int, str]] = []
    number = -1
    for line in annotated(program, diagnose(program, warnings="; warning: " in text)):
        error = _ERROR.fullmatch(line)
        if error:
            seen.append((number, error[1]))
        elif _SHOWN.fullmatch(line):
            number += 1
    assert sorted(seen) == sorted(faults)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_is_named_after_the_rule_that_it_breaks(file: Path) -> None:
    code, _, name = file.stem.partition("_")
    rule = RULES[code.upper()]
    assert name == rule.name.replace("-", "_")
    program = parse(file.read_text(encoding="utf-8"))
    found = {d.code for d in diagnose(program, warnings=True)}
    assert rule.code in found
    assert (diagnose(program) == ()) is rule.is_warning


def program(*body: object, layouts: dict[str, Layout] | None = None, **fields: object) -> Program:
    """A program over one input of four floats."""
    buffers = {"x": FLOATS, **(layouts or {})}
    return Program(
        inputs=(BufferInput("x"),),
        results=(BufferValue("x"),),
        body=body,
        buffers=FrozenMap(buffers),
        **fields,
    )


def nested(depth: int, *innermost: AnyLine) -> Cond:
    empty = Region((), (), ())
    line = Cond((), ScalarArg(True), (), Region((), innermost, ()), empty)
    for _ in range(depth - 1):
        line = Cond((), ScalarArg(True), (), Region((), (line,), ()), empty)
    return line


def nested_list(depth: int) -> ListArg:
    found = ListArg(())
    for _ in range(depth - 1):
        found = ListArg((found,))
    return found


def op(name: str, schema: str, *params: BufferParam) -> KernelDefinition:
    return KernelDefinition(name, params, TorchOp(schema))


RELU_SCHEMA = "aten::relu(Tensor self) -> Tensor"

#: Faults that the text form cannot say: (code, path, program).
UNWRITABLE = [
    ("WIR1001", "", program(name="a program")),
    ("WIR1001", "body[0]", program(Reinterpret("é", "x"), layouts={"é": FLOATS})),
    ("WIR1001", "body[0]", program(Reinterpret("a\nb", "x"), layouts={"a\nb": FLOATS})),
    ("WIR1001", "body[0]", program(KernelDefinition("1st", (), CppKernel("")))),
    ("WIR1001", "body[0]", program(KernelDefinition("k", (), CppKernel("", entry="f()")))),
    ("WIR1003", "body[0]", program(Reinterpret("y", "x"))),
    ("WIR1005", "body[1]", program(BUMP, Reinterpret("y", "x", origin=0), layouts={"y": FLOATS})),
    ("WIR1005", "body[0]", program(Reinterpret("y", "x", origin=-1), layouts={"y": FLOATS})),
    ("WIR1007", "body[0]" + ".then[0]" * 64, program(nested(65))),
    ("WIR1007", "body[0]" + ".then[0]" * 64, program(nested(5000))),
    ("WIR1008", "body[0]", program(Free(3))),
    ("WIR1008", "body[0]", program(AssertLayout("x", alignment=True))),
    ("WIR1008", "body[0]", program(ExternKernel("aten::relu", (1,)))),
    ("WIR1008", "", program(symbols=FrozenMap({"s": SymbolInfo(hint="exit()")}))),
    ("WIR1008", "", program(origins=[])),
    ("WIR1008", "body[0].then[0]", program(nested(1, Free(b"x")))),
    ("WIR1008", "body[0]" + ".then[0]" * 70, program(nested(70, Free(3)))),
    ("WIR1008", "body[0]", program(ExternKernel("aten::relu", (nested_list(65),)))),
    ("WIR1008", "body[0]", program(ExternKernel("aten::relu", (nested_list(50000),)))),
    ("WIR1064", "body[0]", program(op("aten::gelu", RELU_SCHEMA))),
    ("WIR1064", "body[0]", program(op("aten::relu", RELU_SCHEMA, BUMP.params[0]))),
    ("WIR1065", "body[0]", program(op("aten::relu", "aten::relu(Tensor self"))),
    ("WIR1066", "body[1]", program(RELU, KernelCall("aten::relu", (BufferArg("x"),)))),
    ("WIR1066", "body[1]", program(BUMP, ExternKernel("bump", (BufferArg("x"),)))),
    ("WIR1098", "body[0]", program(Switch((), ScalarArg(0), (), ()))),
]


@pytest.mark.parametrize(("code", "path", "faulty"), UNWRITABLE)
def test_faults_that_the_text_form_cannot_say(code: str, path: str, faulty: Program) -> None:
    found = diagnose(faulty)
    assert [(d.code, str(d.path)) for d in found] == [(code, path)]
    assert code in str(VerificationError(faulty, found))


def test_a_value_of_a_wrong_type_is_not_printed() -> None:
    for code, _, faulty in UNWRITABLE:
        if code == "WIR1008":
            with pytest.raises(UnprintableError, match="is needed"):
                print_program(faulty)


def test_sixty_four_regions_deep_is_fine() -> None:
    assert diagnose(program(nested(64))) == ()


def test_every_rule_has_a_sample() -> None:
    written = {code for file in FILES for _, code in expected(file.read_text(encoding="utf-8"))[1]}
    unwritten = {code for code, _, _ in UNWRITABLE}
    # Those that compare a program with a graph are in tests of the front end.
    graphs = {f"WIR{number}" for number in (*range(1123, 1130), 1132, 1133, 1139)}
    assert written | unwritten | graphs == set(RULES)
    assert not written & unwritten, "what the text form can say belongs in tests/invalid"


def test_rules_are_told_apart_by_code_and_name_and_have_hints() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert rule.hint


def test_verify_raises_with_every_diagnostic_and_returns_good_programs() -> None:
    faulty = parse((INVALID / "wir1028_leak.wir").read_text(encoding="utf-8"))
    with pytest.raises(VerificationError) as caught:
        verify(faulty)
    assert caught.value.diagnostics == diagnose(faulty)
    assert caught.value.program is faulty
    good = program()
    assert verify(good) is good


def test_the_page_about_the_verifier_lists_every_rule() -> None:
    page = rule_table.PAGE.read_text(encoding="utf-8")
    assert rule_table.made(page) == page
    rows = re.findall(r"^\| (WIR\d{4}) ", page, re.MULTILINE)
    assert rows == sorted(RULES)
    for rule in RULES.values():
        assert rule.checks
        assert rule.checks in page


def test_no_other_text_lists_the_rules() -> None:
    """A second list would be one to keep: docstrings and other pages name single rules."""
    package = ROOT / "wrapper_ir"
    files = [*package.rglob("*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    for file in files:
        listed = re.findall(
            r"^(?:-|\|) `?(WIR1[01]\d\d)\b", file.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert len(listed) < 5 or file == rule_table.PAGE, file
