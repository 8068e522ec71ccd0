"""Triton kernels in graphs, without a GPU and without Triton: nodes, text, other processes."""

from __future__ import annotations

import copy
import importlib.util
import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import fx

import wrapper_ir as wir
from tests import warm
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.emitters.test_python_gpus import STATES
from wrapper_ir.emitters import EmitError
from wrapper_ir.emitters.fx import declare_kernels
from wrapper_ir.emitters.fx.triton import LAUNCH, NO_CONSTANTS, LaunchError, kernel_index, launched

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
wir 2
program @mixed inference planned

symbol s0 : int [2, inf] hint 64
symbol by : float unbacked
input %x : f32[s0, 8] @cuda:0
input %factor : f32[] @cpu

kernel @scale(in_ptr0: in f32, by: f32, out_ptr0: out f32, xnumel: i32) triton
    entry "scale" warps 4 stages 1
    signature {in_ptr0: "*fp32:16", by: "fp32", out_ptr0: "*fp32:16", xnumel: "i32"}
    constants {XBLOCK: 128}
  | import triton
  | import triton.language as tl
  |
  | @triton.jit
  | def scale(in_ptr0, by, out_ptr0, xnumel, XBLOCK: tl.constexpr):
  |     index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
  |     mask = index < xnumel
  |     tl.store(out_ptr0 + index, tl.load(in_ptr0 + index, mask) * by, mask)

kernel @mark(in_out_ptr0: inout i32, xnumel: i32, ynumel: i32) triton
    entry "mark" warps 2 stages 3
    signature {in_out_ptr0: "*i32", xnumel: "i32", ynumel: "i32"}
    constants {XBLOCK: 8, YBLOCK: 16, FLIP: true, NOTHING: none} options {maxnreg: 64}
  | import triton
  | import triton.language as tl
  |
  | @triton.jit
  | def mark(in_out_ptr0, xnumel, ynumel, XBLOCK: tl.constexpr, YBLOCK: tl.constexpr):
  |     tl.store(in_out_ptr0, 1)

kernel @double_it(in_ptr0: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
  | {
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = 2 * in_ptr0[i];
  | }
  |

extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
"""
BODY = """
  s0 = size %x, 0
  %twice = allocate : f32[1] @cpu
  call @double_it(%factor, out %twice, 1)
  by = item %factor
  %y = allocate : f32[s0, 8] @cuda:0
  call @scale(%x, by, out %y, 8*s0) @cuda:0 grid [CeilDiv(s0, 16)]
  %bits = reinterpret %y : i32[s0, 8] @cuda:0
  call @mark(inout %bits, s0, 8) @cuda:0 grid [CeilDiv(s0, 8), 1, 1]
return %y, %twice
"""
#: A line a kernel's head, as the text form wants it.
MIXED = " ".join((HEAD + BODY).split("\n    "))


def program() -> wir.Program:
    return wir.parse(MIXED)


def launches(module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in module.graph.nodes if node.target is LAUNCH]


def test_text(snapshot: Any) -> None:
    assert support.emitted(program(), values=False).source == snapshot
    assert support.emitted(corpus.program("triton"), values=False).source == snapshot


def test_a_node_says_all_of_a_launch() -> None:
    module = support.emitted(program()).graph_module
    scale, mark = launches(module)
    assert scale.args == ()
    given: Any = scale.kwargs
    assert given["constant_args_idx"] == NO_CONSTANTS
    assert given["tma_descriptor_metadata"] == {}
    assert list(given["kwargs"]) == ["in_ptr0", "by", "out_ptr0", "xnumel", "XBLOCK"]
    assert given["kwargs"]["XBLOCK"] == 128
    assert str(given["kwargs"]["in_ptr0"]) == "x"
    ((blocks, *others),) = given["grid"]
    assert isinstance(blocks, fx.Node)
    assert others == [1, 1]
    given = mark.kwargs
    assert given["grid"][0][1:] == (1, 1)
    assert given["kwargs"]["FLIP"] is True
    assert given["kwargs"]["NOTHING"] is None


def test_memory_of_another_dtype_is_written_by_way_of_a_copy() -> None:
    module = support.emitted(program()).graph_module
    mark = launches(module)[1]
    given: Any = mark.kwargs
    written = given["kwargs"]["in_out_ptr0"]
    base = written.args[0] if written.target is torch.ops.aten.as_strided.default else written
    assert base.target is torch.ops.aten.empty_strided.default
    assert [node.target for node in base.users if node not in (written, mark)] == [
        torch.ops.aten.copy_.default,
        torch.ops.aten.as_strided.default,
    ]
    assert sum(node.target is torch.ops.aten.copy_.default for node in module.graph.nodes) == 2


def test_kernels_are_in_the_table_of_torch() -> None:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    made = program()
    module = support.emitted(made).graph_module
    scale, mark = launches(module)
    for node, name in ((scale, "scale"), (mark, "mark")):
        kernel = launched(node)
        assert kernel is not None
        assert kernel.index == node.kwargs["kernel_idx"] == kernel_index(made.kernels[name])
        assert kernel_side_table.get_kernel(kernel.index) is kernel
    assert kernel_side_table.get_constant_args(NO_CONSTANTS) == {}


@pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is there")
def test_without_triton_a_kernel_says_so_to_who_asks() -> None:
    kernel = launched(launches(support.emitted(program()).graph_module)[0])
    with pytest.raises(AttributeError, match="Triton is not installed"):
        _ = kernel.fn
    # Where compilers are traced, torch asks each kernel of the process.
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    trace = logging.getLogger("torch.__trace")
    level = trace.level
    trace.addHandler(handler)
    trace.setLevel(logging.DEBUG)
    try:
        wir.capture(torch.nn.Linear(2, 2), (torch.ones(2, 2),))
    finally:
        trace.removeHandler(handler)
        trace.setLevel(level)
    assert records


def test_two_kernels_have_two_numbers() -> None:
    kernels = program().kernels
    others = wir.parse(MIXED.replace("128", "64")).kernels
    numbers = {kernel_index(k[name]) for k in (kernels, others) for name in ("scale", "mark")}
    assert len(numbers) == 3  # one is the same in both


def test_torch_may_forget_its_kernels() -> None:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    made = program()
    scale, _ = launches(support.emitted(made).graph_module)
    kernel = launched(scale)
    assert kernel is not None
    saved = kernel_side_table.__dict__.copy()
    try:
        kernel_side_table.reset_table()
        with pytest.raises(AssertionError):
            kernel_side_table.get_kernel(kernel.index)
        declare_kernels(wir.prepare(made, "fx"))
        assert kernel_side_table.get_kernel(kernel.index) is kernel
    finally:
        kernel_side_table.__dict__.clear()
        kernel_side_table.__dict__.update(saved)


def test_passes_keep_launches() -> None:
    module = support.emitted(program()).graph_module
    module.graph.eliminate_dead_code()
    module.recompile()
    assert len(launches(module)) == 2
    assert len(launches(copy.deepcopy(module))) == 2


CHECK = """
import pickle, sys
with open("module.pkl", "rb") as file:
    module = pickle.load(file)
from wrapper_ir.emitters.fx.triton import launched
kernels = [kernel for node in module.graph.nodes if (kernel := launched(node))]
assert [kernel.definition.name for kernel in kernels] == ["scale", "mark"]
print(module.code)
sys.path.insert(0, ".")
from saved import Saved
with open("saved/module.py") as file:
    text = file.read()
assert all(f"kernel_idx = {kernel.index}" in text for kernel in kernels)
"""


def test_other_processes(tmp_path: Path) -> None:
    """A pickled module and a folder bring their kernels, under the same numbers."""
    module = support.emitted(program()).graph_module
    (tmp_path / "module.pkl").write_bytes(pickle.dumps(module))
    module.to_folder(tmp_path / "saved", "Saved")
    done = warm.run(CHECK, cwd=tmp_path, ours=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == module.code.strip()


def test_a_signature_that_does_not_fit_is_refused() -> None:
    made = wir.parse(MIXED.replace('by: "fp32", ', ""))
    with pytest.raises(EmitError, match="signature has 3 types"):
        wir.emit(made, "fx")


def test_states_of_random_numbers_may_be_on_the_host() -> None:
    source = support.emitted(wir.parse(STATES)).source
    assert '["seed", "int64", [], [], null]' in source
    assert '["step", "int64", [], [], "cuda:0"]' in source
    assert source.count("null]") == 2
    forward = support.emitted(wir.parse(STATES.replace("backward", "inference"))).source
    assert '["seed", "int64", [], [], "cuda:0"]' in forward


def test_what_inductor_would_lose_is_refused() -> None:
    module = support.emitted(program()).graph_module
    scale, mark = (launched(node) for node in launches(module))
    assert scale is not None
    assert mark is not None
    with pytest.raises(LaunchError, match=r"'mark' .* without its option 'maxnreg'"):
        _ = mark.restore_value  # what Inductor asks for when it compiles a kernel again
    if importlib.util.find_spec("triton") is not None:
        assert scale.restore_value == []
