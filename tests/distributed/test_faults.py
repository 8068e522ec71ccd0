"""Ranks that do not do the same, or of which one dies, hear it in words and in time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as dist

from tests import warm
from tests.distributed.faults import CASES, END, IN_TURN, TORN, size
from wrapper_ir.frontends.inductor import meeting

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)


def heard(folder: Path, how: str, cases: list[str]) -> dict[str, list[str]]:
    """What the ranks heard of each case, in order; caches are beside the folder."""
    folder.mkdir()
    cache = str(folder.with_name("inductor"))
    program = Path(__file__).with_name("faults.py")
    done = warm.run(program, folder, how, *cases, TORCHINDUCTOR_CACHE_DIR=cache)
    found: dict[str, list[str]] = {}
    for line in sorted(done.stdout.splitlines()):
        _, name, what = line.split(" ", 2)
        found.setdefault(name, []).append(what)
    assert found.keys() == {*cases, END}, (found, done.stderr[-4000:])
    return found


def scraps(folder: Path, cache: Path) -> set[Path]:
    """What writing has left behind."""
    return {*cache.glob("tmp/*"), *folder.rglob("*.tmp")}


def test_ranks_that_are_started_again_do_not_read_what_others_have_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = dist.HashStore()
    meeting._of_this_start(store).set("wrapper_ir/0/1/0/end", "it stopped")
    assert meeting._of_this_start(store).check(["wrapper_ir/0/1/0/end"])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not meeting._of_this_start(store).check(["wrapper_ir/0/1/0/end"])


#: What the first rank to stop says of what does not fit; another one may hear that it stopped.
WORDS = {"shape": "size", "version": "reduction", "gather": "size"}
WORDS |= {"dies": "late", "torn": "late", "end": "store"}


def is_said(name: str, said: list[str]) -> bool:
    """Whether two ranks have heard what they should have, with a line of the model."""
    word = WORDS[name.split(":")[0]]
    return len(said) == 2 and {f"{word} True"} <= set(said) <= {f"{word} True", "stopped True"}


@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(IN_TURN, id="in turn"),
        pytest.param(CASES, id="all", marks=pytest.mark.long),  # half a minute
    ],
)
def test_every_rank_hears_what_differs_and_who_dies(
    cases: list[str], tmp_path: Path, own_cache: Path
) -> None:
    found = heard(tmp_path / "first", "dies", cases)
    for name, said in found.items():
        if name.startswith(tuple(WORDS)):
            assert is_said(name, said), found
        else:  # one rank may find in the cache what the other has compiled
            assert [each.split()[0] for each in said] == [total(name, ranks=2)] * 2, found
    for name in cases:
        if name.startswith("torn"):
            target = (tmp_path / "first" / f"{name} is dead").read_text(encoding="utf-8")
            assert Path(target).match(TORN[name.split(":")[1]]), target
    left = scraps(tmp_path, own_cache)
    # Started again, with caches: programs that nobody compiles are compared as well, and what was
    # written in part is made.
    again = [name for name in cases if name.startswith(("same", "late", "version", "torn"))]
    found = heard(tmp_path / "again", "lives", again)
    for name in again:
        match name.split(":")[0]:
            case "same" | "late":
                assert found[name] == [f"{total(name, ranks=2)} 0"] * 2, found
            case "version":
                assert is_said(name, found[name]), found
            case "torn":
                assert [each.split()[0] for each in found[name]] == [total(name, ranks=3)] * 3
                assert any(not each.endswith(" 0") for each in found[name]), found
    assert scraps(tmp_path, own_cache) <= left


def total(name: str, ranks: int) -> str:
    """What ranks make of a case that they do together."""
    return str((2.0 * ranks + 1) * size(name))
