"""Which programs can be captured as CUDA graphs, and what is said of those that cannot."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.analysis.cuda_graphs import why_not_captured
from wrapper_ir.emitters.regions import capture_facts
from wrapper_ir.errors import OptionValueError
from wrapper_ir.options.gpu import Captures
from wrapper_ir.runtime.cuda_graphs import statuses_of

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
wir 2
program @p inference logical
symbol u0 : int [0, 4] unbacked
symbol z0 : float unbacked
symbol s0 : int
input %x : f32[4] @cuda:0
input %c : f32[1] @cpu
extern aten::neg(Tensor self) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
extern aten::nonzero(Tensor self) -> Tensor
extern aten::_local_scalar_dense(Tensor self) -> Scalar
kernel @host(x: inout f32) cpp
  | extern "C" void kernel(float* x) { x[0] = 1; }
  |

  %z = aten::neg(%x) @cuda:0 : f32[4] @cuda:0
"""

REFUSED = {
    "'aten::add.Tensor' works on memory of the CPU, 'c'": """
  %y = aten::add.Tensor(%x, %c) @cuda:0 : f32[4] @cuda:0
return %y
""",
    "'aten::copy_' works on memory of the CPU, 'y'": """
  %y = allocate : f32[4] @cpu
  aten::copy_(inout %y, %x) @cuda:0
return %y
""",
    "the kernel 'host' runs on the CPU": """
  call @host(inout %c)
return %z
""",
    "the host reads 'o'": """
  %o = reinterpret %x : f32[1] @cuda:0
  z0 = item %o
return %z, z0
""",
    "the host reads a number that 'aten::_local_scalar_dense' computes": """
  z0 = aten::_local_scalar_dense(%x) @cuda:0 : symbol
return z0
""",
    "'aten::nonzero' decides on the GPU how large 'y' is": """
  %y = aten::nonzero(%x) @cuda:0 : i64[u0, 1]{1, u0} @cuda:0
  u0 = size %y, 0
return %y
""",
    "it depends on where 'x' begins in its storage": """
  s0 = storage_offset %x
return %z, s0
""",
    "'cond' decides on the host what runs": """
  %y = cond %x with (%x) : f32[4] @cuda:0
    then (%a : f32[4] @cuda:0) {
      yield %a
    }
    else (%b : f32[4] @cuda:0) {
      yield %b
    }
return %y
""",
    "it shows values while it runs": """
  probe after "neg" print(%z)
return %z
""",
    "it runs on several GPUs: cuda:0, cuda:1": """
  %y = allocate : f32[4] @cuda:1
return %z
""",
}


def test_work_on_the_gpu_alone_is_captured() -> None:
    # What lies on the CPU and is not touched is in nobody's way.
    assert why_not_captured(wir.parse(HEAD + "return %z, %c\n")) == ()


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_captured_says_why(reason: str) -> None:
    (found,) = why_not_captured(wir.parse(HEAD + REFUSED[reason]))
    assert reason in found


def test_constants_count_among_what_is_on_gpus() -> None:
    text = """
wir 2
program @p inference planned
input %x : f32[4] @cuda:0
constant %w : f32[4] @cuda:1 = parameter "w"
return %x, %w
"""
    assert why_not_captured(wir.parse(text)) == ("it runs on several GPUs: cuda:0, cuda:1",)
    assert "several GPUs" in wir.emit(wir.parse(text), cuda_graph=True).source
    alone = text.replace("input %x : f32[4] @cuda:0\n", "").replace("%x, ", "")
    assert 'CudaGraphs("p", cuda_1' in wir.emit(wir.parse(alone), cuda_graph=True).source


ATTENTION = """
wir 2
program @p ROLE logical
input %q : f32[2, 4, 8, 8] @cuda:0
extern aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, \
Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, \
float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)
  (%o, %l, %s, %t) = aten::_scaled_dot_product_efficient_attention(%q, %q, %q, none, true, RATE) \
@cuda:0 : (f32[2, 4, 8, 8] @cuda:0, f32[2, 4, 32] @cuda:0, i64[] @cuda:0, i64[] @cuda:0)
return %o, %s
"""


@pytest.mark.parametrize(
    ("role", "rate", "is_refused"),
    [
        ("forward", "0.5", True),
        ("backward", "0.5", True),
        ("forward", "0.0", False),
        ("inference", "0.5", False),
    ],
)
def test_dropout_of_attention_in_training(role: str, rate: str, is_refused: bool) -> None:
    program = wir.parse(ATTENTION.replace("ROLE", role).replace("RATE", rate))
    reasons = why_not_captured(program)
    assert ["state of its random numbers" in reason for reason in reasons] == [True] * is_refused


def test_programs_without_a_gpu() -> None:
    program = wir.parse("wir 2\nprogram @p inference planned\ninput %x : f32[4] @cpu\nreturn %x\n")
    assert why_not_captured(program) == ("the program has no GPU buffers",)
    function: Any = wir.compile(program, cuda_graph=True)
    x = torch.ones(4)
    assert function(x)[0] is x
    assert function.cuda_graphs.status.reasons == {"the program has no GPU buffers": 1}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cuda_graph", 1),
        ("cuda_graph_limit", 0),
        ("cuda_graph_results", "mine"),
        ("cuda_graph_branches", 9),
    ],
)
def test_options_of_other_values_are_refused(option: str, value: object) -> None:
    program = wir.parse(HEAD + "return %z\n")
    with pytest.raises(OptionValueError, match=option):
        wir.emit(program, **{option: value})


def test_what_is_emitted_says_what_is_written_to_and_which_constants_there_are() -> None:
    text = """
wir 2
program @p inference planned
input %x : f32[4] @cuda:0
input %y : f32[4] @cuda:0
constant %w : f32[4] @cuda:0 = parameter "w"
constant %h : f32[4] @cpu = buffer "h"
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
  aten::add.out(%x, %w, out=out %y) @cuda:0
return %h
"""
    source = wir.emit(wir.parse(text), cuda_graph=True, cuda_graph_limit=3).source
    assert "cuda_constants = lambda: [w]" in source
    assert (
        'cuda_graphs = CudaGraphs("p", cuda_0, writes=(1,), constants=cuda_constants, limit=3)'
        in source
    )
    assert "@cuda_graphs\n@on_device(cuda_0)\ndef call(args):" in source
    assert "CudaGraphs" not in wir.emit(wir.parse(text)).source
    shared = wir.emit(wir.parse(text), cuda_graph=True, cuda_graph_results="shared").source
    assert 'results="shared"' in shared
    # What a forward saves must last until its backward.
    training = wir.parse(text.replace("inference", "forward"))
    assert "shared" not in wir.emit(training, cuda_graph=True, cuda_graph_results="shared").source
    trusting = wir.emit(wir.parse(text), cuda_graph=True, checks="first_call").source
    assert "limit=8, checks=False" in trusting


def test_programs_in_cpp_are_wrapped_likewise() -> None:
    program = wir.parse("wir 2\nprogram @p inference planned\ninput %x : f32[4] @cpu\nreturn %x\n")
    artifact: Any = wir.emit(program, "cpp", cuda_graph=True)
    assert "captured(call, CaptureFacts(program='p'" in artifact.as_module().source
    assert "captured" not in wir.emit(program, "cpp").as_module().source
    x = torch.ones(4)
    module: dict[str, Any] = {}
    exec(artifact.as_module().source, module)  # as caches of compiled graphs do
    for function, result in (
        (artifact.load(), lambda f: f(x)),
        (artifact.load_boxed(), lambda f: f([x])),
        (module["call"], lambda f: f([x])),
    ):
        assert torch.equal(result(function)[0], x)
        assert function.cuda_graphs.status.reasons == {"the program has no GPU buffers": 1}
        assert function.release() == 0


def test_exported_libraries_capture_by_themselves(tmp_path: Path) -> None:
    program = wir.parse("wir 2\nprogram @p inference planned\ninput %x : f32[4] @cpu\nreturn %x\n")
    library = wir.export(program, tmp_path / "p.so", cuda_graph=True)
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
    x = torch.ones(4)
    for _ in range(2):
        assert torch.equal(runner.run([x])[0], x)
    (status,) = statuses_of(library)
    assert dict(status.reasons) == {"the program has no GPU buffers": 2}
    assert status.refused
    assert status in wir.cuda_graph_status()


def test_what_a_library_is_told_of_captures() -> None:
    program = wir.parse(RANDOM)
    plain = wir.emit(program, "cpp").source.splitlines()
    source = wir.emit(program, "cpp", cuda_graph=True, cuda_graph_limit=3).source
    added = [line[2:] for line in difflib.ndiff(plain, source.splitlines()) if line[:1] in "+-"]
    assert added == TABLE.splitlines()[1:]
    shared = wir.emit(program, "cpp", cuda_graph=True, cuda_graph_results="shared").source
    assert "  .shares_results = true,\n" in shared
    refused = wir.emit(wir.parse(HEAD + REFUSED["the host reads 'o'"]), "cpp", cuda_graph=True)
    assert "kObstacles[] = {\n  \"body[8]: the host reads 'o'\",\n};" in refused.source
    assert "  .num_reasons = 1,\n  .reasons = kObstacles,\n" in refused.source


RANDOM = """
wir 2
program @p inference planned
input %x : f32[4] @cuda:0
extern aten::rand_like(Tensor self) -> Tensor
  %y = aten::rand_like(%x) @cuda:0 : f32[4] @cuda:0
return %y
"""

TABLE = """
// A library captures its own calls as CUDA graphs.
constexpr wir::GraphInfo kGraphs = {
  .limit = 3,
  .shares_results = false,
  .is_random = true,
  .has_branches = false,
  .num_reasons = 0,
  .reasons = nullptr,
};

  nullptr,
  nullptr,
  &wir_program::kGraphs,
"""


@pytest.mark.parametrize(
    ("call", "is_random"),
    [
        ("aten::neg(Tensor self) -> Tensor", False),
        ("aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", True),
        ("aten::dropout(Tensor self, float p=0.5, bool train=False) -> Tensor", True),
        ("mine::neg(Tensor self) -> Tensor", True),  # nobody knows
    ],
)
def test_programs_that_may_draw_random_numbers(call: str, is_random: bool) -> None:
    name = call.partition("(")[0]
    text = RANDOM.replace("aten::rand_like(Tensor self) -> Tensor", call)
    program = wir.parse(text.replace("aten::rand_like", name))
    assert capture_facts(program, Captures(cuda_graph=True)).is_random is is_random


@pytest.mark.parametrize(("rate", "is_random"), [("0.5", True), ("0.0", False)])
def test_attention_draws_where_it_drops(rate: str, is_random: bool) -> None:
    program = wir.parse(ATTENTION.replace("ROLE", "inference").replace("RATE", rate))
    assert capture_facts(program, Captures(cuda_graph=True)).is_random is is_random


TALKING = """
wir 2
program @p inference logical
input %w : f32[4] @cuda:0 static
input %x : f32[4] @cuda:0
input %n : f32[1] @cpu
extern aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor

  %v = aten::mul.Tensor(%w, %x) @cuda:0 : f32[4] @cuda:0
  %y = aten::mul.Tensor(%v, %x) @cuda:0 : f32[4] @cuda:0
  %sum = _c10d_functional::all_reduce(%y, "sum", "0") @cuda:0 : f32[4] @cuda:0
  _c10d_functional::wait_tensor(%sum) @cuda:0
return %sum
"""


def test_ranks_capture_together() -> None:
    """Where an input is on one rank decides nothing: what is not static is copied."""
    program = wir.parse(TALKING)
    facts = capture_facts(program, Captures(cuda_graph=True))
    assert facts.copied == (1,)
    assert (
        not facts.is_random
    )  # collectives draw nothing, so graphs of several threads take no turns
    assert "copied=(1,)" in wir.emit(program, cuda_graph=True).source
    in_cpp: Any = wir.emit(program, "cpp", cuda_graph=True)
    assert "copied=(1,)" in in_cpp.as_module().source
    table = in_cpp.sources["program.cpp"].partition("kCopied[] = {")[2].partition("};")[0]
    assert table.split() == ["1,"]  # of the library's own graphs
    alone = wir.parse(_alone(TALKING))
    assert capture_facts(alone, Captures(cuda_graph=True)).copied == ()


def _alone(text: str) -> str:
    """The text with an op of one process instead of the collective."""
    lines = (line for line in text.splitlines() if "wait_tensor" not in line)
    alone = "\n".join(lines).replace(
        "extern aten::mul", "extern aten::neg(Tensor self) -> Tensor\nextern aten::mul"
    )
    return alone.replace('_c10d_functional::all_reduce(%y, "sum", "0")', "aten::neg(%y)")
