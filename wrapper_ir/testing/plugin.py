"""The plugin of pytest: fixtures for snapshots of programs.

It is loaded in every run of pytest where wrapper_ir is installed, so it imports nothing before a
fixture is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

__all__ = ["cpp_snapshot", "fx_snapshot", "python_snapshot", "wir_snapshot"]


def _snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Syrupy's fixture with our extension of that name."""
    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(f"the fixture {request.fixturename} needs the package syrupy", pytrace=False)
    from wrapper_ir.testing.snapshots import extension  # noqa: PLC0415 - only where it is used

    snapshot: Any = request.getfixturevalue("snapshot")
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
