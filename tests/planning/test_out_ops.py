"""Ops that write where they are told, and in place: results stay the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wrapper_ir as wir
from tests.planning.test_reuse import reuses
from wrapper_ir.lines import Allocate, ExternKernel, Program, walk
from wrapper_ir.planning import insert_frees, plan, plan_externs, reuse_in_place
from wrapper_ir.verify import verify

HEAD = """\
wir 2
program @p inference logical

input %x : f32[8, 8] @cpu
input %y : f32[8, 8] @cpu donated

extern aten::mm(Tensor self, Tensor mat2) -> Tensor
extern aten::neg(Tensor self) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
extern aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
extern aten::t(Tensor(a) self) -> Tensor(a)

"""

CHAIN = """\
  %a = aten::mm(%x, %x) : f32[8, 8] @cpu
  %b = aten::neg(%a) : f32[8, 8] @cpu
  %c = aten::add.Tensor(%y, %b, alpha=2) : f32[8, 8] @cpu
  (%e, %f) = aten::max.dim(%c, 1) : (f32[8] @cpu, i64[8] @cpu)
  %d = aten::neg(%c) : f32[8, 8] @cpu
return %d, %e, %f
"""


def parsed(lines: str) -> Program:
    return wir.parse(HEAD + lines)


def calls(program: Program) -> list[str]:
    return [line.op for _, line in walk(program) if isinstance(line, ExternKernel)]


def test_ops_write_where_they_are_told() -> None:
    program = plan_externs(parsed(CHAIN))
    assert calls(program) == [
        *("aten::mm.out", "aten::neg.out", "aten::add.out", "aten::max.dim_max", "aten::neg.out")
    ]
    text = str(program)
    assert "%e = allocate : f32[8]" in text
    assert "aten::max.dim_max(%c, 1, max=out %e, max_values=out %f)" in text
    verify(program)
    assert plan_externs(program) is program


def test_element_wise_ops_work_in_place() -> None:
    program = reuse_in_place(insert_frees(plan_externs(parsed(CHAIN))))
    verify(program)
    # The donated input dies first among the arguments of the sum.
    assert reuses(program) == {"b": "a", "c": "y", "d": "c"}
    report = plan(parsed(CHAIN), "pool").report
    assert report.peak_bytes < plan(parsed(CHAIN), "reuse").report.peak_bytes


@pytest.mark.parametrize(
    "lines",
    [
        # A later use.
        (
            "  %b = aten::neg(%x) : f32[8, 8] @cpu\n"
            "  %c = aten::neg(%b) : f32[8, 8] @cpu\n"
            "  %d = aten::mm(%b, %c) : f32[8, 8] @cpu\nreturn %d\n"
        ),
        # Not all of the storage.
        (
            "  %b = aten::neg(%x) : f32[8, 8] @cpu\n"
            "  %v = aten::t(%b) : f32[8, 8]{1, 8} @cpu alias(%b)\n"
            "  %c = aten::add.Tensor(%b, %v) : f32[8, 8] @cpu\nreturn %c\n"
        ),
        # The caller's.
        "  %b = aten::neg(%x) : f32[8, 8] @cpu\nreturn %b\n",
        # Another layout.
        (
            "  %b = aten::neg(%x) : f32[8, 8]{1, 8} @cpu\n"
            "  %c = aten::neg(%b) : f32[8, 8] @cpu\nreturn %c\n"
        ),
        # A result.
        (
            "  %b = aten::neg(%x) : f32[8, 8] @cpu\n"
            "  %c = aten::neg(%b) : f32[8, 8] @cpu\nreturn %b, %c\n"
        ),
        # A part of a pool, which ends before what takes its place would.
        (
            "  %p = allocate_pool : u8[256] @cpu\n"
            "  %b = allocate_from_pool %p[0] : f32[8, 8] @cpu\n"
            "  %c = aten::neg(%b) : f32[8, 8] @cpu\nreturn %c\n"
        ),
    ],
)
def test_what_does_not_die_or_fit_is_left_alone(lines: str) -> None:
    program = reuse_in_place(insert_frees(plan_externs(parsed(lines))))
    verify(program)
    assert reuses(program) == {}


def test_sizes_that_only_the_op_knows_stay_with_it() -> None:
    program = wir.parse("""\
wir 2
program @p inference logical

symbol u0 : int [0, inf] unbacked
input %x : f32[8] @cpu

extern aten::nonzero(Tensor self) -> Tensor

  %n = aten::nonzero(%x) : i64[u0, 1]{1, u0} @cpu
  u0 = size %n, 0
return %n
""")
    assert plan_externs(program) is program


OPS = ("aten::mm", "aten::neg", "aten::add.Tensor", "aten::t")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 99), st.integers(0, 99))), st.data())
def test_results_stay_the_same(steps: list[tuple[str, int, int]], data: st.DataObject) -> None:
    names, lines, turned = ["x", "y"], [], set[str]()  # those with strides (1, 8)
    for number, (op, one, other) in enumerate(steps):
        a, b = names[one % len(names)], names[other % len(names)]
        is_turned = {
            "aten::t": a not in turned,
            "aten::neg": a in turned,
            "aten::add.Tensor": {a, b} <= turned,
        }.get(op, False)
        strides = "{1, 8}" if is_turned else ""
        relation = f" alias(%{a})" if op == "aten::t" else ""
        if op == "aten::t" and a.startswith("t"):
            continue
        args = f"%{a}, %{b}" if op in ("aten::mm", "aten::add.Tensor") else f"%{a}"
        name = f"{'t' if op == 'aten::t' else 'b'}{number}"
        lines.append(f"  %{name} = {op}({args}) : f32[8, 8]{strides} @cpu{relation}")
        names.append(name)
        turned |= {name} if is_turned else set()
    results = data.draw(st.lists(st.sampled_from(names), max_size=3))
    program = parsed("\n".join([*lines, f"return {', '.join(f'%{r}' for r in results)}"]) + "\n")
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(8, 8, generator=generator) / 3 for _ in range(2))
    expected = wir.emit(wir.plan_memory(program, "none"), "python").load()(x, y.clone())
    planned = plan(program, "pool")
    verify(planned.program)
    got = wir.emit(planned.program, "python").load()(x, y.clone())
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    assert planned.report.peak_bytes <= planned.report.unplanned_peak_bytes
    made = [line for _, line in walk(planned.program) if isinstance(line, Allocate)]
    assert len(made) <= len(steps)
