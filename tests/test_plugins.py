"""Entry points of installed packages are read once, and again when a package comes or goes."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from wrapper_ir import plugins as module
from wrapper_ir.plugins import DEVICES, EMITTERS, plugins

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def install(site: Path, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{DEVICES}]\n{name} = {name}:KIND\n")


def names(group: str) -> set[str]:
    return {point.name for point in plugins(group)}


def test_our_emitters_are_plugins() -> None:
    assert {"python", "cpp", "fx"} <= names(EMITTERS)
    (point,) = plugins(EMITTERS, "python")
    assert point.value == "wrapper_ir.emitters.python:PythonEmitter"
    assert plugins(EMITTERS, "nothing") == ()


def test_a_package_is_found_when_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert "wir_made_up" not in names(DEVICES)
    install(tmp_path, "wir_made_up")
    assert "wir_made_up" in names(DEVICES)
    assert "wir_made_up" not in names(EMITTERS)


def test_packages_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names(EMITTERS)

    def fail(**_: Any) -> Any:
        raise AssertionError("packages were read again")

    monkeypatch.setattr(module, "entry_points", fail)
    monkeypatch.setattr(importlib.metadata, "entry_points", fail)
    assert names(DEVICES) == names(DEVICES)
    assert names(EMITTERS)
