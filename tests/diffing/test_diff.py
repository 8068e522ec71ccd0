"""The structural diff: what is the same is not named, what is not is named as what it is."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from rich.console import Console

import wrapper_ir as wir
from tests.diffing.renaming import renamed
from tests.emitters.corpus import FILES
from tests.strategies import any_programs, programs
from wrapper_ir import lines as ir
from wrapper_ir.diffing import FieldChange, Kind, LineChange, ProgramDiff, aligned
from wrapper_ir.diffing.model import FIGURES, to_rich

if TYPE_CHECKING:
    from wrapper_ir.diffing import ItemChange

ADD = """\
kernel @add(in_ptr0: in f32, in_ptr1: in f32, out_ptr0: out f32, n: i64) cpp
  | extern "C" void kernel(const float* in_ptr0, const float* in_ptr1, float* out_ptr0, int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = in_ptr0[i] + in_ptr1[i];
  | }
  |
"""
PROGRAM = f"""\
wir 2
program @layer inference logical

symbol s0 : int [2, 64] hint 8
input %x : f32[s0, 64] @cpu
input %p : bool[] @cpu
constant %w : f32[64, 64] @cpu = parameter "linear.weight"
constant %b : f32[64] @cpu = parameter "linear.bias"

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

{ADD}
kernel @relu(in_out_ptr0: inout f32, n: i64) cpp
  | extern "C" void kernel(float* in_out_ptr0, int64_t n)
  | {{
  |     for (int64_t i = 0; i < n; ++i)
  |         in_out_ptr0[i] = in_out_ptr0[i] > 0 ? in_out_ptr0[i] : 0;
  | }}
  |

  s0 = size %x, 0
  assert_layout %x, "input"
  %buf0 = allocate : f32[s0, 64] @cpu
  aten::mm.out(%x, %w, out=out %buf0)
  %buf1 = allocate : f32[s0, 64] @cpu
  call @add(%buf0, %b, out %buf1, 64*s0)
  call @relu(inout %buf1, 64*s0)
  %buf2 = allocate : f32[32, 2] @cpu
  call @relu(inout %buf2, 64)
  %r = cond %p with (%buf1) : f32[s0, 64] @cpu
    then (%c : f32[s0, 64] @cpu) {{
      %d = allocate : f32[s0, 64] @cpu
      call @add(%c, %c, out %d, 64*s0)
      yield %d
    }}
    else (%e : f32[s0, 64] @cpu) {{
      %f = allocate : f32[s0, 64] @cpu
      call @add(%e, %e, out %f, 64*s0)
      call @relu(inout %f, 64*s0)
      yield %f
    }}
return %r, %buf2, s0
"""


def edited(*changes: tuple[str, str]) -> wir.Program:
    text = PROGRAM
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return wir.parse(text)


def diff(*changes: tuple[str, str]) -> ProgramDiff:
    found = wir.diff(wir.parse(PROGRAM), edited(*changes))
    assert ProgramDiff.from_json(found.to_json()) == found
    back = wir.diff(edited(*changes), wir.parse(PROGRAM))
    assert len(back.lines) == len(found.lines)
    assert len(back.kernels) == len(found.kernels)
    assert len(back.items) == len(found.items)
    return found


def only_line(found: ProgramDiff) -> LineChange:
    (line,) = found.lines
    assert not found.items
    assert not found.kernels
    return line


def only_item(found: ProgramDiff) -> ItemChange:
    (item,) = found.items
    assert not found.kernels
    return item


# Nothing.


@pytest.mark.parametrize("name", FILES)
def test_names_and_origins_do_not_count(name: str) -> None:
    program = wir.parse(FILES[name].read_text(encoding="utf-8"))
    assert wir.diff(program, program).is_empty
    found = wir.diff(program, renamed(program))
    assert found.is_empty, found
    assert not found
    assert found.before == found.after
    assert str(aligned(renamed(program), program)) == str(program)


@settings(max_examples=15)
@given(programs())
def test_nothing_differs_from_itself_under_other_names(program: wir.Program) -> None:
    assert not wir.diff(program, program)
    assert not wir.diff(program, renamed(program))
    assert str(aligned(renamed(program), program)) == str(program)


# Shrinking such programs takes minutes.
@settings(max_examples=8, phases=(Phase.explicit, Phase.generate))
@given(any_programs(), any_programs())
def test_faulty_programs_are_compared_too(a: wir.Program, b: wir.Program) -> None:
    assert not wir.diff(a, a)
    found = wir.diff(a, b)
    assert found == wir.diff(a, b)
    assert ProgramDiff.from_json(found.to_json()) == found
    assert found.to_text().strip()


# One thing.

LINES = {
    "number": (
        ("call @relu(inout %buf2, 64)", "call @relu(inout %buf2, 32)"),
        FieldChange("args[1]", "64", "32"),
    ),
    "expression": (
        ("call @add(%buf0, %b, out %buf1, 64*s0)", "call @add(%buf0, %b, out %buf1, 32*s0 + 1)"),
        FieldChange("args[3]", "64*s0", "32*s0 + 1"),
    ),
    "buffer": (
        ("call @add(%buf0, %b, out", "call @add(%b, %b, out"),
        FieldChange("args[0]", "%buf0", "%b"),
    ),
    "kernel": (
        ("call @relu(inout %buf1", "call @add(inout %buf1"),
        FieldChange("kernel", "@relu", "@add"),
    ),
    "size": (
        ("%buf2 = allocate : f32[32, 2]", "%buf2 = allocate : f32[64, 2]"),
        FieldChange("size[0]", "32", "64"),
    ),
    "rank": (
        ("%buf2 = allocate : f32[32, 2]", "%buf2 = allocate : f32[64]"),
        FieldChange("size", "[32, 2]", "[64]"),
    ),
    "stride": (
        ("%buf2 = allocate : f32[32, 2]", "%buf2 = allocate : f32[32, 2]{2, 1}+4"),
        FieldChange("offset", "0", "4"),
    ),
    "dtype": (
        ("%buf2 = allocate : f32[32, 2]", "%buf2 = allocate : f16[32, 2]"),
        FieldChange("dtype", "f32", "f16"),
    ),
    "device": (
        ("%buf2 = allocate : f32[32, 2] @cpu", "%buf2 = allocate : f32[32, 2] @cuda:1"),
        FieldChange("device", "cpu", "cuda:1"),
    ),
    "flag": (
        ("%buf2 = allocate :", "%buf2 = allocate zeroed :"),
        FieldChange("zeroed", "false", "true"),
    ),
    "memory": (
        ("%buf2 = allocate :", "%buf2 = allocate pinned :"),
        FieldChange("memory", "default", "pinned"),
    ),
    "words": (
        ('assert_layout %x, "input"', 'assert_layout %x, "input 0"'),
        FieldChange("subject", "input", "input 0"),
    ),
    "class": (
        ("%buf2 = allocate :", "%buf2 = reuse %buf0 :"),
        FieldChange("line", "allocate", "reuse"),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_a_changed_field_of_a_line_is_named(name: str) -> None:
    change, field = LINES[name]
    line = only_line(diff(change))
    assert line.kind is Kind.CHANGED
    assert line.before == line.after
    assert line.fields == (field,)
    assert f"{field.before} -> {field.after}" in str(diff(change)) or name == "class"


def test_lines_that_only_one_has() -> None:
    more = (
        "  %buf2 = allocate",
        "  %t = reinterpret %x : f32[64, s0]{1, 64} @cpu\n  %buf2 = allocate",
    )
    line = only_line(diff(more))
    assert (line.kind, line.before, line.after) == (Kind.ADDED, "", "body[10]")
    assert line.text_after == "%t = reinterpret %x : f32[64, s0]{1, 64} @cpu"
    back = only_line(wir.diff(edited(more), edited()))
    assert (back.kind, back.before, back.after) == (Kind.REMOVED, "body[10]", "")


def test_a_moved_line_is_shown_as_moved() -> None:
    call = "  call @relu(inout %buf1, 64*s0)\n"
    found = diff((call, ""), ("  %r = cond", f"{call}  %r = cond"))
    line = only_line(found)
    assert (line.kind, line.before, line.after) == (Kind.MOVED, "body[9]", "body[11]")
    assert line.fields == ()
    assert "> body[9] -> body[11]  call @relu(inout %buf1, 64*s0)" in str(found)


def test_what_is_inside_a_region_is_told_there() -> None:
    found = diff(("      call @relu(inout %f, 64*s0)\n", "      call @relu(inout %f, 32*s0)\n"))
    line = only_line(found)
    assert line.before == "body[12]"
    assert line.fields == ()
    (region,) = line.regions
    assert region.name == "else"
    (inner,) = region.lines
    assert inner.before == "body[12].else[2]"
    assert inner.fields == (FieldChange("args[1]", "64*s0", "32*s0"),)


def test_another_number_of_cases_is_told() -> None:
    case = "case{} (%c{} : f32[4] @cpu) {{\n      yield %c{}\n    }}\n    "
    head = (
        "wir 2\nprogram @p inference logical\n\ninput %i : i64[] @cpu\ninput %x : f32[4] @cpu\n\n"
    )
    head += "  %r = switch %i with (%x) : f32[4] @cpu alias(%x)\n    "
    two = "".join(case.format(n, n, n) for n in range(2))
    before, after = (
        wir.parse(f"{head}{cases}\nreturn %r\n") for cases in (two, two + case.format(2, 2, 2))
    )
    line = only_line(wir.diff(before, after))
    assert line.fields == (FieldChange("cases", "[{...}, {...}]", "[{...}, {...}, {...}]"),)
    moved = wir.parse(
        str(after).replace("yield %c1", "%d = reinterpret %c1 : f32[4] @cpu\nyield %d")
    )
    (region,) = only_line(wir.diff(after, moved)).regions
    assert region.name == "case1"


def test_a_kernel_is_told_once_and_inside_its_text() -> None:
    found = diff(
        ("in_out_ptr0[i] = in_out_ptr0[i] > 0 ?", "in_out_ptr0[i] = in_out_ptr0[i] > 1 ?"),
    )
    assert not found.lines
    (kernel,) = found.kernels
    assert (kernel.kind, kernel.before, kernel.after) == (Kind.CHANGED, "relu", "relu")
    (text,) = kernel.code
    assert text.start == 4
    assert text.removed[0].strip().startswith("in_out_ptr0[i] = in_out_ptr0[i] > 0")
    assert text.added[0].strip().startswith("in_out_ptr0[i] = in_out_ptr0[i] > 1")


def test_a_kernel_under_another_name_with_other_text_is_recognised() -> None:
    program = wir.parse(
        PROGRAM.replace("@relu", "@clamp").replace("? in_out_ptr0[i] : 0", "? 1 : 0")
    )
    found = wir.diff(wir.parse(PROGRAM), program)
    assert not found.lines
    (kernel,) = found.kernels
    assert (kernel.kind, kernel.before, kernel.after) == (Kind.CHANGED, "relu", "clamp")


def test_kernels_that_only_one_has() -> None:
    other = """kernel @scale(p: inout f32) cpp
  | #include <cmath>
  | extern "C" void kernel(float* p) { *p = std::exp(*p); }
  |
"""
    found = diff((ADD, ADD + other))
    (kernel,) = found.kernels
    assert (kernel.kind, kernel.after) == (Kind.ADDED, "scale")
    assert not found.lines
    assert (found.before.kernels, found.after.kernels) == (2, 3)


def test_a_parameter_of_a_kernel() -> None:
    found = diff(
        (
            "kernel @relu(in_out_ptr0: inout f32, n: i64)",
            "kernel @relu(in_out_ptr0: inout f32, n: i32)",
        )
    )
    (kernel,) = found.kernels
    assert kernel.fields == (FieldChange("params[1].type", "i64", "i32"),)


# Tables.


def test_an_input_that_was_added() -> None:
    item = only_item(diff(("input %p", "input %y : f32[4] @cpu\ninput %p")))
    assert (item.what, item.kind, item.after) == ("input", Kind.ADDED, "[1] %y : f32[4] @cpu")


def test_inputs_in_another_order() -> None:
    x, p = "input %x : f32[s0, 64] @cpu\n", "input %p : bool[] @cpu\n"
    item = only_item(diff((x + p, p + x)))
    assert (item.what, item.kind) == ("input", Kind.MOVED)


def test_an_input_of_another_layout() -> None:
    item = only_item(diff(("input %p : bool[] @cpu", "input %p : u8[] @cpu donated")))
    assert (item.what, item.kind) == ("input", Kind.CHANGED)
    assert set(item.fields) == {
        FieldChange("donated", "false", "true"),
        FieldChange("dtype", "bool", "u8"),
    }


def test_a_constant() -> None:
    item = only_item(
        diff(
            (
                '%b : f32[64] @cpu = parameter "linear.bias"',
                '%b : f32[32] @cpu = buffer "linear.bias"',
            )
        )
    )
    assert item.what == "constant"
    assert set(item.fields) == {
        FieldChange("kind", "parameter", "buffer"),
        FieldChange("size[0]", "64", "32"),
    }


def test_a_symbol() -> None:
    item = only_item(diff(("[2, 64] hint 8", "[2, 128] hint 8")))
    assert (item.what, item.fields) == ("symbol", (FieldChange("upper", "64", "128"),))


def test_results() -> None:
    item = only_item(diff(("return %r, %buf2, s0", "return %r, %buf2, s0, none")))
    assert (item.what, item.kind, item.after) == ("result", Kind.ADDED, "[3] none")
    item = only_item(diff(("return %r, %buf2, s0", "return %r, %buf1, s0")))
    assert item.kind is Kind.CHANGED
    assert item.before == "[1] %buf2 : f32[32, 2] @cpu"
    assert item.after == "[1] %buf1 : f32[s0, 64] @cpu"
    item = only_item(diff(("return %r, %buf2, s0", "return %buf2, %r, s0")))
    assert item.kind is Kind.MOVED


def test_the_program_itself() -> None:
    item = only_item(diff(("@layer inference logical", "@other forward logical")))
    assert (item.what, item.fields) == ("program", (FieldChange("role", "inference", "forward"),))


# The summary, and what it looks like.


def test_a_plan_is_told_in_frees_reuses_and_bytes() -> None:
    program = wir.parse(PROGRAM)
    found = wir.diff(program, wir.plan_memory(program))
    assert {line.text_after.split()[0] for line in found.lines if line.kind is Kind.ADDED} == {
        "free"
    }
    assert found.before.calls == found.after.calls == 6
    assert found.before.ops == found.after.ops == 1
    assert found.after.peak_bytes is not None
    text = str(found)
    assert "stage logical -> planned" in text
    assert text.startswith("lines: ")


def test_bytes_and_calls_come_first() -> None:
    found = diff(
        ("%buf2 = allocate : f32[32, 2]", "%buf2 = allocate : f32[320, 2]"),
        ("  call @relu(inout %buf1, 64*s0)\n", ""),
    )
    assert found.before.allocated_bytes + 288 * 2 * 4 == found.after.allocated_bytes
    head = str(found).partition("\nlines\n")[0]
    assert "lines: 1 removed, 1 changed" in head.splitlines()[0]
    assert f"{found.before.allocated_bytes:,}  -> {found.after.allocated_bytes:,}" in head
    assert "calls of kernels" in head


EVIL = '<script>alert("1")</script> [bold]&amp;'


def test_text_from_outside_stays_text() -> None:
    found = wir.diff(
        wir.Program(body=(ir.Comment("plain"),)), wir.Program(body=(ir.Comment(EVIL),))
    )
    console = Console(record=True, width=200, file=None, quiet=True)
    for row in to_rich(found.rows()):
        console.print(row)
    assert EVIL in found.to_text()
    assert all(EVIL in text.plain for text in to_rich(found.rows()) if "script" in text.plain)


def test_json_is_plain_and_checked() -> None:
    found = diff(LINES["size"][0])
    data = json.loads(found.to_json())
    assert data["lines"][0]["fields"] == [{"name": "size[0]", "before": "32", "after": "64"}]
    del data["lines"][0]["kind"]
    with pytest.raises(ValueError, match=r"lines\[0\] is not a LineChange"):
        ProgramDiff.from_json(json.dumps(data))
    with pytest.raises(ValueError, match="is not a ProgramDiff"):
        ProgramDiff.from_json("[]")


def test_every_figure_is_shown() -> None:
    found = diff(LINES["size"][0])
    shown = {row.text.split("  ")[0] for row in found.rows()}
    assert FIGURES.keys() == {field.name for field in dataclasses.fields(found.before)}
    assert set(FIGURES.values()) <= shown


def long_program(layers: int) -> str:
    """Two lines a layer, all of them alike, each fed by the one before."""
    body = ["%b0 = allocate : f32[4] @cpu"]
    for n in range(1, layers):
        body += [f"%b{n} = allocate : f32[4] @cpu", f"call @k{n % 7}(%b{n - 1}, out %b{n})"]
    code = "  | void kernel(float*, float* y) {{ *y = {n}; }}\n"
    head = "kernel @k{n}(x: in f32, y: out f32) cpp\n"
    kernels = [(head + code).format(n=n) for n in range(7)]
    lines = "".join(f"  {line}\n" for line in body)
    head = "wir 2\nprogram @long inference logical\n\n" + "".join(kernels)
    return f"{head}\n{lines}return %b{layers - 1}\n"


def test_one_line_among_a_thousand_that_look_alike() -> None:
    text = long_program(500)
    call = "  call @k3(%b299, out %b300)\n".replace("@k3", f"@k{300 % 7}")
    assert text.count(call) == 1
    before, after = wir.parse(text), wir.parse(text.replace(call, ""))
    line = only_line(wir.diff(before, after))
    assert (line.kind, line.text_before) == (Kind.REMOVED, call.strip())


ALIKE = """\
wir 2
program @alike inference planned

input %x : f32[4] @cpu

kernel @two(a: in f32, b: out f32, c: out f32) cpp
  | void kernel(const float* a, float* b, float* c) { *b = *c = *a; }

  %r = allocate : f32[4] @cpu
  %s = allocate : f32[4] @cpu
  call @two(%x, out %r, out %s)
  free %r
  free %s
  %a = allocate : f32[4] @cpu
  %b = reuse %a : f32[4] @cpu
  %c = allocate : f32[4] @cpu
  call @two(%x, out %b, out %c)
  free %b
return %c
"""


def test_what_uses_them_tells_apart_lines_that_look_alike() -> None:
    reused = ALIKE.replace("  free %r\n  free %s\n", "")
    reused = reused.replace("%a = allocate", "%a = reuse %s").replace(
        "%c = allocate", "%c = reuse %r"
    )
    found = wir.diff(wir.parse(ALIKE), wir.parse(reused))
    told = {(line.kind, line.text_before, line.text_after) for line in found.lines}
    assert told == {
        (Kind.REMOVED, "free %r", ""),
        (Kind.REMOVED, "free %s", ""),
        (Kind.CHANGED, "%a = allocate : f32[4] @cpu", "%a = reuse %s : f32[4] @cpu"),
        (Kind.CHANGED, "%c = allocate : f32[4] @cpu", "%c = reuse %r : f32[4] @cpu"),
    }
    assert not found.items
