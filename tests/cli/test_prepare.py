"""``wrapper-ir prepare`` with a cache of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.toolchain.cache import DiskCache

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


@pytest.mark.long  # it compiles all that a machine compiles once: half a minute
def test_nothing_is_left_for_the_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path))
    said = invoke("prepare").stdout.splitlines()
    assert [line.partition(":")[0] for line in said][:2] == [
        "headers of C++ kernels",
        "the C++ runtime",
    ]
    assert ("the launcher of Triton kernels" in said[-1]) == (torch.version.cuda is not None)
    cache = DiskCache(tmp_path)
    made = cache.stats().entries
    assert made
    invoke("prepare")
    assert cache.stats().entries == made
    added = []
    for op in ("neg", "abs"):
        before = cache.stats().entries
        b = wir.Builder(op)
        x = b.input("x", "f32", (2,))
        b.returns(b.extern(f"aten::{op}(Tensor self) -> Tensor", x, result=("f32", (2,))))
        wir.compile(b.build(), "cpp")(torch.ones(2))
        added.append(cache.stats().entries - before)
    assert added[0] == added[1]  # what belongs to a program, and nothing that all share
