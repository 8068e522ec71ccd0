"""Pools: what goes in, what stays out, places that hold for every size, and programs that run."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import pytest

import wrapper_ir as wir
from tests.planning.test_reuse import body_of, program
from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AssertSymbol,
    ComputeSymbol,
    Layout,
    Program,
)
from wrapper_ir.lines.expr import substitute
from wrapper_ir.planning import Cut, PlanError, check_plan, insert_frees, plan, pool_storage
from wrapper_ir.verify import verify

CHAIN = """
    %d = allocate : f32[8] @cpu
    test::fill(out %d)
    %a = allocate : f32[100] @cpu
    test::fill(out %a)
    %b = allocate : f32[200] @cpu
    call @copy(%a, out %b)
    %c = allocate : f32[50] @cpu
    call @copy(%b, out %c)
    call @copy(%c, out %d)
    """


def pools(planned: Program) -> dict[str, object]:
    return {
        line.out: planned.buffers[line.out].size[0]
        for line in planned.body
        if isinstance(line, AllocatePool)
    }


def slices(planned: Program) -> dict[str, object]:
    return {line.out: line.offset for line in planned.body if isinstance(line, AllocateFromPool)}


def arranged(source: Program) -> Program:
    return pool_storage(insert_frees(source)).program.replace(stage=wir.Stage.PLANNED)


def pooled(text: str, results: str = "", cut: Cut = Cut.WHOLE) -> Program:
    freed = insert_frees(program(text, results))
    planned = pool_storage(freed, cut).program.replace(stage=wir.Stage.PLANNED)
    verify(planned)
    check_plan(planned)
    return planned


def test_storages_share_an_arena_at_the_lower_bound() -> None:
    result = plan(program(CHAIN, "%d"), "pool")
    assert pools(result.program) == {"pool0": 448 + 832}
    assert sorted(slices(result.program)) == ["a", "b", "c"]
    assert "%d = allocate : f32[8] @cpu" in body_of(result.program)
    assert body_of(result.program).endswith("free %c\nfree %pool0")
    (arena,) = result.report.arenas
    assert (arena.nbytes, arena.lower_bound, arena.device) == (1280, 1200, "cpu")
    assert [s.name for s in arena.slices] == ["a", "b", "c"]
    assert result.report.winner == "pool"


def test_results_and_what_may_be_one_stay_outside() -> None:
    planned = pooled(
        """
        %a = allocate : f32[100] @cpu
        test::fill(out %a)
        %b = allocate : f32[100] @cpu
        test::fill(out %b)
        %view = reinterpret %b : f32[50] @cpu
        %c = allocate : f32[100] @cpu
        test::fill(out %c)
        %d = allocate : f32[100] @cpu
        call @copy(%c, out %d)
        call @copy(%a, out %d)
        """,
        "%view, %c",
    )
    assert sorted(slices(planned)) == ["a", "d"]


def test_what_is_zeroed_alone_or_empty_stays_outside() -> None:
    planned = pooled("""
        %z = allocate zeroed : f32[100] @cpu
        %e = allocate : f32[0] @cpu
        %a = allocate : f32[100] @cpu
        call @copy(%z, out %a)
        """)
    assert pools(planned) == {}


def test_each_device_has_its_arena() -> None:
    text = "".join(
        f"%{name}{n} = allocate : f32[{n + 1}] @{device}\n"
        for n in range(2)
        for name, device in (("a", "cpu"), ("b", "cuda:0"), ("c", "cuda:1"))
    )
    planned = pooled(text)
    assert len(pools(planned)) == 3
    assert len(slices(planned)) == 6


def test_what_goes_on_under_another_name_keeps_its_place() -> None:
    planned = pooled(
        """
        %a = allocate : f32[100] @cpu
        test::fill(out %a)
        %b = reuse %a : f32[64] @cpu
        %c = allocate : f32[100] @cpu
        call @copy(%b, out %c)
        %d = allocate : f32[100] @cpu
        call @copy(%c, out %d)
        """,
    )
    places = slices(planned)
    assert sorted(places) == ["a", "c", "d"]
    assert places["c"] != places["a"] == places["d"]
    assert "%b = reuse %a" in body_of(planned)


def test_arenas_one_after_another() -> None:
    text = "".join(f"""
        %a{n} = allocate : f32[100] @cpu
        test::fill(out %a{n})
        %b{n} = allocate : f32[100] @cpu
        call @copy(%a{n}, out %b{n})
        free %a{n}
        free %b{n}
        """ for n in range(3))
    assert len(pools(pooled(text))) == 1
    assert len(pools(pooled(text, cut=Cut.IDLE))) == 3


def test_windows_spare_the_peak() -> None:
    text = """
        %a = allocate : f32[64] @cpu
        test::fill(out %a)
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
    source = program(text, "%r, %s")
    whole, windows = (
        plan(pooled(text, "%r, %s", cut)).report.peak_bytes for cut in (Cut.WHOLE, Cut.WINDOWS)
    )
    result = plan(source, "pool")
    assert windows <= result.report.lower_bound_bytes < whole
    assert result.report.peak_bytes == result.report.lower_bound_bytes


def test_arenas_of_regions_are_theirs() -> None:
    planned = arranged(
        program(
            """
            %y = cond s0 > 2 with (%x) : f32[8] @cpu
              then (%p : f32[8] @cpu) {
                %t0 = allocate : f32[8] @cpu
                call @copy(%p, out %t0)
                %t1 = allocate : f32[16] @cpu
                call @copy(%t0, out %t1)
                %t2 = allocate : f32[8] @cpu
                call @copy(%t1, out %t2)
                yield %t2
              }
              else (%q : f32[8] @cpu) {
                %e0 = allocate : f32[8] @cpu
                call @copy(%q, out %e0)
                yield %e0
              }
            """,
            "%y",
        )
    )
    verify(planned)
    text = body_of(planned)
    assert text.index("then (") < text.index("%pool0 = allocate_pool : u8[128]")
    assert "free %pool0\n    yield %t2" in text
    assert "%t2 = allocate" in text


def test_sizes_bound_in_the_middle_go_into_a_later_arena() -> None:
    planned = pooled("""
        %a = allocate : f32[s0, 16] @cpu
        test::fill(out %a)
        %b = allocate : f32[s0, 16] @cpu
        call @copy(%a, out %b)
        %n = test::op(%b) : i64[u0] @cpu
        u0 = size %n, 0
        %c = allocate : f32[u0, 16] @cpu
        test::fill(out %c)
        %d = allocate : f32[u0, 16] @cpu
        call @copy(%c, out %d)
        call @copy(%b, out %d)
        """)
    text = body_of(planned)
    first, second = pools(planned)
    assert text.index(f"%{first} =") < text.index("%n =") < text.index(f"%{second} =")
    assert {str(size) for size in pools(planned).values()} == {"128*s0", "128*u0"}


#: name, lines where it begins and ends, elements
SHAPES = ("s0", "2*s0", "s0*s0", "4*s0 + 3", "7", "s1*s0", "64*s1", "1000")


def symbolic(count: int, seed: int) -> Program:
    draw = random.Random(seed)
    events = []
    for n in range(count):
        start = draw.randint(0, 2 * count)
        end = start + 1 + int(draw.expovariate(0.1))
        shape = draw.choice(SHAPES)
        events.append((start, 1, f"%b{n} = allocate : f32[{shape}] @cpu\ntest::fill(out %b{n})"))
        events.append((end, 0, f"test::fill(out %b{n})\nfree %b{n}"))
    body = "\n".join(text for _, _, text in sorted(events))
    return wir.parse(f"""\
wir 2
program @p inference logical

symbol s0 : int [1, 65536] hint 16
symbol s1 : int [0, inf] hint 9
input %x : f32[s0, s1] @cpu
extern test::fill(Tensor(a!) out) -> ()

  s0 = size %x, 0
  s1 = size %x, 1
{body}
return
""")


@pytest.mark.parametrize("seed", range(6))
def test_relational_plans_hold_for_every_size(seed: int) -> None:
    planned = arranged(symbolic(60, seed))
    verify(planned)
    check_plan(planned)
    pool = next(line.out for line in planned.body if isinstance(line, AllocatePool))
    for s0, s1 in itertools.product((1, 2, 16, 333, 4096), (0, 1, 9, 1000)):
        assert runs(planned, pool, {"s0": s0, "s1": s1})


def runs(planned: Program, pool: str, values: dict[str, int]) -> bool:
    """Goes through the lines with numbers for the symbols; asserts that no two slices collide."""
    values = dict(values)
    alive: dict[str, tuple[int, int]] = {}
    capacity = 0

    def nbytes(layout: Layout) -> int:
        return int(substitute(layout.nbytes, values))

    for line in planned.body:
        match line:
            case ComputeSymbol():
                values[line.symbol] = int(substitute(line.value, values))
            case AllocatePool():
                capacity = nbytes(planned.buffers[line.out])
            case AllocateFromPool():
                start = int(substitute(line.offset, values))
                end = start + nbytes(planned.buffers[line.out])
                assert start % 64 == 0
                assert 0 <= start <= end <= capacity
                assert all(start >= b or a >= end for a, b in alive.values())
                alive[line.out] = (start, end)
            case wir.lines.Free():
                alive.pop(line.buffer, None)
            case Allocate():
                raise AssertionError("all of them were to be in the pool")
    return not alive and capacity > 0


def test_far_from_the_hints_the_height_stays_near_the_lower_bound() -> None:
    planned = arranged(symbolic(60, 1))
    text = str(planned)
    ratios = []
    for hint in (4, 16, 128):
        at = wir.parse(re.sub(r"hint 16\\b", f"hint {hint}", text))
        report = plan(at).report
        ratios.append(report.peak_bytes / report.lower_bound_bytes)
    assert max(ratios) < 1.3


def test_text_grows_with_the_program_not_faster() -> None:
    lengths = [len(str(arranged(symbolic(n, 3)))) / n for n in (40, 160)]
    assert lengths[1] < 1.5 * lengths[0]


def test_sums_of_sizes_are_checked_where_they_might_not_fit_64_bits() -> None:
    planned = arranged(symbolic(40, 2))
    checks = [line for line in planned.body if isinstance(line, AssertSymbol)]
    assert checks
    assert "ToFloat(s1)" in str(planned)
    static = wir.plan_memory(program(CHAIN, "%d"), "pool")
    assert not any(isinstance(line, AssertSymbol) for line in static.body)


def test_a_collision_is_found_with_its_place() -> None:
    planned = wir.plan_memory(program(CHAIN, "%d"), "pool")
    body = tuple(
        AllocateFromPool(line.out, line.pool, 0) if isinstance(line, AllocateFromPool) else line
        for line in planned.body
    )
    with pytest.raises(PlanError, match="are taken"):
        check_plan(planned.replace(body=body))


def test_a_collision_at_other_sizes_than_the_hints_is_found() -> None:
    text = """
        %pool = allocate_pool : u8[64*s0 + 512] @cpu
        %a = allocate_from_pool %pool[0] : f32[s0, 16] @cpu
        test::fill(out %a)
        %b = allocate_from_pool %pool[512] : f32[8] @cpu
        call @copy(%a, out %b)
        """
    planned = insert_frees(program(text)).replace(stage=wir.Stage.PLANNED)
    with pytest.raises(PlanError, match="are taken"):
        check_plan(planned)


def test_what_several_streams_touch_stays_outside() -> None:
    source = program(CHAIN, "%d")
    calls = [n for n, line in enumerate(source.body) if isinstance(line, wir.lines.KernelCall)]
    body = list(source.body)
    # The first copy reads %a and writes %b: on another stream than what comes after.
    body[calls[0]] = dataclasses.replace(body[calls[0]], stream=1)
    streams = (wir.lines.Stream(wir.lines.CPU),)
    source = source.replace(body=tuple(body), streams=streams)
    planned = pool_storage(insert_frees(source)).program
    assert slices(planned) == {}


def test_what_a_collective_works_on_stays_outside() -> None:
    declared = "extern test::fill(Tensor(a!) self) -> ()\n"
    source = wir.parse(
        str(program(CHAIN, "%d"))
        .replace(declared, declared + "extern _c10d_functional::wait(Tensor(a!) self) -> ()\n")
        .replace("call @copy(%b, out %c)", "_c10d_functional::wait(inout %b)")
    )
    assert sorted(slices(arranged(source))) == ["a", "c"]
