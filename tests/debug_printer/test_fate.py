"""Debugging changes neither what a program gives nor how it fails, whatever it shows."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.debug_printer import DebugPrinter, debug_session
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import DType

TARGETS = ["python", "fx"]
LEVELS = ["save", "print", "names", "stats", "compare", "hook", "check", "check_nan"]
TYPES = [
    *("f64", "f32", "f16", "bf16", "f8e4m3fn", "f8e5m2", "c64", "c128"),
    *("i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64", "bool"),
]

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def program(type_: str, size: tuple[int, ...], stride: tuple[int, ...]) -> wir.Program:
    layout = f"{type_}{list(size)}{{{', '.join(map(str, stride))}}} @cpu"
    return wir.parse(f"""
wir 2
program @copies inference planned
input %x : {layout}
extern aten::detach(Tensor(a) self) -> Tensor(a)
extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
  %a = aten::detach(%x) : {layout} alias(%x)
  %b = aten::clone(%a) : {layout}
return %a, %b
""")


def made(type_: str, size: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """Any bits, NaN and inf among them, in memory whose dimensions come in some order."""
    dtype = getattr(torch, DType(type_).torch_name)
    count = math.prod(size) * torch.empty(0, dtype=dtype).element_size()
    content = (torch.arange(count) * 37 + 120).to(torch.uint8)
    if dtype is torch.bool:
        content &= 1
    base = content.view(dtype).reshape([size[d] for d in order])
    return base.permute([order.index(d) for d in range(len(size))])


@pytest.mark.parametrize("target", TARGETS)
@given(type_=st.sampled_from(TYPES), size=SHAPES, level=st.sampled_from(LEVELS), data=st.data())
@settings(max_examples=40)
def test_results_are_the_same(
    target: str, type_: str, size: tuple[int, ...], level: str, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(size))).map(tuple))
    x = made(type_, size, order)
    plain = program(type_, size, x.stride())
    expected = bits(wir.compile(plain, target)(x))
    if level.startswith("check") and has_nan_or_inf(x):
        level = "stats"
    with session():
        given_ = bits(wir.compile(plain, target, debug=DebugPrinter(level, when="both"))(x))
    assert given_ == expected


#: Of every type a number and a matrix of any size: one compilation serves all examples.
RANKS = (0, 2)


def symbolic() -> wir.Program:
    sizes = {rank: [f"n{d}" for d in range(rank)] for rank in RANKS}
    names = [(type_, rank) for type_ in TYPES for rank in RANKS]
    lines = ["wir 2", "program @copies inference planned"]
    lines += [f"symbol n{d} : int [0, 8] hint 2" for d in range(max(RANKS))]
    lines += [f"input %{t}_{rank} : {t}[{', '.join(sizes[rank])}] @cpu" for t, rank in names]
    lines += [
        "extern aten::detach(Tensor(a) self) -> Tensor(a)",
        "extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    ]
    first = f"%{TYPES[0]}_{max(RANKS)}"
    lines += [f"  n{d} = size {first}, {d}" for d in range(max(RANKS))]
    for t, rank in names:
        layout = f"{t}[{', '.join(sizes[rank])}] @cpu"
        lines.append(f"  %a_{t}_{rank} = aten::detach(%{t}_{rank}) : {layout} alias(%{t}_{rank})")
        lines.append(f"  %b_{t}_{rank} = aten::clone(%a_{t}_{rank}) : {layout}")
    lines.append("return " + ", ".join(f"%b_{t}_{rank}" for t, rank in names))
    return wir.parse("\n".join((*lines, "")))


@pytest.fixture(scope="module")
def plain() -> Any:
    return wir.compile(symbolic())


@pytest.fixture(scope="module")
def loaded() -> Any:
    """C++ that Python has loaded: what it sees it reports to the functions of emitted Python."""
    printer = DebugPrinter("print", when="both")
    return wir.compile(symbolic(), "cpp", debug=printer)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """C++ on its own, whose level changes from run to run."""
    printer = DebugPrinter("print", when="both")
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRAPPER_IR_DEBUG_OUTPUT", str(folder / "log"))
        patch.setenv("WRAPPER_IR_DEBUG_LIMIT", "0")
        file = str(wir.export(symbolic(), folder / "fate.so", debug=printer))
        runner = torch._C._aoti.AOTIModelContainerRunnerCpu(file, 1)
        yield runner, ctypes.CDLL(file).WrapperIRSetProbes, folder


@given(size=st.tuples(st.integers(0, 5), st.integers(0, 5)))
@settings(max_examples=10)
def test_results_are_the_same_in_loaded_code(
    plain: Any, loaded: Any, size: tuple[int, ...]
) -> None:
    inputs = [made(t, size[:rank], tuple(range(rank))) for t in TYPES for rank in RANKS]
    expected = bits(plain(*inputs))
    with session():
        assert bits(loaded(*inputs)) == expected


@given(
    size=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    level=st.sampled_from(["off", "save", "print", "names", "stats", "check", "check_nan"]),
)
@settings(max_examples=25)
def test_results_are_the_same_in_libraries(
    plain: Any, library: Any, size: tuple[int, ...], level: str
) -> None:
    runner, switch, folder = library
    shapes = [(t, size[:rank]) for t in TYPES for rank in RANKS]
    inputs = [made(t, shape, tuple(range(len(shape)))) for t, shape in shapes]
    if level.startswith("check"):
        inputs = [torch.zeros_like(x) if has_nan_or_inf(x) else x for x in inputs]
    assert switch(level.encode(), os.fsencode(folder / "run")) == 0
    assert bits(runner.run(inputs)) == bits(plain(*inputs))
    log = folder / "log"
    assert "cannot be" not in (log.read_text() if log.exists() else "")


def has_nan_or_inf(x: Tensor) -> bool:
    wide = x.to(torch.complex128 if x.is_complex() else torch.float64)
    return not bool(wide.isfinite().all())


@contextlib.contextmanager
def session() -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log"
        with debug_session(Path(folder) / "run", output=file):
            yield
        for line in file.read_text().splitlines():
            assert "cannot be" not in line


def bits(results: Any) -> list[tuple[Any, ...]]:
    return [(str(t.dtype), tuple(t.shape), t.stride(), bytes_of(t)) for t in results]


def bytes_of(tensor: Tensor) -> Any:
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


FAILING = """
wir 2
program @failing inference planned
input %x : f32[4] @cpu
input %i : i64[2] @cpu
extern aten::index_select(Tensor self, int dim, Tensor index) -> Tensor
  %a = aten::index_select(%x, 0, %i) : f32[2] @cpu
return %a
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", LEVELS)
def test_errors_are_the_same(target: str, level: str) -> None:
    inputs = (torch.ones(4), torch.tensor([0, 9]))
    failing = wir.parse(FAILING)
    found = []
    for debug in ("off", level):
        with session(), pytest.raises(IndexError) as caught:
            wir.compile(failing, target, debug=debug)(*inputs)
        found.append(str(caught.value))
    assert found[0] == found[1]


def test_a_closed_output_does_no_harm() -> None:
    read, write = os.pipe()
    os.close(read)
    plain = program("f32", (2,), (1,))
    with debug_session(output=f"/dev/fd/{write}"):
        a, _ = wir.compile(plain, debug="print")(torch.ones(2))
    os.close(write)
    assert a.tolist() == [1.0, 1.0]


def test_a_limit_ends_the_output_with_a_line(tmp_path: Path) -> None:
    function = wir.compile(program("f32", (2,), (1,)), debug="print")
    for _ in range(2):
        with debug_session(output=tmp_path / "log", limit=100):
            function(torch.ones(2))
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].startswith("0000 aten::detach before x")
    assert (
        lines[1] == "debug: the limit is reached, the rest is not written (WRAPPER_IR_DEBUG_LIMIT)"
    )
    assert lines[2:] == lines[:2]


def test_a_limit_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (-1, True, "64 MB"):
        with pytest.raises(OptionValueError, match="a number of bytes"), debug_session(limit=limit):
            pass
    monkeypatch.setenv("WRAPPER_IR_DEBUG_LIMIT", "much")
    with debug_session():
        pass  # read when a program runs, a wrong word must not end it
