"""Functions around that of a loaded library: calls captured as CUDA graphs, objects handed on.

A library holds bytes of tensors; an object lives in the process. So the program's objects are
handed on with each call, behind the inputs that the caller gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.runtime import CudaGraphs, InputCountError, check_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wrapper_ir.emitters.cpp.artifact import BoxedCall
    from wrapper_ir.emitters.cuda_graphs.capture import CaptureFacts
    from wrapper_ir.lines.program import Program


def captured(call: BoxedCall, facts: CaptureFacts, variables: Mapping[str, Any]) -> BoxedCall:
    """A boxed function that captures another's calls and replays them, where that can be.

    Args:
        call: The other one.
        facts: What is known of its program.
        variables: The program's constants by name, as they are at each call.
    """
    graphs = CudaGraphs(
        facts.program,
        torch.device(facts.device or "cuda"),
        writes=facts.writes,
        constants=lambda: [variables[name] for name in facts.constants],
        limit=facts.limit,
        results=facts.results,
        reasons=facts.reasons,
        branches=facts.has_branches,
    )
    plain: Any = call
    made: Any = graphs(call)
    made.cuda_graphs = graphs
    made.release = lambda: graphs.release() + plain.release()
    function: BoxedCall = made
    return function


def unboxed(call: BoxedCall, name: str) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a boxed one of :func:`captured`."""
    boxed: Any = call

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        results: tuple[Any, ...] = boxed([*inputs], out)
        return results

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = f"Run the program '{name}' on its inputs; gives a tuple of its results."
    run.cuda_graphs = boxed.cuda_graphs  # type: ignore[attr-defined]
    run.release = boxed.release  # type: ignore[attr-defined]
    return run


def check_objects(program: Program) -> None:
    """Look at the objects that a program brings.

    Raises:
        InputLayoutError: One is of another class, or no object.
    """
    for name, item in program.objects.items():
        check_object(program.data[name], name, item.class_name)


def with_objects(
    function: Any,  # noqa: ANN401 - a callable of one form or the other
    objects: Callable[[], tuple[Any, ...]],
    count: int,
    *,
    boxed: bool,
) -> Any:  # noqa: ANN401 - likewise
    """The function of a library, with objects handed on behind the inputs.

    Args:
        function: Takes both, as one list or one by one.
        objects: Gives the objects.
        count: How many inputs there are besides.
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

    made: Any = run_boxed if boxed else run
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    made.release = function.release
    return made
