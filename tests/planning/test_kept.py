"""Plans for arenas that outlive a call: what goes in, what stays out and why, what is reported."""

from __future__ import annotations

import pytest

import wrapper_ir as wir
from tests.planning.test_pool import CHAIN, pools, slices
from tests.planning.test_reuse import body_of, program
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import Allocate, AllocatePool, GraphRole, Program
from wrapper_ir.passes import run_passes
from wrapper_ir.passes.keep import keep_storage
from wrapper_ir.planning import check_plan, kept_pools, plan

PEAKS_APART = """
    %a = allocate : f32[64] @cpu
    call @copy(%x, out %a)
    %b = allocate : f32[640] @cpu
    call @copy(%a, out %b)
    call @copy(%b, out %a)
    %r = allocate : f32[640] @cpu
    call @copy(%b, out %r)
    free %b
    %s = allocate : f32[960] @cpu
    call @copy(%a, out %s)
    call @copy(%a, out %s)
    free %a
    """


def test_one_arena_takes_in_all_it_can_whatever_the_peak() -> None:
    source = program(PEAKS_APART, "%r, %s")
    call, kept = plan(source, "pool").report, plan(source, arena="kept")
    check_plan(kept.program)
    assert sorted(slices(kept.program)) == ["a", "b"]
    assert kept_pools(kept.program) == ("pool0",)
    assert kept.report.kept_bytes == 4 * (64 + 640)
    # The arena is there all the time, when the results are too.
    assert kept.report.peak_bytes == 4 * (64 + 640 + 640 + 960) > call.peak_bytes
    assert call.kept_bytes == 0
    assert {each.name: each.reason for each in kept.report.outside} == {
        "r": "is a result, or may be part of one",
        "s": "is a result, or may be part of one",
    }


def test_a_program_that_is_planned_already_is_reported_as_it_is() -> None:
    planned = plan(program(PEAKS_APART, "%r, %s"), "none").program
    report = plan(planned, arena="kept").report
    assert report.kept_bytes == 0
    reasons = {each.name: each.reason for each in report.outside}
    assert reasons["a"] == reasons["b"] == "is outside in the program, which was planned before"


def test_a_storage_alone_has_an_arena_too() -> None:
    text = """
        %a = allocate : f32[100] @cpu
        call @copy(%x, out %a)
        """
    kept = plan(program(text), arena="kept")
    assert pools(kept.program) == {"pool0": 448}
    assert pools(plan(program(text), "pool").program) == {}


def test_every_reason_for_staying_outside() -> None:
    report = plan(
        program(
            """
            %made = test::op(%x) : f32[8] @cpu
            %seen = allocate : f32[8] @cpu
            test::fill(out %seen)
            %zeroed = allocate zeroed : f32[3] @cpu
            %empty = allocate : f32[0] @cpu
            %inside = allocate : f32[8] @cpu
            call @copy(%zeroed, out %inside)
            %result = allocate : f32[8] @cpu
            call @copy(%inside, out %result)
            """,
            "%result",
        ),
        arena="kept",
    ).report
    reasons = {each.name: each.reason for each in report.outside}
    assert reasons["made"] == "is made by a library op"
    assert "may hold on to it" in reasons["seen"]
    assert reasons["zeroed"] == "must be zeroed"
    assert reasons["empty"] == "has no bytes"
    assert "result" in reasons["result"]
    assert "inside" not in reasons


def test_arenas_of_regions_last_for_the_region() -> None:
    kept = plan(
        program(
            """
            %y = cond s0 > 2 with (%x) : f32[8] @cpu
              then (%p : f32[8] @cpu) {
                %t0 = allocate : f32[8] @cpu
                call @copy(%p, out %t0)
                %t1 = allocate : f32[16] @cpu
                call @copy(%t0, out %t1)
                call @copy(%t1, out %t0)
                %t2 = allocate : f32[8] @cpu
                call @copy(%p, out %t2)
                yield %t2
              }
              else (%q : f32[8] @cpu) {
                %e0 = allocate : f32[8] @cpu
                call @copy(%q, out %e0)
                yield %e0
              }
            """,
            "%y",
        ),
        arena="kept",
    )
    assert "%pool0 = allocate_pool : u8[128]" in body_of(kept.program)
    assert kept_pools(kept.program) == ()
    assert kept.report.kept_bytes == 0
    assert [each.reason for each in kept.report.outside] == ["is a result, or may be part of one"]


def test_other_devices_have_arenas_for_a_call() -> None:
    text = "".join(f"%a{n} = allocate : f32[{n + 1}] @xpu:0\n" for n in range(3))
    kept = plan(program(text), arena="kept")
    assert len(slices(kept.program)) == 3
    assert kept.report.kept_bytes == 0


def test_gpus_keep_arenas_of_their_own_in_which_places_are_aligned_for_libraries() -> None:
    text = """
        %a = allocate : f32[100] @cuda:0
        %b = allocate : f32[s0] @cuda:0
        %c = allocate : f32[100] @cuda:1
        %d = allocate : f32[200] @cuda:1
        %e = allocate : f32[100] @cpu
        %f = reuse %a : f32[100] @cuda:0
        %g = reuse %b : f32[s0] @cuda:0
        %h = reuse %c : f32[100] @cuda:1
        %i = reuse %d : f32[200] @cuda:1
        %j = reuse %e : f32[100] @cpu
        """
    kept = plan(program(text), arena="kept")
    check_plan(kept.program)
    assert len(kept_pools(kept.program)) == 3
    assert kept.report.kept_bytes == (512 + 512) + (512 + 1024) + 448
    lines = body_of(kept.program)
    # Whatever the size is, it takes up a multiple of 512 bytes.
    assert "compute CeilDiv(4*s0, 512)" in lines
    assert pools(kept.program)["pool1"] == 1536
    assert {each.offset % 512 for arena in kept.report.arenas[:2] for each in arena.slices} == {0}


def test_symbolic_sizes_are_kept_and_counted_at_the_hints() -> None:
    text = """
        %a = allocate : f32[s0, 16] @cpu
        call @copy(%x, out %a)
        %b = allocate : f32[s0, 16] @cpu
        call @copy(%a, out %b)
        """
    kept = plan(program(text), arena="kept")
    assert kept_pools(kept.program) == ("pool0",)
    assert kept.report.kept_bytes == 2 * 64 * 8
    assert dict(kept.report.hints) == {"s0": 8}


def test_pools_that_a_result_lies_in_are_not_kept() -> None:
    text = """
        %pool = allocate_pool : u8[64] @cpu
        %a = allocate_from_pool %pool[0] : f32[8] @cpu
        call @copy(%x, out %a)
        """
    inside = f"{text}\nfree %a\nfree %pool"
    planned = program(inside).replace(stage=wir.Stage.PLANNED)
    assert kept_pools(planned) == ("pool",)
    assert kept_pools(program(text, "%a")) == ()
    seen = inside.replace("free %a", "test::fill(out %a)\nfree %a")
    assert kept_pools(program(seen)) == ()


def test_only_pools_can_be_kept() -> None:
    source = program(CHAIN, "%d")
    with pytest.raises(OptionValueError, match="'reuse': there are no arenas to keep"):
        plan(source, "reuse", arena="kept")
    with pytest.raises(OptionValueError, match="one of 'call', 'kept'"):
        plan(source, arena="forever")
    assert plan(source, "pool", arena="kept").program == plan(source, arena="kept").program
    assert plan(source).report.strategy == "reuse"
    assert plan(source, arena="kept").report.strategy == "pool"
    passed = run_passes(source, ["plan-memory{arena=kept}"])
    assert any(isinstance(line, AllocatePool) for line in passed.body)


SCRATCH = """\
wir 2
program @p inference planned

input %x : f32[8] @cpu
input %given : f32[8] @cpu

kernel @copy(src: in f32, dst: out f32) cpp
  | // made up

extern test::fill(Tensor(a!) self) -> ()
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)

  %a = allocate : f32[8] @cpu
  call @copy(%x, out %a)
  %b = allocate zeroed : f32[16] @cpu
  call @copy(%a, out %b)
  %seen = allocate : f32[8] @cpu
  test::fill(inout %seen)
  %resized = allocate : f32[8] @cpu
  aten::relu.out(%x, out=out %resized)
  %pool = allocate_pool : u8[64] @cpu
  %slice = allocate_from_pool %pool[0] : f32[8] @cpu
  call @copy(%a, out %slice)
  %handed = allocate : f32[8] @cpu
  call @copy(%slice, out %handed)
  %set = aten::set_.source_Tensor(inout %given, %handed) : f32[8] @cpu alias(%handed)
  %r = allocate : f32[8] @cpu
  call @copy(%a, out %r)
  free %seen
  free %resized
  free %slice
  free %pool
  free %handed
  %c = reuse %b : f32[8] @cpu
  call @copy(%a, out %c)
  free %a
  free %c
return %r
"""

NAMES = ("a", "b", "seen", "resized", "pool", "handed", "r")


def marked(made: Program) -> list[str]:
    lines = (line for line in made.body if isinstance(line, (Allocate, AllocatePool)))
    return [line.out for line in lines if line.kept]


def test_scratch_memory_is_marked_and_what_anybody_may_look_at_later_is_not() -> None:
    source = wir.parse(SCRATCH)
    kept = keep_storage(source, 1000)
    wir.verify(kept)
    assert marked(kept) == ["a", "b", "pool"]
    assert wir.parse(str(kept)) == kept
    assert keep_storage(kept, 1000, 1000, arena="kept") is kept
    assert marked(keep_storage(source, 100)) == ["a", "b"]
    assert marked(keep_storage(source, 0, 1000, arena="kept")) == ["pool"]
    assert keep_storage(source) is source
    training = source.replace(role=GraphRole.FORWARD)
    assert keep_storage(training, 1000) is training
    assert run_passes(source, ["keep-storage{host=1000}"]) == kept
    with pytest.raises(OptionValueError, match="one of 'call', 'kept'"):
        run_passes(source, ["keep-storage{arena=forever}"])


@pytest.mark.parametrize("by_hand", [False, True])
def test_both_languages_keep_what_is_marked_and_nothing_else(*, by_hand: bool) -> None:
    source = wir.parse(SCRATCH)
    options = {} if by_hand else {"scratch_bytes": 128}  # no room for the pool
    if by_hand:
        marks = SCRATCH.replace("%pool = allocate_pool :", "%pool = allocate_pool kept :")
        source = wir.parse(marks.replace("%b = allocate zeroed :", "%b = allocate zeroed kept :"))
    expected = {"b", "pool"} if by_hand else {"a", "b"}
    python = wir.emit(source, "python", **options).source
    assert {name for name in NAMES if f" {name} = spare[" in python} == expected
    assert "b.zero_()" in python
    cpp = wir.emit(source, "cpp", **options).source
    assert {name for name in NAMES if f"state.{name} = wir::empty" in cpp} == expected
