"""plan-csv: tables in, tables with offsets out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wrapper_ir.planning import check_offsets, read_intervals

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

TABLE = "id,lower,upper,size\n0,0,3,4\n1,3,9,4\n2,0,9,2\n"


def test_the_output_is_a_plan(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "in.csv").write_text(TABLE)
    result = invoke("plan-csv", str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv"))
    assert result.exit_code == 0
    assert "3 buffers in 6 bytes, 1.0000 x the lower bound" in result.stderr
    assert "sweep from the peak: 6 bytes" in result.stderr
    table = read_intervals((tmp_path / "out.csv").read_text())
    offsets = [int(row.values[-1]) for row in table.rows]
    check_offsets(table.intervals, offsets, height=6)


def test_streams_json_and_capacity(tmp_path: Path, invoke: Invoke) -> None:
    result = invoke("plan-csv", "-", "-o", "-", "--json", "--capacity", "5", stdin=TABLE)
    assert result.exit_code == 1
    assert result.stdout.startswith("id,lower,upper,size,offset\n")
    assert "6 bytes exceed the capacity of 5" in result.stderr
    summary = json.loads(result.stderr[: result.stderr.rindex("}") + 1])
    assert summary["height"] == summary["lower_bound"] == 6
    fits = invoke("plan-csv", "-", "-o", "-", "--capacity", "6", stdin=TABLE)
    assert fits.exit_code == 0
    aligned = invoke("plan-csv", "-", "-o", "-", "--alignment", "64", stdin=TABLE)
    assert "128 bytes" in aligned.stderr


def test_mistakes(tmp_path: Path, invoke: Invoke) -> None:
    bad = invoke("plan-csv", "-", "-o", "-", stdin="lower,upper,size\n1,2\n")
    assert bad.exit_code == 2
    assert "<stdin>:2: there are 2 values for 3 columns" in bad.stderr
    missing = invoke("plan-csv", str(tmp_path / "none.csv"), "-o", "-")
    assert missing.exit_code == 2
    assert "cannot read" in missing.stderr
    (tmp_path / "latin.csv").write_bytes(b"id,lower\xe9")
    assert "is not UTF-8" in invoke("plan-csv", str(tmp_path / "latin.csv"), "-o", "-").stderr
