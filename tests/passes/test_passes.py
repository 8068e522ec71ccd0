"""Passes by object, by name and as text."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import wrapper_ir as wir
from wrapper_ir.debug_printer import DebugPrinter
from wrapper_ir.emitters import make_emitter
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.lines import (
    AssertLayout,
    Comment,
    Cond,
    Device,
    Program,
    Region,
    ScalarArg,
    Stage,
    Stream,
    effects,
)
from wrapper_ir.passes import (
    PASSES,
    InsertFrees,
    InsertProbes,
    KeepStorage,
    Pass,
    PassOutputError,
    PassSpellingError,
    PlanMemory,
    StripComments,
    parse_pass,
    parse_pipeline,
    pipeline_for,
    run_passes,
)
from wrapper_ir.verify import VerificationError

TEXT = """\
wir 2
program @p inference logical

input %x : f32[8] @cpu

extern test::fill(Tensor(a!) self) -> ()

  // the first
  %a = allocate : f32[8] @cpu
  test::fill(out %a)
  // the second
  %b = allocate : f32[8] @cpu
  test::fill(out %b)
return
"""


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_a_frozen_value_with_a_name(name: str) -> None:
    one = PASSES[name]()
    assert isinstance(one, Pass)
    assert one.name == name
    assert one == parse_pass(name) == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(PASSES[name]())
    assert dataclasses.fields(one) is not None
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        one.name = "other"


@pytest.mark.parametrize("name", [name for name in PASSES if name != InsertProbes.name])
def test_a_second_run_changes_nothing(name: str) -> None:
    once = run_passes(wir.parse(TEXT), [name])
    assert run_passes(once, [name]) == once


def test_passes_run_in_order_and_leave_their_input_alone() -> None:
    source = wir.parse(TEXT)
    kept = str(source)
    result = run_passes(source, [StripComments(), "plan-memory"], verify_each=True)
    assert str(source) == kept
    assert result.stage is Stage.PLANNED
    assert not any(isinstance(line, Comment) for line in result.body)
    assert run_passes(source, []) is source


def test_comments_go_in_regions_too_and_nothing_else_does() -> None:
    inner = Region((), (Comment("inner"),), ())
    program = Program(body=(Comment("outer"), Cond((), ScalarArg(True), (), inner, inner)))
    empty = Region((), (), ())
    assert StripComments()(program).body == (Cond((), ScalarArg(True), (), empty, empty),)
    assert StripComments()(StripComments()(program)) == StripComments()(program)
    clean = Program()
    assert StripComments()(clean) is clean


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", ()),
        ("plan-memory", (PlanMemory(),)),
        ("plan-memory{strategy=none}", (PlanMemory("none"),)),
        ("insert-frees{free_inputs=true}", (InsertFrees(free_inputs=True),)),
        (
            " strip-comments , insert-frees{ free_inputs = false } ,plan-memory{} ",
            (StripComments(), InsertFrees(free_inputs=False), PlanMemory()),
        ),
    ],
)
def test_passes_as_text(text: str, passes: tuple[Pass, ...]) -> None:
    assert parse_pipeline(text) == passes


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("plan-memori", OptionError, "plan-memory"),
        ("plan-memory{strateg=none}", OptionError, "strategy"),
        ("plan-memory{strategy}", PassSpellingError, "plan-memory"),
        ("plan-memory{strategy=none", PassSpellingError, "is not a pass"),
        ("plan memory", PassSpellingError, "is not a pass"),
        ("insert-frees{free_inputs=maybe}", OptionValueError, "true or false"),
        ("plan-memory{arena=keep}", OptionValueError, "one of 'call', 'kept'"),
        ("branch{limit=9}", OptionValueError, "cannot be 9"),
        ("insert-probes{level=loud}", OptionValueError, "'loud'"),
        ("insert-probes{kernel=mm}", OptionError, "'kernels'"),
    ],
)
def test_what_does_not_spell_a_pass_is_refused(
    text: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        parse_pipeline(text)
    assert words in str(caught.value)


class Broken:
    name = "broken"

    def __call__(self, program: Program) -> Program:
        return program.replace(body=program.body[1:-1] * 2)


def test_each_pass_is_verified_when_asked() -> None:
    source = wir.parse(TEXT)
    run_passes(source, [Broken()])
    with pytest.raises(PassOutputError, match="the pass 'broken' returned an invalid program") as e:
        run_passes(source, [Broken()], verify_each=True)
    assert isinstance(e.value.__cause__, VerificationError)
    with pytest.raises(VerificationError):
        run_passes(Broken()(source), [], verify_each=True)


def test_probes_are_put_in_by_a_pass() -> None:
    words = "plan-memory,insert-probes{level=check,kernels=*fill*,poison=true}"
    probed = run_passes(wir.parse(TEXT), parse_pipeline(words), verify_each=True)
    printer = DebugPrinter("check", kernels="*fill*", poison=True)
    assert probed == run_passes(wir.parse(TEXT), [PlanMemory(), InsertProbes(printer)])
    assert str(probed).count("probe ") == 4
    assert "fill_" in str(probed)


def test_the_pipeline_follows_what_the_emitter_says() -> None:
    def names(*options: Any, **more: Any) -> list[str]:
        emitter = make_emitter("python", dict(*options))
        return [one.name for one in pipeline_for(wir.parse(TEXT), emitter, **more)]

    assert names() == ["check-results", "plan-memory", "keep-storage"]
    captured = ["check-results", "prepare-capture", "plan-memory", "keep-storage"]
    assert names({"cuda_graph": True}) == captured
    # Probes are seen in calls that are not captured.
    printer = DebugPrinter("print")
    shown = names({"cuda_graph": True}, printer=printer)
    assert shown == ["check-results", "plan-memory", "insert-probes", "keep-storage"]
    kept = make_emitter("cpp", {"arena": "kept"})
    _, plan, keep = pipeline_for(wir.parse(TEXT), kept, strategy="pool")
    assert plan == PlanMemory("pool", "kept")
    assert keep == KeepStorage(1 << 20, 1 << 20, "kept")


SCRATCH = """\
wir 2
program @p ROLE logical

constant %w : f32[4, 4] @DEVICE = parameter "w"
input %x : f32[4, 4] @DEVICE

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[4, 4] @DEVICE
  aten::mm.out(%x, %w, out=out %a) @DEVICE
  %b = allocate : f32[4, 4] @DEVICE
  aten::mm.out(%a, %w, out=out %b) @DEVICE
return %b
"""


def scratch(device: str = "cpu", role: str = "inference") -> Program:
    return wir.parse(SCRATCH.replace("DEVICE", device).replace("ROLE", role))


@pytest.mark.parametrize(
    ("target", "device", "options", "is_kept"),
    [
        ("python", "cpu", {}, True),
        ("python", "cpu", {"scratch_bytes": 0}, False),
        ("python", "cpu", {"scratch_bytes": 63}, False),
        ("python", "cpu", {"checks": "first_call"}, False),  # an op might resize it for good
        ("python", "cuda:0", {}, False),  # left to torch's allocator
        ("cpp", "cpu", {}, True),
        ("cpp", "cpu", {"scratch_bytes": 0}, False),
        ("cpp", "cuda:0", {}, True),
        ("cpp", "cuda:0", {"scratch_bytes": 16}, True),  # four times as many on a GPU
        ("cpp", "cuda:0", {"scratch_bytes": 15}, False),
        ("fx", "cpu", {}, False),
    ],
)
def test_what_is_kept_stands_in_the_program_that_an_emitter_is_given(
    target: str, device: str, options: dict[str, object], is_kept: bool
) -> None:
    prepared = wir.prepare(scratch(device), target, **options)
    assert ("%a = allocate kept" in str(prepared)) == is_kept
    assert "%b = allocate kept" not in str(prepared)
    assert wir.prepare(prepared, target, **options) == prepared
    text = wir.emit(scratch(device), target, **options).source
    assert wir.emit(prepared, target, **options).source == text


def test_nothing_is_kept_in_training_nor_on_several_streams() -> None:
    assert " kept" not in str(wir.prepare(scratch(role="forward"), "cpp"))
    alone = wir.prepare(scratch("cuda:0"), "cpp")
    assert " kept" in str(alone)
    plain = wir.plan_memory(scratch("cuda:0"))
    several = plain.replace(streams=(Stream(Device("cuda", 0)),))
    assert " kept" not in str(wir.prepare(several, "cpp"))
    captured = plain.replace(streams=(Stream(Device("cuda", 0), captured=True),))
    assert " kept" in str(wir.prepare(captured, "cpp"))


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_emitters_only_render_what_is_marked(target: str) -> None:
    planned = wir.plan_memory(scratch())
    bare = make_emitter(target, {}).emit(planned).source
    kept = make_emitter(target, {}).emit(run_passes(planned, ["keep-storage{host=64}"])).source
    assert bare == wir.emit(planned, target, scratch_bytes=0).source
    assert kept == wir.emit(planned, target).source != bare


CALLS = """\
wir 2
program @p inference logical

symbol s0 : int [2, 512]
symbol u0 : int [0, 512] unbacked
input %x : f32[s0, 4] @cpu

extern aten::relu(Tensor self) -> Tensor
extern aten::t(Tensor(a) self) -> Tensor(a)
extern aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, \
ScalarType? dtype=None) -> Tensor
extern aten::nonzero(Tensor self) -> Tensor
extern unknown::relu(Tensor self) -> Tensor

  s0 = size %x, 0
  %a = aten::relu(%x) : f32[s0, 4] @cpu
  %b = aten::t(%a) : f32[4, s0]{1, 4} @cpu alias(%a)
  %c = aten::sum.dim_IntList(%b, [0]) : f32[s0] @cpu
  %wrong = aten::sum.dim_IntList(%b, [0]) : f32[2*s0] @cpu
  %at = aten::nonzero(%x) : i64[u0, 2]{1, u0} @cpu
  u0 = size %at, 0
  %custom = unknown::relu(%x) : f32[s0, 4] @cpu
  %seen = unknown::relu(%x) : f32[s0, 4] @cpu
  assert_layout %seen, "by hand"
  %unused = unknown::relu(%x) : f32[s0, 4] @cpu
return %a, %c, %wrong, %at, %custom, %seen
"""


def test_results_are_checked_unless_torchs_meta_functions_fix_them() -> None:
    source = wir.parse(CALLS)
    checked = run_passes(source, ["check-results"], verify_each=True)
    added = [line for line in checked.body if line not in source.body]
    assert added == [
        AssertLayout("wrong", "aten::sum.dim_IntList"),
        AssertLayout("at", "aten::nonzero"),
        AssertLayout("custom", "unknown::relu"),
    ]
    bound = next(n for n, line in enumerate(checked.body) if "u0" in effects(line).defines_symbols)
    assert checked.body[bound + 1] == added[1]


def test_programs_whose_results_are_fixed_or_checked_stay_as_they_are() -> None:
    checked = run_passes(wir.parse(CALLS), ["check-results"])
    assert run_passes(checked, ["check-results"]) is checked
    planned = run_passes(checked, ["plan-memory"])
    assert run_passes(planned, ["check-results"]) is planned
