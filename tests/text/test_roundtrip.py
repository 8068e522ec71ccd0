"""Printing and parsing are inverses: of each other, on everything."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wrapper_ir as wir
from tests import strategies
from wrapper_ir import lines as ir
from wrapper_ir.lines import expr as ex
from wrapper_ir.text import UnprintableError, parse, print_line, print_program, text_lines
from wrapper_ir.text.expressions import ExprParser, TextExprPrinter
from wrapper_ir.text.tokens import Cursor
from wrapper_ir.text.words import (
    RESERVED,
    escape,
    quote,
    read_source_line,
    rest_of_line,
    source_lines,
    unescape,
)

PROGRAMS = Path(__file__).parents[1] / "programs"
CORPUS = sorted(PROGRAMS.rglob("*.wir"))

slowly = settings(deadline=None, suppress_health_check=list(HealthCheck))


def remarks_off(text: str) -> str:
    """The text without the remarks that say what a program of the corpus is for."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(";"))


@pytest.mark.parametrize("file", CORPUS, ids=lambda f: str(f.relative_to(PROGRAMS)))
def test_the_corpus_is_what_the_printer_prints(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    program = parse(text, source_name=str(file))
    assert print_program(program) == remarks_off(text)
    assert text.startswith("; ")
    assert wir.diagnose(program) == ()
    assert program.name == file.stem or file.stem == "names"


def test_the_corpus_has_every_kind_of_line() -> None:
    found = {type(line) for file in CORPUS for _, line in ir.walk(wir.load(file, data=False))}
    assert found == set(strategies.LINES)


@slowly
@given(strategies.any_programs(), st.booleans())
def test_any_program(program: ir.Program, origins: bool) -> None:
    text = print_program(program, origins=origins)
    read = parse(text)
    assert read == program
    assert hash(read) == hash(program)
    assert print_program(read, origins=origins) == text
    if origins:
        assert read.origins == program.origins
        pairs = zip(ir.walk(read), ir.walk(program), strict=True)
        assert all(a.origin == b.origin for (_, a), (_, b) in pairs)


@slowly
@given(strategies.programs())
def test_a_program_without_a_fault(program: ir.Program) -> None:
    assert wir.diagnose(program) == ()
    assert parse(str(program)) == program


@slowly
@given(strategies.numbers)
def test_numbers_and_expressions(value: ir.Scalar) -> None:
    text = TextExprPrinter(strategies.SYMBOLS).print(value)
    cursor = Cursor(text, 1, "<text>")
    parser = ExprParser()
    for name, info in strategies.SYMBOLS.items():
        parser.declare(name, is_real=info.kind is ir.SymbolKind.FLOAT)
    read = parser.scalar(cursor)
    cursor.end()
    assert ir.ScalarArg(read) == ir.ScalarArg(value)
    assert type(read) is type(value)


@settings(deadline=None)
@given(strategies.strings)
def test_strings(text: str) -> None:
    quoted = quote(text)
    assert quoted.isprintable()
    assert unescape(quoted[1:-1]) == text
    assert unescape(escape(text)) == text
    rest = rest_of_line(text)
    assert rest == rest.rstrip()
    assert unescape(rest) == text


@settings(deadline=None)
@given(strategies.sources)
def test_sources(text: str) -> None:
    lines = source_lines(text)
    assert "\n".join(map(read_source_line, lines)) == text
    assert all(line == line.rstrip() for line in lines)
    assert all(line.replace("\t", " ").isprintable() for line in lines)


def printed(value: ir.Scalar) -> str:
    return TextExprPrinter().print(ir.scalar(value))


S0, S1, S2, S10 = (ir.symbol(name) for name in ("s0", "s1", "s2", "s10"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2 * S0 + 1, "2*s0 + 1"),
        (S0 - S1, "s0 - s1"),
        (-S0 - 1, "-s0 - 1"),
        (S10 + S2 + S1, "s1 + s2 + s10"),
        (2 * (S0 + 1) * S1, "s1*(2*s0 + 2)"),
        (sympy.Mul(2, S0 + 1, S1), "2*s1*(s0 + 1)"),
        (sympy.Mul(-2, S0 + 1, S1) + S0, "s0 - 2*s1*(s0 + 1)"),
        (ex.FloorDiv(-S0 * S1, S2), "-s0*s1 // s2"),
        (-S0 * ex.FloorDiv(S1, 2), "-s0*(s1 // 2)"),
        (ex.FloorDiv(ex.FloorDiv(S0, S1), 2), "s0 // s1 // 2"),
        (ex.FloorDiv(S0, ex.FloorDiv(S1, 2)), "s0 // (s1 // 2)"),
        (ex.Mod(S0, S1), "s0 % s1"),
        (sympy.Pow(-2, S0), "(-2)**s0"),
        (-(S0**2), "-s0**2"),
        (S0 ** (S1**S2), "s0**s1**s2"),
        (sympy.Max(S0, 1, S10, S2), "Max(1, s0, s2, s10)"),
        (sympy.And(S0 < 3, sympy.Eq(S1, 2)), "s1 == 2 && s0 < 3"),
        (sympy.Or(S0 < 3, sympy.And(S1 > 2, S2 > 2)), "s1 > 2 && s2 > 2 || s0 < 3"),
        (ir.symbol("free") + 1, "$free + 1"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (complex(1, -0.0), "complex(1.0, -0.0)"),
    ],
)
def test_expressions_look_like_this(value: ir.Scalar, text: str) -> None:
    assert printed(value) == text


@pytest.mark.parametrize("digits", [3999, 4000, 4300, 5000, 100_000])
def test_integers_of_any_length(digits: int) -> None:
    value = -(10**digits)
    program = ir.Program(results=(ir.ScalarValue(value),))
    assert parse(str(program)) == program


def test_every_function_of_the_vocabulary_is_printed_and_read() -> None:
    assert set(TextExprPrinter.forms) == ex.VOCABULARY - {sympy.Symbol}


def test_the_text_is_the_same_in_every_process() -> None:
    code = (
        "import sympy; from wrapper_ir.lines import *; from wrapper_ir.lines import expr as ex;"
        "from wrapper_ir.text.expressions import TextExprPrinter as P;"
        "s = [symbol(f's{i}') for i in range(12)]; z = [real_symbol(f'z{i}') for i in range(6)];"
        "print(P().print(scalar(sum(s) + sympy.Max(*s) * sympy.Min(*s[:5], 3) * s[2] - s[3])));"
        "print(P().print(scalar(sympy.And(*(a < b for a, b in zip(s, s[1:]))))));"
        "print(P().print(scalar(sympy.Or(*(sympy.Eq(a, 2) for a in s)))));"
        "print(P().print(scalar(sum(z) * z[0] + ex.Sqrt(sympy.Max(*z)))))"
    )
    texts = set()
    for seed in ("0", "1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        texts.add(done.stdout)
    assert len(texts) == 1


def test_parsing_again_gives_shared_layouts() -> None:
    program = wir.load(PROGRAMS / "relu_twice.wir")
    assert program.buffers["buf0"] is program.buffers["buf1"]


def test_symbols_and_constants_keep_their_order() -> None:
    names = ["b", "a", "s10", "s2"]
    program = ir.Program(
        symbols=ir.FrozenMap(dict.fromkeys(names, ir.SymbolInfo())),
        constants=ir.FrozenMap(dict.fromkeys(names, ir.Constant("c"))),
    )
    read = parse(str(program))
    assert list(read.symbols) == names
    assert list(read.constants) == names


def test_what_a_person_may_write_otherwise() -> None:
    text = """; a remark
wir 2     ; another
program @p inference logical
input %x:f32[ 4 ,6 ]@cpu      ; strides may be left out
   input   %y : f32[4,6]{6,1}+0 @cpu

%z=aten::relu( %x ):f32[4,6]{1,4}@cpu
return 2*3, (%s)
"""
    program = parse(text.replace(", (%s)", ", 1 + 1"))
    assert program.results == (ir.ScalarValue(6), ir.ScalarValue(2))
    assert program.buffers["x"] == program.buffers["y"]
    assert program.buffers["z"].stride == (1, 4)


@pytest.mark.parametrize(
    "program",
    [
        ir.Program(name="a b"),
        ir.Program(name=""),
        ir.Program(body=(ir.Free("x y"),)),
        ir.Program(body=(ir.Free("é"),)),
        ir.Program(body=(ir.Free("x\n"),)),
        ir.Program(body=(ir.ComputeSymbol("s 0", 1),)),
        ir.Program(body=(ir.ComputeSymbol("s", ir.symbol("a b")),)),
        ir.Program(body=(ir.ExternKernel("relu", ()),)),
        ir.Program(body=(ir.ExternKernel("aten::a; b", ()),)),
        ir.Program(body=(ir.ExternKernel("aten::relu", (), (("a b", ir.NoneArg()),)),)),
        ir.Program(body=(ir.KernelCall("k", (), ir.Device("c d")),)),
        ir.Program(body=(ir.KernelCall("k", (), ir.Device("cuda", -1)),)),
        ir.Program(body=(ir.KernelCall("k", (ir.EnumArg(ir.EnumKind.LAYOUT, "a b"),)),)),
        ir.Program(body=(ir.KernelDefinition("aten::x", (), ir.TorchOp("aten::y() -> ()")),)),
        ir.Program(body=(ir.KernelDefinition("aten::x", (), ir.TorchOp("aten::x() ->\n()")),)),
        ir.Program(body=(ir.KernelDefinition("x", (), ir.TorchOp("no schema")),)),
        ir.Program(body=(ir.KernelDefinition("k", (ir.ScalarParam("a b"),), ir.CppKernel("")),)),
    ],
    ids=range(17),
)
def test_what_has_no_text_is_refused_but_can_be_shown(program: ir.Program) -> None:
    with pytest.raises(UnprintableError, match="WIR0220"):
        print_program(program)
    shown = print_program(program, strict=False)
    assert shown.isascii() or "é" in shown
    with pytest.raises(wir.WrapperIRError):
        parse(shown)


def test_a_symbol_is_what_it_is_declared_as() -> None:
    for declared, used in (("int", ir.real_symbol("z")), ("float", ir.symbol("z"))):
        info = ir.SymbolInfo(ir.SymbolKind(declared))
        program = ir.Program(symbols=ir.FrozenMap({"z": info}), results=(ir.ScalarValue(used + 1),))
        with pytest.raises(UnprintableError, match="declared as"):
            str(program)


def test_names_that_are_words_of_the_text_form() -> None:
    words = sorted(RESERVED)
    program = ir.Program(
        inputs=tuple(ir.ScalarInput(word) for word in words),
        symbols=ir.FrozenMap(dict.fromkeys(words, ir.SymbolInfo())),
        body=tuple(ir.ComputeSymbol(word, ir.symbol(word) + 1) for word in words),
        results=tuple(ir.ScalarValue(ir.symbol(word)) for word in words),
    )
    assert parse(str(program)) == program


def nested(depth: int) -> ir.Program:
    region = ir.Region((), (), ())
    for _ in range(depth):
        region = ir.Region((), (ir.Cond((), ir.ScalarArg(True), (), region, region),), ())
    return ir.Program(body=region.body)


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_regions_within_regions(depth: int) -> None:
    assert parse(str(nested(depth))) == nested(depth)


def test_nesting_has_the_same_bound_both_ways() -> None:
    def chain(depth: int) -> ir.Program:
        inner, empty = ir.Region((), (), ()), ir.Region((), (), ())
        for _ in range(depth):
            inner = ir.Region((), (ir.Cond((), ir.ScalarArg(True), (), inner, empty),), ())
        return ir.Program(body=inner.body)

    assert parse(str(chain(64))) == chain(64)
    for depth in (65, 300, 3000):
        with pytest.raises(UnprintableError, match="nested"):
            str(chain(depth))


def test_lists_and_expressions_have_a_bound_too() -> None:
    for depth, legal in ((60, True), (66, False)):
        arg: ir.Arg = ir.NoneArg()
        value: object = ir.symbol("s0")
        for _ in range(depth):
            arg = ir.ListArg((arg,))
            value = ex.FloorDiv(2, value)
        for program in (
            ir.Program(body=(ir.KernelCall("k", (arg,)),)),
            ir.Program(results=(ir.ScalarValue(value),)),
        ):
            if legal:
                assert parse(str(program)) == program
            else:
                with pytest.raises(UnprintableError, match="nested"):
                    str(program)


def test_text_lines_know_their_program_lines() -> None:
    program = wir.load(PROGRAMS / "cond_nested.wir")
    lines = list(text_lines(program, paths=True))
    starts = {line.path: line.text.strip() for line in lines if line.path is not None}
    assert starts.keys() == {path for path, _ in ir.walk(program)}
    for path, line in ir.walk(program):
        assert starts[path] == print_line(line, program)
    assert "\n".join(line.text for line in lines) + "\n" == print_program(program)


@pytest.mark.long
@pytest.mark.slow
def test_a_long_program_takes_time_in_proportion() -> None:
    def seconds(lines: int) -> tuple[float, float]:
        body = []
        buffers = {"x": ir.Layout.contiguous(ir.DType.FLOAT32, (S0, 64))}
        for index in range(lines // 2):
            name = f"buf{index}"
            buffers[name] = ir.Layout.contiguous(ir.DType.FLOAT32, (S0, 64 + index % 50))
            args = (ir.BufferArg("x"), ir.BufferArg(name, ir.Access.WRITE), ir.ScalarArg(4 * S0))
            body += [ir.Allocate(name), ir.KernelCall("k", args)]
        program = ir.Program(
            body=tuple(body),
            buffers=ir.FrozenMap(buffers),
            inputs=(ir.BufferInput("x"),),
            symbols=ir.FrozenMap({"s0": ir.SymbolInfo()}),
        )
        start = time.process_time()
        text = str(program)
        middle = time.process_time()
        assert parse(text) == program
        return middle - start, time.process_time() - middle

    seconds(1000)
    small = [seconds(10_000) for _ in range(2)]
    large = seconds(100_000)
    for which in (0, 1):
        # Ten times the lines: a hundred times as long would be quadratic.
        assert large[which] < 25 * max(times[which] for times in small)
