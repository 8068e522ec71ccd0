"""The instruction set: chosen, checked when it is built, checked again when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.export.support import PLAIN, captured, nested, plus_one, run
from wrapper_ir.aot.build import library as building
from wrapper_ir.aot.build.kernels import check_text
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.aot.errors import KernelIsaError
from wrapper_ir.errors import OptionValueError
from wrapper_ir.toolchain.isa import cpu_features

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif("avx2" not in cpu_features(), reason="about x86-64 with AVX2")


@pytest.mark.long
def test_a_model_captured_for_a_level_runs_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_PRECOMPILE_HEADERS", "0")  # no other test has use for these
    model, x, shift = nested()
    program = captured("x86-64-v3")
    assert {
        k.source.isa for k in program.kernels.values() if isinstance(k.source, wir.CppKernel)
    } == {"x86-64-v3"}
    file = wir.export(program, tmp_path / "m.so", isa="x86-64-v3")
    with torch.no_grad():
        torch.testing.assert_close(run(file, x, shift)[0], model(x, shift=shift)["hidden"])
    pairs = zip(run(file, x, shift), wir.compile(program)(x, shift), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("isa", ["avx512", "avx512 avx512_vnni", "x86-64-v4"])
def test_kernels_for_wider_vectors_are_refused(tmp_path: Path, isa: str) -> None:
    with pytest.raises(KernelIsaError, match=r"plus_0.*x86-64-v3") as caught:
        wir.export(plus_one(PLAIN, isa), tmp_path / "m.so", isa="x86-64-v3")
    assert "wir.capture(..., isa='x86-64-v3')" in str(caught.value)


@pytest.mark.parametrize("isa", ["", "none", "avx2", "x86-64-v3"])
def test_kernels_for_vectors_no_wider_are_taken(tmp_path: Path, isa: str) -> None:
    file = wir.export(plus_one(PLAIN, isa), tmp_path / "m.so", isa="x86-64-v3")
    assert run(file, torch.zeros(4))[0].tolist() == [1.0] * 4


def test_a_level_asks_for_that_level_and_no_more(tmp_path: Path) -> None:
    artifact = wir.emit(plus_one(), "cpp")
    built = building.build(artifact, tmp_path, BuildOptions(isa="x86-64-v3"))
    assert {"avx2", "fma", "bmi2"} <= set(built.features)
    assert not [feature for feature in built.features if feature.startswith("avx512")]


def test_a_processor_that_lacks_something_is_refused_with_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """xop is a feature that no processor in use today has."""
    text = check_text(["avx2", "xop"], "x86-64-v3")
    monkeypatch.setattr(building, "check_text", lambda features, isa: text)
    file = wir.export(plus_one(), tmp_path / "m.so", isa="x86-64-v3")
    with pytest.raises(RuntimeError):
        run(file, torch.zeros(4))
    # torch's runner keeps the words from its exception, so the library writes them.
    assert "built for x86-64-v3: this processor has no xop" in capfd.readouterr().err


def test_capture_refuses_levels_that_do_not_exist() -> None:
    with pytest.raises(OptionValueError, match="isa"):
        wir.capture(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), isa="x86-64-v9")
