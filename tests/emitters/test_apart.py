"""Arguments that share memory, for programs that write to one and take them for separate."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.runtime import SharedMemoryError
from wrapper_ir.runtime.apart import share_memory

TARGETS = ("interpreter", "python", "cpp", "fx")


class Writes(torch.nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a + b


class Reads(torch.nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


@cache
def _captured(model: type[torch.nn.Module], stride: int = 1) -> wir.Program:
    a, b = (torch.zeros(4 * stride)[::stride] for _ in range(2))
    return wir.capture(model(), (a, b))


def _call(program: wir.Program, target: str, **options: Any) -> Any:
    if target == "interpreter":
        return partial(wir.interpret, program)
    return wir.compile(program, target, **options)


#: Pairs of arguments that share memory, and of the same strides, that do not.
SHARED = {
    "shifted": (lambda t: (t[:4], t[1:5]), 1),
    "the same": (lambda t: (t[:4], t[:4]), 1),
    "written last": (lambda t: (t[3:7], t[:4]), 1),
    "every other one": (lambda t: (t[:8:2], t[2:10:2]), 2),
    "of two storages": (lambda t: (t[:4], torch.from_numpy(t.numpy()[2:6])), 1),
}
APART = {
    "halves": (lambda t: (t[:4], t[4:8]), 1),
    "interleaved": (lambda t: (t[:8:2], t[1:9:2]), 2),
    "separate": (lambda t: (t[:4], t[:4].clone()), 1),
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_captured_program_that_writes_refuses_what_overlaps(target: str) -> None:
    for name, (pick, stride) in SHARED.items():
        a, b = pick(torch.arange(16.0))
        call = _call(_captured(Writes, stride), target)
        with pytest.raises(SharedMemoryError, match=r"WIR2158: inputs '\w' and '\w' share memory"):
            call(a, b)
        assert a.tolist() == pick(torch.arange(16.0))[0].tolist(), name  # nothing was written
    for name, (pick, stride) in APART.items():
        a, b = pick(torch.arange(16.0))
        expected = a + 1 + b
        assert torch.equal(_call(_captured(Writes, stride), target)(a, b)[0], expected), name


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_that_only_reads_takes_what_overlaps(target: str) -> None:
    program = _captured(Reads)
    assert "assert_apart" not in str(program)
    t = torch.arange(8.0)
    assert torch.equal(_call(program, target)(t[:4], t[1:5])[0], t[:4] + t[1:5])


def test_it_may_be_left_out_with_the_other_checks() -> None:
    for target in ("python", "fx"):
        artifact = wir.emit(_captured(Writes), target, checks="never")
        assert "check_apart" not in artifact.source


def test_a_functional_export_refuses_what_overlaps_and_a_graph_that_writes_does_not() -> None:
    exported = torch.export.export(Writes(), (torch.zeros(4), torch.zeros(4)))
    t = torch.arange(8.0)
    with pytest.raises(SharedMemoryError):
        wir.compile(wir.from_fx(exported.run_decompositions()))(t[:4], t[1:5])
    in_order = wir.from_fx(exported)  # its ops write, as the model's do
    got = wir.compile(in_order)(t[:4], t[1:5])[0]
    t = torch.arange(8.0)
    assert torch.equal(got, Writes()(t[:4], t[1:5]))


def test_equal_examples_stand_for_separate_arguments() -> None:
    """``torch.export`` takes two arguments that are the same tensor for one."""
    t = torch.ones(4)
    program = wir.capture(Reads(), (t, t))
    assert wir.compile(program)(torch.ones(4), torch.zeros(4))[0].tolist() == [1.0] * 4


@st.composite
def _views(draw: st.DrawFn) -> tuple[Tensor, ...]:
    memory = torch.arange(256, dtype=torch.uint8)
    found = []
    for _ in range(2):
        dtype = draw(st.sampled_from([torch.uint8, torch.int16, torch.int32]))
        base = memory.view(dtype)
        size = draw(st.lists(st.integers(1, 3), max_size=3))
        stride = draw(st.lists(st.integers(0, 9), min_size=len(size), max_size=len(size)))
        room = base.numel() - 1 - sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        found.append(base.as_strided(size, stride, draw(st.integers(0, min(room, 40)))))
    return tuple(found)


def _bytes(tensor: Tensor) -> set[int]:
    item, places = tensor.element_size(), torch.arange(256)
    starts = places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return {int(n) * item + k for n in starts.reshape(-1) for k in range(item)}


@given(_views())
def test_sharing_is_exact(views: tuple[Tensor, ...]) -> None:
    one, other = views
    assert share_memory(one, other) == (not _bytes(one).isdisjoint(_bytes(other)))
