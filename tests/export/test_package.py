"""Packages: what torch's own loaders make of them, and what is in them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import aoti_load_package
from torch.export.pt2_archive import is_pt2_package

import wrapper_ir as wir
from tests import warm
from tests.export.support import captured, nested, plus_one


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(captured(), tmp_path_factory.mktemp("package") / "nested.pt2")


def test_torch_loads_it_and_restores_the_tree(package: Path) -> None:
    model, x, shift = nested()
    loaded = aoti_load_package(str(package))
    with torch.no_grad():
        got, wanted = loaded(x, shift=shift), model(x, shift=shift)
    assert got.keys() == wanted.keys()
    torch.testing.assert_close(got, wanted)


def test_the_loader_of_cpp_takes_it(package: Path) -> None:
    _, x, shift = nested()
    loader = torch._C._aoti.AOTIModelPackageLoader(str(package), "model", False, 2, -1)
    assert len(loader.run([x, shift])) == 3


def test_constants_are_called_as_in_the_model_and_can_be_exchanged(package: Path) -> None:
    model, x, shift = nested()
    loaded = aoti_load_package(str(package))
    names = set(loaded.get_constant_fqns())
    assert names <= set(model.state_dict())
    assert {"first.bias", "second.bias", "scale"} <= names  # small ones, too
    doubled = {name: 2 * value for name, value in model.state_dict().items() if name in names}
    loaded.load_constants(doubled, check_full_update=True)
    model.load_state_dict({**model.state_dict(), **doubled})
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


@pytest.mark.skipif(
    not hasattr(torch._C._aoti.AOTIModelContainerRunnerCpu, "did_call_load_constants"),
    reason="PyTorch's runners take no constants before 2.14",
)
def test_a_library_runs_with_the_weights_of_the_model(tmp_path: Path) -> None:
    """As docs/aot-runtime.md shows it; the file of constants is not there."""
    model, x, shift = nested()
    library = wir.export(captured(), tmp_path / "nested.so", constants="beside")
    (tmp_path / "nested.constants").unlink()
    kind: Any = torch._C._aoti.AOTIModelContainerRunnerCpu
    runner = kind(str(library), 1, dict(model.state_dict()))
    assert not runner.did_call_load_constants()
    with torch.no_grad():
        model.first.weight.mul_(2)  # it is the runner's as well
        torch.testing.assert_close(runner.run([x, shift])[0], model(x, shift=shift)["hidden"])


def test_a_package_runs_with_the_weights_of_the_model(package: Path) -> None:
    model, x, shift = nested()
    loaded = aoti_load_package(str(package))
    names = set(loaded.get_constant_fqns())
    mine = {name: value for name, value in model.state_dict().items() if name in names}
    loaded.load_constants(mine, check_full_update=True, user_managed=True)
    with torch.no_grad():
        model.first.weight.mul_(2)
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


def test_loading_warns_of_nothing(package: Path, capfd: pytest.CaptureFixture[str]) -> None:
    aoti_load_package(str(package))
    assert "dlsym" not in "".join(capfd.readouterr())


def test_torch_knows_the_archive(package: Path) -> None:
    assert is_pt2_package(package.read_bytes())
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
        about = json.loads(
            archive.read("package/data/aotinductor/model/model.wrapper_metadata.json")
        )
    assert {name.split("/")[0] for name in names} == {"package"}
    assert about["AOTI_DEVICE_KEY"] == "cpu"
    assert about["WRAPPER_IR_ISA"] == "native"


def test_metadata_of_the_user_comes_back(tmp_path: Path) -> None:
    file = wir.export(plus_one(), tmp_path / "m.pt2", metadata={"author": "Ada"})
    assert aoti_load_package(str(file)).get_metadata()["author"] == "Ada"


def test_constants_beside_the_library_travel_in_the_package(tmp_path: Path) -> None:
    model, x, shift = nested()
    file = wir.export(captured(), tmp_path / "m.pt2", constants="beside")
    with zipfile.ZipFile(file) as archive:
        assert "package/data/aotinductor/model/model.constants" in archive.namelist()
    with torch.no_grad():
        torch.testing.assert_close(
            aoti_load_package(str(file))(x, shift=shift), model(x, shift=shift)
        )


_AGAIN = """
import sys, warnings
warnings.simplefilter("ignore")
import wrapper_ir as wir
from tests.export.support import plus_one
wir.export(plus_one(), sys.argv[1])
"""


@pytest.mark.long
@pytest.mark.slow
def test_two_builds_in_two_folders_give_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second finds nothing in a cache, is called otherwise, and has another hash seed."""
    here = wir.export(plus_one(), tmp_path / "m.pt2")
    there = tmp_path / "elsewhere" / "deeper" / "n.pt2"
    there.parent.mkdir(parents=True)
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(there.parent / "cache"))
    monkeypatch.setenv("WRAPPER_IR_PRECOMPILE_HEADERS", "0")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", _AGAIN, str(there)], check=True, cwd=root)
    assert here.read_bytes() == there.read_bytes()


class Numbers(torch.nn.Module):
    """Takes what torch's loader keeps back, and returns a named tuple of torch's."""

    def forward(self, x: torch.Tensor, way: str, k: int, f: float) -> tuple[object, ...]:
        return x * k, (x + f).sort(descending=way == "down"), k


def test_numbers_that_the_program_was_made_for_may_be_left_out(tmp_path: Path) -> None:
    x = torch.randn(5)
    program = wir.capture(Numbers(), (x, "down", 4, 0.5))
    loaded = aoti_load_package(str(wir.export(program, tmp_path / "numbers.pt2")))
    product, (values, order), number = loaded(x, "down", 4, 0.5)
    assert torch.equal(product, x * 4)
    assert torch.equal(values, (x + 0.5).sort(descending=True).values)
    assert torch.equal(values, (x + 0.5)[order])
    assert int(number) == 4
    loader = torch._C._aoti.AOTIModelPackageLoader(
        str(tmp_path / "numbers.pt2"), "model", False, 1, -1
    )
    given = [x, torch.tensor(4), torch.tensor(0.5, dtype=torch.float64)]
    assert torch.equal(loader.boxed_run(given)[0], x * 4)
    for wrong in ([x, torch.tensor(3), torch.tensor(0.5)], [x, torch.tensor(4)], []):
        with pytest.raises(RuntimeError):
            loader.boxed_run(list(wrong))


def test_a_program_without_trees_takes_and_returns_tuples(tmp_path: Path) -> None:
    loaded = aoti_load_package(str(wir.export(plus_one(), tmp_path / "plus_one.pt2")))
    (result,) = loaded(torch.zeros(4))
    assert torch.equal(result, torch.ones(4))


@pytest.mark.parametrize("room", ["lines", "emitters", "toolchain.compiler", "toolchain.cache"])
def test_loading_takes_no_part_of_the_ir_and_no_compiler(room: str) -> None:
    """They are half a second of imports, for a package that is loaded in milliseconds."""
    code = (
        "import sys, wrapper_ir; wrapper_ir.load_package;"
        f"print('wrapper_ir.aot.package.loader' in sys.modules, 'wrapper_ir.{room}' in sys.modules)"
    )
    done = warm.run(code, ours=False)
    assert done.stdout.strip() == "True False"
