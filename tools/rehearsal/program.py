"""What runs in a rehearsal: a few graphs through torch's own backend, and then through ours.

It prints one JSON object a line: a step, how it ended, and the words of an error or a warning.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.while_loop import while_loop

if TYPE_CHECKING:
    from collections.abc import Callable


def _train(x: torch.Tensor) -> Any:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    return net, (x,)


def _work(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Reuse memory, write to views, call ops with several results, read a number."""
    values, order = torch.sort(x @ x.t(), dim=1)
    y = torch.relu(values) + 1
    z = torch.zeros_like(y)
    z[order[:, 0]] = y.sum(0)
    n = x.shape[0] % 5
    return y * n, z.cumsum(0), x.amax(), torch.nonzero(x > 0) + 1


def _branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() - 3, (x,))


def _loop(x: torch.Tensor) -> torch.Tensor:
    def go_on(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return n < 5

    def step(n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return n + 1, x * 2

    return while_loop(go_on, step, (torch.zeros((), dtype=torch.int64), x))[1]


def _overwrite(x: torch.Tensor) -> torch.Tensor:
    view = x[1:]
    view.mul_(2)
    return view.t()


def _steps() -> list[tuple[str, Any, tuple[torch.Tensor, ...], dict[str, Any]]]:
    torch.manual_seed(1)
    x = torch.randn(6, 8)
    net, args = _train(x)
    return [
        ("training", net, args, {}),
        ("dynamic sizes", _work, (x,), {"dynamic": True}),
        ("a branch", _branch, (x,), {}),
        ("the other branch", _branch, (-x.abs(),), {}),
        ("a loop", _loop, (x,), {}),
        ("writing to an input", _overwrite, (x,), {}),
        ("C++", _work, (x,), {"options": {"emitter": "cpp", "build": "wait"}}),
    ]


def _results(function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """Return results, what has become of the arguments, and gradients."""
    args = tuple(arg.clone() for arg in args)
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    results = function(*args)
    results = list(results) if isinstance(results, tuple) else [results]
    for parameter in parameters:
        parameter.grad = None
    if parameters:
        results[0].sum().backward()
    gradients = [each.grad for each in parameters if each.grad is not None]
    return [*results, *args, *gradients]


def _are_close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    try:
        torch.testing.assert_close(found, expected, check_stride=True)
    except AssertionError:
        return False
    return True


def _tell(step: str, end: str, words: object = "") -> None:
    print(json.dumps({"step": step, "end": end, "words": str(words)}), flush=True)


def _try_stock() -> bool:
    """Run what torch's own backend makes of the steps: a release in which it fails is none."""
    for step, function, args, how in _steps():
        plain = {name: value for name, value in how.items() if name != "options"}
        expected = _results(function, args)
        torch._dynamo.reset()
        try:
            found = _results(torch.compile(function, backend="inductor", **plain), args)
        except Exception as error:
            _tell(step, "torch fails", f"{type(error).__name__}: {error}")
            return False
        if not _are_close(found, expected):
            _tell(step, "torch fails", "its own backend gives other results")
            return False
    return True


def _try_ours(
    step: str, function: Any, args: tuple[torch.Tensor, ...], how: dict[str, Any]
) -> None:
    expected = _results(function, args)
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            from wrapper_ir.frontends.inductor import statistics

            before = statistics.programs
            found = _results(torch.compile(function, backend="wrapper_ir", **how), args)
        except Exception as error:
            _tell(step, "error", f"{type(error).__name__}: {error}")
            return
    told = [
        str(each.message) for each in warned if each.category.__name__ == "StockFallbackWarning"
    ]
    if not _are_close(found, expected):
        _tell(step, "wrong results")
    elif statistics.programs == before:
        _tell(step, "stock" if told else "silently stock", told[0] if told else "")
    else:
        _tell(step, "right")


def main() -> None:
    """Run all steps, torch's own first."""
    assert torch.__version__.startswith("2.16."), torch.__version__
    if _try_stock():
        for each in _steps():
            _try_ours(*each)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
