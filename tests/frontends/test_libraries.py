"""Libraries and packages that Inductor makes in an installation: what may be said of them."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import wrapper_ir as wir
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.frontends.inductor import StockFallbackWarning, install, statistics

if TYPE_CHECKING:
    from pathlib import Path

X = torch.arange(12.0).reshape(4, 3)


class Model(nn.Module):
    """Has what programs have to be told of: trees, numbers, words, ties, a buffer, free sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3, bias=False)
        self.two = nn.Linear(3, 3, bias=False)
        self.two.weight = self.one.weight
        self.register_buffer("scale", torch.arange(3.0))

    def forward(self, x: Tensor, *, shift: Tensor, n: int, way: str) -> dict[str, Any]:
        y = self.two(torch.relu(self.one(x))) * n + shift
        return {"y": (y if way == "up" else -y) * self.scale, "rest": (None, 2.5, x.sum(0))}


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    rows = {0: Dim("rows", min=2, max=9)}
    return torch.export.export(
        Model(),
        (X,),
        {"shift": torch.ones(3), "n": 3, "way": "up"},
        dynamic_shapes={"x": rows, "shift": None, "n": None, "way": None},
    )


def test_a_package_is_of_the_program_that_capture_gives(
    exported: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    """Arguments, results, ranges and the names of constants; and it says what it was told to."""
    said = {"aot_inductor.metadata": {"who": "me"}, "aot_inductor.force_mmap_weights": True}
    file = str(tmp_path / "m.pt2")
    with install(origins=True), wir.record() as programs:
        torch._inductor.aoti_compile_and_package(
            exported, package_path=file, inductor_configs=dict(said)
        )
    (program,) = programs
    captured = wir.capture(exported)
    assert program.in_spec == captured.in_spec
    assert program.out_spec == captured.out_spec
    assert [*map(repr, program.constants.values())] == [*map(repr, captured.constants.values())]
    package = torch._inductor.aoti_load_package(file)
    assert package.get_metadata()["who"] == "me"
    assert sorted(package.get_constant_fqns()) == ["one.weight", "scale", "two.weight"]
    x, shift = torch.arange(18.0).reshape(6, 3), torch.ones(3)
    found = package(x, shift=shift, n=3, way="up")
    wanted = exported.module()(x, shift=shift, n=3, way="up")
    torch.testing.assert_close(found["y"], wanted["y"])
    assert found["rest"][0] is None
    assert found["rest"][1] == 2.5
    with pytest.raises(RuntimeError):
        package(torch.ones(10, 3), shift=shift, n=3, way="up")


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Model()
        self.parts = nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](self.part.one(x)) * self.part.scale


def test_names_that_dynamo_flattens_are_the_models_again(tmp_path: Path) -> None:
    with install(), torch.no_grad():
        file = torch._export.aot_compile(Nested(), (X,))
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(file, 1)
    names = set(runner.get_constant_names_to_original_fqns().values())
    assert names >= {"part.scale", "parts.0.weight", "parts.0.bias"}
    assert not any("L__self" in name for name in names)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.scale = nn.Buffer(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) * self.scale


@pytest.mark.slow
@pytest.mark.parametrize("user_managed", [False, True])
def test_a_package_without_weights_is_given_them_by_torchs_loader(
    user_managed: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, x = Scaled().requires_grad_(False), torch.randn(6, 3)
    exported = torch.export.export(model, (x,))
    bare = {"aot_inductor.package_constants_in_so": False}
    with install():
        where = str(tmp_path / "m.pt2")
        file = torch._inductor.aoti_compile_and_package(
            exported, package_path=where, inductor_configs=bare
        )
    package = torch._inductor.aoti_load_package(file)
    assert sorted(package.get_constant_fqns()) == ["scale", "weight"]
    values = {"weight": model.weight.detach(), "scale": model.scale}
    how = {"user_managed": user_managed}
    with pytest.raises(RuntimeError):
        package(x)
    package.load_constants({"weight": values["weight"]}, check_full_update=False, **how)
    with pytest.raises(RuntimeError):
        package(x)
    package.load_constants({"scale": values["scale"]}, check_full_update=False, **how)
    torch.testing.assert_close(package(x), model(x))
    model.weight.mul_(2)
    assert user_managed == torch.allclose(package(x), model(x))
    package.load_constants(values, check_full_update=True, **how)
    torch.testing.assert_close(package(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("bare", [False, True])
def test_a_package_has_its_weights_in_files_that_torch_reads(*, bare: bool, tmp_path: Path) -> None:
    from torch.export.pt2_archive._package import load_pt2

    model, x = Scaled().requires_grad_(False), torch.randn(6, 3)
    apart: dict[str, Any] = {"aot_inductor.package_constants_on_disk_format": "pickle_weights"}
    if bare:
        apart["aot_inductor.package_constants_in_so"] = False
    with install():
        where = str(tmp_path / "m.pt2")
        exported = torch.export.export(model, (x,))
        torch._inductor.aoti_compile_and_package(
            exported, package_path=where, inductor_configs=apart
        )
    if not bare:
        torch.testing.assert_close(torch._inductor.aoti_load_package(where)(x), model(x))
    runner = load_pt2(where, load_weights_from_disk=True).aoti_runners["model"]
    torch.testing.assert_close(runner(x), model(x))


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_sizes_are_held_to_the_bounds_that_are_checked(
    *, lower: bool, upper: bool, tmp_path: Path
) -> None:
    known: Any = torch._inductor.config
    options = {"aot_inductor.check_lowerbound": lower, "aot_inductor.check_upperbound": upper}
    if not set(options) <= set(known._config):
        pytest.skip("this release lacks the options")
    options["aot_inductor.embed_kernel_binary"] = True
    options["aot_inductor.model_name_for_generated_files"] = "my_model"
    module, where = nn.ReLU(), str(tmp_path / "m.pt2")
    sizes = ({0: Dim("n", min=3, max=10)},)
    with install():
        exported = torch.export.export(module, (torch.ones(5, 2),), dynamic_shapes=sizes)
        torch._inductor.aoti_compile_and_package(
            exported, package_path=where, inductor_configs=options
        )
    with ZipFile(where) as archive:
        assert any(name.endswith("/my_model.wrapper.so") for name in archive.namelist())
    for load in (torch._inductor.aoti_load_package, wir.load_package):
        run: Any = load(where)
        for rows in (0, 2, 3, 10, 11):
            x = torch.randn(rows, 2)
            if (rows < 3 and lower) or (rows > 10 and upper):
                with pytest.raises(Exception, match=r"WIR\d+|API call failed"):
                    run(x)
            else:
                assert torch.equal(run(x), module(x))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"aot_inductor.use_consts_asm_build": False}, "load_constants"),
        ({"aot_inductor.package_constants_on_disk_format": "paper"}, "'binary_blob'"),
        ({"aot_inductor.link_libtorch": False}, "linked to PyTorch by name"),
        ({"aot_inductor.model_name_for_generated_files": "../m"}, "letters, digits"),
        ({"fx_wrapper": True}, "emitter='fx'"),
        ({"max_autotun": True}, "did you mean Inductor's 'max_autotune'"),
        ({"triton.cudagraph_trees": False}, "cuda_graph"),
    ],
    ids=str,
)
def test_what_libraries_do_not_have_is_refused_in_words(
    options: dict[str, Any], words: str
) -> None:
    module = torch.fx.symbolic_trace(nn.ReLU())
    with install(), pytest.raises(wir.WrapperIRError, match=re.escape(words)):
        torch._inductor.aot_compile(_with_tuple(module), (X,), options=options)


def test_settings_count_like_options() -> None:
    module = _with_tuple(torch.fx.symbolic_trace(nn.ReLU()))
    with (
        install(),
        torch._inductor.config.patch({"aot_inductor.package_cpp_only": True}),
        pytest.raises(OptionValueError, match=r"aot_inductor\.package_cpp_only"),
    ):
        torch._inductor.aot_compile(module, (X,))
    with install(checks="never"), pytest.raises(OptionError, match="'checks'"):
        torch._inductor.aot_compile(module, (X,))


@pytest.mark.long
def test_inductor_stands_in_where_that_is_asked_for() -> None:
    """It writes sources for others to build, which we do not."""
    module = _with_tuple(torch.fx.symbolic_trace(nn.ReLU()))
    options = {"aot_inductor.package_cpp_only": True, "aot_inductor.package": True}
    statistics.reset()
    with install(on_unsupported="stock"), pytest.warns(StockFallbackWarning, match="folder of"):
        files: Any = torch._inductor.aot_compile(module, (X,), options=options)
    assert any("CMakeLists.txt" in str(file) for file in files)
    assert (statistics.programs, statistics.fallbacks) == (0, 1)


def test_others_are_left_alone() -> None:
    torch._dynamo.reset()
    gc.unfreeze()  # a training step of an installation keeps us registered while it is there
    gc.collect()
    found = torch._inductor.compile_fx.compile_fx_aot
    with install():
        assert torch._inductor.compile_fx.compile_fx_aot is not found
        with install():
            pass
        assert torch._inductor.compile_fx.compile_fx_aot is not found
    assert torch._inductor.compile_fx.compile_fx_aot is found


def _with_tuple(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    (output,) = module.graph.find_nodes(op="output")
    output.args = ((output.args[0],),)
    module.recompile()
    return module
