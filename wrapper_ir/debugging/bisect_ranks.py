"""Bisection over ranks: which rank's calls first wrote something else than in another run.

Both runs have saved what their calls wrote (``WRAPPER_IR_DEBUG=save``), each rank in a folder of
its own. A rank's calls are compared in their order. Ranks are put in order by what reached them:
what is wrong on one rank comes to others through a collective, so the rank that had waited for the
fewest collectives when its calls first differed is the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wrapper_ir.analysis.collectives import Kind, facts_of
from wrapper_ir.debugging.runs import Saved, place_of, read_saved
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.probes import difference
from wrapper_ir.runtime.probes.ranks import of_all_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.debugging.bisect import Tolerance


class NoSavedRunError(WrapperIRError):
    """A folder of saved tensors is missing. Fields: ``name`` and ``problem``."""

    code = "WIR1518"
    template = "{name!r} is no saved run: {problem}"
    default_hint = (
        "save both runs with WRAPPER_IR_DEBUG=save and WRAPPER_IR_DEBUG_DIR=NAME, and give the "
        "two names without '.rank0'"
    )


@dataclass(frozen=True)
class RankDifference:
    """The first difference of one rank.

    Attributes:
        rank: The rank.
        call: The number and the name of the call.
        buffer: The buffer that differs.
        words: A description of the difference.
        collectives: How many collectives the rank had waited for, with this call.
        source: The call's source line and module in the model; empty if unknown.
    """

    rank: int
    call: str
    buffer: str
    words: str
    collectives: int
    source: str = ""

    def __str__(self) -> str:
        text = f"rank {self.rank}: {self.call}, {self.buffer}: {self.words}"
        return text + (f"; from {self.source}" if self.source else "")


@dataclass(frozen=True)
class RanksBisected:
    """The result of comparing two runs of several ranks.

    Attributes:
        differences: One for each rank that differs, in the order in which they came to differ.
        ranks: The number of ranks.
        compared: The number of compared tensors, over all ranks.
    """

    differences: tuple[RankDifference, ...]
    ranks: int
    compared: int

    def __bool__(self) -> bool:
        """Return True if a difference was found."""
        return bool(self.differences)

    def __str__(self) -> str:
        if not self.differences:
            return f"no difference in {self.compared} tensors of {self.ranks} ranks"
        first = self.differences[0].collectives
        lines = [
            f"{'first' if each.collectives == first else 'later'}, after "
            f"{_number(each.collectives)}: {each}"
            for each in self.differences
        ]
        same = self.ranks - len(self.differences)
        lines += [f"no difference on {same} of {self.ranks} ranks"] if same else []
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return the result as JSON has it."""
        found = [
            {
                "rank": each.rank,
                "call": each.call,
                "buffer": each.buffer,
                "difference": each.words,
                "collectives": each.collectives,
                "source": each.source,
            }
            for each in self.differences
        ]
        return {"differences": found, "ranks": self.ranks, "compared": self.compared}


def bisect_ranks(
    run: str | Path, other: str | Path, tolerance: Tolerance = (0.0, 0.0)
) -> RanksBisected:
    """Compare two saved runs of several ranks; say which rank and which of its calls differ first.

    Args:
        run: The name that one run was saved under: its folders are ``NAME.rank0``, ``NAME.rank1``
            and so on. The folder of a single rank may be given too.
        other: The same of the run that is taken to be right.
        tolerance: Relative and absolute; by default results must be equal.

    Returns:
        The first difference of each rank. A call that the other run did not make is one as well.

    Raises:
        NoSavedRunError: There are no such folders, or one run has ranks that the other lacks.
    """
    one, two = _folders(run), _folders(other)
    for mine, name, others in ((two, other, one), (one, run, two)):
        missing = [str(rank) for rank in others if rank not in mine]
        if missing:
            raise NoSavedRunError(name=str(name), problem=f"it lacks rank {', '.join(missing)}")
    pairs = [(rank, read_saved(one[rank]), read_saved(two[rank])) for rank in one]
    rows = [_compare(*pair, tolerance) for pair in pairs]
    found = sorted((each for _, each in rows if each), key=lambda each: each.collectives)
    return RanksBisected(tuple(found), len(one), sum(count for count, _ in rows))


def _folders(name: str | Path) -> Mapping[int, Path]:
    """Return the folder of each rank of a run."""
    path = Path(name)
    if (path / "index.jsonl").exists():
        return {0: path}
    folders = of_all_ranks(path).items()
    found = {rank: folder for rank, folder in folders if (folder / "index.jsonl").exists()}
    if not found:
        raise NoSavedRunError(name=str(name), problem="there is no index.jsonl in it or its ranks'")
    return found


def _compare(
    rank: int, one: Saved, two: Saved, tolerance: Tolerance
) -> tuple[int, RankDifference | None]:
    """Return how many tensors were compared, and the first difference."""
    side, waits = ("", ""), 0
    for position, entry in enumerate(one.entries):
        if side != (side := (entry["call"], entry["when"])):
            waits += entry["when"] == "after" and _waits(entry["call"])
        words = _unlike(one, two, position, tolerance)
        if words:
            source = entry.get("source", "")
            found = RankDifference(rank, entry["call"], entry["buffer"], words, waits, source)
            return position + 1, found
    compared = len(one.entries)
    if compared and compared < len(two.entries):
        last = one.entries[-1]
        words = "the other run goes on after this call"
        return compared, RankDifference(rank, last["call"], last["buffer"], words, waits)
    return compared, None


def _unlike(one: Saved, two: Saved, position: int, tolerance: Tolerance) -> str:
    """Return what differs at a position of two runs; empty if nothing does."""
    if position >= len(two.entries):
        return "the other run ends before this call"
    mine, other = one.entries[position], two.entries[position]
    if mine["when"] != other["when"] or place_of(mine) != place_of(other):
        return f"the other run has {other['call']}, {other['buffer']} here"
    words = difference(one.load(position), two.load(position), tolerance)
    verb = "wrote" if mine["when"] == "after" else "read"
    return f"it {verb} other values: {words}" if words else ""


def _waits(label: str) -> bool:
    """Return whether a call is at its end only when other ranks have made theirs."""
    facts = facts_of(label.partition(" ")[2])
    return facts is not None and (facts.kind is Kind.WAIT or not facts.in_flight)


def _number(collectives: int) -> str:
    return f"{collectives} collective{'' if collectives == 1 else 's'}"
