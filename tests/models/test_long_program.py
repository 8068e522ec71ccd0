"""The program of the scaling benchmark is a sound one, or its times would mean nothing."""

from __future__ import annotations

from collections import Counter

import wrapper_ir as wir
from benchmarks.long_program import long_program


def test_it_goes_through_every_step() -> None:
    program = long_program(1000)
    assert 1000 <= len(program.body) < 1100
    assert wir.diagnose(program) == ()
    planned = wir.plan_memory(program)
    assert wir.diagnose(planned) == ()
    assert wir.parse(str(planned)) == planned
    compile(wir.emit(planned, "python").source, "long_program", "exec")


def test_it_has_the_lines_that_real_programs_have() -> None:
    planned = wir.plan_memory(long_program(1000))
    kinds = Counter(type(line).__name__ for line in planned.body)
    wanted = {"Allocate", "Free", "Reuse", "Reinterpret", "KernelCall", "ExternKernel"}
    assert wanted <= kinds.keys()
    assert all(kinds[kind] >= 40 for kind in wanted)
    assert any(not layout.is_static for layout in planned.buffers.values())
