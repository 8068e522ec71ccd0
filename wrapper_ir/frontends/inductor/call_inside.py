"""What happens inside the programs of a call: checks, and what torch's profiler sees."""

from __future__ import annotations

import contextlib
import inspect
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.aot.load import extension_module, module_if_made
from wrapper_ir.emitters.python.clocked import clock_checks
from wrapper_ir.frontends.inductor import straight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.emitters.python.clocked import Clocked
    from wrapper_ir.frontends.inductor.straight import Graph

#: How many calls are looked at.
_COUNT: Final = 20

_RANGE: Final = "a program that wir.explain_call looks at"


def calls_inside(call: Callable[[], object], number: int) -> list[dict[str, tuple[int, float]]]:
    """Return what each program of a call calls: by name, how often, and microseconds.

    Args:
        call: Makes the call.
        number: How many graphs each call runs; the same ones, in the same order.
    """
    thread = get_ident()

    def ranged(_: Graph, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(args: list[Any]) -> Any:
            if get_ident() != thread:
                return function(args)
            with torch.profiler.record_function(_RANGE):
                return function(args)

        return run

    activities = [torch.profiler.ProfilerActivity.CPU]
    with replaced(ranged), torch.profiler.profile(activities=activities) as profile:
        for _ in range(_COUNT):
            call()
    events: list[Any] = list(profile.events())
    programs = [each for each in events if each.name == _RANGE]
    programs.sort(key=lambda each: each.time_range.start)
    found: list[dict[str, list[float]]] = [{} for _ in range(number)]
    by_program = {id(each): found[at % number] for at, each in enumerate(programs)}
    for each in events:
        if (calls := by_program.get(id(each.cpu_parent))) is not None:
            calls.setdefault(each.name, []).append(each.cpu_time_total)
    return [
        {name: (len(times) // _COUNT, sum(times) / _COUNT) for name, times in calls.items()}
        for calls in found
    ]


def is_library(function: Callable[..., Any]) -> bool:
    """Return whether a program is a library's, in whatever it is wrapped."""
    module = module_if_made()
    return module is not None and isinstance(inspect.unwrap(function), module.Function)


def clocked_of(function: Callable[..., Any]) -> Clocked | None:
    """Return a program that tells how long it checks its arguments; None if it cannot be told.

    The program is a function that the Python emitter wrote, or that of a library. What stands round
    it, such as what restores values that it does not see, has it as ``__wrapped__``.
    """
    if is_library(function):
        return partial(extension_module().clocked, function)
    return clock_checks(function)


@contextlib.contextmanager
def replaced(by: Callable[[Graph, Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace the program of each graph that is alive, in a block."""
    watched = [*straight.graphs]  # others may be compiled meanwhile
    before = [(graph, graph.compiled.current_callable) for graph in watched]
    for graph, function in before:
        graph.compiled.current_callable = by(graph, function)
    try:
        yield
    finally:
        for graph, function in before:
            graph.compiled.current_callable = function
