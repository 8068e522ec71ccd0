"""Small functions through stock Inductor and through us, equal to the last bit; captured ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch.nn import functional
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.frontends.support import DYNAMIC
from tests.models.watch import watch_inductor
from wrapper_ir.frontends.inductor import install, statistics

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    # It says so of the Fourier transform, which is a call of a library op either way.
    pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex"),
]


@dataclass(frozen=True)
class Example:
    """A function, its arguments, and how it is compiled."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    dynamic: bool | None = None
    unbacked: bool = False
    config: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def normal(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(sum(size)))


def change_input(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x * 2


def change_part(x: Tensor, y: Tensor) -> Tensor:
    x[1:3] = y[1:3]
    return x.sum()


def rows_of_a_batch(x: Tensor, mask: Tensor) -> Any:
    """Return what depends on ``12 * u0 // s0`` rows of ``s0`` in memory of ``12 * u0``."""
    kept = torch.cat([x[mask], x[mask] * 2]).reshape(-1) + 1
    rows = len(kept) // len(x)
    laid_out = kept.narrow(0, 0, rows * len(x)).view(rows, len(x))
    return (laid_out * 2).sum(0), laid_out.t().contiguous()


def experts(x: Tensor, weights: Tensor) -> Tensor:
    chosen, result = x[:, :2].argmax(-1), torch.zeros_like(x)
    for number in range(2):
        (at,) = torch.where(chosen == number)
        result = result.index_add(0, at, torch.relu(x[at] @ weights[number]))
    return result


def duplicates(x: Tensor) -> Any:
    y = x * 2
    return y, y, y.t(), x


def item(x: Tensor, n: Tensor) -> Any:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k < 10)
    return x * k, torch.zeros(k)


def bounded_sum(x: Tensor) -> Tensor:
    k = x.sum().item()
    torch._check(k < 10)
    torch._check(k >= 0)
    return torch.zeros(k)


def flag(x: Tensor, b: Tensor) -> Any:
    return x * b.item()


def select(x: Tensor, n: Tensor) -> Tensor:
    return x[n.item()] * 2


def part(x: Tensor, n: Tensor) -> Tensor:
    return x[: n.item()] * 2


def index_put(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    return torch.index_put(x, (i,), v, accumulate=True)


def cat_into_product(x: Tensor, y: Tensor) -> Tensor:
    return torch.mm(torch.cat([torch.mm(x, y), x.sin()]), y)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def dynamic_size(x: Tensor, w: Tensor) -> Any:
    return torch.relu(x @ w), x.shape[0] * 2, torch.arange(x.shape[0])


def chunked(x: Tensor) -> Any:
    return torch.split(x, x.shape[0] // 2)[0].sum(0), x.view(-1)[x.shape[0] :]


INDEX = torch.tensor([0, 2, 2])
NUMBERS = (normal(10),)
EXAMPLES = (
    Example("topk", lambda x: torch.topk(x, 3), (normal(4, 10),)),
    Example("sort", lambda x: torch.sort(x, stable=True), (normal(4, 300),)),
    Example("views", lambda x: (x.t(), x + 1, (x + 1).t(), x), (normal(4, 10),)),
    Example("duplicates", duplicates, (normal(3, 4),)),
    Example("change_input", change_input, (normal(4), normal(5)[:4])),
    Example("change_part", change_part, (normal(4), normal(5)[:4])),
    Example("index_put", index_put, (normal(6, 3), INDEX, normal(3, 3))),
    Example("index_add", lambda x, i, v: x.index_add(0, i, v), (normal(6, 3), INDEX, normal(3, 3))),
    Example(
        "scatter_prod",
        lambda x, i, v: x.scatter_reduce(0, i, v, "prod"),
        (normal(6, 3), torch.tensor([[0, 1, 2], [3, 3, 0]]), normal(2, 3)),
    ),
    Example("attention", attention, (normal(1, 2, 8, 16),) * 3),
    Example("cat", cat_into_product, (normal(4, 4), normal(5, 4)[:4])),
    Example(
        "bmm", lambda a, b: torch.bmm(a, b.transpose(1, 2)), (normal(2, 3, 4), normal(2, 5, 4))
    ),
    Example("fft", lambda x: torch.view_as_real(torch.fft.fft(x) * 2), (normal(8),)),
    Example("dropout", lambda x: functional.dropout(x, 0.5, True), (normal(100),)),
    Example("random", lambda x: torch.rand(5) + torch.randn(5) + x, (normal(5),)),
    Example("numbers", lambda x: (x + 1, None, 3), (normal(4),)),
    Example("dtypes", lambda x: (x.half() * 2, x.bfloat16() + 1, x > 0), (normal(40),)),
    Example("constant", lambda x: x + torch.tensor([1.0, 2, 3, 4]), (normal(4),)),
    Example("empty", lambda x: torch.cat([x[:0], x * 2]), (normal(4, 3),)),
    Example("dynamic_size", dynamic_size, (normal(5, 8), normal(8, 8)), dynamic=True),
    Example("dynamic_view", chunked, (normal(6, 4),), dynamic=True),
    Example("nonzero", lambda x: torch.nonzero(x > 0) * 2, (normal(10),), unbacked=True),
    Example("mask", lambda x: x[x > 0] + 1, (normal(10),), unbacked=True),
    Example("unique", torch.unique, (torch.tensor([3, 1, 3, 2]),), unbacked=True),
    Example("item", item, (normal(10), torch.tensor(4)), unbacked=True),
    Example("flag", flag, (normal(10), torch.tensor(True)), unbacked=True),
    Example("read_float", lambda x: (x * x.sum().item(), x.max().item()), NUMBERS, unbacked=True),
    Example("select", select, (normal(10, 3), torch.tensor(-4)), unbacked=True),
    Example("slice", part, (normal(10), torch.tensor(4)), unbacked=True),
    Example(
        "rows_of_a_batch",
        rows_of_a_batch,
        (normal(7, 6), torch.arange(7) < 5),
        dynamic=True,
        unbacked=True,
    ),
    Example("experts", experts, (normal(9, 4), normal(2, 4, 4)), dynamic=True, unbacked=True),
)


def run(example: Example, backend: str) -> Any:
    """Compile and call; returns the results, the arguments after the call, the random state."""
    torch._dynamo.reset()
    args = copy.deepcopy(example.args)
    compiled = torch.compile(example.function, backend=backend, dynamic=example.dynamic)
    capture = {
        "capture_dynamic_output_shape_ops": example.unbacked,
        "capture_scalar_outputs": example.unbacked,
    }
    torch.manual_seed(5)
    with torch._dynamo.config.patch(capture), torch.no_grad():
        results = compiled(*args)
    return pytree.tree_leaves((results, args)), torch.get_rng_state()


def assert_same(ours: list[Any], stock: list[Any]) -> None:
    assert len(ours) == len(stock)
    for one, other in zip(ours, stock, strict=True):
        if isinstance(other, Tensor):
            assert (one.dtype, one.size(), one.stride()) == (
                other.dtype,
                other.size(),
                other.stride(),
            )
            assert torch.equal(one, other)
        else:
            assert one == other
            assert type(one) is type(other)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_equal_to_stock_to_the_last_bit(example: Example) -> None:
    stock, stock_state = run(example, "inductor")
    statistics.reset()
    with watch_inductor() as seen, wir.record() as programs:
        ours, our_state = run(example, "wrapper_ir")
    assert seen.lowered == len(programs) == statistics.programs >= 1
    assert all("wrapper_ir.runtime" in source for source in seen.sources)
    assert_same(ours, stock)
    assert torch.equal(our_state, stock_state)
    for program in programs:
        wir.verify(program)
        assert wir.parse(str(program)) == program


def test_an_installation_runs_our_code_too() -> None:
    example = EXAMPLES[0]
    stock, _ = run(example, "inductor")
    with install(), watch_inductor() as seen, wir.record() as programs:
        ours, _ = run(example, "inductor")
    assert seen.lowered == len(programs) == 1
    assert_same(ours, stock)


def test_a_failed_condition_raises_its_message() -> None:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(bounded_sum, backend="wrapper_ir", fullgraph=True)
        assert torch.equal(compiled(torch.arange(4)), torch.zeros(6))
        with pytest.raises(wir.WrapperIRError, match="u0"):
            compiled(torch.arange(5))


class Statistics(nn.Module):
    """Batch norm in training, whose statistics are changed in place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu()


def test_a_captured_model_runs_and_changes_the_model_s_buffers() -> None:
    model = Statistics().train()
    eager = copy.deepcopy(model)
    x = normal(2, 3, 8, 8)
    program = wir.capture(model, (x,), dynamic_shapes={"x": {0: DYNAMIC}})
    call = wir.compile(program)
    for batch in (2, 5):
        x = normal(batch, 3, 8, 8)
        (result,) = call(x)
        torch.testing.assert_close(result, eager(x))
        assert model.norm.num_batches_tracked == eager.norm.num_batches_tracked
        torch.testing.assert_close(model.norm.running_mean, eager.norm.running_mean)


def test_a_captured_program_follows_the_parameters() -> None:
    model = nn.Linear(4, 2)
    x = normal(3, 4)
    (call := wir.compile(wir.capture(model, (x,))))(x)
    with torch.no_grad():
        model.weight.mul_(2)
    torch.testing.assert_close(call(x)[0], model(x))


def test_saved_activations_die_on_time() -> None:
    """A backward frees what the forward saved, as it goes: the caller's list is emptied."""
    torch._dynamo.reset()
    model = nn.Sequential(*(nn.Linear(16, 16) if i % 2 == 0 else nn.Tanh() for i in range(6)))
    with wir.record() as programs:
        torch.compile(model, backend="wrapper_ir")(normal(4, 16)).sum().backward()
    planned = wir.plan_memory(programs[1], strategy="reuse")
    from wrapper_ir.lines import BufferInput, Free

    freed = {line.buffer for line in planned.body if isinstance(line, Free)}
    results = {getattr(value, "buffer", None) for value in planned.results}
    inputs = {i.name for i in planned.inputs if isinstance(i, BufferInput) and not i.donated}
    assert inputs - results <= freed


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_hooks_go_past_the_forward(emitter: str) -> None:
    """Compiled autograd hands the graph an object that carries hooks, which it has to ignore."""
    torch._dynamo.reset()

    def doubled(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        y.register_hook(lambda gradient: gradient * 2)
        return y @ w

    def backward_compiler(graph: torch.fx.GraphModule) -> Any:
        return torch.compile(graph, backend="eager")

    def gradients(function: Any) -> tuple[Tensor | None, ...]:
        x, w = (torch.linspace(0, 1, 9).reshape(3, 3).requires_grad_() for _ in range(2))
        function(x, w).sum().backward()
        return x.grad, w.grad

    run = torch.compile(doubled, backend="wrapper_ir", options={"emitter": emitter})
    statistics.reset()
    with compiled_autograd._enable(backward_compiler):
        found = gradients(run)
    torch.testing.assert_close(found, gradients(doubled))
    assert statistics.programs == 1
