"""``wrapper-ir cache`` on a cache of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from wrapper_ir.toolchain.cache import DiskCache

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "1048576")
    return DiskCache(tmp_path / "cache")


def fill(cache: DiskCache) -> None:
    for number in range(4):
        cache.put(f"{number:064x}", "so", bytes(1000))


def test_show(cache: DiskCache, invoke: Invoke) -> None:
    fill(cache)
    shown = invoke("cache", "show").stdout
    assert str(cache.directory) in shown
    assert "4 (4 libraries)" in shown
    assert "of at most 1.0 MiB" in shown


def test_show_json(cache: DiskCache, invoke: Invoke) -> None:
    fill(cache)
    data = json.loads(invoke("cache", "show", "--json").stdout)
    assert data["directory"] == str(cache.directory)
    assert data["entries"] == 4
    assert data["total_bytes"] == cache.stats().total_bytes


def test_trim_to_a_bound(cache: DiskCache, invoke: Invoke) -> None:
    fill(cache)
    result = invoke("cache", "trim", "--max-bytes", "3K")
    assert result.stdout == "removed 2.0 KiB\n"
    assert cache.stats().entries == 2


def test_trim_to_its_own_bound_removes_nothing_here(cache: DiskCache, invoke: Invoke) -> None:
    fill(cache)
    assert invoke("cache", "trim").stdout == "removed 0 B\n"


def test_clear(cache: DiskCache, invoke: Invoke) -> None:
    fill(cache)
    assert invoke("cache", "clear").stdout.startswith("removed ")
    assert cache.stats().entries == 0


def test_a_directory_that_cannot_be_used(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "file"))
    result = invoke("cache", "show")
    assert result.exit_code == 2
    assert "WIR2105" in result.stderr
