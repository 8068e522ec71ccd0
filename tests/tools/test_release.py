"""``make release``: what it refuses, and its checksums. The whole of it is run by hand."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tools.release import objection, write_checksums

if TYPE_CHECKING:
    from pathlib import Path


def test_only_what_is_committed_and_tagged_alike_is_released() -> None:
    assert objection("", ["nightly"], "1.2.3") == ""
    assert objection("", ["v1.2.3"], "1.2.3") == ""
    assert "not committed" in objection(" M README.md", [], "1.2.3")
    assert "v1.3.0" in objection("", ["v1.3.0"], "1.2.3")


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("a.whl", "b.tar.gz"):
        (tmp_path / name).write_text(name)
    sums = write_checksums(tmp_path)
    assert write_checksums(tmp_path) == sums
    check = ["sha256sum", "--check", "--quiet", sums.name]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a.whl").write_text("other")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode == 1
