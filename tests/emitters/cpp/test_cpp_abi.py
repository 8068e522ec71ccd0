"""The table of the C shim's functions: what the installed PyTorch has, and declares alike."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

from tests.emitters.cpp.compiling import check_syntax
from wrapper_ir.emitters.cpp.kernels import ANY_DEVICE, shim_of, shim_symbol, shims
from wrapper_ir.lines.layout import DType
from wrapper_ir.toolchain.manifest import DTYPE_NUMBERS

SCRIPT = Path(__file__).parents[3] / "tools" / "make_cpp_abi.py"
CONSTRAINTS = SCRIPT.parents[1] / "constraints.txt"
CHOSEN = ("aten::amax", "aten::mm.out", "aten::_cudnn_rnn")
HEADERS = "torch/csrc/inductor/aoti_torch/generated"


def types(params: str) -> list[str]:
    """Return the types of parameters, whose names differ between releases."""
    return [param.rsplit(" ", 1)[0] for param in params.split(", ")]


def test_the_table_is_what_the_script_makes() -> None:
    made = runpy.run_path(str(SCRIPT))
    headers = [f"c_shim_{device}.h" for device in (ANY_DEVICE, "cpu", "cuda")]
    installed = dict(pair for name in headers for pair in made["functions"](name).values())
    for (op, device), params in shims().items():
        assert types(installed[shim_symbol(op, device)]) == types(params), op
    if f"torch=={torch.__version__.partition('+')[0]}\n" in CONSTRAINTS.read_text():
        assert made["table"]() == made["TARGET"].read_text()


def test_declarations_agree_with_the_headers() -> None:
    lines = [f"#include <{HEADERS}/c_shim_{name}.h>" for name in ("cpu", "cuda", "aten")]
    for op, device in shims():
        shim = shim_of(op, device)
        assert shim is not None
        assert shim.symbol == shim_symbol(op, device)
        lines.append(f'extern "C" {shim.declaration}')
    check_syntax("\n".join(lines) + "\n", "-DTORCH_FEATURE_VERSION=0x020d000000000000", "-Wall")


def test_numbers_of_dtypes() -> None:
    assert {*DTYPE_NUMBERS} == {each.torch_name for each in DType}
    lines = ["#include <wir/dtype.h>"]
    for dtype, number in DTYPE_NUMBERS.items():
        name = dtype + ("_" if dtype == "bool" else "")
        lines.append(f"static_assert(wir::dtype::{name} == {number});")
    check_syntax("\n".join(lines) + "\n")


def test_what_matters_most_has_a_function() -> None:
    for op in ("mm.out", "addmm.out", "bmm.out", "baddbmm.out", "convolution"):
        assert shim_of(f"aten::{op}") is not None
    assert shim_of("aten::no_such_op") is None


def test_functions_for_any_device_and_for_one() -> None:
    symbols = {(op, device): shim_of(op, device) for op in CHOSEN for device in ("cpu", "cuda")}
    assert {key: shim.symbol for key, shim in symbols.items() if shim is not None} == {
        ("aten::amax", "cpu"): "aoti_torch_aten_amax",
        ("aten::amax", "cuda"): "aoti_torch_aten_amax",
        ("aten::mm.out", "cpu"): "aoti_torch_cpu_mm_out",
        ("aten::mm.out", "cuda"): "aoti_torch_cuda_mm_out",
        ("aten::_cudnn_rnn", "cuda"): "aoti_torch_cuda__cudnn_rnn",
    }
