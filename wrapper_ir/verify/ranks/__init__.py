"""Whether the programs of several ranks fit together, from the programs alone.

Each program is verified by itself, which finds results that are read before their wait, and memory
of a running collective that is reused. Then, group by group, the ranks are compared: the order of
calls, the ops, element types, sizes, reductions and roots, the rows of an uneven all-to-all, and
that every message has a receiver. Last, the ranks are run in thought, to find those that wait for
each other across groups. What programs do not tell is reported as not shown, never as a problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, get_args

from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.fields import as_program
from wrapper_ir.verify import rules
from wrapper_ir.verify.ranks.agreement import compare_group
from wrapper_ir.verify.ranks.deadlock import Blocking, find_deadlock
from wrapper_ir.verify.ranks.groups import Groups, GroupsError
from wrapper_ir.verify.ranks.report import (
    RankProblem,
    RanksDisagreeError,
    RanksReport,
    Where,
    merged,
)
from wrapper_ir.verify.ranks.schedule import schedule_of
from wrapper_ir.verify.verifier import check_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.lines import Program
    from wrapper_ir.verify.diagnostics import Diagnostic
    from wrapper_ir.verify.ranks.groups import Given
    from wrapper_ir.verify.ranks.schedule import Schedule

__all__ = ["GroupsError", "RankProblem", "RanksDisagreeError", "RanksReport", "Where"]
__all__ += ["verify_ranks"]

#: Rules about work in flight. A program that breaks others is not compared.
_IN_FLIGHT: Final = (rules.NOT_WAITED_FOR,)


def verify_ranks(
    programs: Iterable[Program], *, groups: Given | None = None, blocking: Blocking = "start"
) -> RanksReport:
    """Compare the programs of several ranks, before any of them runs.

    Args:
        programs: One for each rank, in their order; the same one several times if ranks share it.
        groups: The ranks of each process group that the programs name, in their order in it; lists
            of several groups where ranks have the same name for theirs. By default a group has all
            ranks, or those that use it if its calls state their number.
        blocking: When a collective holds its rank until the others have called it: at its
            ``"start"``, as groups of one device may under NCCL, or only in its ``"wait"``, as under
            gloo. It matters where ranks call collectives of several groups in different orders.

    Returns:
        A report, which is true if there are no problems. Its ``check()`` raises if there are.

    Raises:
        GroupsError: ``groups`` is no mapping from names to ranks.
        OptionValueError: ``blocking`` is something else, or there is no list of programs.
    """
    every = _read(checked_programs(programs, "wir.verify_ranks"))
    check_blocking(blocking)
    problems = _faulty([faults for _, faults in every])
    if any(each.rule not in _IN_FLIGHT for _, faults in every for each in faults):
        return RanksReport(len(every), 0, problems)
    return compare_schedules([schedule for schedule, _ in every], groups, blocking, problems)


def settled_groups(programs: Sequence[Program], given: Given | None) -> Groups:
    """Return the members of each group that programs of several ranks use."""
    return Groups([schedule for schedule, _ in _read(programs)], given)


def read_schedule(program: Program) -> Schedule:
    """Return what a program says to other ranks."""
    ((schedule, _),) = _read([program])
    return schedule


def _read(programs: Sequence[Program]) -> list[tuple[Schedule, tuple[Diagnostic, ...]]]:
    """Return the schedule and the faults of each program. Ranks may share one."""
    known: dict[int, tuple[Schedule, tuple[Diagnostic, ...]]] = {}
    for program in programs:
        if id(program) not in known:
            verdict = check_program(program)
            known[id(program)] = schedule_of(program, verdict.schedule), verdict.faults
    return [known[id(program)] for program in programs]


def _faulty(faults: Sequence[tuple[Diagnostic, ...]]) -> tuple[RankProblem, ...]:
    """Return what is wrong with programs by themselves."""
    return merged(
        RankProblem(
            kind="program",
            message=f"{each.code} {each.message}",
            where=(Where(rank, each.place, source=each.source),),
            hint=each.hint,
        )
        for rank, some in enumerate(faults)
        for each in some
    )


def checked_programs(programs: object, caller: str) -> list[Program]:
    """Return the programs of ranks.

    Raises:
        NotAProgramError: One is something else.
        OptionValueError: They are no list, or there are none.
    """
    if isinstance(programs, Iterable) and (found := list(programs)):
        return [as_program(each, caller) for each in found]
    given = type(programs).__name__ if not isinstance(programs, Iterable) else "none"
    expected = "a list with one program for each rank"
    raise OptionValueError(option="programs", value=given, expected=expected)


def check_blocking(blocking: object) -> None:
    """Refuse what is no way of blocking.

    Raises:
        OptionValueError: It is none.
    """
    if blocking not in get_args(Blocking):
        expected = "'start' or 'wait'"
        raise OptionValueError(option="blocking", value=blocking, expected=expected)


def compare_schedules(
    schedules: Sequence[Schedule],
    given: Given | None,
    blocking: Blocking,
    problems: tuple[RankProblem, ...] = (),
) -> RanksReport:
    """Compare what ranks say; ``problems`` are those of their programs alone."""
    groups, assumed = Groups(schedules, given), set[str]()
    schedules = groups.schedules
    unknown = (each for rank, s in enumerate(schedules) for each in s.says_unknown(rank))
    not_shown = [*merged(unknown)]
    disorder = list(groups.problems)
    if not disorder:
        for is_open, each in _by_groups(schedules, groups, assumed):
            (not_shown if is_open else disorder).append(each)
    if not disorder and (stuck := find_deadlock(schedules, groups, blocking)):
        disorder.append(stuck)
    count = sum(len(schedule.posts) for schedule in schedules)
    found = (*problems, *disorder)
    return RanksReport(len(schedules), count, found, tuple(not_shown), tuple(sorted(assumed)))


def _by_groups(
    schedules: Sequence[Schedule], groups: Groups, assumed: set[str]
) -> Iterator[tuple[bool, RankProblem]]:
    """Yield what is not shown, with True, and what is wrong, with False."""
    for group in groups:
        members = groups.members(group)
        among = {rank: schedules[rank] for rank in members}
        yield from compare_group(group, members, among, assumed)
