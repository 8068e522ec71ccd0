"""The pytest plugin: fixtures for snapshots of programs, and how their failures are shown.

Every pytest run loads it if wrapper_ir is installed, so it imports nothing until a fixture is used.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from wrapper_ir.testing.comparisons import Comparison
    from wrapper_ir.testing.inline import InlineSnapshot, Ledger

__all__ = ["cpp_snapshot", "emitter_snapshot", "fx_snapshot", "python_snapshot"]
__all__ += ["structure_snapshot", "wir_inline", "wir_snapshot"]

#: A test's comparisons with snapshots.
_COMPARED: Final = pytest.StashKey[list["Comparison"]]()

#: What the tests of a run compared inline; what it is called between processes of pytest-xdist.
_LEDGER: Final = pytest.StashKey["Ledger"]()
_OUTPUT: Final = "wrapper_ir_inline"

#: How many new texts wait for a review; what the number is called between processes.
_LEFT: Final = pytest.StashKey[int]()
_LEFT_OUTPUT: Final = "wrapper_ir_left"

#: What to say at the end of a run.
_SAID: Final = pytest.StashKey[list[str]]()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skip snapshot folders: ``python_snapshot`` may have written a ``test_it.py`` there."""
    return True if collection_path.name == "__snapshots__" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--wir-pending``."""
    parser.getgroup("wrapper_ir").addoption(
        "--wir-pending",
        choices=("auto", "yes", "no"),
        default="auto",
        help="Leave new texts of snapshots beside the old ones, for `wrapper-ir review`. "
        "Default: unless CI or BUILD_NUMBER is set.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep syrupy from taking texts that wait for a review for snapshots that no test uses."""
    if hasattr(config.option, "ignore_file_extensions"):
        known = config.option.ignore_file_extensions or ()
        config.option.ignore_file_extensions = [*known, "wir-new"]


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
    if not compared or call.when != "call":
        return report
    _settle(item.config, compared, report)
    if call.excinfo is not None and report.failed:
        from wrapper_ir.testing import failures  # noqa: PLC0415 - on first use

        comparison = failures.failed(compared, call.excinfo.value)
        if comparison is not None:
            failures.show(report, item, call, comparison)
    return report


def _settle(
    config: pytest.Config, compared: Iterable[Comparison], report: pytest.TestReport
) -> None:
    """Leave the new texts of a failed test's files for a review, and drop those that are settled.

    If a test passes, its snapshots are right, or have just been accepted.
    """
    from wrapper_ir.testing import pending  # noqa: PLC0415 - on first use

    writes = config.getoption("update_snapshots", default=False)
    leaves = report.failed and _leaves(config) and not writes
    for each in compared:
        if each.file and (report.passed or not each.differs):
            pending.drop(each.file)
        elif each.file and leaves and each.after is not None:
            _count(config, pending.leave(each.file, each.after))


def _leaves(config: pytest.Config) -> bool:
    """Return whether there is somebody to review what failing tests leave."""
    wanted = config.getoption("wir_pending")
    in_ci = any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))
    return bool(wanted == "yes" or (wanted == "auto" and not in_ci))


def _count(config: pytest.Config, more: int) -> None:
    config.stash[_LEFT] = config.stash.get(_LEFT, 0) + more


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - of pytest-xdist, if it is there
    """Take what another process compared inline, and how many texts it left."""
    output = getattr(node, "workeroutput", {})
    _count(node.config, output.get(_LEFT_OUTPUT, 0))
    if data := output.get(_OUTPUT):
        _ledger(node.config).add_data(data)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write inline snapshots that are to be accepted, in the process that started the others."""
    config = session.config
    ledger = config.stash.get(_LEDGER, None)
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_LEFT_OUTPUT] = config.stash.get(_LEFT, 0)
        output[_OUTPUT] = ledger.as_data() if ledger is not None else []
        return
    if ledger is None:
        return
    accepts, accepts_new = _accepts(config)
    said = [*ledger.write(new_only=not accepts)] if accepts or accepts_new else []
    if accepts or (not accepts_new and _leaves(config)):
        _count(config, ledger.leave(accepted=accepts))
    config.stash[_SAID] = said
    if any(each.startswith("error") for each in said):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)  # below what syrupy says of the same snapshots
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401
    """Say what was written, and what waits for a review."""
    for line in config.stash.get(_SAID, []):
        terminalreporter.write_line(line)
    if left := config.stash.get(_LEFT, 0):
        which = "1 snapshot waits" if left == 1 else f"{left} snapshots wait"
        terminalreporter.write_line(f"{which} for a decision:  wrapper-ir review")


def _accepts(config: pytest.Config) -> tuple[bool, bool]:
    """Return whether inline snapshots that differ are to be written, and whether missing ones."""
    every = config.getoption("update_snapshots", default=False)
    new = config.getoption("update_new_snapshots_only", default=False)
    return bool(every or os.environ.get("EXPECTTEST_ACCEPT")), bool(new)


def _ledger(config: pytest.Config) -> Ledger:
    """Return what the tests of this run compared inline."""
    from wrapper_ir.testing.inline import Ledger  # noqa: PLC0415 - on first use

    return config.stash.setdefault(_LEDGER, Ledger())


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
    from wrapper_ir.testing.snapshots import EXTENSIONS  # noqa: PLC0415 - on first use

    result: SnapshotAssertion = snapshot.use_extension(EXTENSIONS[str(request.fixturename)])
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
def structure_snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Return the snapshot of a program's structure: ``assert program == structure_snapshot``."""
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


@pytest.fixture
def wir_inline(request: pytest.FixtureRequest, _comparing: None) -> InlineSnapshot:
    """Return a function that compares a program with a text in the test, which pytest can write.

    ``wir_inline(program, "...")``; ``--snapshot-update`` or ``EXPECTTEST_ACCEPT=1`` write the text.
    """
    from wrapper_ir.testing.inline import InlineSnapshot  # noqa: PLC0415 - on first use

    accepts, accepts_new = _accepts(request.config)
    return InlineSnapshot(_ledger(request.config), accepts=accepts, accepts_new=accepts_new)
