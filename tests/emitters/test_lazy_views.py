"""Tensors that conjugate or negate their memory: views of them do, too, with every emitter."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.runtime import InputLayoutError

PROGRAM = """wir 2
program @p inference logical
input %x : c64[4, 4] @cpu
extern aten::{op}(Tensor(a) self) -> Tensor(a)
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  %lazy = aten::{op}(%x) : c64[4, 4] @cpu alias(%x)
  %rows = reinterpret %lazy : c64[2, 4]{{4, 1}}+4 @cpu
  %sum = aten::add.Tensor(%rows, %rows) : c64[2, 4] @cpu
return %sum
"""

X = torch.complex(torch.arange(16.0), torch.arange(1.0, 17.0)).reshape(4, 4)

#: One memory, read in three ways.
WAYS = (X, X.conj(), torch.ops.aten._neg_view(X))


@pytest.mark.parametrize("op", ["_conj", "_neg_view"])
@pytest.mark.parametrize("target", ["interpreter", "python", "cpp", "fx"])
def test_a_view_of_a_result_reads_memory_as_the_result_does(target: str, op: str) -> None:
    program = wir.parse(PROGRAM.format(op=op))
    call: Any = partial(wir.interpret, program)
    if target != "interpreter":
        call = wir.compile(program, target)
    for x in WAYS:
        got = call(x)
        want = getattr(torch.ops.aten, op)(x)[1:3] * 2
        assert torch.equal(got[0] if isinstance(got, tuple) else got, want)


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_the_imaginary_part_of_a_conjugated_argument(emitter: str) -> None:
    """As numbers that are stored: what conjugates twice does not conjugate."""

    def function(x: Tensor) -> Tensor:
        return x.conj().imag

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="wrapper_ir", options={"emitter": emitter})
    for x in (X.conj(), X.mH, X[1:].conj()):
        assert torch.equal(compiled(x), function(x))


# Arguments whose memory a kernel reads: it would not notice that the memory is conjugated.

READS = """wir 2
program @reads inference logical
input %x : {dtype}[4] @cpu
kernel @plus(x: in f32, y: out f32, n: i64) cpp
  | extern "C" void kernel(const float* x, float* y, const long n) {{
  |   for (long i = 0; i < n; ++i) y[i] = x[i] + 1.0f;
  | }}
{before}
  %y = allocate : f32[{n}] @cpu
  call @plus(%{read}, out %y, {n})
return %y
"""

#: Programs that read the memory of their input, and an argument for which that is wrong.
READERS = {
    "negated": ("f32", "", "x", torch._neg_view(torch.arange(4.0)), "negated"),
    "a row of a negated one": (
        "f32",
        "  %v = reinterpret %x : f32[4] @cpu",
        "v",
        torch._neg_view(torch.arange(8.0).reshape(2, 4))[1],
        "negated",
    ),
    "conjugated, as a view of another type": (
        "c64",
        "  %v = reinterpret %x : f32[8] @cpu",
        "v",
        X[0].conj(),
        "conjugated",
    ),
    "negated and complex": (
        "c64",
        "  %v = reinterpret %x : f32[8] @cpu",
        "v",
        torch._neg_view(X[0]),
        "negated",
    ),
    "conjugated, by an op": (
        "c64",
        (
            "extern aten::view_as_real(Tensor(a) self) -> Tensor(a)\n"
            "  %r = aten::view_as_real(%x) : f32[4, 2] @cpu alias(%x)\n"
            "  %v = reinterpret %r : f32[8] @cpu"
        ),
        "v",
        X[0].conj(),
        "conjugated",
    ),
}


def _reader(case: str, target: str) -> Any:
    dtype, before, read, *_ = READERS[case]
    n = 8 if dtype == "c64" else 4
    program = wir.parse(READS.format(dtype=dtype, before=before, read=read, n=n))
    if target == "interpreter":
        return partial(wir.interpret, program)
    return wir.compile(program, target)


@pytest.mark.parametrize("case", READERS)
@pytest.mark.parametrize("target", ["interpreter", "python", "cpp", "fx"])
def test_an_argument_that_is_read_as_stored_is_stored_as_it_reads(target: str, case: str) -> None:
    call, (*_, x, way) = _reader(case, target), READERS[case]
    plain = x.resolve_conj().resolve_neg()
    want = (torch.view_as_real(plain) if x.is_complex() else plain).reshape(-1) + 1
    for _ in range(2):  # the first call fixes what the next ones compare
        assert torch.equal(call(plain)[0], want)
        with pytest.raises(InputLayoutError, match=f"'x' has the wrong form.*{way} lazily"):
            call(x)


def test_checks_in_the_first_call_alone_do_not_look_again() -> None:
    dtype, before, read, x, _ = READERS["negated"]
    program = wir.parse(READS.format(dtype=dtype, before=before, read=read, n=4))
    with pytest.raises(InputLayoutError, match=r"resolve_neg\(\)"):
        wir.compile(program, checks="first_call")(x)
    unchecked = wir.compile(program, checks="never")
    assert torch.equal(unchecked(x)[0], x.resolve_neg().neg() + 1)  # its memory, as documented
