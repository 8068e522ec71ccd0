"""``record`` and ``capture``: the programs that come out, whole."""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.frontends.support import DYNAMIC, captured, lines
from wrapper_ir.frontends.inductor import CaptureError, UnsupportedLineError
from wrapper_ir.lines import (
    BufferInput,
    ConstantKind,
    GraphRole,
    NoneValue,
    ScalarInput,
    ScalarValue,
    SymbolKind,
)

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


class Model(nn.Module):
    """A convolution, batch norm, tied linear layers, a scalar buffer; a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.first = nn.Linear(4, 4, bias=False)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Tensor, *, shift: Tensor, unused: Any = None) -> dict[str, Any]:
        y = self.norm(self.conv(x)).relu().mean((2, 3)) * self.scale
        return {"y": self.second(self.first(y)) + shift, "rest": (x.shape[0], None)}


def test_forward_and_backward_in_order() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with wir.record() as programs:
        torch.compile(model, backend="wrapper_ir")(torch.ones(2, 4)).sum().backward()
    assert [p.role for p in programs] == [GraphRole.FORWARD, GraphRole.BACKWARD]
    for program in programs:
        wir.verify(program)


def test_each_graph_between_breaks() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos() + 1

    with wir.record() as programs:
        torch.compile(function, backend="wrapper_ir")(torch.ones(4))
    assert [p.role for p in programs] == [GraphRole.INFERENCE] * 2
    ops = [[op for o in p.origins for op in o.ops] for p in programs]
    assert any("sin" in op for op in ops[0])
    assert any("cos" in op for op in ops[1])


def test_blocks_nest_and_end() -> None:
    with wir.record() as outer:
        with wir.record() as inner:
            torch.compile(lambda x: x + 1, backend="wrapper_ir")(torch.ones(2))
        torch.compile(lambda x: x + 2, backend="wrapper_ir")(torch.ones(2))
    torch.compile(lambda x: x + 3, backend="wrapper_ir")(torch.ones(2))
    assert (len(outer), len(inner)) == (2, 1)
    assert outer[0] is inner[0]


def test_capture_knows_the_model_s_tensors() -> None:
    model = Model().train()
    program = captured(model, torch.randn(2, 3, 8, 8), kwargs={"shift": torch.ones(4)})
    by_name = {c.qualified_name: (name, c) for name, c in program.constants.items()}
    assert by_name["conv.weight"][1].kind is ConstantKind.PARAMETER
    assert by_name["scale"][1].kind is ConstantKind.BUFFER
    assert by_name["norm.running_mean"][1].mutable
    assert not by_name["conv.weight"][1].mutable
    values = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for qualified, (name, _) in by_name.items():
        assert program.data[name].data_ptr() == _value(values, qualified).data_ptr()


def _value(values: dict[str, Tensor], qualified: str) -> Tensor:
    tied = {"second.weight": "first.weight"}
    return values.get(qualified, values.get(tied.get(qualified, ""), torch.empty(0)))


def test_small_parameters_stay_constants() -> None:
    program = captured(nn.Linear(3, 2), torch.ones(1, 3))
    assert {c.qualified_name for c in program.constants.values()} == {"weight", "bias"}


def test_captured_inputs_and_results_are_the_leaves_of_the_trees() -> None:
    program = captured(
        Model().eval(),
        torch.randn(2, 3, 8, 8),
        kwargs={"shift": torch.ones(4), "unused": None},
        dynamic_shapes={"x": {0: DYNAMIC}, "shift": None, "unused": None},
    )
    names = [getattr(value, "name", None) for value in program.inputs]
    assert names == ["x", "shift", None]
    kinds = [type(value) for value in program.inputs]
    assert kinds == [BufferInput, BufferInput, ScalarInput]
    assert [type(v) for v in program.results[1:]] == [ScalarValue, NoneValue]
    assert _leaves(json.loads(program.in_spec)[1]) == len(program.inputs)
    assert _leaves(json.loads(program.out_spec)[1]) == len(program.results)
    (size,) = [s for s, info in program.symbols.items() if info.hint == 2]
    assert program.symbols[size].kind is SymbolKind.INT
    assert program.layout(program.inputs[0].name).size[0] == program.results[1].value


def _leaves(spec: dict[str, Any]) -> int:
    children = spec["children_spec"]
    return sum(map(_leaves, children)) if spec["type"] is not None else 1


def test_names_that_are_taken_are_not_given_to_inputs() -> None:
    class Clash(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.shift = nn.Parameter(torch.ones(3))

        def forward(self, buf1: Tensor, scale: Tensor, y: Tensor) -> Tensor:
            return (buf1 @ y) * self.scale + self.shift * scale

    program = captured(Clash(), torch.ones(3, 3), torch.ones(3), torch.ones(3, 3))
    names = [value.name for value in program.inputs if isinstance(value, BufferInput)]
    assert names[2] == "y"
    assert "buf1" not in names
    assert len({*names, *program.constants}) == 5


def test_a_parameter_called_like_a_buffer_is_refused() -> None:
    """Inductor's kernels would read the one for the other, without a word."""
    model = nn.Module()
    model.register_parameter("buf0", nn.Parameter(torch.ones(3)))
    model.forward = lambda x: (x @ x) * model.buf0 + model.buf0
    with pytest.raises(UnsupportedLineError, match="buf0"):
        wir.capture(model, (torch.ones(3, 3),))


def test_capture_takes_exported_programs() -> None:
    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    exported = torch.export.export(model, (x,))
    assert wir.capture(exported, ()) == captured(model, x)


def test_capture_leaves_the_model_as_it_was() -> None:
    model = Model().train()
    before = copy.deepcopy(model.state_dict())
    wir.capture(model, (torch.randn(2, 3, 8, 8),), {"shift": torch.ones(4)})
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_capture_is_recorded() -> None:
    with wir.record() as programs:
        program = captured(lambda x: x + 1, torch.ones(2))
    assert programs == [program]


@pytest.mark.parametrize(("number", "other"), [(2, 3), (0.1, 0.2)])
def test_a_number_that_was_captured_is_checked(number: float, other: float) -> None:
    ones = torch.ones(3, 3)
    run = wir.compile(captured(lambda x, n: torch.addmm(x, x, x, alpha=n), ones, number))
    assert torch.equal(run(ones, number)[0], torch.addmm(ones, ones, ones, alpha=number))
    with pytest.raises(wir.WrapperIRError, match=f"needs n to be {number}, but n is {other}"):
        run(ones, other)


def test_threads_take_turns_at_capturing() -> None:
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: captured(lambda x: x @ x, torch.ones(3, 3)), range(3)))
    assert made == [made[0]] * 3


MEMORY = torch.ones(12)


@pytest.mark.parametrize(
    ("model", "args", "problem"),
    [
        (3, (), "not a model"),
        (lambda x: x.nope(), (torch.ones(2),), "nope"),
        (lambda x: x if x.sum() > 0 else -x, (torch.ones(2),), "torch.export"),
        (lambda x, y: x.add_(1) + y, (MEMORY[:8], MEMORY[4:]), "torch says"),
    ],
)
def test_what_cannot_be_captured_says_why(model: Any, args: Any, problem: str) -> None:
    with pytest.raises(CaptureError, match=problem):
        wir.capture(model, args)


def test_named_tuples_of_torchs_are_captured_as_tuples() -> None:
    program = captured(lambda x: torch.sort(x), torch.randn(5))
    tree = torch.utils._pytree.treespec_loads(program.out_spec)
    # Since PyTorch 2.14 exported programs return torch.return_types.sort, which is a tuple, too.
    result = tree.unflatten([0, 1])
    assert isinstance(result, tuple)
    assert result == (0, 1)
    assert len(program.results) == 2
    assert lines(program, object)


class Pair(NamedTuple):
    """A tree whose type has no name that torch could write down."""

    first: torch.Tensor
    second: torch.Tensor


def test_captured_results_without_a_serialisable_tree() -> None:
    program = captured(lambda x: Pair(x + 1, x + 2), torch.randn(5))
    assert program.out_spec == ""
    assert len(program.results) == 2
