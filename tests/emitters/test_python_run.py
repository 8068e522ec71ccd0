"""Loaded programs: what they check, what they keep from call to call, and what they let go."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.emitters.corpus import program
from wrapper_ir.emitters.python import MissingConstantError, PythonArtifact
from wrapper_ir.lines import GraphRole, Program
from wrapper_ir.runtime import (
    AlignmentError,
    InputCountError,
    InputLayoutError,
    ResultLayoutError,
    SymbolError,
)

LINEAR = """
wir 2
program @linear inference planned

input %weight : f32[3, 8] @cpu
input %bias : f32[3] @cpu
input %x : f32[4, 8] @cpu

extern ADDMM
extern aten::relu(Tensor self) -> Tensor

  %weight_t = reinterpret %weight : f32[8, 3]{1, 8} @cpu
  %buf0 = allocate : f32[4, 3] @cpu
  aten::addmm.out(%bias, %x, %weight_t, out=out %buf0)
  free %x
  free %weight
  free %bias
  %buf1 = aten::relu(%buf0) : f32[4, 3] @cpu
  assert_layout %buf1, "aten.relu"
  free %buf0
return %buf1
""".replace(
    "ADDMM",
    "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, "
    "Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
)


def linear() -> Program:
    return wir.parse(LINEAR)


def artifact(program: Program, **options: Any) -> PythonArtifact:
    made = wir.emit(program, "python", **options)
    assert isinstance(made, PythonArtifact)
    return made


def expected(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x).relu().detach()


# Inputs.


@pytest.mark.parametrize("calls_before", [0, 1, 2])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.zeros(5, 8), r"'x' has the wrong size: expected float32\[4, 8\]"),
        (torch.zeros(4, 8, 1), "'x' has the wrong rank"),
        (torch.zeros(8, 4).t(), "'x' has the wrong stride"),
        (torch.zeros(4, 8).double(), "'x' has the wrong dtype"),
        (torch.zeros(4, 8, device="meta"), "'x' has the wrong device"),
        (7, "'x' has the wrong type"),
        (None, "'x' has the wrong type"),
    ],
)
def test_a_wrong_input_is_refused_in_every_call(
    wrong: Any, message: str, calls_before: int
) -> None:
    layer = nn.Linear(8, 3)
    function = wir.compile(linear())
    for _ in range(calls_before):
        function(layer.weight, layer.bias, torch.zeros(4, 8))
    with pytest.raises(InputLayoutError, match=message):
        function(layer.weight, layer.bias, wrong)
    x = torch.randn(4, 8)
    torch.testing.assert_close(function(layer.weight, layer.bias, x)[0], expected(layer, x))


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_inputs(count: int) -> None:
    function = wir.compile(linear())
    with pytest.raises(InputCountError, match=f"takes 3 inputs, not {count}"):
        function(*[torch.zeros(1)] * count)


def test_a_tensor_changed_in_place_is_looked_at_again() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    function(layer.weight, layer.bias, x)
    x.resize_(3, 8)
    with pytest.raises(InputLayoutError, match="size"):
        function(layer.weight, layer.bias, x)
    layer.weight.data = layer.weight.data.t()
    with pytest.raises(InputLayoutError, match="'weight'"):
        function(layer.weight, layer.bias, torch.randn(4, 8))


def test_symbols_are_checked() -> None:
    function = wir.compile(program("dynamic_shapes"))
    function(torch.zeros(4, 3), torch.zeros(3, 4))
    with pytest.raises(InputLayoutError, match=r"'y' has the wrong size: expected float32\[3, 4\]"):
        function(torch.zeros(4, 3), torch.zeros(3, 5))
    with pytest.raises(InputLayoutError, match="'x' has the wrong stride"):
        function(torch.zeros(3, 4).t(), torch.zeros(3, 4))
    for size, message in ((1, "2 <= s0 <= 1024"), (1025, "s0")):
        with pytest.raises(SymbolError, match=message):
            function(torch.zeros(size, 3), torch.zeros(3, size))


def test_a_stride_of_a_dimension_of_size_one_is_free() -> None:
    function = wir.compile(program("dynamic_shapes"))
    for s0 in (4, 5):
        x = torch.zeros(s0, 1).as_strided((s0, 1), (1, 77))
        y = torch.zeros(99, 99).as_strided((1, s0), (99, 1))
        assert function(x, y)[1] == s0


def test_scalars_are_checked() -> None:
    function = wir.compile(program("names"))
    x = torch.zeros(4)
    function(x, x, 3)
    with pytest.raises(InputLayoutError, match="'none' has the wrong type"):
        function(x, x, 3.0)


def test_alignment_is_checked() -> None:
    function = wir.compile(program("planned"))
    with pytest.raises(AlignmentError, match="'x' is not aligned to 16 bytes"):
        function(torch.zeros(257)[1:].view(4, 64))


def test_results_of_ops_are_checked_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    function(layer.weight, layer.bias, x)
    monkeypatch.setattr(function.module, "aten_relu", lambda t: t.t().contiguous().t())  # type: ignore[attr-defined]
    with pytest.raises(ResultLayoutError, match=r"'aten.relu' returned .* a different stride"):
        function(layer.weight, layer.bias, x)


def test_checks_of_the_first_call_only() -> None:
    layer = nn.Linear(8, 3)
    function = wir.compile(linear(), checks="first_call")
    with pytest.raises(InputLayoutError):
        function(layer.weight, layer.bias, torch.zeros(5, 8))
    function(layer.weight, layer.bias, torch.zeros(4, 8))
    function(layer.weight, layer.bias, torch.zeros(4, 8).t().contiguous().t())


def test_no_checks() -> None:
    source = artifact(linear(), checks="never").source
    assert "check" not in source


# Autograd and modes.


def test_autograd_is_off_inside() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8, requires_grad=True)
    (result,) = wir.compile(linear())(layer.weight, layer.bias, x)
    assert not result.requires_grad
    assert torch.is_grad_enabled()


def test_autocast_does_not_reach_inside() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (result,) = function(layer.weight, layer.bias, x)
        assert torch.is_autocast_enabled("cpu")
    torch.testing.assert_close(result, expected(layer, x))


def test_inference_mode_before_and_after() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    for inference_first in (True, False):
        function = wir.compile(linear())
        for inference in (inference_first, not inference_first, inference_first):
            with torch.inference_mode(mode=inference):
                (result,) = function(layer.weight, layer.bias, x)
            torch.testing.assert_close(result, expected(layer, x))


def test_the_default_device_does_not_matter() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    with torch.device("meta"):
        (result,) = wir.compile(linear())(layer.weight, layer.bias, x)
    torch.testing.assert_close(result, expected(layer, x))


def test_writing_to_inputs_is_known_to_autograd() -> None:
    x, y, z = torch.randn(4, 4), torch.randn(16), torch.randn(2, 8)
    before = [t._version for t in (x, y, z)]
    wir.compile(program("input_mutation"))(x, y, z)
    assert all(t._version > v for t, v in zip((x, y, z), before, strict=True))
    weight = torch.randn(16, requires_grad=True)
    loss = (weight * y).sum()
    wir.compile(program("input_mutation"))(x, y, z)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Memory and views kept between calls.


def test_weights_may_be_replaced() -> None:
    layer, other = nn.Linear(8, 3), nn.Linear(8, 3)
    function = wir.compile(linear())

    def check() -> None:
        for _ in range(2):
            x = torch.randn(4, 8)
            (result,) = function(layer.weight, layer.bias, x)
            torch.testing.assert_close(result, expected(layer, x))

    check()
    layer.weight.data = torch.randn(3, 8)
    check()
    with torch.no_grad():
        layer.weight.mul_(2)
    check()
    layer.load_state_dict(other.state_dict())
    check()
    layer.load_state_dict(nn.Linear(8, 3).state_dict(), assign=True)
    check()
    layer.weight = nn.Parameter(torch.randn(3, 8))
    check()
    layer = nn.Linear(8, 3)
    check()


def test_nothing_of_the_caller_is_kept_alive() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    for _ in range(2):
        result = function(layer.weight, layer.bias, x)
    storages = [weakref.ref(t.untyped_storage()) for t in (layer.weight, layer.bias, x, *result)]
    gc.collect()
    gc.disable()
    try:
        del layer, x, result
        assert [ref() for ref in storages] == [None] * 4
    finally:
        gc.enable()


def test_a_boxed_call_empties_its_list_and_frees_inputs_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = artifact(linear())
    module = made.load_module()
    layer = nn.Linear(8, 3)
    x = torch.randn(4, 8)
    gone = weakref.ref(x)
    alive: list[bool] = []
    relu = module.aten_relu
    monkeypatch.setattr(
        module, "aten_relu", lambda t: (alive.append(gone() is not None), relu(t))[1]
    )
    args = [layer.weight.detach(), layer.bias.detach(), x]
    del x
    module.call(args)
    assert args == []
    assert alive == [False]  # freed before relu ran, not when the call ended


def test_results_are_never_memory_that_is_used_again() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    results = [function(layer.weight, layer.bias, x)[0] for _ in range(4)]
    assert len({r.data_ptr() for r in results}) == 4
    for result in results:
        torch.testing.assert_close(result, expected(layer, x))


def test_scratch_is_kept_for_inference_only_and_within_bounds() -> None:
    assert "scratch" in artifact(linear()).source
    assert "scratch" not in artifact(linear(), scratch_bytes=0).source
    assert "scratch" not in artifact(linear(), scratch_bytes=47).source
    assert "scratch" in artifact(linear(), scratch_bytes=48).source
    with pytest.warns(DeprecationWarning, match="'keep_buffers' is called 'scratch_bytes' now"):
        older = wir.emit(linear(), "python", keep_buffers=48)
    assert older.source == wir.emit(linear(), "python", scratch_bytes=48).source
    for role in (GraphRole.FORWARD, GraphRole.BACKWARD):
        assert "scratch" not in artifact(linear().replace(role=role)).source


def test_what_leaves_is_not_kept() -> None:
    for name in ("results", "views", "aliases", "while", "cond"):
        made = program(name)
        assert "scratch" not in artifact(made).source, name


def test_memory_seen_by_ops_of_others_is_not_kept() -> None:
    text = LINEAR.replace("aten::relu", "mylib::relu")
    assert "scratch" not in artifact(wir.parse(text)).source


def test_calls_that_fail_do_not_spoil_later_ones() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    function = wir.compile(linear())
    function(layer.weight, layer.bias, x)
    for _ in range(3):
        with pytest.raises(InputLayoutError):
            function(layer.weight, torch.zeros(4), x)
        (result,) = function(layer.weight, layer.bias, x)
        torch.testing.assert_close(result, expected(layer, x))


def test_threads() -> None:
    layers = [nn.Linear(8, 3) for _ in range(3)]
    function = wir.compile(linear())
    wrong: list[str] = []

    def work(seed: int) -> None:
        torch.manual_seed(seed)
        for n in range(200):
            layer, x = layers[(n + seed) % 3], torch.randn(4, 8)
            (result,) = function(layer.weight, layer.bias, x)
            if not torch.allclose(result, expected(layer, x), atol=1e-6):
                wrong.append(f"{seed}/{n}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loading_in_threads() -> None:
    made = artifact(program("planned"))
    x = torch.randn(4, 64)
    results: list[Tensor] = []

    def work() -> None:
        results.append(made.load()(x)[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        assert torch.equal(result, x.relu() + 1)


# Constants.


def test_missing_constants_are_named() -> None:
    made = program("extern_out").replace(data={"weight": torch.zeros(3, 8)})
    with pytest.raises(MissingConstantError, match="no values for its constants 'bias'"):
        wir.compile(made)


def test_constants_are_checked() -> None:
    data = {"weight": torch.zeros(8, 3), "bias": torch.zeros(3)}
    with pytest.raises(InputLayoutError, match="'weight' has the wrong size"):
        wir.compile(program("extern_out").replace(data=data))


def test_constants_are_the_tensors_given() -> None:
    layer, x = nn.Linear(8, 3), torch.randn(4, 8)
    data = {"weight": layer.weight, "bias": layer.bias}
    function = wir.compile(program("extern_out").replace(data=data))
    for _ in range(2):
        torch.testing.assert_close(function(x)[0], expected(layer, x))
        with torch.no_grad():
            layer.weight.mul_(-1)
    layer.weight.data = torch.randn(3, 8)
    torch.testing.assert_close(function(x)[0], expected(layer, x))


def test_each_load_has_constants_of_its_own() -> None:
    made = artifact(program("extern_out"))
    first, second = made.load_module(), made.load_module()
    second.bias = torch.zeros(3)  # type: ignore[attr-defined]
    assert first.bias is not second.bias


def test_a_module_can_be_loaded_from_its_file(tmp_path: Any) -> None:
    import importlib.util

    made = artifact(program("extern_out"))
    file = tmp_path / "emitted.py"
    file.write_text(made.source)
    spec = importlib.util.spec_from_file_location("emitted", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for variable, name in made.constants.items():
        setattr(module, variable, made.program.data[name])
    x = torch.randn(4, 8)
    assert torch.equal(module.call([x])[0], made.load()(x)[0])


# Past autograd.

TOWER = """
wir 2
program @tower inference planned

input %x : f32[4, 4] @cpu
input %w : f32[4, 4] @cpu

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[4, 4] @cpu
  %b = allocate : f32[4, 4] @cpu
  aten::mm.out(%x, %w, out=out %a)
  aten::mm.out(%a, %w, out=out %b)
  aten::mm.out(%b, %w, out=out %a)
  aten::mm.out(%a, %w, out=out %b)
  free %a
return %b
"""


def test_plain_ops_go_past_autograd() -> None:
    made = wir.parse(TOWER)
    assert "@past_autograd" in artifact(made).source
    x, w = torch.randn(4, 4, requires_grad=True), nn.Parameter(torch.randn(4, 4))
    call = artifact(made).load_boxed()
    for _ in range(3):
        (result,) = call([x, w])
        torch.testing.assert_close(result, (x @ w @ w @ w @ w).detach())
        assert not result.requires_grad
    loss = (x @ w).sum()
    loss.backward()
    assert x.grad is not None


def test_the_dispatcher_is_as_it_was_after_an_error() -> None:
    call = artifact(wir.parse(TOWER)).load_boxed()
    x = torch.randn(4, 4, requires_grad=True)
    with pytest.raises(InputLayoutError):
        call([torch.zeros(5, 4), x])
    assert (x * 2).requires_grad


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  aten::mm.out(%a, %w, out=out %b)\n  free %a", "  free %a"),  # too few to gain by it
        ("out=out %b)\n  free", "out=out %x)\n  free"),  # an input is written to
        ("extern aten::mm.out", "extern aten::neg(Tensor self) -> Tensor\nextern aten::mm.out"),
    ],
)
def test_other_programs_do_not_go_past_autograd(old: str, new: str) -> None:
    text = TOWER.replace(old, new)
    if "aten::neg" in text:
        text = text.replace("  free %a", "  %c = aten::neg(%b) : f32[4, 4] @cpu\n  free %a")
        text = text.replace("return %b", "return %b, %c")
    assert text != TOWER
    assert "@past_autograd" not in artifact(wir.parse(text)).source


def test_buffers_that_an_op_may_resize_are_not_kept() -> None:
    text = LINEAR.replace(
        "extern aten::relu(",
        "extern aten::abs_(Tensor(a!) self) -> Tensor(a!)\nextern aten::relu(",
    )
    text = text.replace("  %buf1 = aten::relu(", "  aten::abs_(inout %buf0)\n  %buf1 = aten::relu(")
    assert "scratch" not in artifact(wir.parse(text)).source


@pytest.mark.parametrize("checks", ["first_call", "never"])
def test_nothing_is_kept_where_a_wrong_input_may_go_unnoticed(checks: str) -> None:
    assert "scratch" not in artifact(linear(), checks=checks).source
