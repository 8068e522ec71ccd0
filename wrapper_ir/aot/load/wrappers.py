"""Wrappers around the function of a loaded library: calls captured, objects passed.

A library holds the bytes of tensors, but objects live in the process. The program's objects are
therefore passed with each call, after the caller's inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir import runtime
from wrapper_ir.runtime import InputCountError
from wrapper_ir.runtime.calls import hand_graphs_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.toolchain.manifest import CaptureFacts

    BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


def captured(call: BoxedCall, facts: CaptureFacts, variables: Mapping[str, Any]) -> BoxedCall:
    """Return a boxed function that captures another one's calls and replays them if possible.

    Args:
        call: The other function.
        facts: The facts about its program.
        variables: The program's constants by name; read at each call.
    """
    graphs = runtime.CudaGraphs(  # imported on first use
        facts.program,
        torch.device(facts.device) if facts.device else None,
        writes=facts.writes,
        constants=lambda: [variables[name] for name in facts.constants],
        limit=facts.limit,
        results=facts.results,
        reasons=facts.reasons,
        branches=facts.has_branches,
    )
    plain: Any = call
    function: Any = graphs(call)
    function.release = lambda: graphs.release() + plain.release()
    boxed: BoxedCall = function
    return boxed


def unboxed(call: BoxedCall, name: str) -> Callable[..., tuple[Any, ...]]:
    """Return ``function(*inputs) -> tuple of results`` for a boxed one of :func:`captured`."""
    boxed: Any = call

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        results: tuple[Any, ...] = boxed([*inputs], out)
        return results

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = f"Run the program '{name}' on its inputs; gives a tuple of its results."
    hand_graphs_on(boxed, run)
    run.release = boxed.release  # type: ignore[attr-defined]
    return run


def with_objects(
    function: Any,  # noqa: ANN401 - a callable of one form or the other
    objects: Callable[[], tuple[Any, ...]],
    count: int,
    *,
    boxed: bool,
) -> Any:  # noqa: ANN401 - likewise
    """Return a library's function that passes objects after the inputs.

    Args:
        function: The function that takes both, in one list or one by one.
        objects: A function that returns the objects.
        count: The number of inputs without the objects.
        boxed: Whether inputs come in a list, which is emptied.
    """

    def run_boxed(inputs: list[Any], **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        inputs.extend(objects())
        results: tuple[Any, ...] = function(inputs, **options)
        return results

    def run(*inputs: object, **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        results: tuple[Any, ...] = function(*inputs, *objects(), **options)
        return results

    def _check(got: int) -> None:
        if got != count:
            raise InputCountError(expected=count, got=got)

    wrapper: Any = run_boxed if boxed else run
    wrapper.__name__ = wrapper.__qualname__ = function.__name__
    wrapper.__doc__ = function.__doc__
    wrapper.release = function.release
    return wrapper
