"""Structures: what a new torch writes otherwise is left out, and what runs is not."""

from __future__ import annotations

import dataclasses

import pytest
from click.testing import CliRunner

import wrapper_ir as wir
from tests.diffing.renaming import renamed
from tests.emitters.corpus import FILES
from wrapper_ir import lines as ir
from wrapper_ir.cli import main


@pytest.mark.parametrize("name", FILES)
def test_it_is_a_program_of_its_own(name: str) -> None:
    program = wir.parse(FILES[name].read_text(encoding="utf-8"))
    found = wir.structure(program)
    assert wir.parse(str(found)) == found
    assert wir.structure(found) == found
    assert wir.structure(renamed(program)) == found
    if program.stage is wir.Stage.LOGICAL:
        assert wir.structure(wir.plan_memory(program)) == found
    calls = (ir.KernelCall, ir.ExternKernel, ir.Cond, ir.Switch, ir.While)
    did, does = (
        [type(line) for _, line in ir.walk(each) if isinstance(line, calls)]
        for each in (program, found)
    )
    assert did == does


TEXT = """
wir 2
program @p inference planned

input %x : f32[4] @cpu

kernel @k(in_ptr0: in f32, out_ptr0: out f32) cpp isa "avx2" flags ["-O3"]
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0) { one(); }
  |
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)

  assert_layout %x, "input"
  // a remark
  %a = allocate : f32[4] @cpu
  call @k(%x, out %a)
  %b = allocate : f32[4] @cpu
  aten::neg.out(%a, out=out %b)
  free %a
return %b
"""


def changed(old: str, new: str) -> bool:
    assert old in TEXT
    after = wir.parse(TEXT.replace(old, new))
    return wir.structure(after) != wir.structure(wir.parse(TEXT))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("one();", "other();"),
        ('isa "avx2" flags ["-O3"]', ""),
        ("out_ptr0", "out_ptr7"),
        ("Tensor self, *,", "Tensor self, *, bool fast=False,"),
        ("// a remark", "// another"),
        ('  assert_layout %x, "input"\n', ""),
        ("  %b = allocate : f32[4] @cpu\n", "  %b = allocate kept : f32[4] @cpu\n"),
    ],
)
def test_what_is_left_out(old: str, new: str) -> None:
    assert not changed(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out_ptr0: out f32", "out_ptr0: out f64"),
        ("call @k(%x, out %a)", "call @k(%a, out %a)"),
        ("aten::neg.out(%a", "aten::neg.out(%x"),
        ("%b = allocate : f32[4]", "%b = allocate : f32[8]"),
        ("  call @k(%x, out %a)\n", "  call @k(%x, out %a)\n  call @k(%x, out %a)\n"),
        ("return %b", "return %a"),
    ],
)
def test_what_counts(old: str, new: str) -> None:
    assert changed(old, new)


def test_memory_that_is_read_before_it_is_written_is_that_of_another_buffer() -> None:
    program = wir.parse(
        TEXT.replace(
            "  %b = allocate : f32[4] @cpu\n  aten::neg.out(%a, out=out %b)\n  free %a\n",
            "  %b = reuse %a : f32[4] @cpu\n  aten::neg.out(%b, out=out %b)\n",
        )
    )
    found = wir.structure(program)
    assert [type(line) for line in found.body][-2:] == [ir.Reinterpret, ir.ExternKernel]


def test_origins_do_not_keep_two_apart() -> None:
    program = wir.parse(TEXT)
    lines = tuple(dataclasses.replace(line, origin=0) for line in program.body)
    other = program.replace(body=lines, origins=(ir.Origin(nodes=("add",)),))
    assert wir.print_program(wir.structure(other), origins=True) == str(wir.structure(program))


def test_the_command_line_compares_and_prints_them(tmp_path) -> None:
    a, b = tmp_path / "a.wir", tmp_path / "b.wir"
    a.write_text(TEXT)
    b.write_text(TEXT.replace("one();", "other();"))
    runner = CliRunner()
    assert runner.invoke(main, ["diff", str(a), str(b)]).exit_code == 1
    assert runner.invoke(main, ["diff", str(a), str(b), "--structure"]).exit_code == 0
    shown = runner.invoke(main, ["print", str(a), "--structure"])
    assert shown.output == str(wir.structure(wir.parse(TEXT)))
    wrong = runner.invoke(main, ["diff", str(a), str(b), "--structure", "--target", "python"])
    assert wrong.exit_code == 2
    assert "not their texts" in wrong.output
