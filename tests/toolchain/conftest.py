"""Kernels that compile in a fraction of a second, since they read no header of torch."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from pathlib import Path

SCALE = """\
#include <cstdint>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)
{
    for (int64_t x0 = 0; x0 < ks0; ++x0) out_ptr0[x0] = in_ptr0[x0] * FACTOR;
}
"""
SCALE_TYPES = ("const float*", "float*", "const int64_t")


def scale(name: str, factor: str = "2.0f", **options: object) -> CppSource:
    """A kernel that multiplies by a constant."""
    return CppSource(name, SCALE.replace("FACTOR", factor), SCALE_TYPES, **options)


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def counting_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a compiler into CXX that notes how it is called, and return the file of its notes."""
    notes = tmp_path / "compiler-calls"
    notes.touch()
    script = tmp_path / "g++-noting"
    script.write_text(f'#!/bin/sh\necho "$@" >> {notes}\nexec g++ "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(script))
    assert os.access(script, os.X_OK)
    return notes
