"""Functions around those of emitted programs: plain ones, loops, past autograd, what goes past."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.runtime._private import any_autocast_enabled, below_autograd, no_autocast
from wrapper_ir.runtime.errors import InputCountError, ProgramRunError
from wrapper_ir.runtime.outputs import NoOutError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


Values = tuple[Any, ...]


def plain_function(
    boxed: Callable[..., Values],
    *,
    name: str,
    inputs: int,
    writes: Sequence[int] = (),
    takes_out: bool = False,
    note: Callable[[Exception], None] | None = None,
) -> Callable[..., Values]:
    """Return ``function(*inputs) -> tuple of results`` for a call that takes a list and empties it.

    Autograd is off inside, and so is autocast: the program was made for the dtypes that it names.
    Autograd is told which inputs were written to: a stale saved value is then an error.

    Args:
        boxed: The call.
        name: The program's, which the function has, too.
        inputs: How many inputs there are.
        writes: Positions of those that are written to.
        takes_out: Whether it takes memory for results, as ``out``.
        note: Called with what it raises.
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
            raise
        finally:
            for position in writes:
                tensor = given[position]
                if isinstance(tensor, Tensor) and not tensor.is_inference():
                    torch.autograd.graph.increment_version(tensor)

    about = f"Run the program '{name}' on its {inputs} inputs; gives a tuple of its results."
    return _named(run, name, about)


def differentiable(  # noqa: PLR0913 - all but two are named
    forward: Callable[[list[Any]], Values],
    backward: Callable[[list[Any]], Values],
    *,
    name: str,
    results: int,
    tangents: Mapping[int, Sequence[int] | None],
    writes: Sequence[int] = (),
    once: bool = False,
) -> Callable[..., Values]:
    """Return ``function(*inputs) -> tuple of results`` of two programs, for autograd.

    Args:
        forward: The boxed call of the forward: its results, and then what the backward needs.
        backward: That of the backward: it takes numbers that were kept, tensors that were kept, and
            gradients of results, and gives a gradient or None for each input of the forward.
        name: What the function is called.
        results: How many results the forward has for its caller.
        tangents: Which of them the backward takes gradients of, each with the strides that the
            gradient has to have; None for the contiguous ones.
        writes: Positions of inputs that the forward writes to.
        once: Whether the backward uses up what was kept, so that it can run but once.
    """

    class Run(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Values:  # noqa: ANN401 - as autograd passes them
            count = len(inputs)
            values = plain_function(forward, name=name, inputs=count, writes=writes)(*inputs)
            _keep(ctx, inputs, values[results:])
            rest = (value for i, value in enumerate(values[:results]) if i not in tangents)
            ctx.mark_non_differentiable(*(value for value in rest if isinstance(value, Tensor)))
            return values[:results]

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Values:  # noqa: ANN401 - likewise
            if ctx.is_spent:
                problem = f"the backward of '{name}' used up what its forward had kept"
                raise ProgramRunError(problem=problem, hint="call the forward again")
            ctx.is_spent = once
            given = [*ctx.numbers, *ctx.saved_tensors]
            given += [_laid_out(gradients[i], stride) for i, stride in tangents.items()]
            ctx.maybe_clear_saved_tensors()
            with no_autocast():
                return backward(given)

    about = f"Run the program '{name}' on its inputs; gives {results} results, for autograd."
    return _named(lambda *inputs: Run.apply(*inputs), name, about)


def _keep(ctx: Any, inputs: Values, kept: Values) -> None:  # noqa: ANN401 - as autograd passes it
    """Keep what the backward is to be given: numbers, and tensors as autograd saves them."""
    given = {id(value) for value in inputs}
    ctx.numbers = [value for value in kept if not isinstance(value, Tensor)]
    tensors = (value for value in kept if isinstance(value, Tensor))
    # A view would keep what it is a view of, the results among it, and these the graph.
    ctx.save_for_backward(*(t if id(t) in given else t.detach() for t in tensors))
    ctx.is_spent = False


def _named(run: Callable[..., Values], name: str, about: str) -> Callable[..., Values]:
    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = about
    return run


def _laid_out(gradient: Tensor, stride: Sequence[int] | None) -> Tensor:
    """Return a gradient with the strides that a program was made for."""
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
) -> Values:
    """Run ``body`` as long as ``condition`` gives true, and return the carried values.

    Args:
        condition: Takes carried and captured values, returns a tuple of one truth value or tensor.
        body: Takes the same, returns the new carried values.
        carried: The first carried values.
        captured: What both take besides.

    The results are tensors of their own even when the body never ran.
    """
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
    given = [*carried, *captured]
    return tuple(_own(value, given) for value in values)


def run_while_stacked(
    condition: Callable[..., Values],
    body: Callable[..., Values],
    carried: Values,
    captured: Values,
) -> Values:
    """Like :func:`run_while`; returns the values after each round, stacked in a new dimension 0.

    Where there is no round, the first values are the only row.
    """
    rounds: list[Values] = []
    values = carried
    while condition(*values, *captured)[0]:
        values = body(*values, *captured)
        rounds.append(values)
    rounds = rounds or [carried]
    return tuple(_stacked([each[n] for each in rounds]) for n in range(len(carried)))


def _own(value: object, given: Sequence[object]) -> object:
    if isinstance(value, Tensor) and any(value is other for other in given):
        return value.clone()
    return value


def _stacked(values: list[Any]) -> Tensor:
    return torch.stack(values) if isinstance(values[0], Tensor) else torch.tensor(values)


# Calling a program past autograd.


def past_autograd(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a program's ``call`` such that its library ops skip autograd's part of each call.

    Autograd is off in a program anyway; what is skipped is finding that out, op by op: 0.1 to
    0.2 us of about 1.5. It changes nothing for ops that compute in one kernel and write to buffers
    of the program. It is not for other ops: those that are made of several ops may take other
    ways inside, and autograd would not learn that a tensor of the caller's was written to.
    """

    @functools.wraps(call)
    def run(args: list[Any]) -> Any:  # noqa: ANN401 - what the program returns
        with below_autograd():
            return call(args)

    return run


# Values that go past a program: arguments that it is not given, and results that they are.


def pass_by(
    call: Callable[[list[Any]], Sequence[Any]],
    inputs: Sequence[int],
    results: Mapping[int, int],
    constants: Mapping[int, str],
    values: Mapping[str, Any],
) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return a function that takes and returns more than the one it calls.

    Args:
        call: Takes a list of arguments, empties it and returns results.
        inputs: Positions of the arguments that it is not given, in rising order.
        results: Position of a result that it does not return -> that of the argument which is it.
        constants: Position of a result that it does not return -> the name of its value.
        values: Values by name, looked up when called: a module gets its own after it has run.
    """

    def call_without(args: list[Any]) -> tuple[Any, ...]:
        passed = {position: args[position] for position in inputs}
        for position in reversed(inputs):
            del args[position]
        found = list(call(args))
        for position in sorted((*results, *constants)):
            is_constant = position in constants
            value = values[constants[position]] if is_constant else passed[results[position]]
            found.insert(position, value)
        return tuple(found)

    return call_without
