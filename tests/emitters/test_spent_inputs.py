"""A call lets go of its inputs after their last use, so that memory is free for what follows."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.analysis.borders import spent_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """wir 2
program @p inference logical

input %x : f32[64] @cpu
input %y : f32[64] @cpu

extern aten::sin(Tensor self) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
extern wir_test_spent::look(Tensor self) -> Tensor

"""

#: What comes before and after the op that looks, and whether the storage of %x is free by then.
BODIES = {
    "used before": ("  %a = aten::sin(%x) : f32[64] @cpu\n", "%y", True),
    "a view used before": (
        """\
  %v = reinterpret %x : f32[8, 8] @cpu
  %s = aten::sin(%v) : f32[8, 8] @cpu
  %a = reinterpret %s : f32[64] @cpu
""",
        "%y",
        True,
    ),
    "used again": ("  %a = aten::sin(%x) : f32[64] @cpu\n", "%x", False),
    "a view used again": (
        """\
  %a = aten::sin(%x) : f32[64] @cpu
  %v = reinterpret %x : f32[64] @cpu
""",
        "%v",
        False,
    ),
}


def text(name: str) -> str:
    before, after, _ = BODIES[name]
    return f"""{HEAD}{before}  %b = wir_test_spent::look(%a) : f32[64] @cpu
  %c = aten::add.Tensor(%b, {after}) : f32[64] @cpu
return %c
"""


@pytest.fixture
def looked() -> Iterator[list[Any]]:
    """Register an op that asks the functions in a list, and replaces them by the answers."""
    library = torch.library.Library("wir_test_spent", "FRAGMENT")
    library.define("look(Tensor self) -> Tensor")
    questions: list[Any] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        questions[:] = [question() for question in questions]
        return tensor.clone()

    library.impl("look", look, "CPU")
    yield questions
    library._destroy()


@pytest.mark.parametrize("target", ["python", "cpp"])
@pytest.mark.parametrize("name", BODIES)
def test_storage_ends_after_its_last_use(name: str, target: str, looked: list[Any]) -> None:
    artifact: Any = wir.emit(wir.parse(text(name)), target)
    function = artifact.load_boxed()
    for _ in range(2):
        memory = np.full(64, 2.0, dtype=np.float32)
        ref = weakref.ref(memory)
        looked[:] = [lambda ref=ref: ref() is None]
        args = [torch.from_numpy(memory), torch.ones(64)]
        added = 2.0 if "again" in name else 1.0
        expected = torch.full((64,), 2.0).sin() + added
        del memory
        (result,) = function(args)
        assert args == []
        assert looked == [BODIES[name][2]]
        assert torch.equal(result, expected)


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_what_the_caller_holds_stays(target: str, looked: list[Any]) -> None:
    artifact: Any = wir.emit(wir.parse(text("used before")), target)
    x = torch.full((64,), 3.0)
    artifact.load_boxed()([x, torch.ones(64)])
    assert artifact.load()(x, torch.ones(64))[0].shape == (64,)
    assert torch.equal(x, torch.full((64,), 3.0))


def spent(source: str) -> dict[int, list[str]]:
    program = wir.parse(source)
    return spent_inputs(program)


def test_only_before_lines_that_may_allocate() -> None:
    assert spent(text("used before")) == {4: ["x"]}  # after three declarations
    assert spent(text("used again")) == {}  # nothing allocates after the last use


def test_results_keep_their_inputs() -> None:
    source = text("used before").replace("return %c", "return %c, %x")
    assert spent(source) == {}
    source = text("a view used before").replace("return %c", "return %c, %v")
    assert spent(source) == {}


def test_inputs_on_other_streams_last_until_the_end() -> None:
    source = """wir 2
program @side inference logical

input %x : f32[64, 64] @cuda:0
input %y : f32[64, 64] @cuda:0
stream 1 @cuda:0
event 1
event 2

extern aten::mm(Tensor self, Tensor mat2) -> Tensor

  record_event 1 @cuda:0
  wait_event 1 @cuda:0 stream 1
  %a = aten::mm(%x, %x) @cuda:0 stream 1 : f32[64, 64] @cuda:0
  record_event 2 @cuda:0 stream 1
  wait_event 2 @cuda:0
  %b = aten::mm(%a, %y) @cuda:0 : f32[64, 64] @cuda:0
  %c = aten::mm(%b, %b) @cuda:0 : f32[64, 64] @cuda:0
return %c
"""
    assert spent(source) == {7: ["y"]}
