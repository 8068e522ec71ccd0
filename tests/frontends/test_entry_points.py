"""The ways into Inductor other than ``torch.compile``: in an installation each is served by us.

One process makes an artefact of each kind and saves it; another, in which nothing is installed and
whose caches are empty, loads it and runs it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor import CompiledArtifact
from torch._inductor.package import load_package, package_aoti
from torch._inductor.utils import fresh_cache
from torch.fx.passes.split_module import split_module

import wrapper_ir as wir
from tests import warm
from tests.release import TORCH
from wrapper_ir.frontends.inductor import install, statistics

ROOT = Path(__file__).parents[2]

HAS_PRECOMPILE = hasattr(getattr(torch.compiler, "precompile", None), "capture")


class Model(nn.Module):
    """Something with parameters, whose results are always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(35.0).reshape(5, 7) / 35)
        self.bias = nn.Parameter(torch.arange(5.0) - 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(nn.functional.linear(x, self.weight, self.bias))


X = torch.arange(14.0).reshape(2, 7) / 14


def _graph() -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return what Dynamo hands to a backend that compiles piece by piece."""
    seen: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        seen.extend((gm, inputs))
        return gm.forward

    torch.compile(Model(), backend=backend)(X)
    return seen[0], seen[1]


def _standalone(path: Path, **options: Any) -> Tensor:
    gm, inputs = _graph()
    made = torch._inductor.standalone_compile(gm, inputs, **options)
    made.save(path=str(path / "m"), format="unpacked" if path.name == "unpacked" else "binary")
    return made(*inputs)[0]


def _load_standalone(path: Path) -> Tensor:
    made = CompiledArtifact.load(
        path=str(path / "m"), format="unpacked" if path.name == "unpacked" else "binary"
    )
    _, inputs = _graph()
    return made(*inputs)[0]


def _ahead(path: Path) -> Tensor:
    torch._dynamo.config.enable_aot_compile = True  # as by default, but for 2.11
    made: Any = torch.compile(Model(), fullgraph=True)
    compiled = made.forward.aot_compile(((X,), {}))
    compiled.save_compiled_function(str(path / "m"))
    return compiled(Model(), X)


def _load_ahead(path: Path) -> Tensor:
    with (path / "m").open("rb") as file:
        compiled: Any = torch.compiler.load_compiled_function(file)
    return compiled(Model(), X)


def _cached(path: Path) -> Tensor:
    result = torch.compile(Model())(X)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    (path / "m").write_bytes(saved[0])
    return result


def _load_cached(path: Path) -> Tensor:
    torch.compiler.load_cache_artifacts((path / "m").read_bytes())
    with install():
        result = torch.compile(Model())(X)
    assert statistics.programs == 0, "it was compiled again"
    return result


def _function(path: Path) -> Tensor:
    with torch._dynamo.config.patch(caching_precompile=True):
        return _cached(path)


def _load_function(path: Path) -> Tensor:
    with torch._dynamo.config.patch(caching_precompile=True):
        torch.compiler.load_cache_artifacts((path / "m").read_bytes())
        with install():
            result = torch.compile(Model())(X)
    assert counters["dynamo_cache"]["dynamo_cache_hit"] == 1
    assert not counters["inductor"]["fxgraph_cache_miss"], "it was compiled again"
    return result


def _dictionary(_: Path) -> Tensor:
    def function(values: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"y": torch.tanh(nn.functional.linear(values["x"], values["w"], values["b"]))}

    model = Model()
    values = {"x": X, "w": model.weight.detach(), "b": model.bias.detach()}
    made: Any = torch._inductor.compile(torch.fx.symbolic_trace(function), [values])
    return made(values)["y"]


def _precompiled(path: Path) -> Tensor:
    capture = torch.compiler.precompile.capture(
        lambda model, x: model(x),
        artifact_path=str(path / "m.py"),
        cache_path=str(path / "m.cache"),
    )
    with capture as run:
        return run(Model(), X)


def _load_precompiled(path: Path) -> Tensor:
    assert "wrapper_ir" in (path / "m.py").read_text(encoding="utf-8")
    run = torch.compiler.precompile.load(str(path / "m.py"), str(path / "m.cache"))
    return run(Model(), X)


def _aot_standalone(path: Path) -> Tensor:
    return _standalone(path, aot=True)


class _Piecewise:
    """A backend that cuts a graph at an op and compiles the pieces, each when it is first run.

    So engines that serve models do: pieces are saved, and the next process loads them instead.

    Args:
        path: Where pieces are.
        loads: Whether they are loaded.
    """

    def __init__(self, path: Path, *, loads: bool) -> None:
        self._path, self._loads = path, loads

    def __call__(self, gm: torch.fx.GraphModule, _: list[Any]) -> Any:
        number = {node: int(node.target is torch.tanh) for node in gm.graph.nodes}
        parts = split_module(gm, None, number.__getitem__, keep_original_order=True)
        for name, part in parts.named_children():
            setattr(parts, name, _Piece(part, self._path / name, loads=self._loads))
        return parts


class _Piece(nn.Module):
    def __init__(self, part: Any, path: Path, *, loads: bool) -> None:
        super().__init__()
        self._part, self._path, self._loads, self._made = part, str(path), loads, None

    def forward(self, *args: Any) -> Any:
        if self._made is None and self._loads:
            self._made = CompiledArtifact.load(path=self._path, format="unpacked")
        elif self._made is None:
            config = torch._inductor.config.get_config_copy()
            options = {"config_patches": {"max_autotune": config["max_autotune"]}}
            self._made = torch._inductor.standalone_compile(
                _with_tuple(self._part), list(args), dynamic_shapes="from_graph", options=options
            )
            self._made.save(path=self._path, format="unpacked")  # type: ignore[attr-defined]
        return self._made(*args)[0]


def _with_tuple(part: torch.fx.GraphModule) -> torch.fx.GraphModule:
    (output,) = part.graph.find_nodes(op="output")
    output.args = ((output.args[0],),)
    part.recompile()
    return part


def _pieces(path: Path, *, loads: bool = False) -> Tensor:
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    return torch.compile(Model(), backend=_Piecewise(path, loads=loads), fullgraph=True)(x)


def _load_pieces(path: Path) -> Tensor:
    return _pieces(path, loads=True)


def _exported(module: nn.Module) -> torch.fx.GraphModule:
    exported: Any = torch.export.export(module, (X,))
    return exported.module(check_guards=False)


def _packaged(path: Path) -> Tensor:
    file = str(path / "m.pt2")
    exported = torch.export.export(Model(), (X,))
    assert torch._inductor.aoti_compile_and_package(exported, package_path=file) == file
    return torch._inductor.aoti_load_package(file)(X)


def _methods(path: Path) -> Tensor:
    """Two graphs in one package, each under a name of its own."""
    options = {"aot_inductor.package": True}
    parts: Any = {
        name: torch._inductor.aot_compile(_exported(module), (X,), options=options)
        for name, module in (("whole", Model()), ("last", nn.ReLU()))
    }
    file = str(path / "m.pt2")
    package_aoti(file, parts)
    assert torch.equal(load_package(file, "last")(X - 0.5), torch.relu(X - 0.5))
    return load_package(file, "whole")(X)


def _library(path: Path) -> Tensor:
    options = {"aot_inductor.output_path": str(path / "m.so")}
    file = torch._inductor.aot_compile(_exported(Model()), (X,), options=options)
    assert file == str(path / "m.so")
    return torch._C._aoti.AOTIModelContainerRunnerCpu(file, 1).run([X])[0]


Way = Callable[[Path], Tensor]

#: What makes and saves, and what loads, by name; without the other, nothing is saved, or it needs
#: no library of ours to be loaded.
WAYS: dict[str, tuple[Way, Way | None]] = {
    "standalone": (_standalone, _load_standalone),
    "unpacked": (_standalone, _load_standalone),
    "standalone ahead": (_aot_standalone, _load_standalone),
    "piecewise": (_pieces, _load_pieces),
    "aot_compile": (_ahead, _load_ahead),
    "cache artifacts": (_cached, _load_cached),
    "function cache": (_function, _load_function),
    "dictionaries": (_dictionary, None),
    "package": (_packaged, None),
    "methods": (_methods, None),
    "library": (_library, None),
    **({"precompile": (_precompiled, _load_precompiled)} if HAS_PRECOMPILE else {}),
}


def main(step: int, folder: str) -> None:
    """Save or load each artefact; print the results, or what went wrong.

    Args:
        step: 0 to save, 1 to load.
        folder: Where they are.
    """
    told: dict[str, Any] = {}
    for name, ways in WAYS.items():
        way, path = ways[step], Path(folder, name)
        if way is None:
            continue
        path.mkdir(exist_ok=True)
        torch._dynamo.reset()
        torch.compiler._cache.CacheArtifactManager.clear()
        statistics.reset()
        counters.clear()
        with fresh_cache(), torch.no_grad():
            try:
                if step:
                    result = way(path)
                else:
                    with install():
                        result = way(path)
                told[name] = (result.tolist(), statistics.programs)
            except Exception as error:
                told[name] = (f"{type(error).__name__}: {error}", 0)
    print(json.dumps(told))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def told(folder: Path) -> list[dict[str, Any]]:
    results = []
    for step in (0, 1):
        done = warm.run(
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests.frontends.test_entry_points import main; main({step}, {str(folder)!r})"
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1]))
    return results


@pytest.fixture(scope="module")
def expected() -> Any:
    with torch.no_grad():
        return torch.compile(Model(), backend="wrapper_ir")(X).tolist()


@pytest.mark.parametrize("way", WAYS)
def test_an_artefact_is_made_by_us(way: str, told: list[dict[str, Any]], expected: Any) -> None:
    assert told[0][way] == [expected, 2 if way in ("methods", "piecewise") else 1]


@pytest.mark.parametrize("way", [name for name, (_, load) in WAYS.items() if load is not None])
def test_an_artefact_runs_in_another_process(
    way: str, told: list[dict[str, Any]], expected: Any
) -> None:
    assert told[1][way] == [expected, 0]


#: Runs what torch loads by itself, in a process that knows nothing of us.
_ALONE = """
import json, sys
import torch
from torch._inductor.package import load_package

folder, x = sys.argv[1], torch.arange(14.0).reshape(2, 7) / 14
print(json.dumps({
    "package": torch._inductor.aoti_load_package(f"{folder}/package/m.pt2")(x).tolist(),
    "methods": load_package(f"{folder}/methods/m.pt2", "whole")(x).tolist(),
    "library": torch._C._aoti.AOTIModelContainerRunnerCpu(
        f"{folder}/library/m.so", 1
    ).run([x])[0].tolist(),
    "ours": [name for name in sys.modules if name.startswith("wrapper_ir")],
}))
"""


def test_libraries_and_packages_run_without_us(
    folder: Path, told: list[dict[str, Any]], expected: Any
) -> None:
    assert told
    done = warm.run(_ALONE, folder, ours=False)
    assert done.returncode == 0, done.stderr
    alone = json.loads(done.stdout.splitlines()[-1])
    assert alone == {"package": expected, "methods": expected, "library": expected, "ours": []}


def test_a_package_takes_the_sizes_that_were_declared(tmp_path: Path) -> None:
    """One row, too, though tracing takes no size for one; Inductor notes its own in settings."""
    from torch._inductor import config

    rows = torch.export.Dim("rows", max=6)
    exported = torch.export.export(Model(), (X,), dynamic_shapes=({0: rows},))
    file = str(tmp_path / "m.pt2")
    with config.patch({"aot_inductor.metadata": {"AOTI_DEVICE_KEY": "cpu"}}), install():
        torch._inductor.aoti_compile_and_package(exported, package_path=file)
    loaded = torch._inductor.aoti_load_package(file)
    with torch.no_grad():
        torch.testing.assert_close(loaded(X[:1]), Model()(X[:1]))
        # Earlier loaders print the words of the library and raise their own.
        with pytest.raises(RuntimeError, match=r"rows|size 0" if TORCH >= (2, 13) else None):
            loaded(X[:1].expand(7, -1).contiguous())


@pytest.mark.parametrize("emitter", [None, "python", "cpp"], ids=str)
@pytest.mark.parametrize("aot", [False, True])
def test_a_number_that_the_examples_fixed_is_not_asked_for_again(
    *, emitter: str | None, aot: bool
) -> None:
    """Whoever compiles for examples was told so; in its place, stock ignores what comes, too."""
    graph = torch.fx.symbolic_trace(lambda number, x: (x * number,))
    statistics.reset()
    with contextlib.ExitStack() as stack:
        stack.enter_context(fresh_cache())
        if emitter is not None:
            stack.enter_context(install(emitter=emitter))
        made = torch._inductor.standalone_compile(
            graph, [5, X], dynamic_shapes="from_example_inputs", aot=aot
        )
        assert statistics.programs == (emitter is not None)
        assert torch.equal(made(3, X)[0], X * 5)
        with pytest.raises(AssertionError, match="expected size 3==2, stride 7==7 at dim=0"):
            made(5, torch.ones(3, 7))


@pytest.mark.skipif(TORCH < (2, 13), reason="torch saves no artefact of a graph with gradients")
def test_an_artefact_that_was_recorded_can_be_saved(tmp_path: Path) -> None:
    """Recording reads no caches; what it makes enters them, and an artefact is what they took."""
    with fresh_cache(), install(), wir.record() as programs:
        results = [_standalone(tmp_path), _standalone(tmp_path)]
    assert [program.role.value for program in programs] == ["forward", "backward"] * 2
    with fresh_cache():
        results.append(_load_standalone(tmp_path))
    assert all(torch.equal(each, results[0]) for each in results)
