"""Whether views share memory, against counting bytes; collectives whose waits are left out."""

from __future__ import annotations

import itertools
from pathlib import Path

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
    for place in itertools.product(*map(range, layout.size)):  # type: ignore[arg-type]
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
