"""What a verification error looks like."""

from __future__ import annotations

import pickle
import textwrap

import pytest

from wrapper_ir.lines import (
    BufferInput,
    BufferValue,
    Comment,
    DType,
    Frame,
    Free,
    FrozenMap,
    Layout,
    Origin,
    Program,
)
from wrapper_ir.text import parse
from wrapper_ir.verify import VerificationError, diagnose, verify

FLOATS = Layout.contiguous(DType.FLOAT32, (4,))
ORIGIN = Origin(nodes=("relu",), frames=(Frame("net.py", 3), Frame("layer.py", 17)))


def error_of(program: Program) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        verify(program)
    return caught.value


def freed_twice(before: int = 0, between: int = 0) -> Program:
    filler = [Comment(f"line {n}") for n in range(before + between)]
    return Program(
        inputs=(BufferInput("x"),),
        body=(*filler[:before], Free("x"), *filler[before:], Free("x", origin=0)),
        buffers=FrozenMap({"x": FLOATS}),
        origins=(ORIGIN,),
    )


def test_the_fault_is_shown_under_its_line_with_place_source_and_hint() -> None:
    assert str(error_of(freed_twice())) == textwrap.dedent("""\
        WIR1000: program 'program' breaks one rule
        1 | wir 2
        2 | program @program inference logical
        3 |
        4 | input %x : f32[4] @cpu
        5 |
        6 |   free %x
        7 |   free %x
          |   ^ error: WIR1024 %x is freed twice; the first time at body[0]
          |     at body[1] (layer.py:17)
          |     hint: remove one of the two
        8 | return""")


def test_of_long_programs_only_what_is_near_a_fault_is_shown() -> None:
    lines = str(error_of(freed_twice(before=200, between=100))).splitlines()
    assert len(lines) < 25
    assert sum(line.strip() == "..." for line in lines) == 1
    number = next(n for n, line in enumerate(lines) if "^ error" in line)
    assert lines[number - 1] == "307 |   free %x"
    assert lines[number - 6] == "302 |   // line 295"
    assert lines[-1] == "308 | return"


def test_faults_of_tables_inputs_results_and_regions_have_lines_too() -> None:
    program = parse(textwrap.dedent("""\
            wir 2
            program @places inference logical

            symbol s0 : int [8, 4]
            input s0
            input %x : f32[4]+1 @cpu
            constant %w : f32[4] @cpu = parameter "w" tied %v
            buffer %ghost : f32[4] @cpu

              cond true with (%x)
                then (%a : f32[4]+1 @cpu) {
                  yield %a, %gone
                }
                else (%b : f32[4] @cpu) {
                  yield
                }
            return %lost
            """))
    text = str(error_of(program)).splitlines()
    blamed = {}
    last = ""
    for line in text:
        if "^ error: " in line:
            blamed.setdefault(line.split("^ error: ")[1][:7], last.split("| ", 1)[1].strip())
        elif line[:2].strip().isdigit():
            last = line
    assert blamed == {
        "WIR1056": "symbol s0 : int [8, 4]",
        "WIR1014": "input %x : f32[4]+1 @cpu",
        "WIR1006": 'constant %w : f32[4] @cpu = parameter "w" tied %v',
        "WIR1004": "buffer %ghost : f32[4] @cpu",
        "WIR1021": "yield %a, %gone",
        "WIR1092": "cond true with (%x)",
    }
    places = {d.place for d in diagnose(program)}
    assert {
        "symbols.s0",
        "inputs[1]",
        "body[0].then.params[0]",
        "body[0].then.results[1]",
    } <= places


def test_diagnostics_come_in_the_order_of_the_text() -> None:
    program = Program(
        inputs=(BufferInput("x"),),
        results=(BufferValue("nope"), BufferValue("x")),
        body=(Free("x"), Free("y"), Free("x")),
        buffers=FrozenMap({"x": Layout(DType.FLOAT32, FLOATS.device, (4,), (1,), 2)}),
    )
    assert [d.place for d in diagnose(program)] == [
        *("inputs[0]", "body[1]", "body[2]", "results[0]", "results[1]"),
    ]


def test_names_cannot_drive_the_terminal() -> None:
    program = Program(body=(Free("\x1b[2J"), Free("a\nb")))
    assert "\x1b" not in str(error_of(program))


def test_many_faults_are_counted_not_all_shown() -> None:
    program = Program(body=tuple(Free(f"buf{n}") for n in range(500)))
    error = error_of(program)
    assert len(error.diagnostics) == 500
    assert str(error).count("^ error") == 100
    assert str(error).endswith("... and 400 more")


def test_an_error_can_be_sent_to_another_process() -> None:
    error = error_of(freed_twice())
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert [d.code for d in again.diagnostics] == [d.code for d in error.diagnostics]


def test_one_diagnostic_alone_reads_like_every_error_of_the_package() -> None:
    (diagnostic,) = diagnose(freed_twice())
    assert str(diagnostic) == (
        "WIR1024: %x is freed twice; the first time at body[0]\n"
        "  at body[1] (layer.py:17)\n"
        "  hint: remove one of the two"
    )
