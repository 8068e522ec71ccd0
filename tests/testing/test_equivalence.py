"""What assert_equivalent says of programs, the same everywhere and not."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.testing import NotEquivalentError, assert_equivalent, example_inputs
from wrapper_ir.testing.corpus import corpus_program

TEXT = """
wir 2
program @doubled inference planned

input %x : f32[8] @cpu

kernel @double_it(in_ptr0: in f32, out_ptr0: out f32, n: i64) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t n)
  | {
  |     static int calls = 0;
  |     const float by = calls++ == 0 ? 2 : BY;
  |     for (int64_t i = 0; i < n; ++i) out_ptr0[i] = by * in_ptr0[i];
  | }

  %y = allocate : f32[8] @cpu
  call @double_it(%x, out %y, 8)
return %y
"""


def program(later: int) -> wir.Program:
    """A kernel that multiplies by two in its first call, and by ``later`` in those after it."""
    return wir.parse(TEXT.replace("BY", str(later)))


def test_the_same_everywhere() -> None:
    assert_equivalent(program(2), torch.randn(8), eager=lambda x: 2 * x)
    assert_equivalent(corpus_program("input_mutation"))


def test_inputs_are_not_changed() -> None:
    made = corpus_program("input_mutation")
    inputs = example_inputs(made)
    before = [x.clone() for x in inputs]
    assert_equivalent(made, *inputs, targets=("python",))
    assert all(map(torch.equal, inputs, before))


def test_another_result() -> None:
    with pytest.raises(NotEquivalentError, match=r"'doubled': result 0 of python .* of 8 .*") as e:
        assert_equivalent(program(3), torch.ones(8), targets=("python",))
    assert isinstance(e.value, AssertionError)


def test_another_function() -> None:
    with pytest.raises(NotEquivalentError, match="compared with eager PyTorch"):
        assert_equivalent(program(2), torch.ones(8), targets=(), eager=lambda x: 3 * x)
    with pytest.raises(NotEquivalentError, match="the number of results"):
        assert_equivalent(program(2), torch.ones(8), targets=(), eager=lambda x: (2 * x, x))


def test_examples_are_the_same_each_time() -> None:
    made = corpus_program("dynamic_shapes")
    state = torch.random.get_rng_state()
    one, other = example_inputs(made, seed=3), example_inputs(made, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)
