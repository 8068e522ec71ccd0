"""The planner's public face: derived frees, strategies, the report."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import wrapper_ir as wir
from tests.planning.test_reuse import body_of, program, reuses
from wrapper_ir.errors import OptionError
from wrapper_ir.lines import Free, GraphRole, Probe, Program, Stage
from wrapper_ir.planning import STRATEGIES, Holding, insert_frees, plan
from wrapper_ir.verify import VerificationError, verify

CHAIN = """
    %a = allocate : f32[8] @cpu
    call @copy(%x, out %a)
    %b = allocate : f32[8] @cpu
    call @copy(%a, out %b)
    %c = allocate : f32[8] @cpu
    call @copy(%b, out %c)
    """


def test_frees_follow_the_last_use() -> None:
    freed = insert_frees(program(CHAIN, "%c"))
    assert body_of(freed) == textwrap.dedent("""\
        %a = allocate : f32[8] @cpu
        call @copy(%x, out %a)
        %b = allocate : f32[8] @cpu
        call @copy(%a, out %b)
        free %a
        %c = allocate : f32[8] @cpu
        call @copy(%b, out %c)
        free %b""")
    assert freed.stage is Stage.LOGICAL


def test_a_view_is_a_use_and_only_the_owner_is_freed() -> None:
    freed = insert_frees(
        program(
            """
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %half = reinterpret %a : f32[4] @cpu
            %b = allocate : f32[4] @cpu
            call @copy(%half, out %b)
            """,
            "%b",
        )
    )
    assert body_of(freed).endswith("call @copy(%half, out %b)\nfree %a")


def test_what_is_never_used_is_freed_at_once_and_pools_after_their_slices() -> None:
    freed = insert_frees(program("""
            %pool = allocate_pool : u8[64] @cpu
            %a = allocate_from_pool %pool[0] : f32[8] @cpu
            %idle = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            """))
    assert body_of(freed) == textwrap.dedent("""\
        %pool = allocate_pool : u8[64] @cpu
        %a = allocate_from_pool %pool[0] : f32[8] @cpu
        %idle = allocate : f32[8] @cpu
        free %idle
        call @copy(%x, out %a)
        free %a
        free %pool""")
    verify(freed.replace(stage=Stage.PLANNED))


def test_frees_that_the_front_end_gave_stay_where_they_are() -> None:
    source = program(CHAIN + "free %a\n", "%c")
    freed = insert_frees(source)
    assert body_of(freed).endswith("free %b\nfree %a")
    assert insert_frees(freed) == freed


def test_frees_come_behind_probes_that_look_back() -> None:
    text = CHAIN.replace("out %c)", 'out %c)\n    probe after "copy" print(%b, %c)')
    freed = insert_frees(program(text, "%c"))
    assert body_of(freed).endswith('probe after "copy" print(%b, %c)\nfree %b')
    verify(freed.replace(stage=Stage.PLANNED))


def test_a_probe_further_down_does_not_keep_anything_alive() -> None:
    text = CHAIN + 'probe after "all" print(%a, %b, %c, %x, 1)\nprobe before "x" print(%a, %c)\n'
    probed = insert_frees(program(text, "%c"))
    lines = body_of(probed).splitlines()
    assert lines[-3:] == [
        'probe after "all" print(%b, %c, %x, 1)',
        "free %b",
        'probe before "x" print(%c)',
    ]
    verify(probed.replace(stage=Stage.PLANNED))
    without = tuple(line for line in probed.body if not isinstance(line, Probe))
    assert without == insert_frees(program(CHAIN, "%c")).body


@pytest.mark.parametrize(
    ("role", "option", "dropped"),
    [
        (GraphRole.INFERENCE, None, False),
        (GraphRole.BACKWARD, None, True),
        (GraphRole.FORWARD, None, True),
        (GraphRole.BACKWARD, False, False),
        (GraphRole.INFERENCE, True, True),
    ],
)
def test_inputs_are_dropped_in_training_graphs_or_when_asked(
    role: GraphRole, option: bool | None, dropped: bool
) -> None:
    planned = plan(program(CHAIN, "%c").replace(role=role), free_inputs=option).program
    freed = [line.buffer for line in planned.body if isinstance(line, Free)]
    assert ("x" in freed) is dropped
    assert ("given" in freed) is dropped
    assert "w" not in freed
    if dropped:
        position = planned.body.index(Free("x"))
        assert "copy(%x" in wir.text.print_line(planned.body[position - 1], planned)
    verify(planned)


def test_an_input_that_is_returned_is_not_dropped() -> None:
    planned = plan(program(CHAIN, "%c, %x"), free_inputs=True).program
    assert Free("x") not in planned.body
    verify(planned)


def test_strategies() -> None:
    source = program(CHAIN, "%c")
    assert reuses(wir.plan_memory(source)) == {"c": "a"}
    assert reuses(wir.plan_memory(source, strategy="reuse")) == {"c": "a"}
    none = wir.plan_memory(source, strategy="none")
    assert reuses(none) == {}
    assert none.stage is Stage.PLANNED
    assert wir.plan_memory(none, strategy="reuse") is none
    assert set(STRATEGIES) == {"none", "reuse", "pool"}


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="reuze") as caught:
        wir.plan_memory(program(CHAIN), strategy="reuze")
    assert "'reuse'" in str(caught.value)


def test_faulty_programs_are_refused() -> None:
    with pytest.raises(VerificationError):
        wir.plan_memory(Program(body=(Free("nothing"),)))


def test_the_report() -> None:
    report = plan(program(CHAIN, "%c")).report
    assert report.strategy == "reuse"
    assert (report.buffers, report.allocations, report.reuses) == (3, 2, 1)
    assert report.total_bytes == 96
    assert report.unplanned_peak_bytes == report.peak_bytes == report.lower_bound_bytes == 64
    assert report.ratio == 1.0
    assert report.is_exact
    assert report.hints == {}
    assert plan(Program()).report.ratio == 1.0


def test_the_report_says_at_which_hints_its_bytes_are() -> None:
    report = plan(program("""
            %n = test::op(%x) : i64[u0] @cpu
            u0 = size %n, 0
            %a = allocate : f32[s0, u0] @cpu
            test::fill(out %a)
            """)).report
    assert not report.is_exact
    assert report.hints == {"s0": 8, "u0": 8192}
    assert report.assumed == ("u0",)
    assert report.peak_bytes == 4 * 8 * 8192
    assert report.total_bytes == 4 * 8 * 8192 + 8 * 8192


def test_sizes_made_of_reals_have_no_bytes_at_the_hints() -> None:
    """They may be compared with others, though sympy cannot say how that comes out."""
    report = plan(program("""
            %a = allocate : f32[Max(1, Ceil(1.5*ToFloat(s0)))] @cpu
            test::fill(out %a)
            """)).report
    assert (report.buffers, report.total_bytes) == (1, 0)


def test_a_free_that_comes_late_costs_and_the_report_shows_it() -> None:
    late = program(
        """
        %a = allocate : f32[100] @cpu
        test::fill(out %a)
        %b = allocate : f32[100] @cpu
        test::fill(out %b)
        free %a
        """,
        "%b",
    )
    report = plan(late).report
    assert (report.peak_bytes, report.lower_bound_bytes) == (800, 400)
    assert report.ratio == 2.0


def test_planning_does_not_depend_on_the_hash_seed() -> None:
    code = textwrap.dedent("""
        import wrapper_ir as wir
        from tests.planning.test_plan import CHAIN
        from tests.planning.test_reuse import program
        print(wir.plan_memory(program(CHAIN, "%c")))
        """)
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def at_peak(text: str, results: str, strategy: str = "reuse") -> tuple[str, dict[str, Holding]]:
    report = plan(program(text, results), strategy).report
    assert report.peak_bytes == sum(each.nbytes for each in report.at_peak)
    return report.peak_at, {each.name: each.why for each in report.at_peak}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_report_tells_what_is_held_at_the_peak(strategy: str) -> None:
    both = {"a": Holding.LATER, "b": Holding.LATER}
    expected = ("body[6]", both | {"given": Holding.DONATED})
    assert at_peak(CHAIN + "call @copy(%given, out %c)", "%c", strategy) == expected


def test_results_are_held_to_the_end() -> None:
    path, held = at_peak(CHAIN + "%d = test::op(%c) : f32[8] @cpu", "%a, %b")
    assert path == "body[10]"
    last = {"c": Holding.LINE, "d": Holding.LINE}
    assert held == {"a": Holding.RESULT, "b": Holding.RESULT, **last}


def test_what_regions_hold_is_told_by_the_lines_path() -> None:
    report = plan(wir.load("tests/programs/cond.wir")).report
    assert (report.peak_at, report.at_peak[0].why) == ("body[3]", Holding.REGION)
    assert report.at_peak[0].name == "body[3]"
    assert report.peak_bytes == sum(each.nbytes for each in report.at_peak)


def test_nothing_is_held_by_a_program_without_buffers() -> None:
    report = plan(Program()).report
    assert (report.peak_bytes, report.peak_at, report.at_peak) == (0, "", ())
