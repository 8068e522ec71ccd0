"""The verifier on programs made up by hypothesis: of anything at all, and without a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

from tests.strategies import any_programs, programs
from wrapper_ir.planning import plan
from wrapper_ir.verify import VerificationError, diagnose

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

some = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@some
@given(any_programs())
def test_anything_at_all_gets_diagnostics(program: Program) -> None:
    found = diagnose(program)
    text = str(VerificationError(program, found))
    assert all(diagnostic.code in text for diagnostic in found[:20])


@some
@given(programs())
def test_no_false_alarm_about_a_program_without_a_fault(program: Program) -> None:
    assert [str(d) for d in diagnose(program)] == []


@some
@given(programs(planned=False))
def test_plans_of_programs_without_a_fault_have_none(program: Program) -> None:
    result = plan(program)
    assert [str(d) for d in diagnose(result.program)] == []
    numbers = result.report
    assert numbers.lower_bound_bytes <= numbers.peak_bytes <= numbers.unplanned_peak_bytes
