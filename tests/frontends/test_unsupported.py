"""What has no typed form raises one error that names it, or goes to Inductor and says so."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import (
    StockFallbackWarning,
    UnsupportedLineError,
    install,
    statistics,
)

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    statistics.reset()


def resizing(x: Tensor) -> Tensor:
    """A storage that changes its size, here to what it has already."""
    y = x.sin()
    torch.ops.inductor.resize_storage_bytes_(y, 4 * x.numel())
    return y.cos()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="wrapper_ir", fullgraph=True, options=options)


def test_the_error_names_the_line_and_its_writer() -> None:
    with pytest.raises(Exception, match="call of an op") as caught:
        compiled(resizing)(torch.ones(4))
    text = str(caught.value)
    assert "WIR3001" in text
    assert "resize_storage_bytes_" in text
    assert "on_unsupported='stock'" in text
    assert statistics.fallbacks == 0


def test_capture_raises_the_error_itself() -> None:
    with pytest.raises(UnsupportedLineError) as caught:
        wir.capture(resizing, (torch.ones(4),))
    assert caught.value.fields["kind"] == "call of an op"


def test_stock_stands_in_counted_and_announced() -> None:
    x = torch.linspace(-1, 2, 8)
    with pytest.warns(StockFallbackWarning, match="WIR3001"):
        result = compiled(resizing, on_unsupported="stock")(x)
    assert torch.equal(result, torch.compile(resizing)(x))
    assert statistics.fallbacks == 1
    assert statistics.programs == 0


@torch.library.custom_op("wir_tests::reverse_into", mutates_args={"target"})
def reverse_into(source: Tensor, target: Tensor) -> None:
    target.copy_(source.flip(0))


@reverse_into.register_fake
def _(source: Tensor, target: Tensor) -> None:
    pass


def reversing(x: Tensor) -> Tensor:
    reverse_into(x, x)
    return x + 1


def test_an_op_that_reads_what_it_writes_is_refused_and_stock_stands_in() -> None:
    with pytest.raises(Exception, match="WIR1089"):
        compiled(reversing)(torch.arange(6.0))
    torch._dynamo.reset()
    with pytest.warns(StockFallbackWarning, match="WIR1089"):
        result = compiled(reversing, on_unsupported="stock")(torch.arange(6.0))
    assert result.tolist() == [6, 5, 4, 3, 2, 1]


def test_stock_stands_in_under_an_installation() -> None:
    x = torch.linspace(-1, 2, 8)
    with install(on_unsupported="stock"), pytest.warns(StockFallbackWarning):
        result = torch.compile(resizing)(x)
    torch.testing.assert_close(result, resizing(x))
    assert statistics.fallbacks == 1


def test_a_fallback_from_the_cache_is_announced_as_well() -> None:
    x = torch.linspace(-1, 2, 9)
    for number in (1, 2):
        torch._dynamo.reset()
        with pytest.warns(StockFallbackWarning):
            compiled(resizing, on_unsupported="stock")(x)
        assert statistics.fallbacks == number


def test_only_the_graph_that_needs_it_goes_to_stock() -> None:
    def function(x: Tensor) -> Tensor:
        y = resizing(x)
        torch._dynamo.graph_break()
        return y * 2 + 1

    with pytest.warns(StockFallbackWarning):
        torch.compile(function, backend="wrapper_ir", options={"on_unsupported": "stock"})(
            torch.ones(4)
        )
    assert (statistics.fallbacks, statistics.programs) == (1, 1)


def test_what_is_supported_never_falls_back() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StockFallbackWarning)
        compiled(lambda x: x.sin() * 3, on_unsupported="stock")(torch.ones(4))
    assert (statistics.fallbacks, statistics.programs) == (0, 1)
