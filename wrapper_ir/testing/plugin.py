"""The plugin of pytest: fixtures for snapshots of programs.

It is loaded in every run of pytest where wrapper_ir is installed, so it imports nothing before a
fixture is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

__all__ = ["cpp_snapshot", "emitter_snapshot", "fx_snapshot", "python_snapshot", "wir_snapshot"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Have no snapshot taken for a test: ``test_it.py`` may be what ``python_snapshot`` wrote."""
    return True if collection_path.name == "__snapshots__" else None


def _syrupy(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - Syrupy may be missing
    """Syrupy's fixture."""
    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(f"the fixture {request.fixturename} needs the package syrupy", pytrace=False)
    return request.getfixturevalue("snapshot")


def _snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Syrupy's fixture with our extension of that name."""
    snapshot = _syrupy(request)
    from wrapper_ir.testing.snapshots import extension  # noqa: PLC0415 - only where it is used

    made: SnapshotAssertion = snapshot.use_extension(extension(str(request.fixturename)))
    return made


@pytest.fixture
def wir_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """A program as text: ``assert program == wir_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def python_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Snapshot of the Python emitter's output: ``assert program == python_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def cpp_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Snapshot of the C++ emitter's output: ``assert program == cpp_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def fx_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """The graph that the FX emitter makes of a program: ``assert program == fx_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def emitter_snapshot(request: pytest.FixtureRequest) -> Callable[..., SnapshotAssertion]:
    """Return snapshots of any emitter's output, by its name and the ending of the files.

    That is ``txt`` if none is given: ``assert program == emitter_snapshot("mine", "rs")``.
    """
    snapshot = _syrupy(request)
    from wrapper_ir.testing.snapshots import extension_for  # noqa: PLC0415 - only where it is used

    made: dict[tuple[str, str], SnapshotAssertion] = {}

    def of(emitter: str, suffix: str = "txt") -> SnapshotAssertion:
        key = emitter, suffix
        if key not in made:
            made[key] = snapshot.use_extension(extension_for(emitter, suffix))
        return made[key]

    return of
