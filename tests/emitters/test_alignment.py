"""Constants and inputs that kernels load many bytes at a time from are where that is allowed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.analysis.borders import alignments
from wrapper_ir.lines import AssertLayout
from wrapper_ir.runtime import AlignmentError, InputCountError, InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURE = "wrapper_ir.frontends.inductor.jitted.capturing.capture"

SCALED = """\
wir 2
program @p inference logical
input %x : f32[8] @cpu
constant %w : f32[8] @cpu = parameter "w"
extern aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
  assert_layout %w, "constant" align 16
  %y = aten::mul.Tensor(%x, %w) : f32[8] @cpu
return %y
"""


def odd(*size: int) -> Tensor:
    """A tensor that begins four bytes after a multiple of 16."""
    memory = torch.rand(torch.Size(size).numel() + 1)
    assert memory.data_ptr() % 16 == 0
    return memory[1:].view(size)


@pytest.mark.parametrize("target", ["python", "cpp", "fx", "interpreter"])
def test_a_misaligned_constant_is_refused(target: str) -> None:
    program, x = wir.parse(SCALED), torch.rand(8)
    assert alignments(program) == {"w": 16}

    def run(w: Tensor) -> Any:
        made = program.replace(data={"w": w})
        return wir.interpret(made, x) if target == "interpreter" else wir.compile(made, target)(x)

    w = torch.rand(8)
    assert run(w)[0].equal(x * w)
    with pytest.raises(AlignmentError, match="'w' is not aligned to 16 bytes"):
        run(odd(8))


def summed(count: int) -> wir.Program:
    """The sum of several inputs, of which each is realigned."""
    layout = "f32[s, 2]{1, s} @cpu"
    inputs = [f"input %x{n} : {layout} realigned 16" for n in range(count)]
    sums = ["x0", *(f"s{n}" for n in range(1, count))]
    lines = [
        f"  %{after} = aten::add.Tensor(%{before}, %x{n}) : {layout}"
        for n, (before, after) in enumerate(pairwise(sums), 1)
    ]
    head = [
        *("wir 2", "program @p inference logical", "symbol s : int [1, 99]", *inputs),
        "extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "  s = size %x0, 0",
    ]
    return wir.parse("\n".join([*head, *lines, f"return %{sums[-1]}\n"]))


@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
@pytest.mark.parametrize("count", [2, 9])
def test_inputs_are_copied_to_even_addresses(target: str, count: int) -> None:
    function = wir.compile(summed(count), target)
    for rows in (3, 4):
        for make in (torch.rand, odd, torch.rand):
            inputs = [make(2, rows).t() for _ in range(count)]
            expected = torch.zeros(2, rows).t()
            for each in inputs:
                expected = expected + each
            (result,) = function(*inputs)
            torch.testing.assert_close(result, expected)
            assert result.stride() == inputs[0].stride()


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize(
    "wrong", [None, torch.rand(2, 3).to_sparse(), 3], ids=["None", "sparse", "number"]
)
def test_what_is_no_such_tensor_is_refused_in_words(count: int, wrong: object) -> None:
    inputs: list[Any] = [odd(2, 3).t() for _ in range(count)]
    inputs[1] = wrong
    function: Any = wir.compile(summed(count))
    with pytest.raises(InputLayoutError, match="input 'x1' has the wrong"):
        function(*inputs)
    with pytest.raises(InputCountError):
        function(*inputs[:1])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_graphs_that_are_traced_again(backend: str) -> None:
    module: Any = wir.emit(summed(2), "fx").graph_module
    for make in (torch.rand, odd):
        inputs = [make(2, 3).t() for _ in range(2)]
        (result,) = torch.compile(module, backend=backend, fullgraph=True)(*inputs)
        torch.testing.assert_close(result, inputs[0] + inputs[1])


def _asking(capture: Callable[..., wir.Program]) -> Callable[..., wir.Program]:
    """Ask for addresses of what was aligned, as programs for GPUs do: none for CPUs does."""

    def captured(model: Any, examples: list[Tensor], **how: Any) -> wir.Program:
        program = capture(model, examples, **how)
        given = dict(zip((each.name for each in program.inputs), examples, strict=True))
        given.update(program.data)
        checks = [AssertLayout(n, alignment=16) for n, t in given.items() if t.data_ptr() % 16 == 0]
        return program.replace(body=(*checks, *program.body))

    return captured


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_jit_makes_programs_by_alignment(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CAPTURE, _asking(wir.capture))
    linear = nn.Linear(8, 8).requires_grad_(False)
    run = wir.jit(linear, target=target, fallback=False)
    for x in (torch.rand(3, 8), odd(3, 8), torch.rand(3, 8), odd(3, 8)):
        torch.testing.assert_close(run(x), linear(x))
    assert len(run.programs) == 2
    linear.weight.data = odd(8, 8)
    for x in (torch.rand(3, 8), odd(3, 8)):
        torch.testing.assert_close(run(x), linear(x))
    assert len(run.programs) == 4
    # The argument and the bias; the weight may be anywhere now.
    assert [len(alignments(each)) for each in run.programs] == [3, 2, 2, 1]


def test_jit_takes_arguments_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is traced in their place begins where they do."""
    monkeypatch.setattr(CAPTURE, _asking(wir.capture))
    memory = torch.rand(20)
    run = wir.jit(lambda x, y: x + 2 * y, fallback=False)
    for at in (4, 3):
        x, y = memory[:16], memory[at : at + 16]
        torch.testing.assert_close(run(x, y), x + 2 * y)
