"""What holds for every plan, on made-up programs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.planning.machine import Machine
from tests.planning.made_up import programs
from tests.planning.test_reuse import program as small_program
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    Comment,
    Free,
    Program,
    Reuse,
    Stage,
    walk,
)
from wrapper_ir.planning import (
    Cut,
    check_plan,
    insert_frees,
    kept_pools,
    plan,
    plan_memory,
    pool_storage,
    reuse_storage,
)
from wrapper_ir.text import parse, print_program
from wrapper_ir.verify import diagnose

many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@many
@given(programs())
def test_made_up_programs_break_no_rule(program: Program) -> None:
    assert [str(d) for d in diagnose(program)] == []


@many
@given(programs())
def test_planned_programs_verify_run_alike_and_hold_no_more(program: Program) -> None:
    truth = Machine(program).run()
    freed = Machine(plan_memory(program, "none"))
    assert freed.run() == truth
    result = plan(program)
    assert [str(d) for d in diagnose(result.program)] == []
    assert result.program.stage is Stage.PLANNED
    planned = Machine(result.program)
    assert planned.run() == truth
    assert planned.peak <= freed.peak


@many
@given(programs())
def test_the_report_agrees_with_what_the_machine_sees(program: Program) -> None:
    result = plan(program)
    numbers, machine = result.report, Machine(result.program)
    machine.run()
    assert numbers.peak_bytes == machine.peak
    assert numbers.lower_bound_bytes <= numbers.peak_bytes <= numbers.unplanned_peak_bytes
    assert numbers.unplanned_peak_bytes <= numbers.total_bytes
    assert numbers.is_exact
    lines = [line for _, line in walk(result.program)]
    assert numbers.allocations == sum(isinstance(line, Allocate) for line in lines)
    assert numbers.reuses == sum(isinstance(line, Reuse) for line in lines)


@st.composite
def large(draw: st.DrawFn) -> Program:
    """Storage of large and similar sizes that comes and goes, and a result or two."""
    count = draw(st.integers(1, 12))
    events: list[tuple[int, int, int]] = []
    for n in range(count):
        start = draw(st.integers(0, 20))
        events += [(start, 1, n), (start + draw(st.integers(1, 6)), 0, n)]
    sizes = draw(st.lists(st.integers(33_000, 70_000), min_size=count, max_size=count))
    results = draw(st.sets(st.integers(0, count - 1), max_size=2))
    text = ""
    for _, begins, n in sorted(events):
        if begins:
            text += f"%b{n} = allocate : f32[{sizes[n]}] @cpu\ntest::fill(out %b{n})\n"
        elif n not in results:
            text += f"test::fill(out %b{n})\nfree %b{n}\n"
    return small_program(text, ", ".join(f"%b{n}" for n in sorted(results)))


@many
@given(large())
def test_large_storage_is_reused_without_holding_more(program: Program) -> None:
    truth = Machine(program).run()
    result, freed = plan(program), Machine(plan_memory(program, "none"))
    freed.run()
    assert [str(d) for d in diagnose(result.program)] == []
    planned = Machine(result.program)
    assert planned.run() == truth
    assert planned.peak <= freed.peak
    assert result.report.peak_bytes == planned.peak


@many
@given(programs())
def test_planning_twice_changes_nothing(program: Program) -> None:
    planned = plan_memory(program)
    assert plan_memory(planned) is planned
    freed = insert_frees(program)
    assert insert_frees(freed) == freed
    reused = reuse_storage(freed)
    assert reuse_storage(reused) == reused
    assert planned.body == reused.body


@many
@given(programs())
def test_other_lines_stay_as_they_are_and_in_order(program: Program) -> None:
    planned = plan_memory(program)

    def others(body: tuple[object, ...]) -> list[object]:
        return [line for line in body if not isinstance(line, (Allocate, Free, Reuse))]

    if not any(len(path) > 1 for path, _ in walk(program)):
        assert others(planned.body) == others(program.body)
    made = [line.out for line in planned.body if isinstance(line, (Allocate, Reuse))]
    assert made == [line.out for line in program.body if isinstance(line, (Allocate, Reuse))]
    given_frees = [line for line in program.body if isinstance(line, Reuse)]
    assert set(given_frees) <= set(planned.body)


@many
@given(programs())
def test_planning_is_the_same_each_time_and_survives_the_text_form(program: Program) -> None:
    planned = plan_memory(program)
    assert plan_memory(program) == planned
    assert parse(print_program(planned)) == planned
    assert plan_memory(parse(print_program(program))) == planned


@many
@given(programs())
def test_comments_do_not_change_the_plan(program: Program) -> None:
    commented = program.replace(
        body=tuple(new for line in program.body for new in (Comment("remark"), line))
    )
    planned = plan_memory(commented)
    without = tuple(line for line in planned.body if not isinstance(line, Comment))
    assert without == plan_memory(program).body


@many
@given(programs(scale=8))  # sizes are multiples of the alignment
def test_pools_verify_run_alike_and_hold_no_more_than_reuse(program: Program) -> None:
    truth = Machine(program).run()
    result = plan(program, "pool")
    assert [str(d) for d in diagnose(result.program)] == []
    check_plan(result.program)
    planned, reused = Machine(result.program), Machine(plan_memory(program))
    assert planned.run() == truth
    reused.run()
    assert planned.peak <= reused.peak
    assert result.report.peak_bytes == planned.peak
    assert plan_memory(program, "pool") == result.program
    assert parse(print_program(result.program)) == result.program


@many
@given(programs(), st.sampled_from(Cut))
def test_each_way_of_pooling_alone_runs_alike(program: Program, cut: Cut) -> None:
    truth = Machine(program).run()
    pooled = pool_storage(insert_frees(program), cut)
    planned = pooled.program.replace(stage=Stage.PLANNED)
    assert [str(d) for d in diagnose(planned)] == []
    check_plan(planned)
    assert Machine(planned).run() == truth
    pools = [line.out for _, line in walk(planned) if isinstance(line, AllocatePool)]
    assert sorted(pools) == sorted(pooled.winners)


@many
@given(programs(scale=8))
def test_kept_arenas_run_alike_and_hold_what_is_reported(program: Program) -> None:
    truth = Machine(program).run()
    result = plan(program, arena="kept")
    assert [str(d) for d in diagnose(result.program)] == []
    check_plan(result.program)
    # What is kept is there before the first line and after the last.
    kept = kept_pools(result.program)
    lines = result.program.body
    begins = [n for n in lines if isinstance(n, AllocatePool) and n.out in kept]
    ends = [n for n in lines if isinstance(n, Free) and n.buffer in kept]
    assert len(begins) == len(ends) == len(kept)
    inside = [n for n in lines if n not in begins and n not in ends]
    held = Machine(result.program.replace(body=(*begins, *inside, *ends)))
    assert held.run() == truth
    assert result.report.peak_bytes == held.peak
    outside = {each.name for each in result.report.outside}
    made = {n.out for n in lines if isinstance(n, AllocateFromPool)}
    assert not outside & made
    assert parse(print_program(result.program)) == result.program
