"""What the comparison of ranks found: problems, what it could not show, and what it assumed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class RanksDisagreeError(WrapperIRError):
    """Programs of several ranks do not fit together. ``report`` holds all that was found."""

    code = "WIR1131"
    template = "the programs of {ranks} ranks do not fit together: {problems}"

    def __init__(self, report: RanksReport) -> None:
        #: The whole report.
        self.report = report
        super().__init__(ranks=report.ranks, problems=f"\n{report}")

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle with the report, which makes the message."""
        rebuild, _ = super().__reduce__()
        return rebuild, (type(self), {"report": self.report})


@dataclass(frozen=True, slots=True)
class Where:
    """A line of one rank's program.

    Attributes:
        rank: The rank.
        path: The line, such as ``body[3]``; empty for the end of the program.
        says: What the line says to others there.
        source: The line's source in the model; empty if unknown.
    """

    rank: int
    path: str = ""
    says: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class RankProblem:
    """One thing that is wrong, or that is not shown.

    Attributes:
        kind: A word for scripts: ``order``, ``missing``, ``extra``, ``op``, ``dtype``, ``size``,
            ``reduction``, ``root``, ``splits``, ``group``, ``message``, ``deadlock``, ``program``
            (one program breaks a rule by itself), ``unknown``, ``branch`` or ``loop``. Where ranks
            meet also ``late``, ``stopped`` (another rank gave up) or ``store`` (theirs fails).
        message: What is wrong.
        where: The lines, by rank.
        hint: What to do; may be empty.
    """

    kind: str
    message: str
    where: tuple[Where, ...] = ()
    hint: str = ""

    def __str__(self) -> str:
        return "\n".join((f"{self.kind}: {self.message}", *self._details()))

    def _details(self) -> Iterator[str]:
        def alike(each: Where) -> tuple[str, str, str]:
            return each.path, each.says, each.source

        for (path, says, source), same in groupby(self.where, alike):
            said = f": {says}" if says else ""
            place = f" ({source})" if source else ""
            yield f"  {named_ranks(w.rank for w in same)} at {path or 'the end'}{place}{said}"
        if self.hint:
            yield f"  hint: {self.hint}"


def merged(problems: Iterable[RankProblem]) -> tuple[RankProblem, ...]:
    """Return what is said of single ranks, once for all whose lines are alike."""
    found: dict[object, RankProblem] = {}
    for each in problems:
        key = each.kind, each.message, *((w.path, w.says, w.source) for w in each.where)
        where = (*found[key].where, *each.where) if key in found else each.where
        found[key] = replace(each, where=where)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class RanksReport:
    """The findings of :func:`wrapper_ir.verify_ranks`. It is true if there are no problems.

    Attributes:
        ranks: The number of programs.
        collectives: How many calls of all ranks were compared.
        problems: What is wrong, the first thing of each kind and group of ranks.
        not_shown: What the programs do not tell, such as which branch a rank takes.
        assumed: Symbols that were taken to have one value on all ranks.
    """

    ranks: int
    collectives: int
    problems: tuple[RankProblem, ...] = ()
    not_shown: tuple[RankProblem, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there are no problems. Something may still not be shown."""
        return not self.problems

    @property
    def proved(self) -> bool:
        """True if there are no problems, and nothing is left that is not shown or assumed."""
        return self.ok and not self.not_shown and not self.assumed

    def __bool__(self) -> bool:
        return self.ok

    def check(self) -> RanksReport:
        """Return the report itself if there are no problems.

        Raises:
            RanksDisagreeError: There are some.
        """
        if not self.ok:
            raise RanksDisagreeError(self)
        return self

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        return {"ok": self.ok, "proved": self.proved, **asdict(self)}

    def __str__(self) -> str:
        rows = list(map(str, self.problems))
        rows += [f"not shown, {each}" for each in self.not_shown]
        if self.assumed:
            rows.append(f"assumed: {', '.join(self.assumed)} on all ranks alike")
        found = _counted(len(self.problems), "problem") if self.problems else "no problems"
        rows.append(
            f"{_counted(self.ranks, 'rank')}, {_counted(self.collectives, 'call')}: {found}"
        )
        return "\n".join(rows)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def named_ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words: ``rank 3``, or ``ranks 0-2, 5``."""
    numbers = sorted(set(ranks))
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    text = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"rank {text}" if len(numbers) == 1 else f"ranks {text}"
