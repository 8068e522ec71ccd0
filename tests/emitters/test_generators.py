"""Generators of random numbers as objects: inputs of programs, arguments and results of ops."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir

DRAW = """\
wir 2
program @draw inference logical

input &generator : torch::Generator
input %x : f32[64] @cpu

extern wrapper_ir_tests::twin(Generator generator) -> Generator
extern aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor

  &twin = wrapper_ir_tests::twin(&generator) : torch::Generator
  %a = aten::bernoulli.p(%x, 0.5, generator=&generator) : f32[64] @cpu
  %b = aten::bernoulli.p(%x, 0.5, generator=&twin) : f32[64] @cpu
  %c = aten::bernoulli.p(%x, 0.5, generator=&generator) : f32[64] @cpu
return %a, %b, %c
"""


def test_ops_take_and_return_generators() -> None:
    with torch.library._scoped_library("wrapper_ir_tests", "DEF") as library:
        library.define("twin(Generator generator) -> Generator")
        library.impl("twin", torch.Generator.clone_state, "CompositeExplicitAutograd")
        program, x = wir.parse(DRAW), torch.rand(64)
        assert str(program) == DRAW
        planned = wir.plan_memory(program)
        wanted = torch.Generator().manual_seed(5)
        first, second = (torch.bernoulli(x, 0.5, generator=wanted) for _ in range(2))
        runs = [wir.compile(program, emitter) for emitter in ("python", "cpp", "fx")]
        for run in (*runs, lambda *inputs: wir.interpret(planned, *inputs)):
            generator = torch.Generator().manual_seed(5)
            a, b, c = run(generator, x)
            assert torch.equal(a, first)
            assert torch.equal(b, first)
            assert torch.equal(c, second)
            assert torch.equal(generator.get_state(), wanted.get_state())
            for wrong, said in ((x, "type Tensor"), (3, "type int")):
                with pytest.raises(wir.WrapperIRError, match=f"torch::Generator.*{said}"):
                    run(wrong, x)
        for wrong in (DRAW.replace("&twin)", "%x)"), DRAW.replace(" : torch::G", " : ns::G")):
            assert wrong != DRAW
            with pytest.raises(wir.WrapperIRError, match="torch::Generator"):
                wir.verify(wir.parse(wrong))
