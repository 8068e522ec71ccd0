"""Kernels in a language that a kind of device brings: lines carry them, its launcher runs them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests import warm
from tests.devices.loops import HEADER, IN_CPP, LOOPS, Loops, cpu_with
from wrapper_ir import devices
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import DeviceKernel
from wrapper_ir.runtime import MachineCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = """
wir 2
program @own inference planned

symbol n : int [1, inf]
input %x : f32[n] @cpu

kernel @double(x: in f32, y: out f32, n: i64) language "loops" entry "f" group [2] options {K: 2}
  | void f(int64_t at, const float* x, float* y, int64_t n) {
  |     if (at < n) y[at] = K * x[at];
  | }
  |

  n = size %x, 0
  %y = allocate : f32[n] @cpu
  call @double(%x, out %y, n) grid [(n + 1) // 2]
return %y
"""


@pytest.fixture
def loops() -> Iterator[None]:
    """A CPU that runs one language more."""
    with cpu_with(languages=(*devices.CPU.languages, LOOPS)):
        yield


def test_the_text_form_carries_it() -> None:
    program = wir.parse(TEXT)
    wir.verify(program)
    assert wir.parse(str(program)) == program
    assert str(program).split() == TEXT.split()
    source = program.kernels["double"].source
    assert isinstance(source, DeviceKernel)
    assert (source.group, source.options) == ((2,), (("K", 2),))


def test_a_diff_shows_the_lines_of_source_that_changed() -> None:
    one, other = wir.parse(TEXT), wir.parse(TEXT.replace("K * x", "x[at] + x"))
    assert "K * x[at]" in str(wir.diff(one, other))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("size", [1, 6, 7])
def test_its_launcher_runs_it(size: int) -> None:
    artifact = wir.emit(wir.parse(TEXT))
    assert "from tests.devices.loops import Loops" in artifact.source.splitlines()
    x = torch.randn(size)
    (y,) = artifact.load()(x)
    assert torch.equal(y, 2 * x)


@pytest.mark.usefixtures("loops")
def test_the_builder_makes_it() -> None:
    b = wir.Builder("own")
    n = b.symbol("n", min=1)
    x = b.input("x", "f32", (n,))
    kernel = b.device_kernel(
        "double",
        "void twice(int64_t at, const float* x, float* out) { out[at] = 2 * x[at]; }",
        language="loops",
        reads=[("x", "f32")],
        writes=[("out", "f32")],
        entry="twice",
    )
    y = b.allocate("f32", (n,))
    b.call(kernel, x, y, grid=(n,))
    b.returns(y)
    program = b.build()
    given = torch.randn(5)
    assert torch.equal(wir.compile(program)(given)[0], 2 * given)


def test_nobody_runs_a_language_that_is_not_registered() -> None:
    with pytest.raises(wir.WrapperIRError, match="kernels in loops do not run on cpu"):
        wir.emit(wir.parse(TEXT))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("emitter", ["cpp", "fx"])
def test_other_emitters_refuse_it_by_name(emitter: str) -> None:
    with pytest.raises(wir.WrapperIRError, match="kernels in loops are launched only from Python"):
        wir.emit(wir.parse(TEXT), emitter)


@pytest.mark.usefixtures("loops")
def test_the_interpreter_launches_it() -> None:
    (y,) = wir.interpret(wir.parse(TEXT), torch.ones(3))
    assert y.tolist() == [2] * 3


@pytest.fixture
def in_cpp() -> Iterator[None]:
    """A CPU for whose further language C++ programs have a launcher."""
    assert devices.CPU.cpp is not None
    side = dataclasses.replace(devices.CPU.cpp, headers={"loops.h": HEADER})
    languages = (*devices.CPU.languages, IN_CPP)
    with cpu_with(languages=languages, cpp=side):
        yield


OBJECT = """\
inline constexpr wir::KernelOption double_1_options[] = {
  {"K", "2", false},
};
inline constexpr wir::KernelText double_1_text = {
  .name = "double",
  .code =
    "void f(int64_t at, const float* x, float* y, int64_t n) {\\n"
    "    if (at < n) y[at] = K * x[at];\\n"
    "}\\n",
  .entry = "f",
  .params = "in f32, out f32, i64",
  .group = {2},
  .num_options = 1,
  .options = double_1_options,
};
inline loops::Kernel<const float*, float*, std::int64_t> double_1{double_1_text};
"""


@pytest.mark.slow
@pytest.mark.usefixtures("in_cpp")
def test_a_launcher_in_a_vendors_header_runs_it_in_cpp(tmp_path: Path) -> None:
    artifact: Any = wir.emit(wir.parse(TEXT), "cpp")
    assert artifact.sources["loops.h"] == HEADER
    assert OBJECT in artifact.source
    assert "double_1.load(0);" in artifact.source
    assert "double_1(call, {" in artifact.source
    packaged = wir.load_package(artifact.export(tmp_path / "m.pt2"))
    for call in (artifact.load(), packaged):
        for size in (1, 6, 7):
            x = torch.randn(size)
            (y,) = call(x)
            assert torch.equal(y, 2 * x)


@pytest.mark.slow
@pytest.mark.usefixtures("in_cpp")
def test_what_its_launcher_throws_is_told() -> None:
    text = TEXT.replace("K * x[at]", "no such thing")
    with pytest.raises(wir.WrapperIRError, match="kernel 'double' does not compile"):
        wir.compile(wir.parse(text), "cpp")(torch.ones(2))


@pytest.fixture
def by_python() -> Iterator[None]:
    """A CPU whose further language the Python side launches for C++ programs, too."""
    assert devices.CPU.cpp is not None
    side = dataclasses.replace(devices.CPU.cpp, python=True)
    with cpu_with(languages=(*devices.CPU.languages, LOOPS), cpp=side):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("by_python")
def test_the_python_side_launches_it_for_cpp(tmp_path: Path) -> None:
    artifact: Any = wir.emit(wir.parse(TEXT), "cpp")
    types = "AtenTensorHandle, AtenTensorHandle, std::int64_t"
    assert f"inline wir::PythonKernel<{types}> double_1{{" in artifact.source
    packaged = wir.load_package(artifact.export(tmp_path / "m.pt2"))
    for call in (artifact.load(), packaged):
        for size in (1, 6, 7):
            x = torch.randn(size)
            (y,) = call(x)
            assert torch.equal(y, 2 * x)


ALONE = """
import sys, torch
call = torch._inductor.aoti_load_package(sys.argv[1])
try:
    call(torch.ones(3))
finally:
    assert not any(name.startswith("wrapper_ir") for name in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("by_python")
def test_without_the_python_side_a_program_says_what_it_lacks(tmp_path: Path) -> None:
    package = wir.emit(wir.parse(TEXT), "cpp").export(tmp_path / "m.pt2")
    done = warm.run(ALONE, package, ours=False)
    assert done.returncode != 0
    assert "WIR2165: the program runs on a device whose Python side" in done.stderr
    assert "import wrapper_ir.runtime, and the package of the device" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("by_python")
def test_the_python_side_is_given_a_view_of_an_arena() -> None:
    b = wir.Builder("two")
    x = b.input("x", "f32", (8,))
    reads, writes = [("x", "f32")], [("y", "f32")]
    text = "void f(int64_t at, const float* x, float* y) { y[at] = 2 * x[at]; }"
    twice = b.device_kernel("twice", text, language="loops", entry="f", reads=reads, writes=writes)
    made = [b.allocate("f32", (8,)) for _ in range(3)]
    for source, target in zip([x, *made], made, strict=False):
        b.call(twice, source, target, grid=(8,))
    b.returns(made[-1])
    program = wir.plan_memory(b.build(), "pool")
    given = torch.randn(8)
    assert torch.equal(wir.compile(program, "cpp")(given)[0], 8 * given)


@pytest.mark.slow
@pytest.mark.usefixtures("by_python")
def test_options_and_grids_reach_the_python_side_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def add(_: Any, *args: Any, **kwargs: Any) -> None:
        seen.append((args, kwargs))

    monkeypatch.setattr(Loops, "add", add)
    monkeypatch.setattr(Loops, "load", lambda _: (lambda *args: seen.append(args),))
    options = {"a": True, "b": 3, "c": 0.5, "d": "true", "e": math.inf, "f": "3"}
    b = wir.Builder("odd")
    x = b.input("x", "f32", (2,))
    kernel = b.device_kernel(
        "odd", "text", language="loops", entry="f", reads=[("x", "f32")],
        writes=[("y", "f32")], options=options,
    )  # fmt: skip
    y = b.allocate("f32", (2,))
    b.call(kernel, x, y, grid=(2, 1, 3))
    b.returns(y)
    wir.compile(b.build(), "cpp")(torch.ones(2))
    (args, kwargs), (grid, first, last) = seen
    assert args == ("odd", ["in f32", "out f32"], "text")
    assert kwargs == {"entry": "f", "group": (), "options": options}
    assert [type(value) for value in kwargs["options"].values()] == [
        type(value) for value in options.values()
    ]
    assert (grid, first.tolist(), last.shape) == ((2, 1, 3), [1, 1], (2,))


@pytest.mark.usefixtures("by_python")
def test_what_the_python_side_raises_is_told() -> None:
    text = TEXT.replace("K * x[at]", "no such thing")
    with pytest.raises(wir.WrapperIRError, match="no such thing"):
        wir.compile(wir.parse(text), "cpp")(torch.ones(2))


def test_names_of_languages_that_emitters_know_are_not_those_of_vendors() -> None:
    assert devices.vendor_language("Triton").launcher == ""
    assert not devices.CUDA.runs(devices.vendor_language("Triton"))


def test_gpus_run_a_language_that_hands_out_machine_code() -> None:
    """Launches take the stream, as those of Triton kernels do; see ``tests/gpu``."""
    from tests.gpu.cuda_language import LANGUAGE

    text = TEXT.replace("@cpu", "@cuda:0").replace("loops", LANGUAGE.name)
    text = text.replace("out %y, n)", "out %y, n) @cuda:0")
    with pytest.raises(wir.WrapperIRError, match="CUDA C\\+\\+"):
        wir.emit(wir.parse(text))
    assert devices.CUDA.cpp is not None
    taught = dataclasses.replace(
        devices.CUDA,
        languages=(*devices.CUDA.languages, LANGUAGE),
        cpp=dataclasses.replace(devices.CUDA.cpp, python=True),
    )
    devices.register_device(taught, over=devices.CUDA)
    try:
        program = wir.parse(text)
        source = wir.emit(program).source
        in_cpp = wir.emit(program, "cpp").source
    finally:
        devices.register_device(devices.CUDA, over=taught)
    assert "from tests.gpu.cuda_language import CudaCpp\n" in source
    assert "    double(((n + 1) // 2,), stream, x, y, n)\n" in source
    assert "inline wir::PythonKernel<AtenTensorHandle, AtenTensorHandle, std::int64_t>" in in_cpp


def test_machine_code_takes_pointers_and_numbers() -> None:
    code = MachineCode(name="k", params=("in f32", "c64"), code=b"", symbol="k", threads=32)
    with pytest.raises(OptionValueError, match="'c64'"):
        code.load(torch.device("cuda", 0))
