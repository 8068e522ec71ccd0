"""Programs with streams in random legal orders: races are found, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.pages import ROOT
from wrapper_ir.errors import OptionValueError
from wrapper_ir.interpreter import InterleavingError, RaceError, run_interleaved
from wrapper_ir.lines import BufferInput, RecordEvent, Synchronize, WaitEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir import Layout, Program

FOLDER = ROOT / "tests" / "programs" / "not_cpu"
NAMES = ("streams", "devices_and_streams", "branches")


def drawn(layout: Layout, generator: torch.Generator) -> Tensor:
    dtype = getattr(torch, layout.dtype.torch_name)
    size = [int(n) for n in layout.size]
    return torch.randint(0, 3, size, generator=generator).to(dtype)


def read(name: str) -> tuple[Program, list[Any]]:
    """A program of the corpus, with values, and inputs for it. Matrices are small."""
    text = (FOLDER / f"{name}.wir").read_text(encoding="utf-8")
    text = text.replace("8192", "64").replace("2048", "128").replace("512", "64")
    program = wir.parse(text)
    generator = torch.Generator().manual_seed(0)
    data = {name: drawn(program.layout(name), generator) for name in program.constants}
    inputs = [
        drawn(program.layout(item.name), generator)
        for item in program.inputs
        if isinstance(item, BufferInput)
    ]
    return program.replace(data=data), inputs


def forms(program: Program) -> Iterator[Program]:
    """A program as it is and planned."""
    yield program
    if program.stage is wir.Stage.LOGICAL:
        yield wir.plan_memory(program)
        yield wir.plan_memory(program, "pool")


def with_less_order(program: Program) -> Iterator[Program]:
    """Programs in which one line is left out that puts streams in order."""
    for index, line in enumerate(program.body):
        if isinstance(line, RecordEvent | WaitEvent | Synchronize):
            yield program.replace(body=program.body[:index] + program.body[index + 1 :])


@pytest.mark.parametrize("name", NAMES)
def test_good_programs_have_no_races(name: str) -> None:
    program, inputs = read(name)
    for form in forms(program):
        run_interleaved(form, *inputs, interleavings=10)


@pytest.mark.parametrize("name", NAMES)
def test_where_a_wait_is_missing_both_lines_are_named(name: str) -> None:
    program, inputs = read(name)
    found = harmless = 0
    for form in forms(program):
        for changed in with_less_order(form):
            if not wir.diagnose(changed):
                run_interleaved(changed, *inputs, interleavings=10)
                harmless += 1
                continue
            with pytest.raises(RaceError) as raised:
                run_interleaved(changed, *inputs, interleavings=60, verify=False)
            text = str(raised.value)
            assert text.count(" body[") + text.count("the caller") >= 2, text
            found += 1
    assert found >= 6
    assert harmless or name == "branches"


HEAD = """\
wir 2
program @p inference {stage}

input %x : f32[8] @cuda:0
stream 1 @cuda:0
event 1
event 2

extern aten::relu(Tensor self) -> Tensor
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)

  record_event 1 @cuda:0
  wait_event 1 @cuda:0 stream 1
"""
JOIN = "  record_event 2 @cuda:0 stream 1\n  wait_event 2 @cuda:0\n"
INPUT = torch.arange(-4.0, 4.0)


def run(*lines: str, end: str, stage: str = "logical", **options: Any) -> tuple[Any, ...]:
    text = HEAD.format(stage=stage) + "".join(f"{line}\n" for line in lines) + f"return {end}\n"
    options = {"interleavings": 30, "verify": False, **options}
    return run_interleaved(wir.parse(text), INPUT.clone(), **options)


SIDE = "  %a = aten::relu(%x) @cuda:0 stream 1 : f32[8] @cuda:0"
MORE = "  %b = aten::relu(%a) @cuda:0 : f32[8] @cuda:0"


def test_results_are_those_of_the_program() -> None:
    (found,) = run(SIDE, JOIN, MORE, end="%b", verify=True)
    assert torch.equal(found, INPUT.relu())


def test_a_result_is_read_too_early() -> None:
    said = r"%a: the read at body\[7\] on stream 0 may come before the write at body\[6\] on"
    with pytest.raises(RaceError, match=said) as raised:
        run(SIDE, MORE, JOIN, end="%b")
    assert str(raised.value.path) == "body[7]"
    texts = []
    for _ in range(2):
        with pytest.raises(RaceError) as raised:
            run(SIDE, MORE, JOIN, end="%b", seed=3)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_views_that_share_no_byte_do_not_race() -> None:
    views = "  %left = reinterpret %y : f32[4] @cuda:0\n"
    views += "  %right = reinterpret %y : f32[4]+4 @cuda:0"
    odd = views.replace("f32[4]+4", "f32[4]{2}+1").replace("f32[4] ", "f32[4]{2} ")
    meeting = views.replace("f32[4]+4", "f32[4]+3")
    alone = "  %y = allocate zeroed : f32[8] @cuda:0\n  record_event 1 @cuda:0\n"
    alone += "  wait_event 1 @cuda:0 stream 1"
    both = (
        "  aten::add_.Scalar(inout %left, 1) @cuda:0 stream 1",
        "  aten::add_.Scalar(inout %right, 2) @cuda:0",
    )
    for each in (views, odd):
        (found,) = run(alone, each, *both, JOIN, end="%y")
        assert sorted(found.tolist()) == [1.0] * 4 + [2.0] * 4
    with pytest.raises(RaceError, match=r"%(right|left): the write"):
        run(alone, meeting, *both, JOIN, end="%y")


def test_memory_that_ends_while_another_stream_uses_it() -> None:
    lines = (
        "  %y = allocate zeroed : f32[8] @cuda:0",
        "  record_event 1 @cuda:0",
        "  wait_event 1 @cuda:0 stream 1",
        "  %z = allocate : f32[8] @cuda:0",
        "  record_event 1 @cuda:0",
        "  wait_event 1 @cuda:0 stream 1",
        "  aten::relu.out(%y, out=out %z) @cuda:0 stream 1",
    )
    run(*lines, "  free %y after [1]", JOIN, end="%z", stage="planned", verify=True)
    with pytest.raises(RaceError, match=r"%y: the end at body\[13\]"):
        run(*lines, "  free %y", JOIN, end="%z", stage="planned")


def test_what_the_caller_does_after_the_program_comes_too_early() -> None:
    with pytest.raises(RaceError, match="%x: what the caller does next may come before the write"):
        run("  aten::add_.Scalar(inout %x, 1) @cuda:0 stream 1", end="")


def test_the_host_reads_what_has_been_copied_to_it() -> None:
    copied = (
        "  %host = allocate : f32[8] @cpu",
        "  aten::copy_(inout %host, %x{flag}) @cuda:0",
        "  %y = aten::relu(%host) : f32[8] @cpu",
    )
    (found,) = run(*(line.replace("{flag}", "") for line in copied), end="%y")
    assert torch.equal(found, INPUT.relu())
    with pytest.raises(RaceError, match="%host: the read at"):
        run(*(line.replace("{flag}", ", true") for line in copied), end="%y")


DRAWN = """
wir 2
program @drawn inference logical
input %x : f32[64] @cuda:0
extern aten::bernoulli.p(Tensor self, float p) -> Tensor
extern aten::div.Tensor(Tensor self, Tensor other) -> Tensor
extern aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  %b = aten::bernoulli.p(%x, {p}) @cuda:0 : f32[64] @cuda:0
  %z = aten::sub.Tensor(%x, %x) @cuda:0 : f32[64] @cuda:0
  %y = aten::div.Tensor(%z, %b) @cuda:0 : f32[64] @cuda:0
return %y
"""


def test_results_that_depend_on_the_order_are_told_to_the_bit() -> None:
    """Zero by zero is NaN, zero by one is none: where which is drawn, orders differ."""
    program, x = wir.parse(DRAWN.replace("{p}", "0.5")), torch.ones(64)
    with pytest.raises(InterleavingError, match="result 0 is another one in order 1"):
        run_interleaved(program, x)
    (always,) = run_interleaved(wir.parse(DRAWN.replace("{p}", "0.0")), x)
    assert always.isnan().all()


def test_at_least_one_order_is_run() -> None:
    program = wir.parse(DRAWN.replace("{p}", "0.0"))
    with pytest.raises(OptionValueError, match="interleavings"):
        run_interleaved(program, torch.ones(64), interleavings=0)
