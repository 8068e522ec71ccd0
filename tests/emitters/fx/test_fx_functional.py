"""Models as graphs that torch has made functional: the bits of emitted Python, with fresh inputs.

Torch's default table of decompositions computes attention in another way than the op does, and the
last bits differ. There the graph is held against itself: with the same table applied to each op as
it runs, without export and without functionalisation.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import wrapper_ir as wir
from tests.emitters.fx import support
from tests.models.zoo import CASES, Case
from wrapper_ir.lines import ExternKernel, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = [
    pytest.mark.long,
    # Export looks at the tree specs of its inputs in a way that torch itself has deprecated.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

#: What the ordinary suite runs; the others take longer.
QUICK = (("attention", "pool"), ("mixed_dtypes", "reuse"), ("vit", "reuse"))

#: Has no graph of its own: the model's value decides what is run.
NOT_CAPTURED = ("graph_breaks",)

ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"

aten = torch.ops.aten


class Decomposed(TorchDispatchMode):
    """Runs each op as torch's default table says."""

    def __init__(self) -> None:
        super().__init__()
        self.table = dict(torch.export.default_decompositions().items())

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if op in self.table:
            with self:
                made = self.table[op](*args, **(kwargs or {}))
            if made is not NotImplemented:
                return made
        return op(*args, **(kwargs or {}))


def decomposed_op_by_op(module: fx.GraphModule, _: list[Any]) -> Any:
    """A graph whose ops are decomposed as they run, with results laid out as the program says."""

    def laid_out(result: Tensor, spec: str) -> Tensor:
        ((_, _, size, stride, _),) = json.loads(spec)
        return torch.empty_strided(size, stride, dtype=result.dtype).copy_(result)

    module = copy.deepcopy(module)
    for node in module.graph.nodes:
        if node.target is torch.ops.wrapper_ir.lay_out.default:
            node.target = laid_out
    module.recompile()

    def run(*args: Any) -> Any:
        with Decomposed():
            return module(*args)

    return run


def exported(table: Mapping[Any, Any] | None = None) -> Callable[[fx.GraphModule, list[Any]], Any]:
    """A way to make a graph functional; without a table torch's default one is applied."""

    def way(module: fx.GraphModule, example: list[Any]) -> Any:
        program = torch.export.export(module, tuple(example))
        functional = program.run_decompositions(None if table is None else dict(table))
        names = {str(node.target) for node in functional.graph.nodes}
        assert not any(".out" in name or name.endswith("_.default") for name in names)
        return functional.module()

    return way


def aot_eager(module: fx.GraphModule, _: list[Any]) -> Any:
    torch._dynamo.reset()
    return torch.compile(module, backend="aot_eager")


def without_attention() -> dict[Any, Any]:
    """Torch's default table of decompositions, attention left as it is."""
    table = dict(torch.export.default_decompositions().items())
    del table[aten._scaled_dot_product_flash_attention_for_cpu.default]
    return table


def cases() -> list[object]:
    """Every model under both strategies of planning; the ordinary suite has a few."""
    found: list[object] = []
    for case in CASES:
        for strategy in ("reuse", "pool"):
            quick = (case.name, strategy) in QUICK
            marks = () if quick else (pytest.mark.models,)
            if case.name not in NOT_CAPTURED:
                found.append(pytest.param(case, strategy, marks=marks, id=f"{case}-{strategy}"))
    return found


@pytest.mark.parametrize(("case", "strategy"), cases())
def test_functional_graphs_of_models(case: Case, strategy: str) -> None:
    model, args = case.make()
    program = wir.plan_memory(wir.capture(model.eval(), args), strategy)
    example = pytree.tree_leaves(args)
    fresh = pytree.tree_leaves(replace(case, seed=1).make()[1])

    def run(way: str, make: Callable[[fx.GraphModule, list[Any]], Any] | None) -> support.Run:
        """Compile a copy of the program and call it with fresh inputs."""
        mine = program.replace(data=copy.deepcopy(dict(program.data)))
        torch.manual_seed(2)
        with torch.no_grad():
            if make is None:
                function: Any = wir.compile(mine, way)
            else:
                function = make(
                    support.emitted(mine).graph_module, list(map(support.copy, example))
                )
        torch.manual_seed(3)
        return support.run(function, fresh)

    def check(way: str, ours: support.Run, theirs: support.Run) -> None:
        assert (way, support.differences(ours, theirs)) == (way, [])

    python = run("python", None)
    check("graph", run("fx", lambda module, _: module), python)
    check("loaded", run("fx", None), python)
    check("functional", run("fx", exported({})), python)
    check("aot_eager", run("fx", aot_eager), python)
    decomposed = run("fx", exported())
    if has_attention(program):
        check("decomposed", decomposed, run("fx", decomposed_op_by_op))
        check("decomposed", run("fx", exported(without_attention())), python)
    else:
        check("decomposed", decomposed, python)


def has_attention(program: Program) -> bool:
    return any(isinstance(line, ExternKernel) and line.op == ATTENTION for line in program.body)
