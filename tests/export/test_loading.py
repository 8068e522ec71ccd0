"""Packages in our own loader: nothing is unpacked, weights are shared, misfits are refused."""

from __future__ import annotations

import gc
import json
import mmap
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._inductor.package import load_package as torchs_load_package

import wrapper_ir as wir
from tests.export.support import captured, nested, plus_one
from tests.torchbind import needs_classes, queue
from wrapper_ir.aot.package.archive import PackageError
from wrapper_ir.aot.package.library import PackageCallError
from wrapper_ir.aot.package.loader import PackageFitError
from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INDEX = "package/data/aotinductor/model/wrapper_ir.json"
WEIGHTS = "package/data/aotinductor/model/model.constants"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(captured(), tmp_path_factory.mktemp("loading") / "nested.pt2")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without weights."""
    folder = tmp_path_factory.mktemp("bare")
    return wir.export(captured(), folder / "bare.pt2", constants="none")


class Cached(torch.nn.Module):
    """Two methods with one weight in common, and a buffer that one writes and the other reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.common = torch.nn.Linear(64, 64)
        self.other = torch.nn.Linear(64, 64)
        self.twin = torch.nn.Linear(64, 64)
        self.twin.load_state_dict(self.other.state_dict())  # alike, but another memory
        self.register_buffer("seen", torch.zeros(3, 64))

    def prefill(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(self.common(x))
        return self.twin(self.other(x))

    def decode(self, x: torch.Tensor) -> torch.Tensor:
        return self.common(x) + self.seen


class Method(torch.nn.Module):
    def __init__(self, model: Cached, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: torch.Tensor) -> Any:
        return getattr(self.model, self.name)(x)


@pytest.fixture(scope="module")
def methods() -> dict[str, wir.Program]:
    with torch.no_grad():
        return {
            name: wir.capture(Method(Cached(), name).eval(), (torch.ones(3, 64),))
            for name in ("prefill", "decode")
        }


@pytest.fixture(scope="module")
def both(methods: dict[str, wir.Program], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(methods, tmp_path_factory.mktemp("both") / "both.pt2")


def rewritten(package: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A package with another index, packed anew by a tool that aligns nothing."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == INDEX:
                about = json.loads(content)
                change(about)
                content = json.dumps(about).encode()
            new.writestr(name, content)
    return target


def mappings(file: Path) -> int:
    """How many of this process's mappings are of a file."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        return sum(str(file) in line for line in maps)


def test_it_gives_what_the_model_gives(package: Path) -> None:
    model, x, shift = nested()
    loaded = wir.load_package(package)
    with torch.no_grad():
        wanted = model(x, shift=shift)
    got = loaded(x, shift=shift)
    assert got.keys() == wanted.keys()
    torch.testing.assert_close(got, wanted)
    assert loaded.get_metadata()["AOTI_DEVICE_KEY"] == "cpu"
    assert set(loaded.get_constant_fqns()) == set(loaded.constants)


def test_weights_are_pages_of_the_file_that_all_models_share(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        info = archive.getinfo(WEIGHTS)
    first, second = wir.load_package(package), wir.load_package(package)
    assert mappings(package) == 1
    name = first.get_constant_fqns()[0]
    one, other = first.constants[name], second.constants[name]
    assert one.data_ptr() == other.data_ptr()
    header = len(info.filename) + len(info.extra) + 30
    assert (info.header_offset + header) % mmap.PAGESIZE == 0
    del first, second, one, other
    gc.collect()
    assert mappings(package) == 0


def test_a_tensor_outlives_the_model_that_it_came_from(package: Path) -> None:
    model, _, _ = nested()
    weight = wir.load_package(package).constants["second.weight"]
    gc.collect()
    assert torch.equal(weight, model.second.weight)


def test_what_other_tools_packed_anew_is_loaded_all_the_same(package: Path, tmp_path: Path) -> None:
    model, x, shift = nested()
    loaded = wir.load_package(rewritten(package, tmp_path / "m.pt2", lambda about: None))
    assert all(each.data_ptr() % 64 == 0 for each in loaded.constants.values())
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


def test_wrong_calls_are_refused_in_the_words_of_the_library(package: Path) -> None:
    _, x, shift = nested()
    loaded = wir.load_package(package)
    with pytest.raises(PackageCallError, match="WIR2151: input 'x' has the wrong size"):
        loaded(x[:, :3], shift=shift)
    with pytest.raises(TypeError, match="keyword arguments must be shift, not none"):
        loaded(x)
    with pytest.raises(PackageCallError, match="WIR2152"):
        loaded.run([x])
    assert loaded.run([x, shift])[0] is not None


def test_several_threads_call_one_model(package: Path) -> None:
    _, x, shift = nested()
    loaded = wir.load_package(package, num_runners=2)
    wanted = loaded(x, shift=shift)["hidden"]
    wrong: list[torch.Tensor] = []

    def call() -> None:
        results = (loaded(x, shift=shift)["hidden"] for _ in range(50))
        wrong.extend(each for each in results if not torch.equal(each, wanted))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_constants_can_be_exchanged(package: Path) -> None:
    model, x, shift = nested()
    loaded = wir.load_package(package)
    with pytest.raises(PackageCallError, match="there is no constant 'nonsense'"):
        loaded.load_constants({"nonsense": x}, check_full_update=False)
    doubled = {"second.weight": 2 * model.second.weight.detach()}
    loaded.load_constants(doubled, check_full_update=False)
    with torch.no_grad():
        model.second.weight.mul_(2)
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


@pytest.mark.parametrize("kind", ["state_dict", "safetensors", "files", "index", "package"])
def test_a_package_without_weights_takes_them(
    bare: Path, package: Path, tmp_path: Path, kind: str
) -> None:
    from safetensors.torch import save_file

    model, x, shift = nested()
    weights: Any = package
    if kind == "state_dict":
        weights = model.state_dict()
    elif kind == "safetensors":
        weights = tmp_path / "weights.safetensors"
        save_file({name: value.clone() for name, value in model.state_dict().items()}, weights)
    elif kind in ("files", "index"):
        names = {name: f"part-{n % 2}.safetensors" for n, name in enumerate(model.state_dict())}
        for file in set(names.values()):
            values = model.state_dict().items()
            part = {name: value.clone() for name, value in values if names[name] == file}
            save_file(part, tmp_path / file)
        weights = tmp_path / "model.safetensors.index.json"
        weights.write_text(json.dumps({"metadata": {}, "weight_map": names}))
        if kind == "files":
            weights = [tmp_path / "part-0.safetensors", str(tmp_path / "part-1.safetensors")]
    loaded = wir.load_package(bare, weights=weights)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))
        if kind == "state_dict":  # not copied
            model.first.weight.mul_(2)
            torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


def test_a_package_without_weights_says_which_it_lacks(bare: Path, tmp_path: Path) -> None:
    model, _, _ = nested()
    with pytest.raises(PackageError, match=r"none were given for 'first.bias'"):
        wir.load_package(bare)
    with pytest.raises(PackageCallError, match=r"WIR2162.*'scale' has the wrong size"):
        wir.load_package(bare, weights={**model.state_dict(), "scale": torch.ones(9)})
    with pytest.raises(OptionValueError, match="weights"):
        wir.load_package(bare, weights={"scale": 3})
    with pytest.raises(PackageError, match=r"nowhere.safetensors"):
        wir.load_package(bare, weights="nowhere.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    for text in ("{", "[]", '{"weight_map": 3}', "{}"):
        index.write_text(text)
        with pytest.raises(PackageError, match="not an index of weights"):
            wir.load_package(bare, weights=index)


def test_weights_that_are_given_go_before_those_of_the_package(package: Path) -> None:
    model, x, shift = nested()
    scale = torch.full((8,), 3.0)
    loaded = wir.load_package(package, weights={"scale": scale}, partial=True)
    model.scale.copy_(scale)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


@pytest.mark.parametrize("constants", ["embedded", "beside", "none"])
def test_a_library_loads_too(constants: str, tmp_path: Path) -> None:
    model, x, shift = nested()
    file = wir.export(captured(), tmp_path / "m.so", constants=constants)
    weights = model.state_dict() if constants == "none" else None
    loaded = wir.load_package(file, weights=weights)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))
    assert set(loaded.get_constant_fqns()) == set(loaded.constants) <= set(model.state_dict())
    scale = torch.full((8,), 3.0)
    loaded.load_constants({"scale": scale}, check_full_update=False)
    assert torch.equal(loaded.constants["scale"], scale)
    assert loaded.get_metadata() == {}
    assert loaded.release() >= 0


class Hollow(torch.nn.Module):
    """Has constants without bytes, the last one after a constant that ends off 64 bytes."""

    def __init__(self) -> None:
        super().__init__()
        for index, size in enumerate([(0,), (10, 10), (2, 0), (3,), (0, 3)]):
            self.register_buffer(f"part_{index}", torch.ones(size))

    def forward(self, x: torch.Tensor) -> Any:
        parts = dict(self.named_buffers()).values()
        return [part + x if part.numel() else part for part in parts]


def of_torchs_loader(file: Path, x: torch.Tensor) -> Any:
    if file.suffix == ".pt2":
        return torch._inductor.aoti_load_package(str(file))(x)
    return torch._C._aoti.AOTIModelContainerRunnerCpu(str(file), 1).run([x])


@pytest.mark.parametrize("file", ["m.pt2", "m.so"])
@pytest.mark.parametrize("constants", ["embedded", "beside"])
def test_constants_without_bytes_load(file: str, constants: str, tmp_path: Path) -> None:
    model, x = Hollow(), torch.randn(10)[:1]
    path = wir.export(wir.capture(model, (x,)), tmp_path / file, constants=constants)
    for results in (wir.load_package(path)(x), of_torchs_loader(path, x)):
        torch.testing.assert_close(results, model(x), rtol=0, atol=0)


def test_the_library_that_is_at_a_path_now_is_loaded(tmp_path: Path) -> None:
    x = torch.randn(4)
    for factor in (2, 3):
        program = wir.capture(lambda x, factor=factor: x * factor, (x,))
        loaded = wir.load_package(wir.export(program, tmp_path / "m.so"))
        assert torch.equal(loaded(x), x * factor)


def test_what_is_no_library_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library")
    others = torch._C.__file__
    for file in (tmp_path / "absent.so", tmp_path / "text.so", others):
        with pytest.raises(wir.WrapperIRError, match="WIR2106"):
            wir.load_package(file)
    library = wir.export(plus_one(), tmp_path / "m.so")
    with pytest.raises(OptionValueError, match="a library has one program"):
        wir.load_package(library, "model")
    with pytest.raises(PackageCallError, match="made for the CPU, not for 'cuda'"):
        wir.load_package(library, device="cuda")


def test_embedded_constants_load_too(tmp_path: Path) -> None:
    model, x, shift = nested()
    file = wir.export(captured(), tmp_path / "m.pt2", constants="embedded")
    loaded = wir.load_package(file, weights={"scale": model.scale * 2}, partial=True)
    model.scale.mul_(2)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x, shift=shift), model(x, shift=shift))


@pytest.mark.skipif(
    not hasattr(torch._C._aoti.AOTIModelContainerRunnerCpu, "did_call_load_constants"),
    reason="PyTorch's runners take no constants before 2.14",
)
def test_torchs_runner_gives_a_library_its_weights(tmp_path: Path) -> None:
    model, x, shift = nested()
    library = wir.export(captured(), tmp_path / "m.so", constants="none")
    kind: Any = torch._C._aoti.AOTIModelContainerRunnerCpu
    runner = kind(str(library), 1, dict(model.state_dict()))
    with torch.no_grad():
        torch.testing.assert_close(runner.run([x, shift])[0], model(x, shift=shift)["hidden"])


@needs_classes
def test_objects_beside_constants_load(tmp_path: Path) -> None:
    class Waiting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.waiting = queue()
            self.bias = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.waiting.push(x + self.bias)
            return self.waiting.pop()

    with torch.no_grad():
        program = wir.capture(Waiting(), (torch.zeros(3),))
    loaded = wir.load_package(wir.export(program, tmp_path / "m.pt2", constants="beside"))
    assert loaded(torch.zeros(3)).tolist() == [1.0] * 3


# Several models in one package.


def test_models_of_a_package_share_their_weights(
    both: Path, methods: dict[str, wir.Program]
) -> None:
    with zipfile.ZipFile(both) as archive:
        stored = [info for info in archive.infolist() if info.filename.endswith(".constants")]
    (weights,) = stored
    assert weights.file_size < 3.3 * 64 * 65 * 4 + 3 * 64 * 4  # three layers, not five; the buffer
    prefill = wir.load_package(both, "prefill")
    decode = wir.load_package(both, "decode", weights=prefill.constants)
    name = "model.common.weight"
    assert prefill.constants[name].data_ptr() == decode.constants[name].data_ptr()
    assert mappings(both) == 1
    model, x = Cached(), torch.randn(3, 64)
    with torch.no_grad():
        torch.testing.assert_close(prefill(x), model.prefill(x))
        torch.testing.assert_close(decode(x), model.decode(x))  # of what the other has written
        alone = wir.load_package(both, "decode")
        torch.testing.assert_close(alone(x), model.common(x))


def test_torchs_loaders_take_models_that_share_weights(both: Path) -> None:
    model, x = Cached(), torch.randn(3, 64)
    prefill, decode = (torchs_load_package(str(both), name) for name in ("prefill", "decode"))
    with torch.no_grad():
        torch.testing.assert_close(prefill(x), model.prefill(x))
        torch.testing.assert_close(decode(x), model.common(x))


def test_models_are_asked_for_by_name(both: Path, package: Path, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"no model 'model'\n.*it has 'prefill', 'decode'"):
        wir.load_package(both)
    for names in (("pre", "prefill"), ("a/b",), ("",), ()):
        with pytest.raises(OptionValueError, match=r"none a prefix|one program or more"):
            wir.export(dict.fromkeys(names, plus_one()), tmp_path / "m.pt2")
    with pytest.raises(wir.WrapperIRError, match="several programs need a package"):
        wir.export([plus_one(), plus_one()], tmp_path / "m.so")


# What fits where.


def test_the_first_variant_that_fits_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = [plus_one(isa="x86-64-v3"), plus_one(isa="x86-64-v2", extra=1)]
    file = wir.export(variants, tmp_path / "m.pt2")
    assert wir.load_package(file)(torch.zeros(4))[0].tolist() == [1.0] * 4
    torchs = torch._inductor.aoti_load_package(str(file))
    assert torchs(torch.zeros(4))[0].tolist() == [1.0] * 4
    monkeypatch.setattr(
        "wrapper_ir.toolchain.isa.cpu_features",
        lambda: frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "sse2", "cx16"}),
    )
    assert wir.load_package(file)(torch.zeros(4))[0].tolist() == [3.0] * 4  # one, and two more
    monkeypatch.setattr("wrapper_ir.toolchain.isa.cpu_features", frozenset)
    with pytest.raises(PackageFitError, match=r"this processor has no sse3.*; that for cpu: this"):
        wir.load_package(file)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("torch", "99.1.0", r"it needs PyTorch 99\.1\.0 or later, and this is \d"),
        ("machine", "z80", "it is for linux z80, and this is linux"),
        ("features", ["avx9000"], "this processor has no avx9000"),
        ("device", "mps", "it runs on mps, and there is none"),
    ],
)
def test_misfits_are_refused_in_words(
    package: Path, tmp_path: Path, name: str, value: object, words: str
) -> None:
    def change(about: dict[str, Any]) -> None:
        about["needs"][name] = value

    with pytest.raises(PackageFitError, match=words):
        wir.load_package(rewritten(package, tmp_path / "m.pt2", change))


def test_other_devices_and_other_files_are_refused(package: Path, tmp_path: Path) -> None:
    with pytest.raises(PackageFitError, match="it runs on cpu, and not on cuda"):
        wir.load_package(package, device="cuda")
    with pytest.raises(OptionValueError, match="num_runners"):
        wir.load_package(package, num_runners=0)
    with pytest.raises(PackageError, match="No such file"):
        wir.load_package(tmp_path / "nowhere.pt2")
    (tmp_path / "text.pt2").write_text("no archive")
    with pytest.raises(PackageError, match=r"it is not a \.pt2 package"):
        wir.load_package(tmp_path / "text.pt2")
    content = bytearray(package.read_bytes())
    content[content.index(b"\x7fELF") + 200] ^= 1
    (tmp_path / "damaged.pt2").write_bytes(content)
    with pytest.raises(PackageError, match="not as it was written"):
        wir.load_package(tmp_path / "damaged.pt2")
    with zipfile.ZipFile(tmp_path / "stock.pt2", "w") as archive:
        archive.writestr("stock/data/aotinductor/model/x.so", b"")
    with pytest.raises(PackageError, match=r"not made by wrapper_ir\n.*aoti_load_package"):
        wir.load_package(tmp_path / "stock.pt2")

    def newer(about: dict[str, Any]) -> None:
        about["format"] = 2

    with pytest.raises(PackageError, match="has format 2"):
        wir.load_package(rewritten(package, tmp_path / "new.pt2", newer))
