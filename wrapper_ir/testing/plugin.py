"""The pytest plugin: fixtures for snapshots of programs, and how their failures are shown.

Every pytest run loads it if wrapper_ir is installed, so it imports nothing until a fixture is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from wrapper_ir.testing.comparisons import Comparison

__all__ = ["cpp_snapshot", "emitter_snapshot", "fx_snapshot", "python_snapshot", "wir_snapshot"]

#: A test's comparisons with snapshots.
_COMPARED: Final = pytest.StashKey[list["Comparison"]]()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip snapshot folders: ``python_snapshot`` may have written a ``test_it.py`` there."""
    return True if collection_path.name == "__snapshots__" else None


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare(
    left: object, right: object
) -> Generator[None, list[list[str] | None], list[list[str] | None]]:
    """Explain a comparison with a snapshot of a program in our words, in place of syrupy's."""
    found = yield
    if "wrapper_ir.testing.snapshots" in sys.modules:
        from wrapper_ir.testing.snapshots import explanation  # noqa: PLC0415 - on first use

        lines = explanation(left) or explanation(right)
        return [lines] if lines else found
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the difference, whole and first, if a snapshot made a test fail."""
    report = yield
    compared = item.stash.get(_COMPARED, None)
    if compared and call.excinfo is not None and call.when == "call" and report.failed:
        from wrapper_ir.testing import failures  # noqa: PLC0415 - on first use

        comparison = failures.failed(compared, call.excinfo.value)
        if comparison is not None:
            failures.show(report, item, call, comparison)
    return report


def _syrupy(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - Syrupy may be missing
    """Return syrupy's fixture, or fail the test if syrupy is not installed.

    From here on, the test captures programs for the machine of snapshots.
    """
    if not request.config.pluginmanager.hasplugin("syrupy"):
        pytest.fail(f"the fixture {request.fixturename} needs the package syrupy", pytrace=False)
    request.getfixturevalue("_comparing")
    return request.getfixturevalue("snapshot")


def _snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return syrupy's fixture with the extension that the requested fixture names."""
    snapshot = _syrupy(request)
    from wrapper_ir.testing.snapshots import extension  # noqa: PLC0415 - on first use

    result: SnapshotAssertion = snapshot.use_extension(extension(str(request.fixturename)))
    return result


@pytest.fixture
def _comparing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Note what the test compares, and have its programs written for one machine, whichever."""
    from wrapper_ir.options.process import SNAPSHOTS, pinned  # noqa: PLC0415 - on first use
    from wrapper_ir.testing.comparisons import comparisons  # noqa: PLC0415 - on first use

    token = pinned.set(SNAPSHOTS)
    noted = comparisons.set(request.node.stash.setdefault(_COMPARED, []))
    yield
    comparisons.reset(noted)
    pinned.reset(token)


@pytest.fixture
def wir_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of a program's text: ``assert program == wir_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def python_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of the emitted Python: ``assert program == python_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def cpp_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of the emitted C++: ``assert program == cpp_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def fx_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of the emitted FX graph: ``assert program == fx_snapshot``."""
    return _snapshot(request)


@pytest.fixture
def emitter_snapshot(request: pytest.FixtureRequest) -> Callable[..., SnapshotAssertion]:
    """Return snapshots of any emitter's output, by emitter name and file suffix (``txt``).

    ``assert program == emitter_snapshot("mine", "rs")``
    """
    snapshot = _syrupy(request)
    from wrapper_ir.testing.snapshots import extension_for  # noqa: PLC0415 - on first use

    snapshots: dict[tuple[str, str], SnapshotAssertion] = {}

    def of(emitter: str, suffix: str = "txt") -> SnapshotAssertion:
        key = emitter, suffix
        if key not in snapshots:
            snapshots[key] = snapshot.use_extension(extension_for(emitter, suffix))
        return snapshots[key]

    return of
