"""Wrong uses of the public functions: each is told in words, by an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.build import ArgumentError, LayoutError
from wrapper_ir.emitters import UnknownEmitterError
from wrapper_ir.emitters.base import MissingOpError
from wrapper_ir.errors import OptionError, OptionValueError, UnsupportedError, WrapperIRError
from wrapper_ir.planning import IntervalError, assign_offsets, check_plan, picture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """
wir 2
program @p inference planned
input %x : f32[4] @cpu
extern aten::relu(Tensor self) -> Tensor
  %y = aten::relu(%x) : f32[4] @cpu
return %y
"""
PROGRAM = wir.parse(TEXT)

ON_PROGRAMS: dict[str, Callable[[Any], object]] = {
    "emit": wir.emit,
    "compile": wir.compile,
    "export": lambda given: wir.export(given, "m.so"),
    "lower": wir.lower,
    "prepare": wir.prepare,
    "plan_memory": wir.plan_memory,
    "plan": wir.planning.plan,
    "verify": wir.verify,
    "diagnose": wir.diagnose,
    "verify_ranks": lambda given: wir.verify_ranks([given]),
    "print_program": wir.print_program,
    "diff": lambda given: wir.diff(given, PROGRAM),
    "diff, the second": lambda given: wir.diff(PROGRAM, given),
    "canonical": wir.canonical,
    "structure": wir.structure,
    "interpret": wir.interpret,
    "insert_probes": lambda given: wir.insert_probes(given, wir.DebugPrinter()),
    "assert_equivalent": wir.testing.assert_equivalent,
    "check_plan": check_plan,
    "picture": picture,
}


@pytest.mark.parametrize("name", ON_PROGRAMS)
@pytest.mark.parametrize("given", [TEXT, None, torch.nn.ReLU()], ids=["text", "none", "model"])
def test_what_is_no_program_is_refused(name: str, given: object) -> None:
    with pytest.raises(wir.NotAProgramError, match=type(given).__name__) as caught:
        ON_PROGRAMS[name](given)
    assert "wir.capture(model, args)" in str(caught.value)


def builder() -> tuple[wir.Builder, wir.build.Buffer]:
    b: Any = wir.Builder("p")
    return b, b.input("x", "f32", (4,))


MISTAKES: dict[str, tuple[Callable[[], object], type[WrapperIRError], str]] = {
    "a class for a target": (
        lambda: wir.emit(PROGRAM, wir.emitters.Emitter),
        UnknownEmitterError,
        r"MyEmitter\(\)\.emit",
    ),
    "one program for those of ranks": (
        lambda: wir.verify_ranks(PROGRAM),
        OptionValueError,
        "one program for each rank",
    ),
    "no ranks": (lambda: wir.verify_ranks([]), OptionValueError, "one program for each rank"),
    "a number for a strategy": (
        lambda: wir.plan_memory(wir.parse(TEXT.replace("planned", "logical")), 3),
        OptionError,
        "it has none, pool, reuse",
    ),
    "bytes for a text": (lambda: wir.parse(b"wir 2"), UnsupportedError, "wir.load"),
    "a level for a printer": (
        lambda: wir.insert_probes(PROGRAM, "print"),
        OptionValueError,
        r"wir\.DebugPrinter\('print'\)",
    ),
    "pairs for intervals": (lambda: assign_offsets([(0, 1)]), IntervalError, "not a triple"),
    "a list for metadata": (
        lambda: wir.export(PROGRAM, "m.pt2", metadata=["a"]),
        OptionValueError,
        "a dict of text",
    ),
    "a number for an architecture": (
        lambda: wir.export(PROGRAM, "m.pt2", gpu_arch=90),
        OptionValueError,
        "such as 'sm_90'",
    ),
    "a tensor for arguments": (
        lambda: wir.capture(torch.nn.ReLU(), torch.ones(4)),
        wir.frontends.inductor.CaptureError,
        r"\(x,\)",
    ),
    "an op that nobody has": (
        lambda: wir.compile(wir.parse(TEXT.replace("relu", "rleu"))),
        MissingOpError,
        "'aten::rleu'",
    ),
    "no stage": (lambda: wir.Builder(stage="done"), ArgumentError, "'logical', 'planned'"),
    "no role": (lambda: wir.Builder(role="train"), ArgumentError, "'inference', 'forward'"),
    "no device": (lambda: wir.Builder(device=3), LayoutError, "'cuda:1'"),
    "no kind of symbol": (
        lambda: wir.Builder().symbol("n", kind="long"),
        ArgumentError,
        "'long' is not one of 'int'",
    ),
    "a word for a bound": (lambda: wir.Builder().symbol("n", min="a"), ArgumentError, "an integer"),
    "no kind of constant": (
        lambda: wir.Builder().constant("w", torch.ones(3), kind="weight"),
        ArgumentError,
        "'weight' is not one of",
    ),
    "a list for a tensor": (lambda: wir.Builder().constant("w", [1]), ArgumentError, "a tensor"),
    "a number for sizes": (lambda: wir.Builder().input("x", "f32", 4), LayoutError, r"\(4,\)"),
    "a name for a kernel": (lambda: builder()[0].call("k"), ArgumentError, "not of type Kernel"),
    "a name for a buffer": (lambda: builder()[0].free("x"), ArgumentError, "not of type Buffer"),
    "a name for a symbol": (
        lambda: builder()[0].scalar_input("n"),
        ArgumentError,
        r"b\.symbol",
    ),
    "a number for a region": (
        lambda: (lambda b, x: b.cond(True, [x], 3, 4))(*builder()),  # type: ignore[attr-defined]
        ArgumentError,
        "not a function",
    ),
    "a number for an order": (
        lambda: (lambda b, x: b.permute(x, 3))(*builder()),  # type: ignore[attr-defined]
        LayoutError,
        "permutation of 1",
    ),
    "a name for a parameter": (
        lambda: wir.Builder().cpp_kernel("k", "", reads=["x"]),
        ArgumentError,
        r"\('x', 'f32'\)",
    ),
    "a device alone": (
        lambda: (
            lambda b, x: b.extern("aten::relu(Tensor self) -> Tensor", x, on="cpu", results=[None])  # type: ignore[attr-defined]
        )(*builder()),
        ArgumentError,
        "the device and the stream",
    ),
    "no side": (lambda: builder()[0].probe("l", when="during"), ArgumentError, "'before'"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_told_in_words(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mistake, error, words = MISTAKES[what]
    with pytest.raises(error) as caught:
        mistake()
    assert caught.match(words)
    assert [*tmp_path.iterdir()] == []
