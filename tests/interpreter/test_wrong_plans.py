"""Wrong plans are caught: by the interpreter, verified or not, with the path of a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import program
from tests.interpreter.mutate import MUTATORS

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

SIZE = 16

_COPY = (
    "#include <torch/csrc/inductor/cpp_prefix.h>\n"
    'extern "C" void kernel(const float* x, float* y, const int64_t n)\n'
    "{\n    for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;\n}\n"
)
_RELU = "aten::relu(Tensor self) -> Tensor"


def made() -> Program:
    """Calls in a row and beside each other, so that every strategy has something to do."""
    b = wir.Builder("chain")
    x = b.input("x", "f32", [SIZE])
    kernel = b.cpp_kernel(
        "add_one", _COPY, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"]
    )
    one = b.allocate("f32", [SIZE])
    b.call(kernel, x, one, SIZE)
    side = b.extern(_RELU, one, result=one)
    two = b.allocate("f32", [SIZE])
    b.call(kernel, one, two, SIZE)
    three = b.allocate("f32", [SIZE])
    b.call(kernel, two, three, SIZE)
    four = b.allocate("f32", [SIZE])
    b.call(kernel, three, four, SIZE)
    total = b.extern(
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        four,
        side,
        result=four,
    )
    b.returns(total)
    return b.build()


PLANS = {s: wir.plan_memory(made(), strategy=s) for s in ("none", "reuse")}

#: Takes the same input, and has slices of a pool.
POOLS = program("pools")


@pytest.mark.parametrize("strategy", PLANS)
def test_right_plans_run(strategy: str) -> None:
    x = torch.randn(SIZE)
    (found,) = wir.interpret(PLANS[strategy], x)
    assert torch.equal(found, x + 1 + 1 + 1 + 1 + torch.relu(x + 1))


@pytest.mark.parametrize("name", MUTATORS)
def test_wrong_plans_do_not(name: str) -> None:
    tried = 0
    for plan in (*PLANS.values(), POOLS):
        for wrong in MUTATORS[name](plan):
            tried += 1
            with pytest.raises(wir.WrapperIRError) as caught:
                wir.interpret(wrong, torch.randn(SIZE), verify=False)
            assert caught.value.code.startswith("WIR24"), caught.value
            assert caught.value.path is not None
    assert tried >= 1


def _calls_of(code: str) -> Program:
    b = wir.Builder("one_call")
    x = b.input("x", "f32", [4])
    head = '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel('
    text = f"{head}const float* x, float* y)\n{{ {code} }}\n"
    kernel = b.cpp_kernel("stray", text, reads=[("x", "f32")], writes=[("y", "f32")])
    y = b.allocate("f32", [4])
    z = b.allocate("f32", [4])
    b.call(kernel, x, y)
    b.call(kernel, x, z)
    b.returns(y, z)
    return b.build()


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("y[4] = 1;", "WIR2407", "byte 1 after its end"),
        ("y[-1] = 1;", "WIR2407", "byte 1 before its start"),
        ("const_cast<float*>(x)[2] = 7;", "WIR2406", "changed 2 bytes behind %x"),
        ('throw std::runtime_error("no luck");', "WIR2410", "no luck"),
    ],
)
def test_kernels_that_do_more_than_they_say(code: str, error: str, words: str) -> None:
    program = _calls_of(code)
    with pytest.raises(wir.WrapperIRError, match="stray") as caught:
        wir.interpret(program, torch.ones(4))
    assert (caught.value.code, str(caught.value.path)) == (error, "body[4]")
    assert words in caught.value.message
