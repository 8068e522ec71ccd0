"""The pass ``legalise``: what a target cannot express, as lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.emitters.fx.programs import EXTRA
from tests.fuzz import kernels
from tests.fuzz.compare import PLANS, compare, interpreted, planned, run
from tests.fuzz.maker import make
from wrapper_ir.analysis import legality
from wrapper_ir.analysis.legality import illegal
from wrapper_ir.emitters import EmitError, Legal, unregister_emitter
from wrapper_ir.emitters.fx import FxEmitter
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.passes import Legalise, PassOutputError, run_passes
from wrapper_ir.planning import check_plan
from wrapper_ir.testing.corpus import obeying
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.lines import Program

FULL = Legalise(
    mixed_pools=False,
    retyped_reuse=False,
    retyped_writes="none",
    written_gaps=False,
    shared_loops=False,
)
"""The pass for the least able target."""

COPY = "extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
ADD = "extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"


def parsed(inputs: str, externs: list[str], lines: str, returns: str) -> Program:
    text = "\n".join(["wir 2", "program @p inference planned", "", inputs, "", *externs, "", lines])
    return wir.parse(f"{text}\nreturn {returns}\n")


def body(program: Program) -> list[str]:
    """The lines of a program that do something."""
    rows = map(str.strip, str(program).splitlines())
    return [row for row in rows if row.startswith(("%", "free", "aten::", "call", "_c10d"))]


def same(program: Program, other: Program, *inputs: Any) -> None:
    """Check that two programs leave the same bits behind."""
    ours, theirs = (
        support.run(lambda *args, each=each: wir.interpret(each, *args), list(inputs))
        for each in (program, other)
    )
    assert support.differences(ours, theirs) == []


# All programs.


@pytest.mark.usefixtures("corpus_kernels")
@pytest.mark.parametrize("name", [*corpus.CASES, *EXTRA])
def test_results_stay_the_same_to_the_last_bit(name: str) -> None:
    made = support.program(name)
    program = obeying([FULL], made)
    assert list(illegal(program, FULL)) == []
    verify(program)
    check_plan(program)
    if program is not made and name not in support.ABSENT:
        same(program, support.program(name), *support.inputs(name))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_made_up_programs_stay_the_same() -> None:
    kernels.warm()
    plans, changed = list(PLANS), 0
    for seed in range(16):
        made = make(seed)
        before = planned(made.program, plans[seed % len(plans)])
        after = obeying([FULL], before)
        if after is not before:
            changed += 1
            verify(after)
            check_plan(after)
            assert list(illegal(after, FULL)) == []
            inputs = made.inputs()
            runs = [run(each, interpreted, inputs) for each in (after, before)]
            assert compare(before, *runs) == "", seed
    assert changed > 4


def test_nothing_changes_where_everything_is_legal() -> None:
    assert Legal().passes == ()
    assert not any(each.startswith("legalise") for each in PythonEmitter().legalisation())
    for name in EXTRA:
        made = support.program(name)
        assert Legalise()(made) is made


def test_it_is_about_planned_programs() -> None:
    made = wir.parse(corpus.FILES["input_mutation"].read_text().replace(" planned", " logical"))
    assert FULL(made) is made


# Each idea.


def test_pools_have_one_type() -> None:
    made = obeying([Legalise(mixed_pools=False)], support.program("mixed_pool"))
    pools = [row for row in body(made) if "allocate" in row and "pool" in row]
    assert pools == [
        "%pool_float32 = allocate_pool : f32[8] @cpu",
        "%pool_int32 = allocate_pool : i32[8] @cpu",
        "%pool_float64 = allocate_pool : f64[8] @cpu",
        "%a = allocate_from_pool %pool_float32[0] : f32[8] @cpu",
        "%b = allocate_from_pool %pool_int32[0] : i32[8] @cpu",
        "%c = allocate_from_pool %pool_float64[0] : f64[8] @cpu",
    ]


def test_memory_is_reused_as_its_own_type() -> None:
    made = obeying([Legalise(retyped_reuse=False)], support.program("reused_dtypes"))
    rows = [row for row in body(made) if not row.startswith("call")]
    assert rows == [
        "%a = allocate : f32[8] @cpu",
        "%b_own = allocate : i32[4] @cpu",
        "%b_old = reinterpret %a : i32[4] @cpu",
        "aten::copy_(inout %b_own, %b_old)",
        "free %a",
        "%b = reuse %b_own : i32[4] @cpu",
        "%c = allocate : f32[8] @cpu",
        "free %c",
        "%d_own = allocate : i32[8] @cpu",
        "%d = reuse %d_own : i32[8] @cpu",
        "%e = allocate : f64[8] @cpu",
        "free %d",
    ]


def test_a_buffer_that_may_have_gaps_is_copied() -> None:
    made = parsed(
        "input %x : f32[2, 2]{4, 1} @cpu", [ADD], "  aten::add_.Scalar(inout %x, 1)", "%x"
    )
    done = obeying([Legalise(written_gaps=False)], made)
    assert body(done) == [
        "%x_copy = allocate : f32[6] @cpu",
        "%x_written = reinterpret %x_copy : f32[2, 2]{4, 1} @cpu",
        "aten::copy_(inout %x_written, %x)",
        "aten::add_.Scalar(inout %x_written, 1)",
        "aten::copy_(inout %x, %x_written)",
        "free %x_copy",
    ]
    same(done, made, torch.randn(2, 4)[:, :2])


def test_a_view_of_another_type_is_copied_in_whole_elements() -> None:
    """It begins and ends within elements of its memory, whose other bytes stay as they are."""
    made = parsed(
        "input %x : f32[4] @cpu",
        [ADD],
        "  %v = reinterpret %x : i8[3]{2}+3 @cpu\n  aten::add_.Scalar(inout %v, 1)",
        "%x",
    )
    done = obeying([Legalise(retyped_writes="kernels")], made)
    assert body(done)[1:] == [
        "%v_copy = allocate : i8[8] @cpu",
        "%v_given = reinterpret %x : i8[8] @cpu",
        "aten::copy_(inout %v_copy, %v_given)",
        "%v_written = reinterpret %v_copy : i8[3]{2}+3 @cpu",
        "aten::add_.Scalar(inout %v_written, 1)",
        "%v_row = reinterpret %x : f32[2] @cpu",
        "%v_back = reinterpret %v_copy : f32[2] @cpu",
        "aten::copy_(inout %v_row, %v_back)",
        "free %v_copy",
    ]
    same(done, made, torch.randn(4))


def test_what_is_overwritten_is_not_copied_in() -> None:
    lines = "  %v = reinterpret %x : i32[4] @cpu\n  aten::copy_(inout %v, %n)"
    made = parsed("input %x : f32[4] @cpu\ninput %n : i32[4] @cpu", [COPY], lines, "%x")
    done = obeying([FULL], made)
    assert [row for row in body(done) if "copy_(" in row] == [
        "aten::copy_(inout %v_copy, %n)",
        "aten::copy_(inout %v_row, %v_back)",
    ]
    same(done, made, torch.randn(4), torch.arange(4, dtype=torch.int32))


def test_a_result_that_is_what_was_written_is_a_view_of_the_buffer() -> None:
    lines = (
        "  %v = reinterpret %x : i32[4] @cpu\n"
        "  %r = aten::add_.Scalar(inout %v, 3) : i32[4] @cpu alias(%v)\n"
        "  aten::add_.Scalar(inout %r, 4)"
    )
    made = parsed("input %x : f32[4] @cpu", [ADD], lines, "%x, %r")
    done = obeying([FULL], made)
    assert "%r = reinterpret %v : i32[4] @cpu" in body(done)
    verify(done)
    same(done, made, torch.randn(4))


def test_a_result_that_may_be_the_copy_keeps_it() -> None:
    clip = "extern aten::resolve_neg(Tensor(a) self) -> Tensor(a)"
    op = "extern own::touch(Tensor(a!) x) -> Tensor(a)"
    lines = (
        "  %v = reinterpret %x : i32[4] @cpu\n"
        "  %r = own::touch(inout %v) : i32[4] @cpu may_alias(%v)\n"
        "  %s = aten::resolve_neg(%r) : i32[4] @cpu may_alias(%r)\n"
    )
    made = parsed("input %x : f32[4] @cpu", [clip, op], lines, "none")
    done = obeying([FULL], made)
    verify(done)
    assert body(done)[-1] == "free %v_copy"


def test_names_that_are_taken_are_not_given_again() -> None:
    made = parsed(
        "input %x : f32[2, 2]{4, 1} @cpu\ninput %x_copy : f32[2, 2]{4, 1} @cpu",
        [ADD],
        "  aten::add_.Scalar(inout %x, 1)\n  aten::add_.Scalar(inout %x_copy, 1)",
        "%x, %x_copy",
    )
    done = obeying([FULL], made)
    verify(done)
    assert "%x_copy_1 = allocate : f32[6] @cpu" in body(done)
    same(done, made, *torch.randn(2, 2, 4)[:, :, :2])


def test_a_loop_shares_no_memory() -> None:
    """What it carries is captured, too, and its body hands one thing on and swaps two."""
    lines = """\
  (%a, %b) = while (%x, %y) with (%x) : (f32[4] @cpu alias(%x, %y), f32[4] @cpu alias(%x, %y))
    condition (%a0 : f32[4] @cpu, %b0 : f32[4] @cpu, %c0 : f32[4] @cpu) {
      %p0 = aten::any(%c0) : bool[] @cpu
      yield %p0
    }
    body (%a1 : f32[4] @cpu, %b1 : f32[4] @cpu, %c1 : f32[4] @cpu) {
      yield %b1, %a1
    }"""
    externs = ["extern aten::any(Tensor self) -> Tensor"]
    made = parsed("input %x : f32[4] @cpu\ninput %y : f32[4] @cpu", externs, lines, "%a, %b")
    done = obeying([FULL], made)
    verify(done)
    assert body(done) == [
        "%x_copy = allocate : f32[4] @cpu",
        "aten::copy_(inout %x_copy, %x)",
        "%p0 = aten::any(%c0) : bool[] @cpu",
        "%b1_copy = allocate : f32[4] @cpu",
        "aten::copy_(inout %b1_copy, %b1)",
        "%a1_copy = allocate : f32[4] @cpu",
        "aten::copy_(inout %a1_copy, %a1)",
    ]
    same(done, made, torch.zeros(4), torch.ones(4))


# What emitters declare.


@dataclass(frozen=True)
class Plain(PythonEmitter):
    """Python that writes memory as its own type only."""

    name: ClassVar[str] = "plain"
    legal: ClassVar[Legal] = Legal(retyped_writes="none", mixed_pools=False)


@pytest.fixture
def plain() -> Iterator[str]:
    wir.register_emitter("plain", Plain)
    yield "plain"
    unregister_emitter("plain")


def test_an_emitter_of_a_package_declares_what_is_legal(plain: str) -> None:
    assert "legalise{mixed_pools=false,retyped_writes=none}" in Plain().legalisation()
    made = support.program("written_views")
    source = wir.emit(made, plain).source
    assert "bits_copy" in source
    given = support.inputs("written_views")
    theirs = support.expected("written_views", given)
    assert (
        support.differences(support.run(wir.compile(made, plain), given, made.data), theirs) == []
    )


def test_what_is_illegal_is_rejected_by_name() -> None:
    made = support.program("mixed_pool")
    with pytest.raises(EmitError, match="'a' has another type than its pool 'pool'") as caught:
        FxEmitter().emit(made)
    assert "wir.prepare(program, 'fx')" in str(caught.value)
    FxEmitter().emit(wir.prepare(made, "fx"))
    for name, reason in (
        ("reused_dtypes", "'a' is reused as another type than its memory's"),
        ("written_views", "it writes 'all' as another type than its memory's"),
        ("written_layouts", "it writes 'g' as a whole, which is not provably without gaps"),
    ):
        with pytest.raises(EmitError) as caught:
            FxEmitter().emit(support.program(name))
        assert reason in str(caught.value)


# Work that goes on after its line.

REDUCE = (
    "extern _c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, Any group_name)"
    " -> Tensor(a!)"
)
WAIT = "extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor"


def in_flight(lines: str) -> Program:
    return parsed("input %x : f32[8] @cpu", [COPY, REDUCE, WAIT], lines, "%x")


def test_a_copy_out_before_the_wait_is_rejected() -> None:
    """As lines, what an emitter once made up round a collective breaks a rule."""
    lines = (
        "  %v = reinterpret %x : i32[8] @cpu\n"
        "  %copy = allocate : i32[8] @cpu\n"
        "  aten::copy_(inout %copy, %v)\n"
        '  _c10d_functional::all_reduce_(inout %copy, "sum", "0")\n'
        "  %back = reinterpret %copy : f32[8] @cpu\n"
        "  aten::copy_(inout %x, %back){}\n"
        "  _c10d_functional::wait_tensor(%copy){}\n"
        "  free %copy\n"
    )
    with pytest.raises(wir.VerificationError, match="WIR1090"):
        verify(in_flight(lines.format("", "")))
    first, last = lines.split("  aten::copy_(inout %x, %back){}\n")
    verify(
        in_flight(
            first + last.format("").replace("  free", "  aten::copy_(inout %x, %back)\n  free")
        )
    )


def test_the_verifier_sees_what_is_put_round_a_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "  %v = reinterpret %x : i32[8] @cpu\n"
        '  _c10d_functional::all_reduce_(inout %v, "sum", "0")\n'
        "  _c10d_functional::wait_tensor(%v)\n"
    )
    made = in_flight(lines)
    assert FULL(made) is made
    monkeypatch.setattr(legality, "begins_work", lambda _: False)
    with pytest.raises(PassOutputError, match=r"(?s)'legalise' returned an invalid.*WIR1090"):
        run_passes(made, [FULL], verify_each=True)
