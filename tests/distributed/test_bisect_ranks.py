"""Two runs of two ranks that were saved are compared: which rank, and which of its calls."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch.distributed as dist
from click.testing import CliRunner

from tests import warm
from wrapper_ir.cli.app import main
from wrapper_ir.debugging import NoSavedRunError, bisect_ranks

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs ``good``, ``again`` and ``bad``, in which a rank's weight differs."""
    folder = tmp_path_factory.mktemp("saved")
    done = warm.run(Path(__file__).with_name("saving.py"), folder)
    assert not done.returncode, done.stderr[-4000:]
    return folder


@pytest.mark.parametrize("other", ["again", "cpp", "fx"])
def test_equal_runs_have_no_difference(saved: Path, other: str) -> None:
    found = bisect_ranks(saved / other, saved / "good")
    assert not found
    assert found.ranks == 2
    assert found.compared > 8
    assert str(found) == f"no difference in {found.compared} tensors of 2 ranks"


def test_the_rank_where_it_begins_is_the_first(saved: Path) -> None:
    found = bisect_ranks(saved / "bad", saved / "good")
    first, later = found.differences
    assert (first.rank, first.collectives, later.rank, later.collectives) == (1, 1, 0, 2)
    assert "read other values: 1 of 9 elements differ, most at (2, 2): 2, expected 1" in str(first)
    assert "saving.py" in first.source
    assert "wait_tensor" in later.call
    assert "wrote other values" in later.words
    one, two = str(found).splitlines()
    assert one.startswith("first, after 1 collective: rank 1: ")
    assert two.startswith("later, after 2 collectives: rank 0: ")


def test_the_command_says_it_too(saved: Path) -> None:
    run, other = str(saved / "bad"), str(saved / "good")
    done = CliRunner().invoke(main, ["bisect-ranks", run, other])
    assert (done.exit_code, done.stdout.splitlines()[0][:9]) == (1, "first, af")
    done = CliRunner().invoke(main, ["bisect-ranks", run, other, "--json"])
    assert [each["rank"] for each in json.loads(done.stdout)["differences"]] == [1, 0]
    args = [f"{run}.rank0", f"{other}.rank0", "--tolerance", "0", "1000"]
    done = CliRunner().invoke(main, ["bisect-ranks", *args])
    assert (done.exit_code, "no difference" in done.stdout) == (0, True)


def test_a_run_that_ends_early_or_calls_something_else_differs(saved: Path, tmp_path: Path) -> None:
    for rank in "01":
        shutil.copytree(saved / f"good.rank{rank}", tmp_path / f"short.rank{rank}")
    index = tmp_path / "short.rank1/index.jsonl"
    lines = index.read_text(encoding="utf-8").splitlines(keepends=True)
    index.write_text("".join(lines[:-2]), encoding="utf-8")
    (found,) = bisect_ranks(saved / "good", tmp_path / "short").differences
    assert (found.rank, found.words) == (1, "the other run ends before this call")
    (found,) = bisect_ranks(tmp_path / "short", saved / "good").differences
    assert (found.rank, found.words) == (1, "the other run goes on after this call")
    del lines[2]
    index.write_text("".join(lines), encoding="utf-8")
    (found,) = bisect_ranks(tmp_path / "short", saved / "good").differences
    assert found.words.startswith("the other run has 00")
    assert found.words.endswith(" here")


def test_a_missing_rank_or_run_is_named(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "good.rank0", tmp_path / "one.rank0")
    with pytest.raises(NoSavedRunError, match=r"WIR1518: '.*one' is no saved run: it lacks rank 1"):
        bisect_ranks(tmp_path / "one", saved / "good")
    with pytest.raises(NoSavedRunError, match=r"WIR1518: '.*one' is no saved run: it lacks rank 1"):
        bisect_ranks(saved / "good", tmp_path / "one")
    done = CliRunner().invoke(main, ["bisect-ranks", str(tmp_path / "no"), str(tmp_path / "one")])
    assert (done.exit_code, "WIR1518" in done.stderr) == (2, True)
