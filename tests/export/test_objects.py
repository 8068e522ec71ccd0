"""Objects of custom classes in libraries and packages: stored with them, made when they load."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch._inductor import aoti_load_package

import wrapper_ir as wir
from tests import warm
from tests.torchbind import LIBRARY, foo, needs_classes, of_class, queue

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_classes

QUEUE, FOO = "_TorchScriptTesting::_TensorQueue", "_TorchScriptTesting::_Foo"


class Turns(torch.nn.Module):
    """Two objects and a parameter; each call leaves one tensor more in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = queue()
        self.scale = foo(10, 20)
        self.bias = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        self.waiting.push(x + self.bias)
        torch.ops._TorchScriptTesting.queue_push(self.waiting, x * 2)
        first = self.waiting.pop()
        return self.scale.add_tensor(first) + torch.ops._TorchScriptTesting.takes_foo(self.scale, x)


def inputs() -> list[Tensor]:
    return [torch.arange(6.0).reshape(2, 3) * n for n in (1, 3, 7)]


@pytest.fixture(scope="module")
def program() -> wir.Program:
    with torch.no_grad():
        return wir.capture(Turns(), (inputs()[0],))


@pytest.fixture(scope="module")
def package(program: wir.Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(program, tmp_path_factory.mktemp("objects") / "turns.pt2")


def wanted(model: Turns) -> list[Tensor]:
    with torch.no_grad():
        return [model(x) for x in inputs()]


_ALONE = """
import json, sys, torch
package, library, classes = sys.argv[1:]
xs = [torch.arange(6.0).reshape(2, 3) * n for n in (1, 3, 7)]
loads = (
    lambda: torch._C._aoti.AOTIModelPackageLoader(package, "model", False, 1, -1),
    lambda: torch._C._aoti.AOTIModelContainerRunnerCpu(library, 1),
)
refused = 0
for load in loads:
    try:
        load()
    except RuntimeError:
        refused += 1
torch.classes.load_library(classes)
found = []
for run in [load() for load in loads]:
    found.append([run.run([x])[0].tolist() for x in xs])
assert "wrapper_ir" not in sys.modules
print(json.dumps([refused, found]))
"""


def test_they_travel_to_a_process_that_knows_only_torch_and_the_classes(
    program: wir.Program, package: Path, tmp_path: Path
) -> None:
    library = wir.export(program, tmp_path / "turns.so", constants="beside")
    assert (tmp_path / "turns.constants").stat().st_size > 1000  # the archives are in there
    done = warm.run(_ALONE, package, library, LIBRARY, cwd=tmp_path, ours=False)
    assert done.returncode == 0, done.stderr
    refused, found = json.loads(done.stdout)
    assert found == 2 * [[y.tolist() for y in wanted(Turns())]]
    assert refused == 2  # while no library with the classes was loaded
    assert "WIR2165: no library that is loaded has the ops" in done.stderr
    assert "'_TorchScriptTesting::queue_push', '_TorchScriptTesting::takes_foo'" in done.stderr


def test_each_container_has_objects_of_its_own(program: wir.Program, package: Path) -> None:
    one, other = (aoti_load_package(str(package)) for _ in range(2))
    expected = wanted(Turns())
    for run in (one, other):  # the second begins where the first began
        for x, y in zip(inputs(), expected, strict=True):
            assert torch.equal(run(x), y)
    library = wir.export(program, package.with_suffix(".so"))
    assert torch.equal(torch._export.aot_load(str(library), "cpu")(inputs()[0]), expected[0])
    name = next(n for n, item in program.objects.items() if item.class_name == QUEUE)
    assert program.data[name].size() == 0  # nor were those of the program touched
    with pytest.raises(RuntimeError, match=r"WIR2152|API call failed"):
        one(inputs()[0], inputs()[0])


def test_the_same_objects_give_the_same_bytes(
    program: wir.Program, package: Path, tmp_path: Path
) -> None:
    again = wir.export(program, tmp_path / "again.pt2")
    assert again.read_bytes() == package.read_bytes()
    program.save(tmp_path / "turns.wir")
    assert wir.export(wir.load(tmp_path / "turns.wir"), again).read_bytes() == package.read_bytes()


def test_a_folder_has_what_makes_them(program: wir.Program, tmp_path: Path) -> None:
    folder = wir.export(program, tmp_path / "turns")
    assert "runtime/src/objects.cpp" in (folder / "CMakeLists.txt").read_text()
    assert "wir_object_places:" in (folder / "constants.s").read_text()
    assert b"data.pkl" in (folder / "constants.bin").read_bytes()


def by_hand(value: Any, class_name: str, method: str, *, constant: bool = True) -> wir.Program:
    b = wir.Builder("by_hand")
    x = b.input("x", "f32", [2])
    one = b.object("kept", class_name, value) if constant else b.object_input("kept", class_name)
    of = "__torch__.torch.classes." + class_name.replace("::", ".")
    results = [None] if method.endswith("-> Tensor") else None
    b.method(f"{class_name}.{method}".replace("Self", of), one, x, results=results)
    b.returns(x)
    return b.build()


def test_what_cannot_be_stored_is_refused_by_name(tmp_path: Path) -> None:
    bare = of_class("_ReLUClass")
    run = "run(Self _0, Tensor _1) -> Tensor"
    for value, said in (
        (bare, r"'kept'.*_TorchScriptTesting::_ReLUClass.*def_pickle"),
        (queue(), r"'kept'.*expected an object of class .*_ReLUClass, got one of .*_TensorQueue"),
    ):
        with pytest.raises(wir.WrapperIRError, match=said) as caught:
            wir.export(by_hand(value, "_TorchScriptTesting::_ReLUClass", run), tmp_path / "m.pt2")
        assert caught.value.code == "WIR2272"
    program = by_hand(bare, "_TorchScriptTesting::_ReLUClass", run).replace(data={})
    with pytest.raises(wir.WrapperIRError, match=r"'kept'.*holds no value"):
        wir.export(program, tmp_path / "m.pt2")
    assert not list(tmp_path.iterdir())


def test_objects_that_callers_would_give_are_refused_by_name(tmp_path: Path) -> None:
    push = "push(Self _0, Tensor _1) -> NoneType"
    with pytest.raises(
        wir.UnsupportedError, match=f"the object 'kept' of class {QUEUE} as an input"
    ) as caught:
        wir.export(by_hand(None, QUEUE, push, constant=False), tmp_path / "m.pt2")
    assert "wir.compile" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_class_of_torch_itself_packs_its_weights(tmp_path: Path) -> None:
    """``torch.classes.quantized``: registered in every process, and no tensor constant beside."""
    weight, bias, x = torch.randn(4, 3), torch.randn(4), torch.randn(5, 3)
    packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)
    b = wir.Builder("linear")
    given = b.input("x", "f32", [5, 3])
    held = b.object("packed", "quantized::LinearPackedParamsBase", packed)
    op = torch.ops.quantized.linear_dynamic_fp16.default
    b.returns(b.extern(str(op._schema), given, held, result=("f32", [5, 4])))
    file = wir.export(b.build(), tmp_path / "linear.pt2")
    assert torch.equal(aoti_load_package(str(file))(x)[0], op(x, packed))


def test_an_object_that_an_op_makes_in_a_call(tmp_path: Path) -> None:
    weight, x = torch.randn(4, 3), torch.randn(5, 3)
    ops = torch.ops.quantized
    b = wir.Builder("packs")
    given, held = b.input("x", "f32", [5, 3]), b.constant("weight", weight)
    pack, apply = ops.linear_prepack_fp16.default, ops.linear_dynamic_fp16.default
    packed = b.extern(str(pack._schema), held, result="quantized::LinearPackedParamsBase")
    b.returns(b.extern(str(apply._schema), given, packed, result=("f32", [5, 4])))
    loaded = aoti_load_package(str(wir.export(b.build(), tmp_path / "packs.pt2")))
    for _ in range(2):
        assert torch.equal(loaded(x)[0], apply(x, pack(weight)))
