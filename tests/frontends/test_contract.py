"""What Inductor's passes do to the caller's memory, and the graph does not.

Most of these functions are wrong in stock: PyTorch issues 195451, 197408, 198094, 198095, 198101.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.fuzz.functions import flip, reverse_into
from tests.release import TORCH
from wrapper_ir.frontends.inductor import (
    ContractError,
    ContractWarning,
    StockFallbackWarning,
    statistics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Torch's own lowering of a diagonal calls a function of torch's that is deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*check. is deprecated:FutureWarning")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    statistics.reset()
    yield
    torch._dynamo.reset()


def bits_of_a_copy(x: Tensor, d: Tensor) -> Any:
    y = x.clone()
    flip(y.view(torch.int32))
    return torch.diagonal_scatter(y, d)


def scattered_then_zeroed(x: Tensor, d: Tensor) -> Any:
    y = torch.slice_scatter(x, d.expand(2, 4), dim=0, start=1, end=3)
    x.zero_()
    return y


def its_own_diagonal(x: Tensor, d: Tensor) -> Any:
    y = torch.diagonal_scatter(x, x.diagonal())
    x.fill_(2)
    return y + d


def copied_then_clamped(x: Tensor, d: Tensor) -> Any:
    x.index_fill_(0, torch.tensor([1]), 5.0)
    y = x.clone()
    x.clamp_(0, 1)
    return y, d * 2


def copied_back(x: Tensor, d: Tensor) -> Any:
    y = torch.diagonal_scatter(x, d)
    x.copy_(y)
    return y


def copied_back_and_cloned(x: Tensor, d: Tensor) -> Any:
    y = torch.diagonal_scatter(x, d)
    x.copy_(y)
    return y.clone()


def bits_copied_back(x: Tensor, d: Tensor) -> Any:
    y = torch.diagonal_scatter(x, d)
    flip(y.view(torch.int32))
    x.copy_(y)
    return y


def reversed_into_a_copy(x: Tensor, d: Tensor) -> Any:
    y = x.clone()
    reverse_into(x, y)
    x.add_(d)
    return y


def two_scatters(x: Tensor, d: Tensor) -> Any:
    return torch.select_scatter(x, d, 0, 1), torch.select_scatter(x, 2 * d, 0, 1)


def read_as_bits(x: Tensor, d: Tensor) -> Any:
    y = x.view(torch.int32) * 2
    y.sub_(-4)
    x[:, 1:3] = 2
    return y.view(torch.float32), d + 1


def read_as_halves(x: Tensor, d: Tensor) -> Any:
    halves = x.view(torch.int16)
    y = halves + 1
    x[1:] = d
    return y, halves * 1


def part_of_a_sum_with_zero(x: Tensor, d: Tensor) -> Any:
    """Inductor leaves out the addition, whose result has other strides than what it adds to."""
    y = d.expand(4, 4) + 0
    y.as_strided((2, 4), (4, 1), 4).add_(x[:2])
    return y, y.as_strided((4,), (5,), 0) * 2


def sums_with_zero(x: Tensor, d: Tensor) -> Any:
    """Inductor leaves them out, so that results would be the argument, and one another."""
    y = x * d
    return y, y.t(), y + 0, x - 0, y * torch.ones(()), d / 1


def product_with_one_and_its_view(x: Tensor, d: Tensor) -> Any:
    y = x * 1.0
    return y, y[1:]


def parts_of_the_argument(x: Tensor, d: Tensor) -> Any:
    return *x.chunk(2), x.unsafe_chunk(2, 1)[1].t(), d.unbind()[1], *(d + 1).split(2)


def part_of_a_copy_of_a_part(x: Tensor, d: Tensor) -> Any:
    y = x[1:].clone()
    return y.as_strided((2, 4), (4, 1), 4) + d


def scattered_into_bits(x: Tensor, d: Tensor) -> Any:
    """Inductor would write the diagonal in place, as numbers in the place of bits."""
    y = (x.view(torch.int32) + 1).view(torch.float32)
    return torch.diagonal_scatter(y, d), torch.where(y > 2, y, x)


def copied_back_beside_a_choice(x: Tensor, d: Tensor) -> Any:
    """Both branches have something that a pass changes, in their own graphs."""
    y = torch.diagonal_scatter(x, d)
    x.copy_(y)

    def yes(d: Tensor) -> Tensor:
        return torch.slice_scatter(d.clone(), d[:2] * 2, 0, 1, 3)

    def no(d: Tensor) -> Tensor:
        return d.index_add(0, torch.tensor([1]), d[:1])

    return y, torch.cond(d.sum() > 0, yes, no, (d,))


def copied_from_what_was_before(x: Tensor, d: Tensor) -> Any:
    """Inductor writes to ``x`` in place, and copies it to ``d`` when it has its last value."""
    x.as_strided((2, 4), (4, 1), 4).add_(d)
    y = x.clone()
    x.add_(1)
    d.copy_(y[2])
    return d * 2


#: Functions, and whether Inductor's passes break their contract in torch 2.15.
FUNCTIONS = {
    bits_of_a_copy: False,
    scattered_then_zeroed: True,
    its_own_diagonal: False,
    copied_then_clamped: True,
    copied_back: True,
    copied_back_and_cloned: True,
    copied_back_beside_a_choice: True,
    bits_copied_back: True,
    reversed_into_a_copy: False,
    two_scatters: False,
    read_as_bits: False,
    read_as_halves: True,
    part_of_a_sum_with_zero: False,
    part_of_a_copy_of_a_part: False,
    sums_with_zero: False,
    product_with_one_and_its_view: False,
    parts_of_the_argument: False,
    scattered_into_bits: False,
    copied_from_what_was_before: True,
}


LONG = pytest.mark.long

#: Functions whose values, not their memory, older releases of torch get wrong.
SINCE = {bits_of_a_copy: (2, 13), reversed_into_a_copy: (2, 12)}


def arguments() -> tuple[Tensor, Tensor]:
    return torch.arange(1.0, 17.0).reshape(4, 4), torch.arange(100.0, 104.0)


def check(compiled: Callable[..., Any], function: Callable[..., Any], make: Any) -> None:
    """Compare a call with eager: values, what it does to arguments, and what shares memory."""
    seen = []
    for each in (function, compiled):
        args = make()
        results = pytree.tree_leaves(each(*args))
        held = [*pytree.tree_leaves(args), *results]
        owners = [tensor.untyped_storage().data_ptr() for tensor in held]
        seen.append((held, [owners.index(owner) for owner in owners]))
    (held, shared), (ours, ours_shared) = seen
    for mine, theirs in zip(ours, held, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
    assert ours_shared == shared


#: Functions with the emitters that are tried each time: all of them for what is lowered again.
TRIED = [
    pytest.param(function, emitter, marks=() if is_broken or emitter == "python" else LONG)
    for function, is_broken in FUNCTIONS.items()
    for emitter in ("python", "cpp", "fx")
]


@pytest.mark.parametrize(
    ("function", "emitter"), TRIED, ids=lambda each: getattr(each, "__name__", each)
)
def test_memory_is_written_and_shared_as_in_eager(
    function: Callable[..., Any], emitter: str
) -> None:
    if SINCE.get(function, TORCH) > TORCH:
        pytest.skip("wrong in this release, as in stock")
    for _ in range(2):  # the second time from the caches
        torch._dynamo.reset()
        options = {"emitter": emitter}
        compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True, options=options)
        for _ in range(2):
            check(compiled, function, arguments)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_results_share_memory_as_in_eager_where_gradients_are_taken(emitter: str) -> None:
    def with_gradients() -> tuple[Tensor, Tensor]:
        x, d = arguments()
        return x.requires_grad_(), d.requires_grad_()

    for function in (sums_with_zero, parts_of_the_argument):
        torch._dynamo.reset()
        options = {"emitter": emitter}
        check(
            torch.compile(function, backend="wrapper_ir", fullgraph=True, options=options),
            function,
            with_gradients,
        )


def test_graphs_are_lowered_again_only_where_the_contract_is_broken() -> None:
    for function, is_broken in FUNCTIONS.items():
        statistics.reset()
        with wir.record():  # reads no caches
            torch.compile(function, backend="wrapper_ir", fullgraph=True)(*arguments())
        assert statistics.relowered <= is_broken
        if TORCH == (2, 15):
            assert statistics.relowered == is_broken, function.__name__


class Scattered(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.arange(16.0).reshape(4, 4))

    def forward(self, d: Tensor) -> Tensor:
        assert isinstance(self.state, Tensor)
        y = torch.slice_scatter(self.state, d.expand(2, 4), dim=0, start=1, end=3)
        self.state.zero_()
        return y


def test_a_captured_model_returns_what_it_read_of_a_buffer_that_it_writes_to() -> None:
    _, d = arguments()
    model, twin = Scattered(), Scattered()
    function = wir.compile(wir.capture(model, (d,)))
    for _ in range(2):
        (result,) = function(d)
        torch.testing.assert_close(result, twin(d), rtol=0, atol=0)
        torch.testing.assert_close(model.state, twin.state, rtol=0, atol=0)


# A pass of the user's may break the contract too; nothing of ours mends that.


class _WritesToItsInput(CustomGraphPass):
    """A wrong pass: ``add(x, ...)`` becomes ``add_(x, ...)``."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
            node.target = torch.ops.aten.add_.Tensor

    def uuid(self) -> bytes:
        return b"writes to its input"


def add(x: Tensor, d: Tensor) -> Tensor:
    return torch.sin(x + d)


def with_wrong_pass(**options: Any) -> Any:
    torch._dynamo.reset()
    options |= {"post_grad_custom_post_pass": _WritesToItsInput()}
    compiled = torch.compile(add, backend="wrapper_ir", fullgraph=True, options=options)
    return compiled(*arguments())


def test_a_broken_contract_is_an_error_that_names_argument_line_and_source() -> None:
    for options in ({}, {"on_unsupported": "stock"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", StockFallbackWarning)
            with pytest.raises(BackendCompilerFailed) as caught:
                with_wrong_pass(**options)
        error = caught.value.inner_exception
        assert isinstance(error, ContractError)
        (fault,) = error.diagnostics
        assert fault.code == "WIR1123"
        assert "%arg0_1 is written to" in str(caught.value)
        assert "test_contract.py" in fault.source
        assert fault.path[0][0] == "body"
        assert "on_breach" in fault.hint


def test_a_broken_contract_can_be_a_warning() -> None:
    x, d = arguments()
    with pytest.warns(ContractWarning, match="WIR1123"):
        result = with_wrong_pass(on_breach="warn")
    torch.testing.assert_close(result, add(x, d))


def test_a_library_with_a_broken_contract_is_refused() -> None:
    module = type("Add", (torch.nn.Module,), {"forward": lambda _, x, d: add(x, d)})()
    with (
        config.patch(post_grad_custom_post_pass=_WritesToItsInput()),
        pytest.raises(ContractError, match="is written to"),
    ):
        wir.capture(module, arguments())


# One base in the place of arguments that overlap.


def first_of_the_second(pair: Any) -> Any:
    one, other = pair
    one.add_(100)
    return other[0]


def views_of_both(pair: Any) -> Any:
    one, other = pair
    one.add_(100)
    return other.t(), one[1:].view(-1), other.sum()


def flat_base() -> Any:
    rows = torch.arange(24.0).reshape(4, 6)
    return ((rows, rows[1:]),)


def own_base() -> Any:
    rows = torch.ones(4, 6).cumsum(1).cumsum(0)
    return ((rows, rows[1:]),)


def larger_base() -> Any:
    rows = torch.ones(5, 6).cumsum(1).cumsum(0)
    return ((rows[1:], rows[2:]),)


@pytest.mark.parametrize("function", [first_of_the_second, views_of_both])
def test_results_are_views_of_the_argument_that_they_are_views_of(function: Any) -> None:
    """Stock takes the steps from the argument to its view from the base instead."""
    for make in (flat_base, own_base, larger_base):
        torch._dynamo.reset()  # the base's layout is in the caches' keys, too
        compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True)
        for _ in range(2):
            check(compiled, function, make)
