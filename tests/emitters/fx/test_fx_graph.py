"""The emitted graph: what is in it, what it refuses, how it is loaded."""

from __future__ import annotations

import gc
import re
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, fx, nn

import wrapper_ir as wir
from tests import warm
from tests.emitters import corpus
from tests.emitters.fx import support
from tests.emitters.fx.programs import EXTRA
from wrapper_ir.debug_printer import debug_session
from wrapper_ir.emitters import EmitError
from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.fx import FxEmitter, declare_kernels
from wrapper_ir.emitters.fx.checks import KernelDeviceError
from wrapper_ir.emitters.fx.kernels import KernelForm, KernelSet, declare, op_name
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines import CppKernel, KernelDefinition
from wrapper_ir.runtime import (
    AlignmentError,
    InputCountError,
    InputLayoutError,
    ResultLayoutError,
    SymbolError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.emitters.fx.artifact import FxArtifact


def artifact(name: str, **options: Any) -> FxArtifact:
    return support.emitted(support.program(name), **options)


def nodes(module: fx.GraphModule, target: str) -> list[fx.Node]:
    return [node for node in module.graph.nodes if target in str(node.target)]


# Options.


@pytest.mark.parametrize("options", [{"checks": "sometimes"}, {"values": 1}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionValueError):
        FxEmitter(**options)


def test_no_checks() -> None:
    assert nodes(artifact("square").graph_module, "check")
    assert not nodes(artifact("square", checks="never").graph_module, "check")


# Checks.


def ways(name: str, example: list[Any]) -> dict[str, Any]:
    """A graph as it is, loaded, and made functional."""
    found = artifact(name)
    with torch.no_grad():
        exported = torch.export.export(found.graph_module, tuple(example))
        functional = exported.run_decompositions().graph_module
    signature = exported.graph_signature
    assert not signature.buffers
    return {
        "graph": found.graph_module,
        "loaded": found.load(),
        "functional": lambda *args: functional(*args),
    }


def test_sizes_are_refused_in_words() -> None:
    """An 8x8 program does not take 16x16, whatever was done to its graph."""
    for way, function in ways("square", [torch.randn(8, 8)]).items():
        with pytest.raises(InputLayoutError, match=r"'x' has the wrong size.*\[8, 8\].*\[16, 16\]"):
            function(torch.randn(16, 16))
        with pytest.raises(InputLayoutError, match="wrong dtype"):
            function(torch.zeros(8, 8, dtype=torch.int64))
        with pytest.raises(InputLayoutError, match="wrong stride"):
            function(torch.randn(8, 8).t())
        function(torch.randn(8, 8))
        assert way


def test_ranges_of_symbols_are_checked() -> None:
    function = artifact("cond").load()
    with pytest.raises(SymbolError, match=r"1 <= s0 <= 64, but s0 is 65"):
        function(torch.randn(65, 2), torch.tensor(True))


def test_sizes_that_depend_on_symbols_are_checked() -> None:
    function = artifact("dynamic_shapes").load()
    function(torch.randn(5, 3), torch.randn(3, 5))
    with pytest.raises(InputLayoutError, match="'y' has the wrong size"):
        function(torch.randn(5, 3), torch.randn(3, 6))


def test_relations_and_alignment_are_checked() -> None:
    function = artifact("asserts").load()
    y = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(SymbolError, match="the batch is a multiple of four, but s0 is 6"):
        function(torch.randn(6, 8)[:, ::2], y, 0.5)
    with pytest.raises(AlignmentError):
        function(torch.randn(9, 8).flatten()[1:65].view(8, 8)[:, ::2], y, 0.5)


def test_numbers_are_checked() -> None:
    function = artifact("expressions").load()
    with pytest.raises(InputLayoutError, match="'s0' has the wrong type"):
        function(7.0, 3, 2, 0.5)
    with pytest.raises(InputCountError):
        function(7, 3, 2)


def test_results_of_ops_are_checked() -> None:
    text = EXTRA["square"].text.replace(
        ": f32[8, 8] @cpu\nreturn", ": f32[8, 8]{1, 8} @cpu\nreturn"
    )
    text = text.replace("\nreturn", '\n  assert_layout %a, "aten.relu"\nreturn')
    function = wir.compile(wir.parse(text), "fx")
    with pytest.raises(ResultLayoutError, match=r"'aten.relu' returned .* a different stride"):
        function(torch.randn(8, 8))


# Views keep their dtype, devices their index.


def test_views_in_another_dtype_keep_it() -> None:
    views = artifact("views").load()(torch.randn(4, 6))
    assert [v.dtype for v in views[2:4]] == [torch.int32, torch.float16]


def test_device_indices_are_kept() -> None:
    text = """
wir 2
program @elsewhere inference planned
input %x : f32[4] @cuda:1
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  %y = allocate : f32[4] @cuda:1
  aten::relu.out(%x, out=out %y)
return %y
"""
    module = support.emitted(wir.parse(text)).graph_module
    (made,) = nodes(module, "empty_strided")
    assert made.kwargs["device"] == torch.device("cuda", 1)
    (check,) = nodes(module, "check_inputs")
    assert '"cuda:1"' in check.args[1]


@pytest.mark.gpu
def test_a_kernel_refuses_tensors_of_other_devices() -> None:
    definition = support.program("planned").kernels["add_one"]
    (op,) = declare([definition]).values()
    with pytest.raises(KernelDeviceError, match="cannot take a tensor on cuda:0"):
        op(torch.zeros(1, device="cuda"), 1)


# Kernels.


def test_kernels_are_ops_with_a_schema_that_says_what_they_write() -> None:
    definition = support.program("planned").kernels["add_one"]
    assert KernelForm(definition).schema == (
        f"{op_name(definition)}(Tensor(a0!) in_out_ptr0, SymInt n) -> ()"
    )
    module = artifact("planned").graph_module
    (node,) = nodes(module, "add_one")
    assert node.target._schema.is_mutable


def test_kernels_that_see_parts_of_one_memory_take_it_once() -> None:
    found = artifact("shared_storage")
    cat, in_pool = nodes(found.graph_module, "cat_")
    assert re.fullmatch(r"wrapper_ir\.cat_[0-9a-f]{16}_at_x_0_0_0_x_x\.default", str(cat.target))
    # All of a pool of one dtype is one memory.
    assert str(in_pool.target).endswith("_at_x_0_0_0_0_x.default")
    assert [str(in_pool.args[0]), *in_pool.args[2:]] == ["pool_float32", 0, 0, 128, 256, 32]
    whole, x, *places, y, n = cat.args
    assert [str(whole), str(x), str(y)] == ["whole", "x", "y"]
    assert [*places, n] == [0, 0, 128, 32]
    schema = cat.target._schema
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    assert written == ["memory0", "out_ptr2"]
    assert f"# {schema.name.removeprefix('wrapper_ir::')}(Tensor(m0!) memory0, " in found.source
    (mark,) = nodes(found.graph_module, "mark_")
    assert [str(mark.args[0]), *mark.args[1:]] == ["whole", 5, 3]


def test_kernels_whose_buffers_have_no_byte_in_common_take_them_as_they_are() -> None:
    found = artifact("shared_storage")
    sums = [str(node.target) for node in nodes(found.graph_module, "add_up_")]
    assert [re.sub(r"_[0-9a-f]{16}", "", target) for target in sums] == [
        "wrapper_ir.add_up_at_0_0_x.default",
        "wrapper_ir.add_up_at_0_0_x.default",
        "wrapper_ir.add_up.default",
        "wrapper_ir.add_up_at_0_0_x.default",
        "wrapper_ir.add_up.default",
    ]


def test_views_that_no_node_uses_are_left_out_and_their_comments_are_not() -> None:
    text = str(support.program("shared_storage"))
    text = text.replace("  %first = ", "  // before the view\n  %first = ")
    found = support.emitted(wir.parse(text))
    assert not any(node.name == "first" for node in found.graph_module.graph.nodes)
    assert "# before the view\n" in found.source


def test_kernels_are_unique_by_content() -> None:
    one, two = support.program("planned").kernels["relu"], support.program("pools").kernels["relu"]
    assert op_name(one) == op_name(two)
    assert isinstance(one.source, CppKernel)
    other = CppKernel(one.source.code + " ", one.source.entry)
    assert op_name(KernelDefinition(one.name, one.params, other)) != op_name(one)
    assert op_name(KernelDefinition("other", one.params, one.source)) != op_name(one)


def test_declaring_twice_does_nothing() -> None:
    made = wir.prepare(support.program("pools"), "fx")
    assert declare_kernels(made) == declare_kernels(made)
    threads = [threading.Thread(target=declare_kernels, args=(made,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_parameter_may_be_called_anything() -> None:
    artifact("names").graph_module.graph.lint()


def test_a_graph_runs_without_being_loaded_in_threads() -> None:
    text = corpus.FILES["planned"].read_text().replace("in_out_ptr0[i] += 1", "in_out_ptr0[i] += 9")
    module = support.emitted(wir.parse(text)).graph_module
    x, results = torch.randn(4, 64), []
    threads = [threading.Thread(target=lambda: results.append(module(x)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.equal(result, x.relu() + 9) for result in results)


def test_unknown_ops_are_reported_with_the_rest() -> None:
    text = EXTRA["square"].text.replace("aten::relu", "nowhere::relu")
    with pytest.raises(EmitError, match="torch has no op 'nowhere::relu' in this process"):
        wir.emit(wir.parse(text), "fx")


# Constants.


def test_constants_are_found_under_their_qualified_names() -> None:
    made = support.program("constants")
    module = support.emitted(made).graph_module
    state = module.state_dict(keep_vars=True)
    assert {"0.weight", "head.weight", "1.running_mean", "_tensor_constant0"} < state.keys()
    assert state["0.weight"] is made.data["weight"]
    assert state["head.weight"] is state["0.weight"]
    assert "constant_tall" in state  # no attribute could be called what it is called


def test_parameters_share_their_memory_and_ask_for_no_gradient() -> None:
    made = support.program("extern_out")
    weight = nn.Parameter(made.data["weight"])
    artifact = support.emitted(made.replace(data={**made.data, "weight": weight}))
    (held,) = artifact.graph_module.parameters()
    assert held.data_ptr() == weight.data_ptr()
    assert not held.requires_grad
    x = torch.randn(4, 8, requires_grad=True)
    before = artifact.load()(x)[0]
    with torch.no_grad():
        weight.zero_()
    assert not torch.equal(artifact.load()(x)[0], before)


def test_missing_constants_are_named() -> None:
    made = support.program("extern_out").replace(data={})
    found = wir.emit(made, "fx")
    with pytest.raises(MissingConstantError, match="'weight', 'bias'"):
        found.load()


# Nodes.


def test_values_are_fake_tensors_and_symbolic_numbers() -> None:
    module = artifact("cond").graph_module
    x, _ = [n for n in module.graph.nodes if n.op == "placeholder"]
    value = x.meta["val"]
    assert isinstance(value, Tensor)
    assert isinstance(value.shape[0], torch.SymInt)
    assert value.shape[1] == 2
    (size,) = nodes(module, "sym_size")
    assert size.meta["val"] is value.shape[0] or bool(size.meta["val"] == value.shape[0])
    every = [n for n in artifact("pools").graph_module.graph.nodes if n.op == "placeholder"]
    assert all("val" in n.meta for n in every)
    assert "val" not in next(iter(artifact("pools", values=False).graph_module.graph.nodes)).meta


def test_equal_numbers_are_computed_once() -> None:
    module = artifact("names").graph_module
    graph = module.graph
    computed = [(n.target, n.args) for n in graph.nodes if n.op == "call_function"]
    assert len(computed) == len({(str(t), str(a)) for t, a in computed if "sym" in str(t)}) + len(
        [c for c in computed if "sym" not in str(c[0])]
    )


def test_comments_are_kept() -> None:
    found = artifact("comments")
    comments = [
        c for n in found.graph_module.graph.nodes for c in n.meta.get("wrapper_ir_comments", ())
    ]
    assert "ordinary" in comments
    assert "# ordinary\n" in found.source
    assert found.source.isascii()


def test_origins_become_stack_traces() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.randn(2, 4)
    module = support.emitted(wir.capture(model, (x,))).graph_module
    assert any("stack_trace" in node.meta for node in module.graph.nodes)
    assert set(module.state_dict()) == {"0.weight", "0.bias"}
    with torch.no_grad():
        torch.testing.assert_close(module(x)[0], model(x))


def test_pools_have_one_storage_a_dtype() -> None:
    module = artifact("mixed_pool").graph_module
    pools = [n for n in nodes(module, "empty_strided") if n.name.startswith("pool")]
    assert {n.name for n in pools} == {"pool_float32", "pool_int32", "pool_float64"}


# Probes.


def test_probes_show_what_those_of_emitted_python_show(capfd: pytest.CaptureFixture[str]) -> None:
    text = corpus.FILES["probes"].read_text()
    lines = text.splitlines(keepends=True)
    text = "".join(line for line in lines if not re.search(r"(save|stats|compare)\(", line))
    made, x = wir.parse(text), torch.randn(4, 4)
    shown = []
    with debug_session(output="stderr"):  # the process's own may write elsewhere by now
        for target in ("python", "fx"):
            (result,) = wir.compile(made, target)(x)
            assert torch.equal(result, x.relu() + 1)
            shown.append(capfd.readouterr().err)
        assert "relu after" in shown[0]
        assert shown[0] == shown[1]
        module = support.emitted(made).graph_module
        functional = torch.export.export(module, (x,)).run_decompositions().module()
        functional(x)
        assert capfd.readouterr().err == shown[0]


# Loaded functions.


def test_a_boxed_call_empties_its_list_and_lets_go_of_inputs() -> None:
    call = artifact("planned").load_boxed()
    x = torch.randn(4, 64)
    gone = weakref.ref(x)
    args = [x]
    del x
    (result,) = call(args)
    assert args == []
    gc.collect()
    assert gone() is None
    assert result.shape == (4, 64)


def test_autograd_and_autocast_stay_outside() -> None:
    function = artifact("extern_out").load()
    x = torch.randn(4, 8, requires_grad=True)
    plain = function(x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(function(x)[0], plain)
    assert not plain.requires_grad


def test_writing_to_inputs_is_known_to_autograd() -> None:
    given = support.inputs("input_mutation")
    before = [t._version for t in given]
    artifact("input_mutation").load()(*given)
    assert all(t._version > v for t, v in zip(given, before, strict=True))


def test_what_is_loaded_is_the_graph_as_it_is_by_then() -> None:
    found = artifact("square")
    (relu,) = nodes(found.graph_module, "aten.relu")
    relu.target = torch.ops.aten.neg.default
    found.graph_module.recompile()
    x = torch.randn(8, 8)
    assert torch.equal(found.load()(x)[0], -x)


@pytest.mark.parametrize("name", ["shared_storage", "shared_symbolic", "written_layouts"])
def test_loaded_kernels_take_places_in_memory_as_they_are(name: str) -> None:
    fresh = support.inputs(name, seed=1)
    ours = support.run(artifact(name).load(), fresh)
    assert support.differences(ours, support.expected(name, fresh)) == []


# Other people's tools.


class Timer(fx.Interpreter):
    """The example of docs/fx-emitter.md: how long each call takes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.seconds: dict[str, float] = {}

    def run_node(self, n: fx.Node) -> Any:
        begin = time.perf_counter()
        result = super().run_node(n)
        self.seconds[n.name] = time.perf_counter() - begin
        return result


def test_an_example_pass_times_every_call() -> None:
    module = artifact("pools").graph_module
    timer = Timer(module)
    timer.run(torch.randn(16))
    assert timer.seconds.keys() == {node.name for node in module.graph.nodes}


def test_what_is_saved_runs_where_its_kernels_are_declared(tmp_path: Path) -> None:
    """An export holds names, and its kernels are declared first; a pickle declares them itself."""
    made = support.program("shared_storage")
    module = support.emitted(made).graph_module
    x = support.inputs("shared_storage")
    torch.export.save(torch.export.export(module, tuple(x)), tmp_path / "p.pt2")
    made.save(tmp_path / "p.wir")
    torch.save(module, tmp_path / "m.pt")
    torch.save(x, tmp_path / "x.pt")
    torch.save(module(*support.inputs("shared_storage")), tmp_path / "y.pt")
    script = (
        "import sys, torch, wrapper_ir as wir\n"
        "root, way = sys.argv[1:]\n"
        "if way == 'export':\n"
        "    from wrapper_ir.emitters.fx import declare_kernels\n"
        "    declare_kernels(wir.prepare(wir.load(root + '/p.wir'), 'fx'))\n"
        "    run = torch.export.load(root + '/p.pt2').module()\n"
        "else:\n"
        "    run = torch.load(root + '/m.pt', weights_only=False)\n"
        "pairs = zip(run(*torch.load(root + '/x.pt')), torch.load(root + '/y.pt'), strict=True)\n"
        "assert all(torch.equal(a, b) for a, b in pairs)\n"
    )
    for way in ("export", "pickle"):
        done = warm.run(script, tmp_path, way, taken_down=True)
        assert done.returncode == 0, done.stderr


def test_a_pickled_module_brings_its_kernels_along(tmp_path: Path) -> None:
    module = artifact("while_number").graph_module
    assert isinstance(module.wrapper_ir_kernels, KernelSet)
    x = torch.randn(8)
    torch.save((module, x, module(x)), tmp_path / "m.pt")
    script = (
        "import sys, torch\n"
        "module, x, (n, y) = torch.load(sys.argv[1] + '/m.pt', weights_only=False)\n"
        "m, z = module(x)\n"
        "assert m == n and torch.equal(y, z)\n"
    )
    done = warm.run(script, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_kernel_of_more_parameters_than_an_op_takes() -> None:
    count = 70
    names = [f"x{i}" for i in range(count)]
    params = ", ".join(f"const float* {name}" for name in names)
    total = " + ".join(f"{name}[0]" for name in names)
    code = f'extern "C" void kernel({params}, float* y) {{ y[0] = {total}; }}\n'
    b = wir.Builder("many")
    total_of = b.cpp_kernel("total", code, reads=[(n, "f32") for n in names], writes=[("y", "f32")])
    inputs = [b.input(name, "f32", ()) for name in names]
    y = b.allocate("f32", ())
    b.call(total_of, *inputs, y)
    b.returns(y)
    emitted = support.emitted(wir.plan_memory(b.build()))
    tensors = [torch.tensor(float(i)) for i in range(count)]
    # By way of torch's dispatcher, and without.
    for run in (emitted.graph_module, emitted.load()):
        assert run(*tensors)[0].item() == sum(range(count))
