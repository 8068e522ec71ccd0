"""Ranks that compare their programs before they first call them, under ``torch.compile``.

The module of a program with collectives ends with a statement that puts the comparison before its
first call. It is part of the module, since caches hand modules to ranks that compile nothing. The
comparison goes through the store of the default process group, in which no collective is called.
"""

from __future__ import annotations

import base64
import functools
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist

from wrapper_ir.analysis.collectives import call_of
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.lines.walk import walk
from wrapper_ir.text import print_program

# ruff: noqa: PLC0415 - what compares is only needed where programs have collectives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.frontends.inductor.settings import Settings
    from wrapper_ir.lines.program import Program
    from wrapper_ir.verify.ranks.meeting import Meeting

    BoxedCall = Callable[[list[Any]], Any]


class RanksWarning(UserWarning):
    """Programs of several ranks do not fit together: an error with ``verify_ranks="error"``."""


def meeting_text(program: Program, settings: Settings) -> str:
    """Return the end of a module's text that compares its program with those of other ranks."""
    if settings.verify_ranks == "off" or not (groups := sorted(set(_groups(program)))):
        return ""
    from wrapper_ir.verify.ranks.meeting import Sheet

    packed = base64.b85encode(Sheet.of(print_program(program, origins=True)).packed).decode()
    how = f"error={settings.verify_ranks == 'error'}, seconds={settings.verify_ranks_seconds}"
    return (
        f"\n\nfrom {__name__} import {met_first.__name__}\n\n"
        f"call = {met_first.__name__}(call, {packed!r}, {groups!r}, {how})\n"
    )


def _groups(program: Program) -> Iterator[str]:
    for _, line in walk(program):
        call = call_of(program, line)
        if call is not None and isinstance(call.group, str) and call.group:
            yield call.group


def met_first(
    call: BoxedCall, packed: str, groups: Sequence[str], *, error: bool, seconds: int
) -> BoxedCall:
    """Return a module's ``call`` that compares its program with those of others before it runs.

    Args:
        call: The function.
        packed: The program, as it is published.
        groups: The process groups that it calls.
        error: Whether what does not fit is an error, rather than a warning.
        seconds: How long to wait for others.
    """
    met: list[Meeting] = []

    @functools.wraps(call)
    def call_after(args: list[Any]) -> Any:
        if not met or met[0] is not _meeting():
            with _lock:
                _meet(base64.b85decode(packed), groups, error=error, seconds=seconds)
            met[:] = [found] if (found := _meeting()) is not None else []
        return call(args)

    return call_after


def _meet(packed: bytes, groups: Sequence[str], *, error: bool, seconds: int) -> None:
    """Compare a program with those of other ranks, and let them know what came of it.

    Raises:
        RanksDisagreeError: They do not fit together, if that is an ``error``.
    """
    meeting = _meeting()
    if meeting is None:
        return
    from wrapper_ir.verify.ranks.meeting import Sheet

    meeting.seconds = seconds
    for name in groups:
        meeting.groups[name] = dist.get_process_group_ranks(compat.process_group(name))
    report = meeting.compare(Sheet(packed), groups)
    if report.ok or not error:
        meeting.end(groups)
    else:
        meeting.end(groups, str(report.problems[0]))
        report.check()
    if not report.ok:
        warnings.warn(f"programs of ranks do not fit together:\n{report}", RanksWarning, 2)


_lock: Final = threading.RLock()

#: The default process group that ranks met in last, and the meeting.
_last: list[tuple[weakref.ref[Any], Meeting]] = []


def _meeting() -> Meeting | None:
    """Return the meeting of the default process group, if there are other ranks in it."""
    if not dist.is_initialized():
        return None
    world: Any = dist.group.WORLD
    backend = dist.get_backend(world)
    if backend == "fake" or dist.get_world_size(world) < 2:
        return None
    if not _last or _last[0][0]() is not world:
        from wrapper_ir.verify.ranks.meeting import Meeting

        store = _of_this_start(compat.default_store())
        blocking: Any = "wait" if backend == "gloo" else "start"
        meeting = Meeting(dist.get_rank(world), store, {}, seconds=0, blocking=blocking)
        _last[:] = [(weakref.ref(world), meeting)]
    return _last[0][1]


def _of_this_start(store: Any) -> Any:
    """Return the part of a store that ranks share which were started at the same time.

    Torchrun keeps its store when it starts ranks again: it still has what the first ones published.
    """
    groups: Any = dist
    return groups.PrefixStore(f"start{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
