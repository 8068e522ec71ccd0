"""Inputs with symbolic sizes, strides and offsets, as stock Inductor takes them; no kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.frontends.flows import normal
from tests.frontends.support import DYNAMIC
from tests.frontends.test_control_flow import same
from tests.frontends_aten.support import Function
from wrapper_ir.lines import ScalarInput
from wrapper_ir.runtime import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def product(x: Tensor, y: Tensor) -> Any:
    return x @ y, x.shape[0] * 2, y.stride(0)


def shifted(x: Tensor) -> Any:
    return x[1:-1], x[2:], x.storage_offset() + 1  # as_strided is wrong in stock of torch 2.11


def ordered(x: Tensor) -> Any:
    return x.sort(), x.shape[0] * x.shape[1]


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[tuple[Tensor, ...]]]]] = {
    "strides": (
        product,
        lambda: [
            (normal(5, 12)[:, :7], normal(7, 8)[:, :3]),
            (normal(6, 14)[:, :9], normal(9, 20)[:, 4:9]),
            (normal(9, 6).t(), normal(9, 4)),
        ],
    ),
    "offsets": (shifted, lambda: [(normal(20)[3:9],), (normal(30)[5:17],)]),
    "sizes": (ordered, lambda: [(normal(3, 4)[1:],), (normal(7, 9)[2:, 1:],)]),
}


def outcomes(name: str, backend: str, **options: object) -> list[Any]:
    """Results, whether they share memory with arguments, and arguments after each call."""
    function, calls = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(
        function, backend=backend, fullgraph=True, dynamic=True, options=options or None
    )
    found = []
    for args in calls():
        results = pytree.tree_leaves(compiled(*args))
        tensors = [each for each in results if isinstance(each, Tensor)]
        shared = [
            t.untyped_storage().data_ptr() == args[0].untyped_storage().data_ptr() for t in tensors
        ]
        offsets = [t.storage_offset() for t in tensors]
        found.append((results, shared, offsets, list(args)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_they_are_taken_as_stock_takes_them(name: str) -> None:
    stock = outcomes(name, "inductor")
    for emitter in ("python", "fx"):
        with wir.record() as programs:
            ours = outcomes(name, "wrapper_ir", emitter=emitter)
        assert same(ours, stock)
        assert any(program.symbols for program in programs)
        for program in programs:
            assert wir.parse(str(program)) == program


def test_numbers_are_called_as_the_model_calls_them() -> None:
    """Torch calls one that may vary ``s77``; a name that something else has stays torch's."""

    def function(x: Tensor, times: int, way: str, s0: int) -> Tensor:
        return x * times + s0 if way == "up" else x

    exported = torch.export.export(
        Function(function),
        (torch.ones(4), 3, "up", 5),
        dynamic_shapes={"x": None, "times": DYNAMIC, "way": None, "s0": DYNAMIC},
    )
    for program in (wir.capture(exported), wir.from_fx(exported)):
        names = [each.symbol for each in program.inputs if isinstance(each, ScalarInput)]
        assert names == ["times", "s0"]
        (result,) = wir.interpret(program, torch.ones(4), 7, 2)
        assert result.tolist() == [9.0] * 4
        with pytest.raises(InputLayoutError, match="'times' has the wrong type"):
            wir.compile(program)(torch.ones(4), 1.5, 2)


D = torch.export.Dim("d", min=3, max=10)

#: By name: for the size of each input, the dim and its value at a ``d``; a function of the inputs.
EXPRESSIONS: dict[str, tuple[dict[Any, Callable[[int], int]], Callable[..., Tensor]]] = {
    "2*d": ({2 * D: lambda d: 2 * d}, lambda x: x.view(2, -1).sum(0)),
    "d + 1": ({D + 1: lambda d: d + 1}, lambda x: x[1:] - x[:-1]),
    "4*d - 1": ({4 * D - 1: lambda d: 4 * d - 1}, lambda x: x * 2),
    "d after d + 1": ({D + 1: lambda d: d + 1, D: lambda d: d}, lambda x, y: x[1:] + y),
    "d + 1 after 2*d": (
        {2 * D: lambda d: 2 * d, D + 1: lambda d: d + 1},
        lambda x, y: x.view(2, -1)[0] + y[1:],
    ),
    "2*d, unused": ({2 * D: lambda d: 2 * d, 3: lambda _: 3}, lambda x, y: y + 1),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("front_end", [wir.capture, wir.from_fx])
def test_a_size_may_be_an_expression_of_a_symbol_that_no_size_is(name: str, front_end: Any) -> None:
    sizes, function = EXPRESSIONS[name]

    def tensors(d: int) -> tuple[Tensor, ...]:
        return tuple(normal(value(d)) for value in sizes.values())

    shapes = tuple(None if isinstance(size, int) else {0: size} for size in sizes)
    exported = torch.export.export(Function(function), tensors(4), dynamic_shapes=shapes)
    program = front_end(exported)
    assert wir.parse(str(program)) == program
    run = wir.compile(program)
    for d in (3, 7, 10):
        args = tensors(d)
        torch.testing.assert_close(run(*args)[0], function(*args))
        torch.testing.assert_close(wir.interpret(program, *args)[0], function(*args))
    for d in (2, 11):
        with pytest.raises(wir.WrapperIRError, match=r"its range|\d+ <= s\d+ <= \d+"):
            run(*tensors(d))


def test_a_size_that_no_symbol_gives_is_refused_in_words() -> None:
    program = wir.capture(lambda x: x + 1, (torch.ones(8),), dynamic_shapes=({0: 2 * D},))
    for run in (wir.compile(program), wir.compile(program, "cpp")):
        assert run(torch.ones(10))[0].tolist() == [2.0] * 10
        words = r"size 0 of 'x' to be 2\*(s\d+) for some \1, but \1_given is 9"
        with pytest.raises(wir.WrapperIRError, match=words):
            run(torch.ones(9))


def test_arguments_that_overlap_in_another_place_are_compiled_with_symbols() -> None:
    """Their base has a size and an offset that guards tie to each other."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a + b

    compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True)
    for rows in (3, 4, 6):
        ours, eager = torch.arange(2.0 * rows).view(rows, 2), torch.arange(2.0 * rows).view(rows, 2)
        assert torch.equal(compiled(ours[:-1], ours[1:]), function(eager[:-1], eager[1:]))
        assert torch.equal(ours, eager)
