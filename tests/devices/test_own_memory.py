"""Memory of a device's own: layouts that only it understands, and memory spaces."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.devices.loops import HEADER, IN_CPP, LOOPS, cpu_with
from wrapper_ir import devices
from wrapper_ir.build import LayoutError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines import MemoryKind
from wrapper_ir.planning import plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: Tiles of four by four, one after the other; the last row and column of them is filled up.
PLACE = """\
static int64_t to(int64_t at, int64_t n) {
    int64_t i = at / n, j = at % n;
    return (i / 4 * ((n + 3) / 4) + j / 4) * 16 + i % 4 * 4 + j % 4;
}
"""


def tiled(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    rows, columns = (-(-each // 4) * 4 for each in size)
    return torch.full((rows * columns,), -1.0, dtype=dtype)[: size[0] * size[1]].view(*size)


def fast(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    made.append(tuple(size))
    return torch.empty_strided(size, stride, dtype=dtype)


made: list[tuple[int, ...]] = []
"""Sizes of what was allocated in the fast memory."""


@pytest.fixture
def tiles() -> Iterator[None]:
    """A CPU with tiles, and kernels that know them."""
    layout = devices.OpaqueLayout(allocator=f"{__name__}:tiled", tile=(4, 4))
    spaces = {"fast": devices.MemorySpace(allocator=f"{__name__}:fast")}
    memory = dataclasses.replace(devices.CPU.memory, layouts={"tiled": layout}, spaces=spaces)
    with cpu_with(memory=memory, languages=(*devices.CPU.languages, LOOPS)):
        yield


#: Allocators of a vendor's for C++: tiles are rounded up.
ALLOCATORS = """\
#pragma once

#include <cstdint>

#include <wir/tensor.h>

namespace own {

inline AOTITorchError fast(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                           std::int32_t dtype, std::int32_t type, std::int32_t index,
                           AtenTensorHandle* made) {
  return aoti_torch_empty_strided(rank, size, stride, dtype, type, index, made);
}

inline AOTITorchError tiled(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                            std::int32_t dtype, std::int32_t type, std::int32_t index,
                            AtenTensorHandle* made) {
  if (rank != 2) return 1;
  const std::int64_t whole[] = {(size[0] + 3) / 4 * 4, (size[1] + 3) / 4 * 4};
  const std::int64_t steps[] = {whole[1], 1};
  AtenTensorHandle tiles = nullptr;
  if (aoti_torch_empty_strided(2, whole, steps, dtype, type, index, &tiles) != 0) return 1;
  const AOTITorchError failed = aoti_torch__reinterpret_tensor(tiles, 2, size, stride, 0, made);
  aoti_torch_delete_tensor_object(tiles);
  return failed;
}

}  // namespace own
"""


@pytest.fixture
def in_cpp() -> Iterator[None]:
    """The same for C++ alone."""
    layout = devices.OpaqueLayout(cpp_allocator="own::tiled", tile=(4, 4))
    spaces = {"fast": devices.MemorySpace(cpp_allocator="own::fast")}
    memory = dataclasses.replace(devices.CPU.memory, layouts={"tiled": layout}, spaces=spaces)
    assert devices.CPU.cpp is not None
    headers = {"loops.h": HEADER, "own.h": ALLOCATORS}
    side = dataclasses.replace(devices.CPU.cpp, headers=headers)
    with cpu_with(memory=memory, cpp=side, languages=(*devices.CPU.languages, IN_CPP)):
        yield


def program(steps: int = 4) -> wir.Program:
    """A matrix goes into tiles, is doubled there some times, and comes back."""
    b = wir.Builder("tiles")
    m, n = b.symbol("m", min=1, hint=5), b.symbol("n", min=1, hint=6)
    x = b.input("x", "f32", (m, n))

    def kernel(name: str, body: str) -> wir.build.Kernel:
        code = f"{PLACE}void f(int64_t at, const float* x, float* y, int64_t n) {{ {body} }}"
        given = {"reads": [("x", "f32")], "writes": [("y", "f32")], "scalars": ["n"]}
        return b.device_kernel(name, code, language="loops", entry="f", **given)

    pack = kernel("pack", "y[to(at, n)] = x[at];")
    double = kernel("double", "y[to(at, n)] = 2 * x[to(at, n)];")
    unpack = kernel("unpack", "y[at] = x[to(at, n)];")
    inside = b.allocate("f32", (m, n), opaque="tiled")
    b.call(pack, x, inside, n, grid=(m * n,))
    for _ in range(steps):
        before, inside = inside, b.allocate("f32", (m, n), opaque="tiled")
        b.call(double, before, inside, n, grid=(m * n,))
    y = b.allocate("f32", (m, n))
    b.call(unpack, inside, y, n, grid=(m * n,))
    b.returns(y)
    return b.build()


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
def test_it_runs_however_it_is_planned(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where probes write
    planned = wir.plan_memory(program(), strategy)
    wir.verify(planned)
    assert wir.parse(str(planned)) == planned
    call = wir.compile(planned, debug="stats")
    for size in ((3, 5), (8, 8), (1, 1)):
        x = torch.randn(size)
        assert torch.equal(call(x)[0], 16 * x)


@pytest.mark.usefixtures("tiles")
def test_plans_count_tiles_and_reuse_only_the_same_layout() -> None:
    found = plan(program(), "reuse")
    text = str(found.program)
    assert text.count("= allocate : f32[m, n] opaque tiled") == 2
    assert text.count("= reuse") == 3
    assert text.count("= allocate : f32[m, n] @cpu") == 1
    assert found.report.peak_bytes == 2 * 8 * 8 * 4  # of 5 by 6 elements
    pooled = str(wir.plan_memory(program(), "pool"))
    assert "allocate_from_pool" not in pooled
    assert pooled.count("opaque tiled") == text.count("opaque tiled")


def test_without_the_kind_it_is_read_planned_and_refused_by_name() -> None:
    text = str(program())
    again = wir.plan_memory(wir.parse(text), "reuse")
    assert str(wir.parse(str(again))) == str(again)
    for target in ("python", "cpp", "fx"):
        with pytest.raises(wir.WrapperIRError, match="opaque tiled"):
            wir.emit(again, target)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("strategy", ["none", "reuse", "pool"])
def test_the_interpreter_takes_it(strategy: str) -> None:
    planned = wir.plan_memory(program(), strategy)
    for size in ((3, 5), (8, 8), (1, 1)):
        x = torch.randn(size)
        assert torch.equal(interpret(planned, x)[0], 16 * x)


@pytest.mark.usefixtures("in_cpp")
def test_other_targets_than_its_allocators_refuse_it_by_name() -> None:
    for target, make, name in (
        ("python", program, "layout 'opaque tiled' in Python"),
        ("fx", in_spaces, "memory space 'fast' in Python"),
    ):
        with pytest.raises(wir.WrapperIRError, match=f"no allocator for the {name}"):
            wir.emit(make(), target)
    with pytest.raises(wir.WrapperIRError, match="the layout 'opaque tiled' is not supported"):
        interpret(program(), torch.randn(3, 5))


@pytest.mark.usefixtures("tiles")
def test_in_cpp_it_takes_an_allocator_for_cpp() -> None:
    with pytest.raises(wir.WrapperIRError, match=r"no allocator for the layout .* in C\+\+"):
        wir.emit(program(), "cpp")


@pytest.mark.slow
@pytest.mark.usefixtures("in_cpp")
@pytest.mark.parametrize("strategy", ["reuse", "pool"])
def test_it_runs_in_cpp(strategy: str, tmp_path: Path) -> None:
    artifact: Any = wir.emit(wir.plan_memory(program(), strategy), "cpp")
    assert artifact.source.count("wir::allocated(own::tiled, ") == 2
    packaged = wir.load_package(artifact.export(tmp_path / "m.so"))
    for call in (artifact.load(), packaged):
        for size in ((3, 5), (8, 8), (1, 1)):
            x = torch.randn(size)
            assert torch.equal(call(x)[0], 16 * x)


def filled() -> wir.Program:
    """A library op writes an opaque buffer, which is reused, and another one reads it."""
    b = wir.Builder("filled")
    n = b.symbol("n", min=1)
    x = b.input("x", "f32", (n, 6))
    for op in ("tan", "cumsum", "tan"):
        y = b.allocate("f32", (n, 6), opaque="tiled")
        if op == "tan":
            b.extern("aten::tan.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", x, out=y)
        else:
            b.extern(CUMSUM, x, 0, out=y)  # may not read where it writes
        x = y
    b.returns(b.extern("aten::relu(Tensor self) -> Tensor", x, result=x))
    return b.build()


CUMSUM = (
    "aten::cumsum.out(Tensor self, int dim, *, ScalarType? dtype=None, Tensor(a!) out) "
    "-> Tensor(a!)"
)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("strategy", ["reuse", "pool"])
def test_graphs_call_the_allocators(strategy: str) -> None:
    artifact: Any = wir.emit(wir.plan_memory(filled(), strategy), "fx")
    assert artifact.source.count("test_own_memory.tiled(") == 2
    assert "as_strided" not in artifact.source
    x = torch.randn(5, 6)
    for call in (artifact.load(), artifact.graph_module):
        assert torch.equal(call(x)[0], x.tan().cumsum(0).tan().relu())


@pytest.mark.parametrize("name", ["", "two words", "ü", "1"])
def test_its_name_is_an_identifier(name: str) -> None:
    b = wir.Builder("p")
    with pytest.raises(LayoutError, match="identifier"):
        b.allocate("f32", (4,), opaque=name)


@pytest.mark.usefixtures("tiles")
def test_plans_know_tiles_of_other_ranks_than_the_tensors() -> None:
    for size, nbytes in (((), 4), ((5,), 8 * 4), ((3, 5, 5), 3 * 8 * 8 * 4), ((0, 5), 0)):
        b = wir.Builder("p")
        b.returns(b.allocate("f32", size, opaque="tiled"))
        assert plan(b.build(), "reuse").report.peak_bytes == nbytes
    with pytest.raises(ValueError, match="each count must be at least 1"):
        devices.OpaqueLayout(allocator="a:b", tile=(4, 0))


# Memory spaces.

ADD = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"


def in_spaces() -> wir.Program:
    """Four buffers in turns, in the fast memory and in the usual one, and a result in the fast."""
    b = wir.Builder("spaces")
    x = b.input("x", "f32", (64,))
    for space in ("fast", "", "fast", "", "fast"):
        y = b.allocate("f32", (64,), space=space)
        b.extern(ADD, x, x, out=y)
        x = y
    b.returns(x)
    return b.build()


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(("strategy", "allocations"), [("none", 3), ("reuse", 1), ("pool", 2)])
def test_storage_stays_in_its_space(strategy: str, allocations: int) -> None:
    planned = wir.plan_memory(in_spaces(), strategy)
    assert wir.parse(str(planned)) == planned
    call, x = wir.compile(planned), torch.randn(64)
    made.clear()
    assert torch.equal(call(x)[0], 32 * x)
    assert len(made) == allocations
    assert torch.equal(interpret(planned, x)[0], 32 * x)
    assert len(made) == 2 * allocations


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(("strategy", "allocations"), [("none", 3), ("reuse", 1), ("pool", 2)])
def test_storage_of_graphs_stays_in_its_space(strategy: str, allocations: int) -> None:
    call, x = wir.compile(wir.plan_memory(in_spaces(), strategy), "fx"), torch.randn(64)
    made.clear()
    assert torch.equal(call(x)[0], 32 * x)
    assert len(made) == allocations


@pytest.mark.slow
@pytest.mark.usefixtures("in_cpp")
@pytest.mark.parametrize(("strategy", "allocations"), [("none", 3), ("reuse", 1), ("pool", 2)])
def test_storage_in_cpp_stays_in_its_space(strategy: str, allocations: int, tmp_path: Path) -> None:
    file = wir.export(wir.plan_memory(in_spaces(), strategy), tmp_path / "m.so")
    call, x = wir.load_package(file), torch.randn(64)
    assert torch.equal(call(x)[0], 32 * x)
    assert wir.emit(wir.plan_memory(in_spaces(), strategy), "cpp").source.count("own::fast") == (
        allocations
    )


@pytest.mark.usefixtures("tiles")
def test_a_graph_goes_on_in_the_same_space_in_another_dtype() -> None:
    """Its storage is reused for integers, which a graph has in memory of their own."""
    b = wir.Builder("dtypes")
    x, n = b.input("x", "f32", (64,)), b.input("n", "i32", (64,))
    y = b.allocate("f32", (64,), space="fast")
    b.extern(ADD, x, x, out=y)
    z = b.extern("aten::abs(Tensor self) -> Tensor", y, result=y)
    w = b.allocate("i32", (64,), space="fast")
    b.extern(ADD, n, n, out=w)
    b.returns(z, w)
    planned = wir.plan_memory(b.build(), "reuse")
    assert "= reuse" in str(planned)
    call, x_ = wir.compile(planned, "fx"), torch.randn(64)
    made.clear()
    found = call(x_, torch.ones(64, dtype=torch.int32))
    assert torch.equal(found[0], 2 * x_.abs())
    assert found[1].tolist() == [2] * 64
    assert len(made) == 2


@pytest.mark.usefixtures("tiles")
def test_arenas_are_of_one_space() -> None:
    b = wir.Builder("arenas")
    x = b.input("x", "f32", (64,))
    ys = [b.allocate("f32", (64,), space=space) for space in ("fast", "", "fast", "")]
    for y in ys:
        b.extern(ADD, x, x, out=y)
    out = b.allocate("f32", (64,))
    for y in ys:
        b.extern(ADD, y, y, out=out)
    b.returns(out)
    planned = wir.plan_memory(b.build(), "pool")
    assert str(planned).count('= allocate_pool space "fast" :') == 1
    assert str(planned).count("= allocate_pool :") == 1
    x_ = torch.randn(64)
    for options in ({}, {"arena": "kept"}):
        assert torch.equal(wir.compile(planned, **options)(x_)[0], 4 * x_)


@pytest.mark.usefixtures("tiles")
def test_pinned_memory_of_a_space_is_refused_by_name() -> None:
    b = wir.Builder("p")
    b.returns(b.allocate("f32", (4,), memory=MemoryKind.PINNED, space="fast"))
    with pytest.raises(wir.WrapperIRError, match="no pinned memory in the memory space 'fast'"):
        wir.emit(b.build())


def test_a_space_that_nobody_declares_is_refused_by_name() -> None:
    planned = wir.plan_memory(in_spaces(), "reuse")
    for target in ("python", "cpp", "fx"):
        with pytest.raises(wir.WrapperIRError, match="memory space 'fast'"):
            wir.emit(planned, target)
    with pytest.raises(wir.WrapperIRError, match="have no memory space 'fast'"):
        interpret(planned, torch.randn(64))
