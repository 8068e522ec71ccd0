"""Branches of captured graphs: what may run beside what, and that nothing comes too early."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest

import wrapper_ir as wir
from tests.pages import ROOT
from tests.planning.test_streams import Memory, Order
from wrapper_ir.analysis.cuda_graphs import why_not_captured
from wrapper_ir.emitters.regions import capture_facts
from wrapper_ir.lines import (
    Allocate,
    ExternKernel,
    Free,
    KernelCall,
    Program,
    RecordEvent,
    WaitEvent,
)
from wrapper_ir.options.gpu import Captures
from wrapper_ir.passes import run_passes
from wrapper_ir.passes.branch import branch
from wrapper_ir.verify import rules

MM = "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
RANDOM = "aten::uniform_(Tensor(a!) self, float from=0, float to=1) -> Tensor(a!)"
BLOCK = (ROOT / "tests/programs/not_cpu/decoder_block.wir").read_text(encoding="utf-8")


def streams_of(program: Program) -> dict[str, int]:
    """The stream of each product and each launch, by what it writes."""
    found = {}
    for line in program.body:
        if isinstance(line, ExternKernel):
            found[dict(line.kwargs)["out"].buffer] = line.stream
        elif isinstance(line, KernelCall):
            found[f"{line.kernel} {line.args[0].buffer}"] = line.stream
    return found


def on_branches(program: Program, limit: int = 2) -> set[str]:
    found = wir.verify(branch(wir.verify(program), limit))
    return {name for name, stream in streams_of(found).items() if stream}


def products(seed: int, calls: int = 24) -> Program:
    """Products of earlier ones at random, some of which write where others have read."""
    draw = random.Random(seed)
    b = wir.Builder("products", device="cuda:0")
    x = b.input("x", "f32", (64, 64))
    buffers = [x]
    for _ in range(calls):
        old = [each for each in buffers[-6:] if each is not x]
        if old and draw.random() < 0.2:
            out = draw.choice(old)
        else:
            out = b.allocate("f32", (64, 64), zeroed=draw.random() < 0.1)
            buffers.append(out)
        left, right = draw.choices([each for each in buffers[-6:] if each is not out] or [x], k=2)
        if draw.random() < 0.1:
            b.extern(RANDOM, out)
        else:
            b.extern(MM, left, right, out=out)
    b.returns(*buffers[-2:])
    return b.build()


def test_a_block_of_a_decoder() -> None:
    program = wir.parse(BLOCK)
    assert on_branches(program) == {"k", "v", "put k", "put v", "up"}
    assert on_branches(program, 1) == {"k", "put k", "up"}
    planned = wir.verify(wir.plan_memory(branch(program, 2)))
    assert len({line.stream for line in planned.body if isinstance(line, KernelCall)}) == 3
    assert {line.stream for line in planned.body if isinstance(line, Allocate)} == {0}
    assert not any(line.after for line in planned.body if isinstance(line, Free))
    assert all(stream.captured for stream in planned.streams)


def test_lines_keep_their_order_and_what_they_do() -> None:
    program = wir.parse(BLOCK)
    calls = [line for line in program.body if isinstance(line, ExternKernel | KernelCall)]
    found = branch(program, 2)
    kept = [line for line in found.body if isinstance(line, ExternKernel | KernelCall)]
    assert [dataclasses.replace(line, stream=0) for line in kept] == calls
    assert wir.parse(str(found)) == found
    assert branch(program, 2) == found


@pytest.mark.parametrize("seed", range(25))
def test_what_needs_something_waits_for_it(seed: int) -> None:
    program = wir.verify(branch(products(seed), 3))
    for strategy in ("none", "reuse"):
        planned = wir.verify(wir.plan_memory(program, strategy))
        order = Order(planned)
        for before, after, name in Memory(planned).pairs:
            assert before in order.before[after], (name, before, after, str(planned))


def test_every_wait_is_needed() -> None:
    """Without any one of the waits the verifier finds a fault, so each run of it says something."""
    found = 0
    for seed in range(10):
        program = branch(products(seed), 3)
        for position, line in enumerate(program.body):
            if isinstance(line, WaitEvent):
                less = program.body[:position] + program.body[position + 1 :]
                found_rules = {each.rule for each in wir.diagnose(program.replace(body=less))}
                assert found_rules & {rules.RACE, rules.OPEN_BRANCH, rules.NOT_JOINED}
                found += 1
    assert found > 50


def test_nothing_runs_beside_what_fills_the_gpu() -> None:
    rows = BLOCK.replace("bf16[1, 2048]", "bf16[8192, 2048]").replace("[1, 512]", "[8192, 512]")
    assert not on_branches(wir.parse(rows.replace("bf16[1, 8192]", "bf16[8192, 8192]")))


def test_what_allocates_or_draws_random_numbers_stays() -> None:
    lines = [line for seed in range(5) for line in branch(products(seed), 3).body]
    calls = [line for line in lines if isinstance(line, ExternKernel)]
    assert {line.stream for line in calls if line.op == "aten::uniform_"} == {0}
    assert {line.stream for line in calls if line.op == "aten::mm.out"} > {0, 1}
    text = BLOCK.replace("  %up = allocate : bf16[1, 8192] @cuda:0\n", "").replace(
        "aten::mm.out(%h2, %wu, out=out %up) @cuda:0",
        "%up = aten::mm(%h2, %wu) @cuda:0 : bf16[1, 8192] @cuda:0",
    )
    text = text.replace("\nextern", "\nextern aten::mm(Tensor self, Tensor mat2) -> Tensor\nextern")
    assert "aten::mm(%h2, %wu) @cuda:0 :" in str(branch(wir.parse(text), 2))


def test_a_cooperative_launch_has_the_gpu_to_itself() -> None:
    options = 'constants {B: 128} options {launch_cooperative_grid: "1"}'
    text = BLOCK.replace("constants {B: 128}", options)
    assert not {"put k", "put v"} & on_branches(wir.parse(text))


def test_constants_of_one_storage_are_one() -> None:
    """The keys and the values are written side by side, unless they are the same memory."""
    caches = (
        'constant %keys : bf16[8, 512, 64] @cuda:0 = buffer "keys" mutable\n'
        'constant %values : bf16[8, 512, 64] @cuda:0 = buffer "values" mutable{}\n'
    )
    head, _, rest = BLOCK.partition("input %keys")
    rest = rest.partition("input %values")[2].partition("\n")[2]
    apart = wir.parse(head + caches.format("") + rest)
    assert {"put k", "put v"} <= on_branches(apart)
    tied = wir.verify(branch(wir.parse(head + caches.format(" tied %keys") + rest), 2))
    stream = streams_of(tied)
    order = [line for line in tied.body if isinstance(line, KernelCall) and line.kernel == "put"]
    if stream["put k"] != stream["put v"]:  # then the second waits for the first
        between = tied.body[tied.body.index(order[0]) : tied.body.index(order[1])]
        recorded = {
            line.event
            for line in between
            if isinstance(line, RecordEvent) and line.stream == stream["put k"]
        }
        waited = {line.event for line in between if isinstance(line, WaitEvent)}
        assert recorded & waited


def test_programs_that_stay_as_they_are() -> None:
    program = wir.parse(BLOCK)
    assert branch(program, 0) is program
    branched = branch(program, 2)
    assert branch(branched, 2) is branched
    on_cpu = wir.parse((ROOT / "tests/programs/residual.wir").read_text(encoding="utf-8"))
    assert branch(on_cpu, 2) is on_cpu
    chain = wir.Builder("chain", device="cuda:0")
    x = chain.input("x", "f32", (64, 64))
    for _ in range(4):
        y = chain.allocate("f32", (64, 64))
        chain.extern(MM, x, x, out=y)
        x = y
    chain.returns(x)
    built = chain.build()
    assert branch(built, 2) is built


def test_sizes_that_are_symbols() -> None:
    """An allocation comes before its branch only where its size is known by then."""
    text = BLOCK.replace("bf16[8, 512, 64]", "bf16[8, s0, 64]").replace(
        "input %x", "symbol s0 : int [1, 4096] hint 512\ninput %x"
    )
    text = text.replace("\n  %h = allocate", "\n  s0 = size %keys, 1\n  %h = allocate")
    assert on_branches(wir.parse(text)) == {"k", "v", "put k", "put v", "up"}


def test_too_much_memory_is_not_asked_for_early() -> None:
    """The output of a branch is allocated before it begins; a large one keeps the line in place."""
    large = BLOCK.replace(
        "%k = allocate : bf16[1, 512] @cuda:0",
        "%big = allocate : bf16[65536, 512] @cuda:0\n"
        "  %k = reinterpret %big : bf16[1, 512] @cuda:0",
    )
    assert on_branches(wir.parse(large)) == {"v", "put v", "up"}


def test_the_program_of_the_page() -> None:
    """The page shows what the pass makes of a plain program, and that is rendered everywhere."""
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    texts = [part.partition("```")[0] for part in page.split("```wir\n")[1:]]
    text = next(each for each in texts if "side_by_side_in_a_graph" in each)
    program = wir.verify(wir.parse(text))
    plain = re.sub(r"(?m)^(stream|event|  record_event|  wait_event) .*\n", "", text)
    made = run_passes(wir.parse(plain.replace(" stream 1", "")), ["branch{limit=2}"])
    assert str(made) == str(program)
    python = wir.emit(program, cuda_graph=True).source
    assert "    event_1.wait(stream_1)\n    with stream_1:\n        aten_mm_out(" in python
    assert "branches=True" in python
    cpp = wir.emit(program, "cpp", cuda_graph=True).source
    assert "  wir::GpuQueues queues(call, 0, 1, 2, true);\n  call.queues = &queues;\n" in cpp
    assert "  call.queues->wait(1, 1);\n  call.queues->enter(1);\n" in cpp
    assert ".has_branches = true,\n" in cpp


REDUCED = """
wir 2
program @step inference logical
input %x : f32[64, 512] @cuda:0
input %w : f32[512, 512] @cuda:0
input %v : f32[512, 512] @cuda:0
extern _c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
  %a = allocate : f32[64, 512] @cuda:0
  aten::mm.out(%x, %w, out=out %a) @cuda:0
  _c10d_functional::all_reduce_(inout %a, "sum", "0") @cuda:0
  _c10d_functional::wait_tensor(%a) @cuda:0
  %b = allocate : f32[64, 512] @cuda:0
  aten::mm.out(%a, %w, out=out %b) @cuda:0
  %c = allocate : f32[64, 512] @cuda:0
  aten::mm.out(%a, %v, out=out %c) @cuda:0
return %b, %c
"""
"""Two products of what a collective has reduced, such as the gradients of a layer."""


def test_a_branch_comes_after_the_wait_for_a_collective() -> None:
    made = wir.verify(branch(wir.parse(REDUCED), 2))
    products_on = [line.stream for line in made.body if isinstance(line, ExternKernel)]
    assert products_on == [0, 0, 0, 0, 1]
    named = [getattr(line, "op", type(line).__name__).partition(".")[0] for line in made.body]
    assert named.index("_c10d_functional::wait_tensor") < named.index("RecordEvent")


def test_where_no_calls_are_captured_there_are_no_branches() -> None:
    program = wir.parse(BLOCK)
    for target in ("python", "cpp"):
        branched = wir.emit(program, target, cuda_graph=True).source
        assert "branch" in branched.lower()
        without = wir.emit(program, target, cuda_graph=True, cuda_graph_branches=0).source
        for text in (wir.emit(program, target).source, without):
            assert "Branch" not in text
            assert "has_branches = true" not in text
    planned = wir.emit(wir.plan_memory(program), cuda_graph=True).source
    assert "Branch" not in planned


def test_cuda_graphs_are_made_of_programs_with_branches() -> None:
    program = wir.plan_memory(branch(wir.parse(BLOCK), 2))
    assert not why_not_captured(program)
    assert capture_facts(program, Captures(cuda_graph=True)).has_branches
    users = str(program).replace(" captured\n", "\n")
    assert "one stream" in why_not_captured(wir.parse(users))[0]
