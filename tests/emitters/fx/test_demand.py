"""What Inductor's own FX converter gets wrong or cannot say, and what graphs of ours do instead.

One test a case, C17 to C23. Inductor's front end has no lines for choices and regions of the user's
yet: those two come through ``from_fx``, and by way of ``torch.compile`` they are refused in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._inductor import config as inductor_config

import wrapper_ir as wir
from tests.emitters.fx import support
from wrapper_ir.frontends.inductor.session import statistics
from wrapper_ir.lines import AllocatePool, Cond, Program
from wrapper_ir.runtime import InputLayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
]


class Model(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a function gives through ``torch.compile`` and a graph of ours, and no other way."""
    torch._dynamo.reset()
    statistics.reset()
    options = {"emitter": "fx", **options}
    result = torch.compile(function, backend="wrapper_ir", options=options)(*args)
    assert (statistics.programs, statistics.fallbacks) == (1, 0)
    return result


def check(program: Program, *args: Any, expected: tuple[Tensor, ...]) -> None:
    """A program's graph, as it is and made functional, gives exactly these results."""
    module = support.emitted(program).graph_module
    exported = torch.export.export(module, args).run_decompositions()
    for function in (module, exported.module()):
        results = function(*args)
        assert [support.unlike(a, b) for a, b in zip(results, expected, strict=True)] == [
            "" for _ in expected
        ]


def test_c17_views_keep_their_dtype() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.mm(x, x).view(torch.int32)

    x = torch.randn(4, 4)
    assert support.unlike(compiled(function, x), function(x)) == ""
    check(wir.capture(Model(function), (x,)), x, expected=(function(x),))


def test_c18_fused_cpp_kernels_are_in_graphs() -> None:
    def function(x: Tensor) -> Tensor:
        return x.relu() * 2

    x = torch.randn(4, 4)
    program = wir.capture(Model(function), (x,))
    (kernel,) = program.kernels
    module = support.emitted(program).graph_module
    targets = [str(node.target) for node in module.graph.nodes]
    assert any(target.startswith(f"wrapper_ir.{kernel}") for target in targets)
    assert torch.equal(compiled(function, x), function(x))
    check(program, x, expected=(function(x),))


def test_c19_sort_under_default_asserts() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.sort(x))

    x = torch.randn(4, 4)
    assert inductor_config.size_asserts
    assert inductor_config.alignment_asserts
    for ours, theirs in zip(compiled(function, x), function(x), strict=True):
        assert torch.equal(ours, theirs)
    check(wir.capture(Model(function), (x,)), x, expected=function(x))


def test_c19_choices_under_default_asserts() -> None:
    def function(p: Tensor, x: Tensor) -> Tensor:
        return torch.cond(p, lambda x: torch.mm(x, x), lambda x: torch.mm(x, x.t()), (x,))

    x = torch.randn(4, 4)
    program = wir.from_fx(torch.export.export(Model(function), (torch.tensor(True), x)))
    assert any(isinstance(line, Cond) for line in program.body)
    for p in (torch.tensor(True), torch.tensor(False)):
        check(wir.plan_memory(program), p, x, expected=(function(p, x),))
        assert torch.equal(compiled(function, p, x), function(p, x))


def test_c20_planned_pools_are_in_graphs() -> None:
    def function(x: Tensor) -> Tensor:
        a = torch.mm(x, x)
        b = torch.mm(a, x)
        return torch.mm(torch.mm(b, a).relu(), b)

    x = torch.randn(4, 4)
    program = wir.plan_memory(wir.capture(Model(function), (x,)), "pool")
    assert any(isinstance(line, AllocatePool) for line in program.body)
    check(program, x, expected=(function(x),))
    assert torch.equal(compiled(function, x, strategy="pool"), function(x))


def test_c21_an_8x8_program_refuses_16x16() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.mm(x.t(), x.t())

    x, large = torch.randn(8, 8), torch.randn(16, 16)
    artifact = support.emitted(wir.plan_memory(wir.capture(Model(function), (x,))))
    exported = torch.export.export(artifact.graph_module, (x,)).run_decompositions()
    for run in (artifact.graph_module, artifact.load(), exported.graph_module):
        assert torch.equal(run(x)[0], function(x))
        with pytest.raises(InputLayoutError, match="wrong size"):
            run(large)


def test_c22_a_graph_and_a_cpp_wrapper_together_are_refused_in_words() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.mm(x, x).relu()

    x = torch.randn(4, 4)
    with pytest.raises(BackendCompilerFailed, match=r"OptionValueError.*'cpp_wrapper'"):
        compiled(function, x, cpp_wrapper=True)
    with (
        inductor_config.patch(cpp_wrapper=True),
        pytest.raises(BackendCompilerFailed, match=r"UnsupportedConfigError.*cpp_wrapper"),
    ):
        compiled(function, x)
    assert torch.equal(compiled(function, x), function(x))


def test_c23_regions_that_are_compiled_once() -> None:
    @mark_compile_region
    def region(x: Tensor) -> Tensor:
        return torch.mm(x, x)

    def function(x: Tensor) -> Tensor:
        return region(region(x))

    x = torch.randn(4, 4)
    exported = torch.export.export(Model(function), (x,), strict=True)
    assert any("invoke_subgraph" in str(node.target) for node in exported.graph.nodes)
    program = wir.from_fx(exported)
    check(wir.plan_memory(program), x, expected=(function(x),))
    assert torch.equal(compiled(function, x), function(x))
