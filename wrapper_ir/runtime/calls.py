"""Wrappers around the calls of emitted programs: plain functions, autograd, loops, extra values."""

from __future__ import annotations

import functools
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime._private import (
    any_autocast_enabled,
    below_autograd,
    is_name_of_group,
    no_autocast,
)
from wrapper_ir.runtime.errors import InputCountError, MissingGroupError, ProgramRunError
from wrapper_ir.runtime.outputs import NoOutError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence


Values = tuple[Any, ...]

Groups: TypeAlias = "Mapping[str, tuple[str, str, str]]"
"""Process groups by name: the op that calls each first, its line, and its place in the model."""

_NO_GROUPS: Final[Groups] = {}


def refuse_missing(groups: Groups, error: Exception) -> None:
    """Say which process group is missing, if that is why a call failed.

    Raises:
        MissingGroupError: One is.
    """
    is_own = isinstance(error, WrapperIRError) and not isinstance(error, ProgramRunError)
    if is_own or not isinstance(error, RuntimeError):
        return
    for name, (op, path, source) in groups.items():
        if not is_name_of_group(name):
            place = {"path": path, "origin": source or None}
            raise MissingGroupError(group=name, op=op, **place) from error


def plain_function(  # noqa: PLR0913 - all but one are named
    boxed: Callable[..., Values],
    *,
    name: str,
    inputs: int,
    writes: Sequence[int] = (),
    takes_out: bool = False,
    note: Callable[[Exception], None] | None = None,
    groups: Groups = _NO_GROUPS,
) -> Callable[..., Values]:
    """Return ``function(*inputs) -> tuple of results`` for a call that takes a list and empties it.

    Autograd and autocast are off inside, since the program was made for fixed dtypes. Autograd is
    told which inputs were written (those at the positions ``writes``), so that using a stale saved
    value is an error. A call that ``takes_out`` takes memory for results, as ``out``. If the call
    raises an exception, ``note`` is called with it. If one of the process ``groups`` that it calls
    is missing, the exception says so.
    """
    is_grad_enabled = torch.is_grad_enabled

    def run(*given: object, out: Sequence[Any] | None = None) -> Values:
        if len(given) != inputs:
            raise InputCountError(expected=inputs, got=len(given))
        if out is not None and not takes_out:
            raise NoOutError(program=name)
        call = boxed if out is None else functools.partial(boxed, out=out)
        try:
            if any_autocast_enabled():
                with torch.no_grad(), no_autocast():
                    return call([*given])
            if is_grad_enabled():
                with torch.no_grad():
                    return call([*given])
            return call([*given])
        except Exception as error:
            if note is not None:
                note(error)
            refuse_missing(groups, error)
            raise
        finally:
            for position in writes:
                tensor = given[position]
                if isinstance(tensor, Tensor) and not tensor.is_inference():
                    torch.autograd.graph.increment_version(tensor)

    about = f"Run the program '{name}' on its {inputs} inputs; gives a tuple of its results."
    return named(run, name, about)


def differentiable(  # noqa: PLR0913 - all but two are named
    forward: Callable[[list[Any]], Values],
    backward: Callable[[list[Any]], Values],
    *,
    name: str,
    results: int,
    tangents: Mapping[int, Sequence[int] | None],
    writes: Sequence[int] = (),
    once: bool = False,
    groups: Groups = _NO_GROUPS,
    groups_of_backward: Groups = _NO_GROUPS,
) -> Callable[..., Values]:
    """Return ``function(*inputs) -> tuple of results`` of the boxed calls of two programs.

    The forward returns its results, so many for the caller, then saved values. The backward takes
    saved numbers, saved tensors and the gradients of the results at the positions ``tangents``, in
    the strides that are given (None: contiguous); it returns a gradient or None for each input of
    the forward. The forward writes the inputs at the positions ``writes``. If the backward consumes
    the saved values, it can run only ``once``. If one of the process ``groups`` that the forward or
    the backward calls is missing, the exception says so.
    """
    options: Any = {"name": name, "writes": writes, "groups": groups}

    class Run(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Values:  # noqa: ANN401 - as autograd passes them
            count = len(inputs)
            values = plain_function(forward, inputs=count, **options)(*inputs)
            _keep(ctx, inputs, values[results:])
            rest = (value for i, value in enumerate(values[:results]) if i not in tangents)
            ctx.mark_non_differentiable(*(value for value in rest if isinstance(value, Tensor)))
            return values[:results]

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Values:  # noqa: ANN401 - likewise
            if ctx.is_spent:
                problem = f"the backward of '{name}' has consumed the values that its forward saved"
                raise ProgramRunError(problem=problem, hint="call the forward again")
            ctx.is_spent = once
            given = [*ctx.numbers, *ctx.saved_tensors]
            given += [_laid_out(gradients[i], stride) for i, stride in tangents.items()]
            ctx.maybe_clear_saved_tensors()
            return _backward(backward, given, groups_of_backward)

    about = f"Run the program '{name}' on its inputs; gives {results} results, for autograd."
    return named(lambda *inputs: Run.apply(*inputs), name, about)


def _backward(call: Callable[[list[Any]], Values], given: list[Any], groups: Groups) -> Values:
    """Run a boxed backward. If a process group is missing, the exception says so."""
    try:
        with no_autocast():
            return call(given)
    except Exception as error:
        refuse_missing(groups, error)
        raise


def _keep(ctx: Any, inputs: Values, kept: Values) -> None:  # noqa: ANN401 - as autograd passes it
    """Save values for the backward: numbers on ``ctx``, tensors through autograd."""
    given = {id(value) for value in inputs}
    ctx.numbers = [value for value in kept if not isinstance(value, Tensor)]
    tensors = (value for value in kept if isinstance(value, Tensor))
    # A view would keep its base alive. That may be a result, which keeps the graph alive.
    ctx.save_for_backward(*(t if id(t) in given else t.detach() for t in tensors))
    ctx.is_spent = False


def named(run: Callable[..., Values], name: str, about: str) -> Callable[..., Values]:
    """Return a function after giving it a program's name and a docstring."""
    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = about
    return run


def _laid_out(gradient: Tensor, stride: Sequence[int] | None) -> Tensor:
    """Return a gradient with the strides that the program requires, stored as it reads."""
    gradient = gradient.resolve_conj().resolve_neg()
    if stride is None:
        return gradient.contiguous()
    if gradient.stride() == tuple(stride):
        return gradient
    return torch.empty_strided(
        gradient.shape, stride, dtype=gradient.dtype, device=gradient.device
    ).copy_(gradient)


def run_while(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
    shared: Container[int] = (),
) -> Values:
    """Run ``body`` while ``condition`` is true, and return the carried values.

    Both take carried and captured values. The condition returns a tuple of one bool or tensor, the
    body the new carried values. Results at the positions ``shared`` may be among the given tensors;
    others are new tensors even if the body never ran.
    """
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
    given = [*carried, *captured]
    return tuple(v if n in shared else _own(v, given) for n, v in enumerate(values))


def run_while_stacked(
    condition: Callable[..., Values], body: Callable[..., Values], carried: Values, captured: Values
) -> Values:
    """Run like :func:`run_while`; return the values of all rounds, stacked in a new dimension 0.

    If there is no round, the initial values are the only row.
    """
    rounds: list[Values] = []
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
        # Copies, since the next round may write to these.
        rounds.append(tuple(v.clone() if isinstance(v, Tensor) else v for v in values))
    rounds = rounds or [carried]
    return tuple(_stacked([each[n] for each in rounds]) for n in range(len(carried)))


def _own(value: object, given: Sequence[object]) -> object:
    if isinstance(value, Tensor) and any(value is other for other in given):
        return value.clone()
    return value


def _stacked(values: list[Any]) -> Tensor:
    return torch.stack(values) if isinstance(values[0], Tensor) else torch.tensor(values)


def past_autograd(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a program's ``call`` whose library ops bypass the autograd dispatch.

    Autograd is off in a program anyway; this saves each op the check for it, 0.1 to 0.2 us of about
    1.5. It is safe for ops that run one kernel and write to buffers of the program. It is not safe
    for others: composite ops may take other paths inside, and autograd would not notice writes to
    the caller's tensors.
    """

    @functools.wraps(call)
    def run(args: list[Any]) -> Any:  # noqa: ANN401 - what the program returns
        with below_autograd():
            return call(args)

    return run


def pass_by(
    call: Callable[[list[Any]], Sequence[Any]],
    inputs: Sequence[int],
    results: Mapping[int, int],
    constants: Mapping[int, str],
    values: Mapping[str, Any],
) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that takes and returns values which its program does not see.

    Arguments at the positions ``inputs``, in ascending order, are not passed to the program. Extra
    results, by position, are such arguments (``results``) or constants, whose names are looked up
    in ``values`` at call time, since a module gets its own after it runs.
    """
    dropped = frozenset(inputs)
    is_given = [position not in dropped for position in range(max(dropped, default=-1) + 1)]
    added = sorted((*results, *constants))

    @functools.wraps(call)
    def call_without(args: list[Any]) -> tuple[Any, ...]:
        passed = {position: args[position] for position in results.values()}
        given = [*compress(args, chain(is_given, repeat(1)))]
        args.clear()  # so that the program may free what it is given
        found = call(given)
        if not added:
            return tuple(found)
        found = list(found)
        for position in added:
            is_constant = position in constants
            value = values[constants[position]] if is_constant else passed[results[position]]
            found.insert(position, value)
        return tuple(found)

    return call_without
