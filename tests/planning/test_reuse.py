"""Exact-size reuse: what takes over what, and what must not."""

from __future__ import annotations

import textwrap

import pytest

from wrapper_ir.lines import Allocate, DType, Free, Program, Reuse
from wrapper_ir.planning import insert_frees, plan, plan_memory, reuse_storage
from wrapper_ir.text import parse, print_program
from wrapper_ir.verify import verify

HEAD = """\
wir 2
program @p inference logical

symbol s0 : int [1, inf] hint 8
symbol s1 : int [1, inf] hint 8
symbol u0 : int [0, inf] unbacked
input s0
input s1
input %x : f32[8] @cpu
input %given : f32[8] @cpu donated
constant %w : f32[8] @cpu = parameter "w"

kernel @copy(src: in f32, dst: out f32) cpp
  | // made up

extern test::op(Tensor self) -> Tensor
extern test::fill(Tensor(a!) self) -> ()
extern test::maybe(Tensor(a) self) -> Tensor(a)

"""


def program(body: str, results: str = "") -> Program:
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "  ")
    return parse(f"{HEAD}{body}\nreturn {results}\n".replace("return \n", "return\n"))


def story(text: str) -> str:
    """Lines for words: ``name:elements`` allocates and fills a buffer, ``~name`` frees it."""
    lines: list[str] = []
    for word in text.split():
        name, _, count = word.partition(":")
        if count:
            lines += [f"%{name} = allocate : f32[{count}] @cpu", f"test::fill(out %{name})"]
        else:
            lines += [f"free %{name.removeprefix('~')}"]
    return "\n".join(lines)


def body_of(planned: Program) -> str:
    """The lines of a program, from behind its declarations."""
    text = print_program(planned).rpartition("-> Tensor(a)\n")[2]
    return textwrap.dedent("\n".join(text.strip("\n").split("\n")[:-1])).strip("\n")


def reuses(planned: Program) -> dict[str, str]:
    return {line.out: line.donor for line in planned.body if isinstance(line, Reuse)}


def test_a_chain_needs_two_buffers() -> None:
    planned = plan_memory(
        program(
            """
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %b = allocate : f32[8] @cpu
            call @copy(%a, out %b)
            %c = allocate : f32[2, 4] @cpu
            call @copy(%b, out %c)
            %d = allocate : f32[8] @cpu
            call @copy(%c, out %d)
            """,
            "%d",
        )
    )
    assert body_of(planned) == textwrap.dedent("""\
        %a = allocate : f32[8] @cpu
        call @copy(%x, out %a)
        %b = allocate : f32[8] @cpu
        call @copy(%a, out %b)
        %c = reuse %a : f32[2, 4] @cpu
        call @copy(%b, out %c)
        %d = reuse %b : f32[8] @cpu
        call @copy(%c, out %d)
        free %c""")


def test_what_a_collective_reads_is_kept_until_it_is_waited_for() -> None:
    declared = """\
extern _c10d_functional::all_gather_into_tensor(Tensor input, int group_size, \
Any group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
"""
    body = """
        %big = allocate : f32[999999] @cpu
        free %big
        %a = allocate : f32[8] @cpu
        call @copy(%x, out %a)
        %all = _c10d_functional::all_gather_into_tensor(%a, 2, "0") : f32[16] @cpu
        %b = allocate : f32[8] @cpu
        call @copy(%x, out %b)
        _c10d_functional::wait_tensor(%all)
        %c = allocate : f32[8] @cpu
        call @copy(%b, out %c)
        """
    source = str(program(body, "%all, %c")).replace("\nextern", f"\n{declared}extern", 1)
    assert reuses(plan_memory(parse(source))) == {"c": "a"}


def two(first: str, second: str, between: str = "") -> Program:
    """A buffer that dies, then an allocation; a large one first, so that the peak is no reason."""
    return program(
        f"""
        %big = allocate : f32[999999] @cpu
        free %big
        %a = allocate{first}
        test::fill(out %a)
        free %a
        {between or "//"}
        %b = allocate{second}
        test::fill(out %b)
        """,
        "%b",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (" : f32[8] @cpu", " : f32[8] @cpu"),
        (" : f32[8] @cpu", " : f32[2, 4]{1, 2} @cpu"),
        (" : f32[8] @cpu", " : i32[8] @cpu"),
        (" : f32[s0, s1 + 1] @cpu", " : f32[s0*s1 + s0] @cpu"),
        (" pinned : f32[8] @cpu", " pinned : f32[8] @cpu"),
        (" zeroed : f32[8] @cpu", " : f32[8] @cpu"),
    ],
)
def test_same_bytes_are_reused(first: str, second: str) -> None:
    planned = plan_memory(two(first, second))
    assert reuses(planned) == {"b": "a"}
    verify(planned)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (" : f32[16] @cpu", " : f32[8] @cpu", "larger"),
        (" : f32[4] @cpu", " : f32[8] @cpu", "smaller"),
        (" : f32[8] @cpu", " : f64[4] @cpu", "elements of another size may be aligned otherwise"),
        (" : f32[8] @cpu", " : f32[8] @cuda", "another device"),
        (" : f32[8] @cpu", " pinned : f32[8] @cpu", "another memory"),
        (" pinned : f32[8] @cpu", " : f32[8] @cpu", "another memory"),
        (" : f32[8] @cpu", " zeroed : f32[8] @cpu", "contents would be kept"),
        (" : f32[s0] @cpu", " : f32[s1] @cpu", "equal at the hints only"),
        (" : f32[s0] @cpu", " : f32[8] @cpu", "equal at the hint only"),
        (" : f32[0] @cpu", " : f32[0] @cpu", "nothing to reuse"),
    ],
)
def test_what_differs_is_not_reused(first: str, second: str, why: str) -> None:
    assert reuses(plan_memory(two(first, second))) == {}, why


def test_unbacked_sizes_are_reused_only_for_the_same_symbol() -> None:
    planned = plan_memory(
        program(
            """
            %n = test::op(%x) : i64[u0] @cpu
            u0 = size %n, 0
            %a = allocate : f32[u0] @cpu
            test::fill(out %a)
            %b = allocate : f32[s0] @cpu
            test::fill(out %b)
            free %a
            %c = allocate : f32[u0] @cpu
            test::fill(out %c)
            """,
            "%c",
        )
    )
    assert reuses(planned) == {"c": "a"}


def test_reuse_that_would_raise_the_peak_is_left() -> None:
    source = program(story("a:1000 ~a peak:5000 ~peak b:1000"), "%b")
    result = plan(source)
    assert reuses(result.program) == {}
    assert result.report.peak_bytes == 20000
    # Where the peak is elsewhere there is room to keep it.
    wide = type(source.buffers["a"]).contiguous(DType.FLOAT32, (9000,))
    roomy = source.replace(
        body=(*source.body[:-2], Allocate("wide"), *source.body[-2:], Free("wide")),
        buffers=source.buffers.set(wide=wide),
    )
    result = plan(roomy)
    assert reuses(result.program) == {"b": "a"}
    assert result.report.peak_bytes == result.report.unplanned_peak_bytes == 40000


def test_of_several_donors_the_one_freed_last_is_taken() -> None:
    planned = plan_memory(program(story("big:999 ~big a:8 b:8 ~b ~a c:8 d:8"), "%c, %d"))
    assert reuses(planned) == {"c": "a", "d": "b"}


def test_results_that_are_views_keep_their_storage() -> None:
    planned = plan_memory(
        program(
            """
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %view = reinterpret %a : f32[4]+4 @cpu
            %maybe = test::maybe(%view) : f32[4] @cpu may_alias(%view)
            %b = allocate : f32[8] @cpu
            call @copy(%x, out %b)
            """,
            "%maybe",
        )
    )
    assert reuses(planned) == {}
    assert [line.buffer for line in planned.body if isinstance(line, Free)] == ["b"]


def test_a_view_that_may_be_one_keeps_storage_from_being_taken_too_early() -> None:
    planned = plan_memory(
        program(
            """
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %maybe = test::maybe(%a) : f32[8] @cpu may_alias(%a)
            %b = allocate : f32[8] @cpu
            call @copy(%maybe, out %b)
            %c = allocate : f32[8] @cpu
            call @copy(%b, out %c)
            """,
            "%c",
        )
    )
    assert reuses(planned) == {"c": "a"}


def test_results_of_library_ops_are_donors_only_where_their_alignment_is_checked() -> None:
    text = """
        %a = test::op(%x) : f32[8] @cpu
        {check}
        free %a
        %b = allocate : f32[8] @cpu
        test::fill(out %b)
        """
    unchecked, weak, strong = (
        plan_memory(program(text.format(check=check), "%b"))
        for check in ("//", 'assert_layout %a, "op" align 8', 'assert_layout %a, "op" align 16')
    )
    assert reuses(unchecked) == reuses(weak) == {}
    assert reuses(strong) == {"b": "a"}


@pytest.mark.parametrize("buffer", ["x", "given"])
def test_inputs_are_nobodys_donors(buffer: str) -> None:
    planned = plan_memory(
        program(
            f"""
            %big = allocate : f32[999] @cpu
            free %big
            free %{buffer}
            %b = allocate : f32[8] @cpu
            test::fill(out %b)
            """,
            "%b",
        )
    )
    assert reuses(planned) == {}


def test_slices_and_pools_are_left_alone() -> None:
    planned = plan_memory(
        program(
            """
            %pool = allocate_pool : u8[64] @cpu
            %a = allocate_from_pool %pool[0] : f32[8] @cpu
            test::fill(out %a)
            %b = allocate_from_pool %pool[32] : f32[8] @cpu
            call @copy(%a, out %b)
            %c = allocate : f32[8] @cpu
            call @copy(%b, out %c)
            %d = allocate : u8[64] @cpu
            test::fill(out %d)
            """,
            "%c, %d",
        )
    )
    assert reuses(planned) == {}
    assert body_of(planned).count("free") == 3
    verify(planned)


def test_regions_are_planned_by_themselves() -> None:
    planned = plan_memory(
        program(
            """
            %big = allocate : f32[999] @cpu
            free %big
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %y = cond s0 > 2 with (%a) : f32[8] @cpu
              then (%p : f32[8] @cpu) {
                %t0 = allocate : f32[8] @cpu
                call @copy(%p, out %t0)
                %t1 = allocate : f32[8] @cpu
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
            %z = allocate : f32[8] @cpu
            call @copy(%y, out %z)
            """,
            "%z",
        )
    )
    verify(planned)
    text = body_of(planned)
    assert "%t2 = reuse %t0" in text
    assert "free %t1" in text
    assert "free %p" not in text
    # The storage of %a ended before %z was allocated; inside the regions it is not to be had.
    assert "%e0 = allocate" in text


def test_reuses_that_the_front_end_gave_stay_and_pass_storage_on() -> None:
    planned = plan_memory(
        program(
            """
            %big = allocate : f32[999] @cpu
            free %big
            %a = allocate : f32[8] @cpu
            call @copy(%x, out %a)
            %b = reuse %a : f32[8] @cpu
            call @copy(%b, out %b)
            free %b
            %c = allocate : f32[8] @cpu
            call @copy(%x, out %c)
            """,
            "%c",
        )
    )
    assert reuses(planned) == {"b": "a", "c": "b"}


def test_reuse_alone_needs_frees() -> None:
    source = program("%a = allocate : f32[8] @cpu\n%b = allocate : f32[8] @cpu")
    assert reuse_storage(source) == source
    assert reuses(reuse_storage(insert_frees(source))) == {"b": "a"}


BIG = story("keep:999999 a:60000 ~a b:50000 ~b c:50000 ~c d:55000 ~d")


def test_large_allocations_take_what_is_somewhat_larger() -> None:
    planned = plan_memory(program(BIG))
    verify(planned)
    assert reuses(planned) == {"b": "a", "c": "b"}
    # What %c is in has 60,000 elements, but its last name vouches for 50,000 only.
    assert "%d = allocate" in body_of(planned)


def test_small_ones_and_results_do_not() -> None:
    assert reuses(plan_memory(program(BIG.replace("0000]", "00]").replace("5000]", "50]")))) == {
        "c": "b"
    }
    assert reuses(plan_memory(program(story("a:60000 ~a b:50000"), "%b"))) == {}


def test_a_larger_one_is_not_kept_over_the_peak() -> None:
    text = story("a:60000 ~a b:50000 c:50000 ~c ~b")
    report = plan(program(text)).report
    assert report.peak_bytes == report.unplanned_peak_bytes == 400_000
    assert report.reuses == 0


def test_exact_sizes_win_where_a_larger_one_would_be_missed() -> None:
    text = story("keep:999999 a:60000 ~a b:40000 c:60000 ~b ~c")
    assert reuses(plan_memory(program(text))) == {"c": "a"}


def test_none_is_kept_while_inputs_given_up_make_the_peak() -> None:
    """Backward graphs begin so: beside little of their own there is what the forward saved."""

    def taken(given: int) -> dict[str, str]:
        head = HEAD.replace("%given : f32[8]", f"%given : f32[{given}]")
        lines = story("a:10 ~a big:40").split("\n")
        lines += ["call @copy(%given, out %big)"]
        lines += story("~big c:10 late:60 ~late ~c").split("\n")
        text = "\n".join(f"  {line}" for line in lines)
        return reuses(plan_memory(parse(f"{head}{text}\nreturn\n")))

    assert taken(8) == {"c": "a"}
    assert not taken(40)
