"""Ranks that do not do the same all hear it, in words and in time, and nothing hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist

from tests import warm
from wrapper_ir.frontends.inductor import meeting

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


def heard(folder: Path, *cases: str, cache: Path) -> dict[tuple[str, str], str]:
    """What each rank heard of each case."""
    folder.mkdir()
    program = Path(__file__).with_name("faults.py")
    changes = {"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    done = warm.run(program, folder, *cases, **changes)
    rows = (line.split(" ", 2) for line in done.stdout.splitlines())
    found = {(case, rank): what for rank, case, what in rows}
    assert found, done.stderr[-4000:]
    return found


def test_ranks_that_are_started_again_do_not_read_what_others_have_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = dist.HashStore()
    meeting._of_this_start(store).set("wrapper_ir/0/1/0/end", "it stopped")
    assert meeting._of_this_start(store).check(["wrapper_ir/0/1/0/end"])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not meeting._of_this_start(store).check(["wrapper_ir/0/1/0/end"])


def test_every_rank_hears_what_differs(tmp_path: Path) -> None:
    cases = ["same", "shape", "same:cpp", "version", "late", "same:fx", "gather", "dies"]
    found = heard(tmp_path / "first", *cases, cache=tmp_path / "cache")
    for rank in "01":
        for case in ("same", "late", "same:cpp", "same:fx"):
            # One rank may find in the cache what the other has compiled.
            assert found[case, rank].split()[0] == str(5.0 * (4 + cases.index(case))), found
        assert found["shape", rank] in ("size True", "stopped True"), found
        assert found["version", rank] in ("reduction True", "stopped True"), found
        assert found["gather", rank] in ("size True", "stopped True"), found
    assert found["dies", "0"] == "late True"
    # Started again, with caches: programs that nobody compiles are compared as well.
    again = heard(tmp_path / "again", *cases[:4], cache=tmp_path / "cache")
    for rank in "01":
        assert again["same", rank] == "20.0 0", again
        assert again["same:cpp", rank] == "30.0 0", again
        assert again["version", rank] in ("reduction True", "stopped True"), again
    assert not [each for each in tmp_path.rglob("*") if each.name.endswith(".tmp")]
