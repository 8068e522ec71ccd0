"""Every program as a graph: as it is, exported, made functional, through other people's passes."""

from __future__ import annotations

import copy
import importlib.util
import json
import math
import pickle
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp

import wrapper_ir as wir
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.emitters.fx.programs import ATTENTION, GAPS, LOGARITHM
from tests.emitters.fx.support import NAMES, differences, expected, expected_of, inputs, run
from tests.release import TORCH
from wrapper_ir.emitters import EmitError
from wrapper_ir.lines import BufferInput
from wrapper_ir.lines.walk import walk

if TYPE_CHECKING:
    from pathlib import Path

Function = Callable[..., Any]

#: Tracing a program takes torch a second: `make test` traces one in three.
SOME = [
    pytest.param(name, marks=pytest.mark.long) if number % 3 else name
    for number, name in enumerate(NAMES)
]

pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
    # Torch's own folders hold inner modules as pickles, and say so.
    pytest.mark.filterwarnings("ignore:Was not able to save the following children modules"),
    # Dynamo knows the sizes of inputs that are not marked as dynamic.
    pytest.mark.filterwarnings("ignore:(Pred|Index) is a Python constant"),
    # Export looks at the tree specs of its inputs in a way that torch itself has deprecated.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
]

#: What Dynamo cannot trace, with a part of the reason that it gives: see docs/fx-emitter.md.
NOT_TRACED = {
    "symbols": "returned non-Tensor",
    "written_turned": "non-contiguous `out=` tensor",
}
if TORCH < (2, 12):  # no sym_max of sizes that are fixed
    NOT_TRACED |= dict.fromkeys(
        ("attention", "expressions", "names", "pools_symbolic", "topk"), "returned non-Tensor"
    )

#: Results that are different after tracing, and why: torch writes complex constants into code as
#: Python prints them, ``(1.5-0j)``, which Python reads as 1.5+0j.
SIGN_LOST = {"arguments": 5}
TRACED = ("retraced", "exported", "decomposed", "aot_eager", "read back")


def directly(module: fx.GraphModule, _: list[Any]) -> Function:
    return module


def without_dead_code(module: fx.GraphModule, _: list[Any]) -> Function:
    before = [str(n.target) for n in module.graph.nodes if "wrapper_ir" in str(n.target)]
    module.graph.eliminate_dead_code()
    module.recompile()
    after = [str(n.target) for n in module.graph.nodes if "wrapper_ir" in str(n.target)]
    assert after == before
    return module


def interpreted(module: fx.GraphModule, _: list[Any]) -> Function:
    module.graph.lint()
    return fx.Interpreter(module).run


def with_shapes(module: fx.GraphModule, example: list[Any]) -> Function:
    with torch.no_grad():
        ShapeProp(module).propagate(*example)
    shaped = [n for n in module.graph.nodes if "tensor_meta" in n.meta]
    assert shaped or not any(isinstance(value, torch.Tensor) for value in example)
    return module


def copied(module: fx.GraphModule, _: list[Any]) -> Function:
    return copy.deepcopy(module)


def pickled(module: fx.GraphModule, _: list[Any]) -> Function:
    made = pickle.loads(pickle.dumps(module))
    assert [n.format_node() for n in made.graph.nodes] == [
        n.format_node() for n in module.graph.nodes
    ]
    return made


def copied_flat(module: fx.GraphModule, _: list[Any]) -> Function:
    made = copy.copy(module)
    assert pickle.loads(pickle.dumps(made)).graph is not module.graph
    return made


def retraced(module: fx.GraphModule, example: list[Any]) -> Function:
    # Torch's own rules for gather with out= ask for sizes that are numbers.
    gathers = any(node.target == torch.ops.aten.gather.out for node in module.graph.nodes)
    with torch.no_grad():
        mode = "fake" if gathers else "symbolic"
        trace = make_fx(module, tracing_mode=mode, _allow_non_fake_inputs=True)
        return trace(*example)


PASSES = [
    *(directly, without_dead_code, interpreted, with_shapes),
    *(copied, copied_flat, pickled, retraced),
]


def aot_eager(module: fx.GraphModule, _: list[Any]) -> Function:
    torch._dynamo.reset()
    return torch.compile(module, backend="aot_eager", fullgraph=True)


def check(name: str, way: str, function: Function, *, made: wir.Program | None = None) -> None:
    """Call a function with fresh inputs and hold it against the Python emitter.

    Args:
        name: The program's.
        way: How the function came about.
        function: The function.
        made: The program that has the constants that the function writes to; some ways make
            constants of their own, or run example inputs through them.
    """
    fresh = inputs(name, seed=1)
    ours = run(function, fresh, made.data if made else None)
    theirs = expected_of(name, seed=1)
    if made is None:
        theirs.constants.clear()
    if name in SIGN_LOST and way in TRACED:
        for each in (ours, theirs):
            each.results[SIGN_LOST[name]].imag.abs_()
    assert (way, differences(ours, theirs)) == (way, [])


@pytest.mark.parametrize("name", SOME)
def test_passes(name: str) -> None:
    for way in PASSES:
        module, made = support.module(name)
        function = way(module, inputs(name))
        keeps = way in (directly, interpreted, without_dead_code)
        check(name, way.__name__, function, made=made if keeps else None)


@pytest.mark.parametrize("name", SOME)
def test_export(name: str) -> None:
    module, _ = support.module(name)
    with torch.no_grad():
        program = torch.export.export(module, tuple(inputs(name)))
        check(name, "exported", program.module())
        functional = program.run_decompositions()
    targets = {str(node.target) for node in functional.graph.nodes}
    assert not any(".out" in t or t.endswith("_.default") for t in targets)
    check(name, "decomposed", functional.module())


@pytest.mark.parametrize("name", SOME)
def test_compilers_of_others(name: str) -> None:
    module, _ = support.module(name)
    function = aot_eager(module, inputs(name))
    if name in NOT_TRACED:
        with pytest.raises(torch._dynamo.exc.Unsupported, match=NOT_TRACED[name]):
            run(function, inputs(name))
        return
    check(name, "aot_eager", function)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder(name: str, tmp_path: Path) -> None:
    module, _ = support.module(name)
    fresh = inputs(name, seed=1)
    module.to_folder(tmp_path, "Saved")
    unique = f"saved_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(unique, tmp_path / "module.py")
    assert spec is not None
    assert spec.loader is not None
    saved = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(saved)
    theirs = expected_of(name, seed=1)
    theirs.constants.clear()
    again = saved.Saved()
    assert differences(run(again, fresh), theirs) == []
    kept = dict(again.named_buffers(remove_duplicate=False))
    for at, value in module.named_buffers(remove_duplicate=False):
        assert kept[at].stride() == value.stride(), at


@pytest.mark.parametrize("name", [*NAMES, "device_zoo", "triton"])
def test_emitting_twice_gives_the_same(name: str) -> None:
    made = corpus.program(name) if name in corpus.TEXT_ONLY else support.program(name)
    first, second = support.emitted(made), support.emitted(made)
    assert first.source == second.source
    assert first.graph_module.code == second.graph_module.code


@pytest.mark.parametrize("name", NAMES)
def test_nodes_say_where_they_come_from(name: str) -> None:
    module, made = support.module(name)
    artifact = support.emitted(made)
    paths = {str(path) for path, _ in walk(artifact.program)}
    graphs = [m for m in module.modules() if isinstance(m, fx.GraphModule)]
    nodes = [node for graph in graphs for node in graph.graph.nodes]
    found = {n.meta["wrapper_ir_path"] for n in nodes if "wrapper_ir_path" in n.meta}
    assert found <= paths
    mapped = {str(path) for path in artifact.source_map.paths if path}
    assert mapped <= paths


REFUSED = {
    **dict.fromkeys(corpus.STREAMS, "graphs run on the caller's stream alone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported(name: str) -> None:
    with pytest.raises(EmitError) as caught:
        wir.emit(corpus.program(name), "fx")
    assert caught.value.problems
    reasons = json.dumps([p.reason for p in caught.value.problems])
    assert REFUSED[name] in reasons


#: Programs whose graphs, once a pass has made them FX's own, cannot be read back from their code:
#: they have choices or loops, or round symbolic numbers.
NOT_READ_BACK = {
    **dict.fromkeys(
        (
            *("cond", "cond_integers", "cond_nested", "constants_in_regions"),
            *("results_in_regions", "switch", "while_in_cond"),
        ),
        AssertionError,
    ),
    **dict.fromkeys(
        ("while", "while_double", "while_number", "while_stacked", "while_without_rounds"),
        (AssertionError, RuntimeError),
    ),
    "expressions": TypeError,
}


@pytest.mark.parametrize("name", NAMES)
def test_pickling_what_a_pass_made_of_a_graph(name: str) -> None:
    module, _ = support.module(name)
    stream = pickle.dumps(fx.GraphModule(module, module.graph))
    if name in NOT_READ_BACK:
        with pytest.raises(NOT_READ_BACK[name]):
            pickle.loads(stream)
        return
    made = pickle.loads(stream)
    run(made, inputs(name))  # a call leaves nothing to the next
    check(name, "read back", made)


# What torch does not trace, besides: docs/fx-emitter.md.


def test_writes_through_views_with_gaps_of_inputs_are_refused_not_wrong() -> None:
    module = support.emitted(wir.parse(GAPS)).graph_module
    x = torch.zeros(4, 4)
    module(x)
    assert x.tolist() == [[0, 0, 1, 0]] * 4
    exported = torch.export.export(module, (x,))
    with pytest.raises(RuntimeError, match="mutation on a view chain"):
        exported.run_decompositions()


def test_results_are_laid_out_as_the_program_says_where_decompositions_do_otherwise() -> None:
    made = wir.parse(ATTENTION)
    q = torch.empty_strided((2, 2, 6, 16), (576, 16, 96, 1)).normal_()
    theirs = run(wir.compile(made, "python"), [q])
    module = support.emitted(made).graph_module
    exported = torch.export.export(module, (q,))
    functional = exported.run_decompositions({}).module()
    assert differences(run(functional, [q]), theirs) == []
    decomposed = exported.run_decompositions()
    assert "aten.bmm.default" in {str(node.target) for node in decomposed.graph.nodes}
    torch.testing.assert_close(decomposed.module()(q), theirs.results)


def test_logarithms_of_symbolic_sizes_fix_them() -> None:
    module = support.emitted(wir.parse(LOGARITHM)).graph_module
    assert torch.equal(module(torch.ones(6))[0], torch.full((6,), math.log(6)))
    dynamic = ({0: torch.export.Dim.AUTO},)
    exported = torch.export.export(module, (torch.ones(4),), dynamic_shapes=dynamic).module()
    exported(torch.ones(4))
    with pytest.raises(AssertionError, match="Guard failed"):
        exported(torch.ones(6))


@pytest.mark.parametrize(
    "name", ["cond", "dynamic_shapes", "pools_symbolic", "results", "shared_symbolic", "while"]
)
def test_other_sizes_after_a_dynamic_export(name: str) -> None:
    module, made = support.module(name)
    example, fresh = inputs(name), []
    dynamic: list[dict[int, Any] | None] = []
    for param, value in zip(made.inputs, example, strict=True):
        assert isinstance(param, BufferInput)
        layout = made.layout(param.name)
        symbolic = [n for n, size in enumerate(layout.size) if not isinstance(size, int)]
        dynamic.append(dict.fromkeys(symbolic, torch.export.Dim.AUTO) or None)
        size = [7 if n in symbolic else value.shape[n] for n in range(value.dim())]
        fresh.append(torch.randn(size).to(value.dtype) if symbolic else value)
    with torch.no_grad():
        exported = torch.export.export(module, tuple(example), dynamic_shapes=tuple(dynamic))
        function = exported.run_decompositions().module()
    assert differences(run(function, fresh), expected(name, fresh)) == []
