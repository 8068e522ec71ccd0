"""Putting probes into programs: nothing else changes, and every call is met."""

from __future__ import annotations

import dataclasses

import pytest

import wrapper_ir as wir
from tests.emitters.corpus import FILES
from wrapper_ir.analysis.collectives import begins_work, waits_for_work, worked_on
from wrapper_ir.debug_printer import (
    DebugPrinter,
    NoCallMatchesWarning,
    calls_of,
    insert_probes,
    remove_probes,
)
from wrapper_ir.lines import Frame, Origin, Probe, ProbeLevel, Program, Stage, effects, walk

LEVELS = [level.value for level in ProbeLevel]
TORCH = Frame("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 134)
ORIGIN = Origin(ops=("aten.relu",), frames=(Frame("/home/me/model.py", 12), TORCH))


def program(name: str) -> Program:
    found = remove_probes(wir.parse(FILES[name].read_text()))
    return wir.plan_memory(found) if found.stage is Stage.LOGICAL else found


def probes(program: Program) -> list[Probe]:
    return [line for _, line in walk(program) if isinstance(line, Probe)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FILES)
def test_only_probes_are_added(name: str, level: str) -> None:
    plain = program(name)
    probed = insert_probes(plain, DebugPrinter(level, when="both"))
    wir.verify(probed)
    assert remove_probes(probed) == plain
    assert len(probes(probed)) == 2 * len(list(calls_of(plain)))
    assert wir.parse(str(probed)) == probed


@pytest.mark.parametrize("name", FILES)
def test_before_is_what_is_read_and_after_is_what_is_written(name: str) -> None:
    plain = program(name)
    found = probes(insert_probes(plain, DebugPrinter("print")))
    for call, before, after in zip(calls_of(plain), found[::2], found[1::2], strict=True):
        does = effects(call.line, plain)
        assert before.label == after.label == call.label
        # These change their first argument without looking at it, and it may be new memory.
        unseen = set(does.writes) if call.name in ("aten::zero_", "aten::copy_") else set()
        waited = set(does.reads) if waits_for_work(call.line) else set()  # what is shown afterwards
        assert set(before.buffers) == set(does.reads) - unseen - waited
        unfinished = worked_on(call.line, does) if begins_work(call.line) else ()
        assert set(after.buffers) == {*does.writes, *does.defines, *waited} - {*unfinished}


@pytest.mark.parametrize("name", ["relu_twice", "cond_nested"])
def test_off_is_the_program_itself(name: str) -> None:
    plain = program(name)
    assert insert_probes(plain, DebugPrinter("off")) is plain
    assert remove_probes(plain) is plain


TWO_CALLS = """
wir 2
program @two inference planned

input %x : f32[4] @cpu
constant %w : f32[4] @cpu = parameter "layer.weight"

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[4] @cpu
  aten::relu.out(%w, out=out %a)
  %b = allocate : f32[4] @cpu
  aten::neg.out(%x, out=out %b)
return %a, %b
"""


def two_calls() -> Program:
    """Two ops; the first comes from a known line of a model."""
    found = wir.parse(TWO_CALLS)
    body = [
        dataclasses.replace(line, origin=0) if getattr(line, "op", "") == "aten::relu.out" else line
        for line in found.body
    ]
    return found.replace(body=tuple(body), origins=(ORIGIN,))


RELU, NEG = "0000 aten::relu.out", "0001 aten::neg.out"


@pytest.mark.parametrize(
    ("printer", "expected"),
    [
        (DebugPrinter(), [RELU, RELU, NEG, NEG]),
        (DebugPrinter("names"), [RELU, NEG]),
        (DebugPrinter("compare"), [RELU, NEG]),
        (DebugPrinter(when="after"), [RELU, NEG]),
        (DebugPrinter(kernels="*relu*"), [RELU, RELU]),
        (DebugPrinter(kernels="re:neg|mul"), [NEG, NEG]),
        (DebugPrinter(kernels="neg"), [NEG, NEG]),
        (DebugPrinter(kernels="aten.neg"), [NEG, NEG]),
        (DebugPrinter(kernels="aten::neg"), [NEG, NEG]),
        (DebugPrinter(kernels="aten.neg.out, re*.out"), [RELU, RELU, NEG, NEG]),
        (DebugPrinter(ops="aten.relu"), [RELU, RELU]),
        (DebugPrinter(source="model.py:12"), [RELU, RELU]),
        (DebugPrinter(source="/home/*"), [RELU, RELU]),
        (DebugPrinter(calls="1"), [NEG, NEG]),
        (DebugPrinter(calls="1", kernels="*neg*", when="before"), [NEG]),
    ],
)
def test_selection(printer: DebugPrinter, expected: list[str]) -> None:
    assert [probe.label for probe in probes(insert_probes(two_calls(), printer))] == expected


def test_operands_and_buffers() -> None:
    def shown(printer: DebugPrinter) -> list[tuple[str, ...]]:
        return [probe.buffers for probe in probes(insert_probes(two_calls(), printer))]

    assert shown(DebugPrinter()) == [("w",), ("a",), ("x",), ("b",)]
    assert shown(DebugPrinter(operands=("outputs",))) == [(), ("a",), (), ("b",)]
    assert shown(DebugPrinter(buffers="layer.*")) == [("w",), (), (), ()]
    assert shown(DebugPrinter("names")) == [(), ()]


@pytest.mark.parametrize(
    ("printer", "words"),
    [
        (DebugPrinter(kernels="aten::reul.out"), "close matches: 'aten::relu.out'"),
        (DebugPrinter(ops="aten.relux"), "ops='aten.relux'; close matches: 'aten.relu'"),
        (DebugPrinter(source="modle.py"), "close matches: 'model.py"),
        (DebugPrinter(calls="7"), "none of the program's 2 calls"),
    ],
)
def test_a_filter_without_a_match_warns(printer: DebugPrinter, words: str) -> None:
    plain = two_calls()
    with pytest.warns(NoCallMatchesWarning, match=words):
        assert insert_probes(plain, printer) is plain


def test_a_pattern_for_buffers_without_a_match_warns() -> None:
    with pytest.warns(NoCallMatchesWarning, match="'layr.weight'; close matches: 'layer.weight'"):
        insert_probes(two_calls(), DebugPrinter(buffers="layr.weight"))


def test_the_place_shown_is_the_users_own() -> None:
    assert ORIGIN.place == "/home/me/model.py:12"
    assert Origin(frames=(TORCH,)).place.endswith("linear.py:134")
    assert Origin().place == ""


UNWRITTEN = """
wir 2
program @unwritten inference planned

input %x : f32[4] @cpu

extern aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)

  %a = allocate : f32[4] @cpu
  %half = reinterpret %a : f32[2] @cpu
  aten::add_.Tensor(inout %half, %x)
  aten::add_.Tensor(inout %half, %x)
  %b = allocate zeroed : f32[4] @cpu
  aten::add_.Tensor(inout %b, %x)
return %a, %b
"""


def test_memory_that_nothing_has_written_is_not_shown() -> None:
    found = probes(insert_probes(wir.parse(UNWRITTEN), DebugPrinter("print", when="before")))
    assert [probe.buffers for probe in found] == [("x",), ("half", "x"), ("b", "x")]


IN_FLIGHT = """
wir 2
program @in_flight inference planned

input %x : f32[4] @cpu

extern _c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)
extern _c10d_functional::irecv(Tensor(a) tensor, int src, int tag, Any group_name) -> Tensor(a)
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor

  %y = allocate : f32[4] @cpu
  _c10d_functional::irecv(%y, 1, 0, "0")
  _c10d_functional::all_reduce_(inout %x, "sum", "0")
  _c10d_functional::wait_tensor(%y)
  _c10d_functional::wait_tensor(%x)
return %y
"""


def test_what_collectives_write_is_shown_after_the_wait_for_it() -> None:
    found = probes(insert_probes(wir.parse(IN_FLIGHT), DebugPrinter("save", when="both")))
    shown = [(probe.label[:4], probe.when.value, *probe.buffers) for probe in found]
    assert shown == [
        ("0000", "before"),
        ("0000", "after"),
        ("0001", "before", "x"),
        ("0001", "after"),
        ("0002", "before"),
        ("0002", "after", "y"),
        ("0003", "before"),
        ("0003", "after", "x"),
    ]


def test_views_of_constants_go_by_the_names_of_the_model() -> None:
    viewed = TWO_CALLS.replace("  %a = all", "  %v = reinterpret %w : f32[2, 2] @cpu\n  %a = all")
    viewed = viewed.replace("%w, out=out %a", "%v, out=out %a")
    made = wir.parse(viewed)
    assert made.qualified_names == {"w": "layer.weight", "v": "layer.weight"}
    printer = DebugPrinter("print", buffers="layer.weight", when="before")
    assert [probe.buffers for probe in probes(insert_probes(made, printer))] == [("v",), ()]
    source = wir.emit(insert_probes(made, printer)).source
    assert '"before", "print", ("layer.weight",)' in " ".join(source.split())


WRITTEN = """\
wir 2
program @p inference logical

constant %w : f32[4] @cpu = parameter "layer.weight" mutable

extern aten::neg_(Tensor(a!) self) -> Tensor(a!)
extern aten::abs(Tensor self) -> Tensor

  %v = reinterpret %w : i32[4] @cpu
  %n = aten::neg_(inout %v) : i32[4] @cpu alias(%v)
  %a = aten::abs(%n) : i32[4] @cpu
return %a
"""


def test_emitters_show_one_name_for_memory_of_a_constant_that_an_op_wrote() -> None:
    """The FX emitter makes a view of what the op returns."""
    made = insert_probes(wir.parse(WRITTEN), DebugPrinter("print", when="before"))
    shown = []
    for target in ("python", "cpp", "fx"):
        lowered = wir.prepare(made, target)
        found = [probe for probe in probes(lowered) if "abs" in probe.label]
        shown.append([lowered.shown_names(probe) for probe in found])
    assert shown == [[["layer.weight"]]] * 3


def test_a_hook_has_probes_of_its_own() -> None:
    both = probes(insert_probes(two_calls(), DebugPrinter("names", calls="0", hook=print)))
    assert [(probe.level.value, probe.when.value, probe.buffers) for probe in both] == [
        ("names", "before", ()),
        ("hook", "before", ("w",)),
        ("hook", "after", ("a",)),
    ]
    assert remove_probes(insert_probes(two_calls(), DebugPrinter(hook=print))) == two_calls()
    assert not probes(insert_probes(two_calls(), DebugPrinter("off", hook=print)))
