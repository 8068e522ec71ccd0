"""Whether views share memory, against counting bytes; collectives whose waits are left out."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir.analysis.proof import Facts
from wrapper_ir.lines import CPU, DType, Layout, Program
from wrapper_ir.text import parse
from wrapper_ir.verify import diagnose
from wrapper_ir.verify.overlaps import share_a_byte

COLLECTIVES = Path(__file__).parents[1] / "programs" / "not_cpu" / "collectives.wir"

FACTS = Facts(Program())


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    dims = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 13)), max_size=3))
    dtype = draw(st.sampled_from([DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT64]))
    size, stride = [s for s, _ in dims], [t for _, t in dims]
    return Layout(dtype, CPU, tuple(size), tuple(stride), draw(st.integers(0, 40)))


def bytes_of(layout: Layout) -> set[int]:
    found = set()
    for place in itertools.product(*map(range, layout.size)):
        element = layout.offset + sum(i * s for i, s in zip(place, layout.stride, strict=True))
        start = element * layout.dtype.itemsize
        found |= set(range(start, start + layout.dtype.itemsize))
    return found


@settings(max_examples=400, deadline=None)
@given(layouts(), layouts())
def test_views_of_known_sizes_share_a_byte_exactly_where_they_do(a: Layout, b: Layout) -> None:
    assert share_a_byte(a, b, FACTS) == bool(bytes_of(a) & bytes_of(b))


def test_a_program_of_collectives_needs_every_wait() -> None:
    lines = COLLECTIVES.read_text(encoding="utf-8").splitlines()
    waits = [n for n, line in enumerate(lines) if line.startswith("  _c10d_functional::wait_")]
    assert len(waits) == 2
    for left_out in (*([n] for n in waits), waits):
        text = "\n".join(line for n, line in enumerate(lines) if n not in left_out)
        assert {d.code for d in diagnose(parse(text))} == {"WIR1090"}


_REGIONS = """
wir 2
program @p inference logical
symbol n : int
symbol i : int
symbol j : int
input %p : bool[] @cpu
input %x : f32[4] @cpu
input %v : f32[4] @cpu
extern aten::relu(Tensor self) -> Tensor
"""
_CHOICE = """
  (%y, %z) = cond %p with (%x, %v) : (f32[4] @cpu {y}, f32[4] @cpu {z})
    then (%a : f32[4] @cpu, %b : f32[4] @cpu) {{
      %c = aten::relu(%a) : f32[4] @cpu
      %d = aten::relu(%b) : f32[4] @cpu
      %e = cond true with (%a, %b) : f32[4] @cpu may_alias(%a, %b)
        then (%a1 : f32[4] @cpu, %b1 : f32[4] @cpu) {{
          yield %a1
        }}
        else (%a2 : f32[4] @cpu, %b2 : f32[4] @cpu) {{
          yield %b2
        }}
      yield {results}
    }}
    else (%f : f32[4] @cpu, %g : f32[4] @cpu) {{
      %h = aten::relu(%f) : f32[4] @cpu
      %k = aten::relu(%g) : f32[4] @cpu
      yield %h, %k
    }}
return %y, %z
"""
_LOOP = """
  (n, %y, %z) = while (0, %x, %v) : (symbol, f32[4] @cpu {y}, f32[4] @cpu {z})
    condition (i, %h : f32[4] @cpu, %k : f32[4] @cpu) {{
      yield i < 3
    }}
    body (j, %a : f32[4] @cpu, %b : f32[4] @cpu) {{
      %c = aten::relu(%a) : f32[4] @cpu
      %d = aten::relu(%b) : f32[4] @cpu
      yield j + 1, {results}
    }}
return %y, %z
"""


@pytest.mark.parametrize(
    ("region", "results", "y", "z", "fault"),
    [
        (_CHOICE, "%e, %d", "may_alias(%x, %v)", "", ""),
        (_CHOICE, "%e, %d", "may_alias(%x)", "", "parameter %b"),
        (_CHOICE, "%e, %d", "may_alias(%v)", "", "parameter %a"),
        (_CHOICE, "%e, %d", "", "", "parameter %a"),
        (_CHOICE, "%e, %e", "may_alias(%x, %v)", "may_alias(%v, %x)", ""),
        (_CHOICE, "%c, %c", "", "may_alias(%x)", "the same storage as result 0"),
        (_CHOICE, "%c, %c", "may_alias(%x)", "", "the same storage as result 0"),
        (_CHOICE, "%c, %c", "may_alias(%x)", "may_alias(%v)", "the same storage as result 0"),
        (_CHOICE, "%c, %c", "may_alias(%x)", "may_alias(%v, %x)", ""),
        (_LOOP, "%b, %a", "may_alias(%x, %v)", "may_alias(%v, %x)", ""),
        (_LOOP, "%b, %d", "may_alias(%x, %v)", "", ""),
        (_LOOP, "%b, %d", "may_alias(%v)", "", "the initial value %x"),
        (_LOOP, "%b, %c", "may_alias(%v, %x)", "may_alias(%v)", ""),
        (_LOOP, "%a, %a", "may_alias(%x)", "may_alias(%v, %x)", ""),
        (_LOOP, "%b, %b", "may_alias(%x, %v)", "may_alias(%v)", ""),
        (_LOOP, "%a, %a", "alias(%x)", "alias(%x)", "the initial value %v"),
    ],
)
def test_results_of_regions_share_what_they_declare_and_no_more(
    region: str, results: str, y: str, z: str, fault: str
) -> None:
    program = parse(_REGIONS + region.format(results=results, y=y, z=z))
    found = diagnose(program)
    assert {d.code for d in found} == ({"WIR1095"} if fault else set())
    assert fault in " ".join(d.message for d in found)
