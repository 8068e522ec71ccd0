"""Faults planted in a kernel of a captured model, each found at that kernel, by every emitter."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests import warm
from wrapper_ir.debug_printer import DebugPrinter, bisect, calls_of, debug_session, extract
from wrapper_ir.debugging.extract import copies
from wrapper_ir.lines import CppKernel, KernelDefinition
from wrapper_ir.runtime import NonFiniteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TARGETS = ["python", "fx", "cpp"]


class Model(nn.Module):
    """Two layers with normalised, fused activations between, and a softmax."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.second = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x)).relu()).softmax(-1)


@pytest.fixture(scope="module")
def program() -> wir.Program:
    return wir.plan_memory(wir.capture(Model(), (torch.randn(4, 8),)))


@pytest.fixture(scope="module")
def inputs() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(4, 8)]


@pytest.fixture(scope="module")
def saved(
    program: wir.Program, inputs: list[Tensor], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What a right run wrote."""
    with debug_session(tmp_path_factory.mktemp("saved") / "good") as session:
        wir.compile(program, debug="save")(*inputs)
    return session.directory


#: What is written before the kernel's own statements and after them.
FAULTS = {
    "off by one": ("", "{out}[2] = {out}[1];"),
    "nan": ("", "{out}[3] = std::numeric_limits<float>::quiet_NaN();"),
    "uninitialised": ("const float seen = {out}[5];", "{out}[5] += seen;"),
}


def planted(program: wir.Program, fault: str) -> tuple[wir.Program, str]:
    """The program with a fault in its last kernel that has a result of its own, and its name."""
    definition, out = [
        (line, param.name)
        for line in program.body
        if isinstance(line, KernelDefinition) and isinstance(line.source, CppKernel)
        for param in line.params
        if param.name.startswith("out_ptr")
    ][-1]
    assert isinstance(definition.source, CppKernel)
    first, last = (text.format(out=out) for text in FAULTS[fault])
    head, brace, rest = definition.source.code.partition("{")
    body, end, tail = rest.rpartition("}")
    code = f"{head}{brace}{first}{body}{last}{end}{tail}"
    changed = dataclasses.replace(
        definition, source=dataclasses.replace(definition.source, code=code)
    )
    lines = tuple(changed if line is definition else line for line in program.body)
    return program.replace(body=lines), definition.name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fault", FAULTS)
def test_bisect_finds_it(
    fault: str, target: str, program: wir.Program, inputs: list[Tensor]
) -> None:
    wrong, kernel = planted(program, fault)
    found = bisect(program, inputs, "python", target, other=wrong)
    assert found.call is not None
    assert found.call.name == kernel
    assert not bisect(program, inputs, "python", target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fault", ["nan", "uninitialised"])
def test_check_finds_it(
    fault: str, target: str, program: wir.Program, inputs: list[Tensor]
) -> None:
    wrong, kernel = planted(program, fault)
    printer = DebugPrinter("check", poison=True)
    with pytest.raises(NonFiniteError, match="wrote NaN to") as caught:
        wir.compile(wrong, target, debug=printer)(*inputs)
    assert str(caught.value.fields["call"]).endswith(kernel)
    assert caught.value.fields["index"] == ((0, 3) if fault == "nan" else (0, 5))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fault", FAULTS)
def test_compare_finds_it(
    fault: str,
    target: str,
    program: wir.Program,
    inputs: list[Tensor],
    saved: Path,
    tmp_path: Path,
) -> None:
    wrong, kernel = planted(program, fault)
    with debug_session(reference=saved, output=tmp_path / "log"):
        wir.compile(wrong, target, debug=DebugPrinter("compare", poison=True))(*inputs)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0][5:].startswith(f"{kernel} after ")


@pytest.mark.parametrize("target", TARGETS)
def test_a_right_program_passes(
    target: str, program: wir.Program, inputs: list[Tensor], saved: Path, tmp_path: Path
) -> None:
    run: Callable[..., Any] = wir.compile(program, target, debug=DebugPrinter("check", poison=True))
    assert torch.equal(run(*inputs)[0], wir.compile(program)(*inputs)[0])
    with debug_session(reference=saved, output=tmp_path / "log"):
        wir.compile(program, target, debug=DebugPrinter("compare", poison=True))(*inputs)
    assert (tmp_path / "log").read_text() == ""
    assert len(list(calls_of(program))) > 3


def test_every_call_of_a_captured_model_gives_alone_what_it_gave_inside(
    program: wir.Program, inputs: list[Tensor]
) -> None:
    for call in calls_of(program):
        found = extract(program, call.number, inputs)
        results = wir.compile(found.program)(*copies(found.inputs))
        for ours, theirs in zip(results, found.expected, strict=True):
            assert torch.equal(ours, theirs)


def test_the_reproducer_of_a_fault_runs_by_itself(
    program: wir.Program, inputs: list[Tensor], tmp_path: Path
) -> None:
    """It passes with the right kernel, and fails once that is changed."""
    wrong, _ = planted(program, "off by one")
    found = bisect(program, inputs, other=wrong, folder=tmp_path / "repro")
    assert found.folder is not None
    words = (warm.PYTEST, "-q", "-p", "no:cacheprovider", found.folder)
    assert warm.run(*words, cwd=tmp_path).returncode == 0
    wir_file = found.folder / "call.wir"
    text = wir_file.read_text()
    out = "in_out_ptr0" if "in_out_ptr0" in text else "out_ptr0"
    end = text.rindex("  | }")
    wir_file.write_text(f"{text[:end]}  | {out}[2] = {out}[1] + 1;\n{text[end:]}")
    assert warm.run(*words, cwd=tmp_path).returncode == 1


CAT = """
wir 2
program @both inference planned
input %x : f32[4] @cpu
kernel @double(in_ptr0: in f32, out_ptr0: out f32, in_out_ptr0: inout f32) cpp
  | extern "C" void kernel(const float* a, float* out, float* all)
  | {
  |     for (int i = 0; i < 4; ++i) out[i] = 2 * a[i];
  |     all[0] = 9;
  | }
  |
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  %all = allocate : f32[8] @cpu
  %one = reinterpret %all : f32[4] @cpu
  aten::relu.out(%x, out=out %one)
  %two = reinterpret %all : f32[4]+4 @cpu
  call @double(%one, out %two, inout %all)
return %all
"""


def test_operands_that_share_memory_do_so_alone() -> None:
    found = extract(wir.parse(CAT), 1, [torch.arange(4.0)])
    assert [tuple(x.shape) for x in found.inputs] == [(8,)]
    results = wir.compile(found.program)(*copies(found.inputs))
    for ours, theirs in zip(results, found.expected, strict=True):
        assert torch.equal(ours, theirs)
    assert found.expected[-1].tolist() == [9.0, 1.0, 2.0, 3.0, 0.0, 2.0, 4.0, 6.0]
