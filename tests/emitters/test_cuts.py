"""Programs that are cut where something cannot be captured: the pieces, and how they fit."""

from __future__ import annotations

import random
import re
import threading
import time
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.runtime.test_graphs import Stand
from wrapper_ir.analysis.cuda_graphs import pieces, why_not_captured
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines import Program, Switch
from wrapper_ir.lines.walk import walk
from wrapper_ir.passes.cut import cut

if TYPE_CHECKING:
    from pathlib import Path

OPS = """
extern aten::mm(Tensor self, Tensor mat2) -> Tensor
extern aten::relu(Tensor self) -> Tensor
extern aten::t(Tensor(a) self) -> Tensor(a)
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
extern aten::relu_(Tensor(a!) self) -> Tensor(a!)
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
"""

TEXT = f"""
wir 2
program @p inference logical
input %x : f32[4, 4] @cuda:0
input %y : f32[4, 4] @cuda:0
constant %w : f32[4, 4] @cuda:0 = parameter "w"
{OPS}
  %a = aten::mm(%x, %w) @cuda:0 : f32[4, 4] @cuda:0
  %b = aten::relu(%a) @cuda:0 : f32[4, 4] @cuda:0
  %bt = reinterpret %b : f32[4, 4]{{1, 4}} @cuda:0
  %c = aten::mm(%bt, %a) @cuda:0 : f32[4, 4] @cuda:0
  aten::add.out(%y, %c, out=out %y) @cuda:0
  %h = allocate : f32[4, 4] @cpu
  aten::copy_(inout %h, %c) @cuda:0
  %hr = aten::relu(%h) : f32[4, 4] @cpu
  %d = allocate : f32[4, 4] @cuda:0
  aten::copy_(inout %d, %hr) @cuda:0
  %e = aten::mm(%d, %bt) @cuda:0 : f32[4, 4] @cuda:0
  %f = aten::mm(%e, %c) @cuda:0 : f32[4, 4] @cuda:0
  %ft = reinterpret %f : f32[16] @cuda:0
  %g = aten::add.Tensor(%f, %y) @cuda:0 : f32[4, 4] @cuda:0
return %g, %ft, %a
"""


def on_cpu(program: Program) -> Program:
    """The same program on the CPU, with constants."""
    moved = wir.parse(str(program).replace("@cuda:0", "@cpu"))
    data = {name: torch.randn(4, 4, generator=seeded()) / 2 for name in moved.constants}
    return moved.replace(data=data)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def inputs(program: Program, seed: int = 0) -> list[Tensor]:
    torch.manual_seed(seed)
    return [torch.randn(4, 4) / 2 for _ in program.inputs]


def test_what_goes_in_and_what_comes_out() -> None:
    program = wir.verify(cut(wir.parse(TEXT)))
    first, second = [line for line in program.body if isinstance(line, Switch)]
    assert [arg.buffer for arg in first.operands] == ["x", "y"]
    assert [arg.access.value for arg in first.operands] == ["read", "readwrite"]
    assert [result.out for result in first.results] == ["a", "b", "c"]
    assert [arg.buffer for arg in second.operands] == ["d", "bt", "c", "y"]
    assert [result.out for result in second.results] == ["f", "g"]
    text = str(program)
    assert text.index("switch 0") < text.index("\n  %bt = reinterpret %b") < text.index("%h =")
    assert len(pieces(wir.plan_memory(program))) == 2
    assert wir.parse(text) == program


def test_a_piece_that_reads_what_it_is_not_given_is_refused() -> None:
    text = str(cut(wir.parse(TEXT)))
    wrong = text.replace("aten::mm(%d_2, %bt_2)", "aten::mm(%d_2, %b)")
    assert wrong != text
    assert wir.diagnose(wir.parse(wrong))
    untold = text.replace("with (%x, inout %y)", "with (%x, %y)")
    assert [fault.code for fault in wir.diagnose(wir.parse(untold))] == ["WIR1098"] or wir.diagnose(
        wir.parse(untold)
    )


def test_programs_that_are_not_cut() -> None:
    few = re.sub(
        r"  %[cg] = .*\n|  aten::add.out.*\n|  %e = .*\n|  %bt = .*\n|  %ft = .*\n", "", TEXT
    )
    few = few.replace("inout %h, %c", "inout %h, %b").replace("mm(%e, %c)", "mm(%d, %b)")
    few = few.replace("return %g, %ft, %a", "return %f")
    program = wir.verify(wir.parse(few))
    assert cut(program) is program
    on_host = on_cpu(wir.parse(TEXT))
    assert cut(on_host) is on_host


def test_collectives_and_views_of_what_they_write_stay_outside() -> None:
    text = TEXT.replace(
        "extern aten::relu(",
        "extern _c10d_functional::all_reduce_(Tensor(a!) input, str op, Any group) -> Tensor(a!)\n"
        "extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor\n"
        "extern aten::relu(",
        1,
    )
    text = text.replace(
        "  %h = allocate",
        '  _c10d_functional::all_reduce_(inout %a, "sum", "0") @cuda:0\n'
        "  %av = reinterpret %a : f32[16] @cuda:0\n"
        "  %h = allocate",
    ).replace("return", "  _c10d_functional::wait_tensor(%av) @cuda:0\nreturn")
    program = wir.verify(cut(wir.parse(text)))
    kinds = [type(line).__name__ for line in program.body]
    assert kinds.count("Switch") == 2
    inside = [str(line) for path, line in walk(program) if len(path) > 1]
    assert not any("c10d" in line or "%av" in line for line in inside)


def test_views_that_only_an_op_can_make_stay_outside() -> None:
    text = TEXT.replace(
        "%bt = reinterpret %b : f32[4, 4]{1, 4} @cuda:0",
        "%bt = aten::t(%b) @cuda:0 : f32[4, 4]{1, 4} @cuda:0 alias(%b)",
    )
    program = wir.verify(cut(wir.parse(text)))
    assert "\n  %bt = aten::t(%b" in str(program)


def drawn(seed: int) -> Program:
    """Calls, views and writes at random, with copies to the host and back between."""
    draw = random.Random(seed)
    lines, names, count = [], ["x", "y"], 0
    for _ in range(24):
        count += 1
        new, a, b = f"t{count}", draw.choice(names[-6:]), draw.choice(names[-6:])
        kind = draw.choice(["mm", "mm", "add", "relu", "view", "write", "host", "out"])
        match kind:
            case "mm":
                lines.append(f"%{new} = aten::mm(%{a}, %{b}) @cuda:0 : f32[4, 4] @cuda:0")
            case "add":
                lines.append(f"%{new} = aten::add.Tensor(%{a}, %{b}) @cuda:0 : f32[4, 4] @cuda:0")
            case "relu":
                lines.append(f"%{new} = aten::relu(%{a}) @cuda:0 : f32[4, 4] @cuda:0")
            case "view":
                lines.append(f"%{new} = reinterpret %{a} : f32[4, 4] @cuda:0")
            case "write":
                lines.append(f"aten::relu_(inout %{a}) @cuda:0")
                continue
            case "out":
                lines.append(f"%{new} = allocate : f32[4, 4] @cuda:0")
                lines.append(f"aten::add.out(%{a}, %{b}, out=out %{new}) @cuda:0")
            case "host":
                lines.append(f"%{new}_h = allocate : f32[4, 4] @cpu")
                lines.append(f"aten::copy_(inout %{new}_h, %{a}) @cuda:0")
                lines.append(f"%{new}_r = aten::relu(%{new}_h) : f32[4, 4] @cpu")
                lines.append(f"%{new} = allocate : f32[4, 4] @cuda:0")
                lines.append(f"aten::copy_(inout %{new}, %{new}_r) @cuda:0")
        names.append(new)
    results = ", ".join(f"%{name}" for name in draw.sample(names[2:], 3))
    body = "".join(f"  {line}\n" for line in lines)
    head = TEXT.partition("  %a = ")[0]
    return wir.parse(f"{head}{body}return {results}\n")


@pytest.mark.parametrize("seed", range(30))
def test_pieces_do_what_the_whole_does(seed: int) -> None:
    program = drawn(seed)
    found = cut(program)
    if not why_not_captured(program):
        return
    plain, pieced = on_cpu(program), on_cpu(wir.verify(found))
    ours, theirs = inputs(program), inputs(program)
    expected = interpret(wir.plan_memory(plain), *theirs)
    for planned in (pieced, wir.verify(wir.plan_memory(pieced))):
        given = [each.clone() for each in ours]
        actual = interpret(planned, *given)
        for one, other in zip((*actual, *given), (*expected, *theirs), strict=True):
            assert torch.equal(one, other)


def test_most_of_these_programs_have_pieces() -> None:
    counts = [sum(isinstance(each, Switch) for _, each in walk(cut(drawn(n)))) for n in range(30)]
    assert sum(count > 0 for count in counts) > 20
    assert sum(count > 1 for count in counts) > 3


def loaded(program: Program, name: str) -> tuple[types.ModuleType, list[Stand]]:
    """The emitted file on the CPU, with recorders that stand in for a GPU."""
    source = wir.emit(program, cuda_graph=True, cuda_graph_cuts=True).source
    source = source.replace('torch.device("cuda:0")', 'torch.device("cpu")')
    source = source.replace("empty_strided_cuda", "empty_strided_cpu")
    source = source.replace("@on_device(cuda_0)\n", "").replace("    on_device,\n", "")
    source = source.replace('CutGraphs("p", cuda_0, ', 'CutGraphs("p", recorder=stand, ')
    stands: list[Stand] = []

    def stand() -> Stand:
        stands.append(Stand())
        return stands[-1]

    module: Any = types.ModuleType(name)
    module.stand = stand
    exec(compile(source, name, "exec"), module.__dict__)
    return module, stands


def rounds(call: Any, program: Program, stands: list[Stand] | None = None) -> list[list[Tensor]]:
    """Results and inputs of calls in a row, all kept until the last."""
    found = []
    for seed in range(5):
        given = inputs(program, seed)
        for stand in stands or ():
            stand.inputs = given
        with torch.no_grad():
            found.append([*call(list(given)), *given])
    return found


def test_pieces_are_captured_and_replayed() -> None:
    program = wir.parse(TEXT)
    module, stands = loaded(program, "whole")
    module.w = on_cpu(program).data["w"]  # type: ignore[attr-defined]
    plain = wir.emit(on_cpu(program)).load_boxed()
    for ours, theirs in zip(
        rounds(module.call, program, stands), rounds(plain, program), strict=True
    ):
        assert all(map(torch.equal, ours, theirs))
    status = module.cuda_graphs.status
    assert len(stands) == 2
    assert not status.reasons
    assert status.replays == 8
    assert {s.program for s in wir.cuda_graph_status()} >= {"p at body[7]", "p at body[16]"}
    assert module.release() >= 0
    assert module.cuda_graphs.status.graphs == 0


def test_what_callers_get_is_theirs() -> None:
    """Results of pieces that leave the call are copied; those that do not stay where they are."""
    source = wir.emit(wir.parse(TEXT), cuda_graph=True, cuda_graph_cuts=True).source
    assert '@cuda_graphs.piece("body[7]", writes=(1,), shared=(1, 2), ' in source
    assert '@cuda_graphs.piece("body[16]", settled=(1, 2))' in source


def test_cuts_are_made_unless_they_are_switched_off() -> None:
    assert "CutGraphs" in wir.emit(wir.parse(TEXT), cuda_graph=True).source
    source = wir.emit(wir.parse(TEXT), cuda_graph=True, cuda_graph_cuts=False).source
    assert "reasons=" in source
    assert "CutGraphs" not in source
    assert "switch" not in wir.emit(wir.parse(TEXT)).source


def test_a_piece_may_write_to_constants() -> None:
    """The statistics of a model, for one: they are there in every region, and change for good."""
    text = TEXT.replace("input %y : f32[4, 4] @cuda:0\n", "")
    text = text.replace("extern", 'constant %y : f32[4, 4] @cuda:0 = buffer "s" mutable\nextern', 1)
    program = wir.parse(text)
    module, stands = loaded(program, "counting")
    cpu = on_cpu(program)
    module.w, module.y = cpu.data["w"], cpu.data["y"].clone()  # type: ignore[attr-defined]
    other = on_cpu(program)
    plain = wir.emit(other).load_boxed()
    for seed in range(5):
        ours, theirs = inputs(program, seed), inputs(program, seed)
        for stand in stands:
            stand.inputs = [*ours, module.y]
        with torch.no_grad():
            assert all(map(torch.equal, module.call(ours), plain(theirs)))
        assert torch.equal(module.y, other.data["y"])
    assert module.cuda_graphs.status.replays == 8


def test_calls_take_turns() -> None:
    """A call that waits between its pieces is not overtaken: they share the graphs' memory."""
    program = wir.parse(TEXT)
    module, stands = loaded(program, "turns")
    module.w = on_cpu(program).data["w"]  # type: ignore[attr-defined]
    rounds(module.call, program, stands)
    expected = {
        seed: wir.emit(on_cpu(program)).load_boxed()(inputs(program, seed)) for seed in (7, 8)
    }
    copied, found = module.aten_copy_, {}

    def slow(*args: Tensor) -> None:
        copied(*args)
        time.sleep(0.1)

    module.aten_copy_ = slow  # type: ignore[attr-defined]

    def run(seed: int) -> None:
        with torch.no_grad():
            found[seed] = module.call(made[seed])

    made = {seed: inputs(program, seed) for seed in expected}
    threads = [threading.Thread(target=run, args=(seed,)) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, results in expected.items():
        assert all(map(torch.equal, found[seed], results))


def test_sizes_that_change() -> None:
    """A piece is told the sizes that it needs, and keeps a graph for each set of them."""
    text = TEXT.partition("input %x")[0] + "symbol s0 : int [1, 64]\n"
    text += "input %x : f32[s0, 4] @cuda:0\n" + "constant %w" + TEXT.partition("constant %w")[2]
    text = text.partition("  %a = ")[0]
    text += """
  s0 = size %x, 0
  %a = aten::mm(%x, %w) @cuda:0 : f32[s0, 4] @cuda:0
  %b = aten::relu(%a) @cuda:0 : f32[s0, 4] @cuda:0
  %c = aten::mm(%b, %w) @cuda:0 : f32[s0, 4] @cuda:0
  %h = allocate : f32[s0, 4] @cpu
  aten::copy_(inout %h, %c) @cuda:0
  %d = allocate : f32[s0, 4] @cuda:0
  aten::copy_(inout %d, %h) @cuda:0
  %e = allocate : f32[s0, 4] @cuda:0
  aten::add.out(%d, %b, out=out %e) @cuda:0
  %f = aten::relu(%e) @cuda:0 : f32[s0, 4] @cuda:0
  %g = aten::mm(%f, %w) @cuda:0 : f32[s0, 4] @cuda:0
return %g
"""
    program = wir.parse(text)
    assert len(pieces(wir.verify(cut(program)))) == 2
    module, _ = loaded(program, "sizes")
    module.w = on_cpu(program).data["w"]  # type: ignore[attr-defined]
    plain = wir.emit(on_cpu(program)).load_boxed()
    for rows in (3, 5, 3, 5, 3, 5, 5, 3):
        x = torch.randn(rows, 4)
        with torch.no_grad():
            assert torch.equal(module.call([x])[0], plain([x])[0])
    status = module.cuda_graphs.status
    assert status.graphs == 4
    assert not status.reasons


@pytest.mark.parametrize("longest", [400, 6])
def test_the_pieces_of_a_library(
    longest: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a GPU is needed for is in tests/gpu; the rest is that all files are compiled."""
    monkeypatch.setattr("wrapper_ir.emitters.cpp.module.LONG", longest)
    monkeypatch.setattr("wrapper_ir.emitters.cpp.module.FUNCTION", longest)
    program = wir.parse(TEXT).replace(data={"w": torch.zeros(4, 4)})
    source = wir.emit(program, "cpp", cuda_graph=True).source
    rows = re.findall(r'\{\.name = "(\w+)"(?:[^{}]|\{[^{}]*\})*\}', source)
    assert rows == ["x_1", "y_1", "a_1", "b_1", "c_1", "d_2", "bt_2", "c_2", "y_2", "f_2", "g_2"]
    for word, names in (("settled", ["bt_2", "c_2"]), ("shared", ["b_1", "c_1"])):
        found = [each for each in re.split(r"\.name = ", source) if f".{word} = true" in each]
        assert [each.split('"')[1] for each in found] == names
    assert source.count("->run(&state, call") == 2
    assert "kGraphs" not in source
    assert "->run(" not in wir.emit(program, "cpp", cuda_graph=True, cuda_graph_cuts=False).source
    wir.export(program, tmp_path / "cut.so", cuda_graph=True)
