"""Torch's caches: they serve ours to us, stock's to stock, and never the one for the other."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch._dynamo.precompile_context import PrecompileContext
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._inductor.remote_cache import RemoteCache, RemoteCacheBackend
from torch._inductor.utils import fresh_cache
from torch.compiler._cache import CacheArtifactManager

import wrapper_ir as wir
from tests import warm
from tests.models.watch import watch_inductor
from tests.release import TORCH
from wrapper_ir.frontends.inductor import OpByOpWarning, install, registration, statistics
from wrapper_ir.frontends.inductor.identity import _sources
from wrapper_ir.runtime import InputLayoutError

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

Compile = Callable[[nn.Module], Any]


@dataclass(frozen=True)
class Outcome:
    """What one compilation of a forward and a backward did.

    Attributes:
        programs: Programs that we made.
        ours: Graphs whose text is ours, from a cache or not.
        graphs: Graphs that came out.
        lowered: Graphs that Inductor lowered.
        paired: Hits of AOTAutogradCache.
        single: Hits of FxGraphCache.
    """

    programs: int
    ours: int
    graphs: int
    lowered: int
    paired: int
    single: int


MADE_BY_US = Outcome(programs=2, ours=2, graphs=2, lowered=2, paired=0, single=0)
OURS_FROM_CACHE = Outcome(programs=0, ours=2, graphs=2, lowered=0, paired=1, single=2)
MADE_BY_STOCK = Outcome(programs=0, ours=0, graphs=2, lowered=2, paired=0, single=0)
STOCK_FROM_CACHE = Outcome(programs=0, ours=0, graphs=2, lowered=0, paired=1, single=2)


@pytest.fixture(autouse=True)
def _empty_caches() -> Iterator[None]:
    with fresh_cache():
        yield


def outcome(compile_: Compile, *, has_kernels: bool = True) -> Outcome:
    """Compile and train one step from nothing but what is on disk."""
    torch._dynamo.reset()
    counters.clear()
    statistics.reset()
    model, x = _model() if has_kernels else (nn.Linear(7, 5, bias=False), torch.ones(2, 7))
    with watch_inductor() as seen:
        compile_(model)(x).sum().backward()
    ours = sum("from wrapper_ir." in source for source in seen.sources)
    return Outcome(
        statistics.programs,
        ours,
        len(seen.graphs),
        seen.lowered,
        counters["aot_autograd"]["autograd_cache_hit"],
        counters["inductor"]["fxgraph_cache_hit"],
    )


def _model() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh()), torch.ones(2, 7)


def stock(model: nn.Module) -> Any:
    return torch.compile(model)


def ours(**options: Any) -> Compile:
    return lambda model: torch.compile(model, backend="wrapper_ir", options=options)


def test_stock_first() -> None:
    assert outcome(stock) == MADE_BY_STOCK
    assert outcome(ours()) == MADE_BY_US
    assert outcome(stock) == STOCK_FROM_CACHE
    assert outcome(ours()) == OURS_FROM_CACHE


def test_ours_first() -> None:
    assert outcome(ours()) == MADE_BY_US
    assert outcome(stock) == MADE_BY_STOCK
    assert outcome(ours()) == OURS_FROM_CACHE
    assert outcome(stock) == STOCK_FROM_CACHE


@pytest.mark.parametrize("other", [{"strategy": "none"}, {"origins": True}], ids=str)
def test_other_options_are_other_entries(other: dict[str, Any]) -> None:
    assert outcome(ours()) == MADE_BY_US
    assert outcome(ours(**other)) == MADE_BY_US
    assert outcome(ours()) == OURS_FROM_CACHE
    assert outcome(ours(**other)) == OURS_FROM_CACHE


def test_graphs_are_kept_as_text() -> None:
    assert outcome(ours(emitter="fx")) == MADE_BY_US
    assert outcome(ours(emitter="fx", checks="never")) == MADE_BY_US
    assert outcome(ours(emitter="fx")) == OURS_FROM_CACHE


class Shift(nn.Module):
    """A model whose graph has a constant of its own, which its text does not hold."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([float(number) for number in range(12)])


SHIFTED = [[float(number) for number in range(12)]] * 2


def test_constants_find_their_way_into_graphs_from_the_cache() -> None:
    for lowered in (1, 0):
        torch._dynamo.reset()
        with watch_inductor() as seen:
            result = ours(emitter="fx")(Shift())(torch.ones(2, 12))
        assert seen.lowered == lowered
        assert "\nconstant " in seen.sources[0]
        assert result.tolist() == SHIFTED


_SAVE = textwrap.dedent("""
    import sys
    import torch
    from tests.frontends.test_caches import Shift
    model = torch.compile(Shift(), backend="wrapper_ir", options={"emitter": "fx"}, fullgraph=True)
    made = model.forward.aot_compile(((torch.ones(2, 12),), {}))
    made.save_compiled_function(sys.argv[1])
    """)

_LOAD = textwrap.dedent("""
    import sys
    import torch
    from tests.frontends.test_caches import Shift
    from wrapper_ir.frontends.inductor import statistics
    with open(sys.argv[1], "rb") as file:
        model = torch.compiler.load_compiled_function(file)
    assert statistics.programs == 0
    print(model(Shift(), torch.ones(2, 12)).tolist())
    """)


@pytest.mark.skipif(TORCH < (2, 12), reason="methods cannot be compiled ahead")
def test_a_graph_that_was_compiled_ahead_runs_in_another_process(tmp_path: Path) -> None:
    file, root = tmp_path / "shift.bin", Path(__file__).parents[2]
    for number, program in enumerate((_SAVE, _LOAD)):
        done = warm.run(
            f"import sys; sys.path.insert(0, {str(root)!r})\n{program}",
            file,
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path / str(number)),
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(SHIFTED)


def test_recording_makes_programs_whatever_is_cached() -> None:
    assert outcome(ours()) == MADE_BY_US
    with wir.record() as programs:
        assert outcome(ours()) == MADE_BY_US
    assert [p.role.value for p in programs] == ["forward", "backward"]
    assert outcome(ours()) == OURS_FROM_CACHE


def test_what_is_recorded_is_not_cached() -> None:
    with wir.record():
        outcome(ours())
    assert outcome(ours()) == MADE_BY_US
    assert outcome(stock) == MADE_BY_STOCK


def test_recording_a_backward_alone() -> None:
    model, x = _model()
    torch._dynamo.reset()
    loss = ours()(model)(x).sum()
    with wir.record() as programs:
        loss.backward()
    assert [p.role.value for p in programs] == ["backward"]
    assert outcome(stock) == MADE_BY_STOCK


def test_an_installation_keeps_to_itself() -> None:
    outcome(stock)
    with install():
        assert outcome(stock) == MADE_BY_US
        assert outcome(stock) == OURS_FROM_CACHE
    assert outcome(stock) == STOCK_FROM_CACHE
    with install(strategy="none"):
        assert outcome(stock) == MADE_BY_US
    assert outcome(ours()) == OURS_FROM_CACHE  # of the same options


class _Remote(RemoteCacheBackend[bytes]):
    """A remote cache that is here."""

    kept: ClassVar[dict[str, bytes]] = {}

    def _get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def _put(self, key: str, data: bytes) -> None:
        self.kept[key] = data


def test_remote_caches_keep_what_is_ours_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local ones are off."""
    monkeypatch.setattr(_Remote, "kept", {})
    monkeypatch.setattr(RemoteCache, "backend_override_cls", _Remote)
    remote = {"enable_autograd_cache": False, "enable_remote_autograd_cache": True}
    with (
        config.patch(fx_graph_cache=False, fx_graph_remote_cache=True),
        functorch_config.patch(remote),
    ):
        assert outcome(stock, has_kernels=False) == MADE_BY_STOCK
        assert outcome(ours(), has_kernels=False) == MADE_BY_US
        with install():
            assert outcome(stock, has_kernels=False) == OURS_FROM_CACHE
        assert outcome(stock, has_kernels=False) == STOCK_FROM_CACHE


class Small(nn.Module):
    """A model of one kernel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def test_dynamo_s_cache_of_functions_keeps_installations_apart() -> None:
    """Its keys are of functions alone, so the backend of torch.compile is served what is there."""

    def found(compile_: Compile = stock) -> bool:
        torch._dynamo.reset()
        counters.clear()
        compile_(Small())
        return counters["dynamo_cache"]["dynamo_cache_hit"] == 1

    def made() -> None:
        torch._dynamo.reset()
        CacheArtifactManager.clear()
        PrecompileContext.clear()
        stock(Small())(torch.ones(2, 2))
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None
        torch.compiler.load_cache_artifacts(saved[0])

    with torch._dynamo.config.patch(caching_precompile=True), torch.no_grad():
        with install():
            made()
        assert not found()
        made()
        assert found()
        assert found(ours())
        with install():
            assert found()
        with install(strategy="none"):
            assert not found()


def test_a_backward_of_stock_run_inside_an_installation_is_stocks() -> None:
    torch._dynamo.reset()
    model, x = _model()
    loss = torch.compile(model)(x).sum()
    with install():
        loss.backward()
    assert outcome(stock) == STOCK_FROM_CACHE
    with install():
        assert outcome(stock) == MADE_BY_US


@pytest.mark.parametrize("where", ["here", "in a thread"])
def test_a_backward_of_ours_run_after_the_installation_is_ours(where: str) -> None:
    torch._dynamo.reset()
    statistics.reset()
    model, x = _model()
    with install():
        loss = torch.compile(model)(x).sum()
    if where == "here":
        loss.backward()
    else:
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert statistics.programs == 2
    assert outcome(stock) == MADE_BY_STOCK
    assert outcome(ours()) == OURS_FROM_CACHE
    with install():
        assert outcome(stock) == OURS_FROM_CACHE


_SECOND = textwrap.dedent("""
    import json, sys
    sys.path.insert(0, sys.argv[1])
    from dataclasses import asdict
    from tests.frontends.test_caches import outcome, ours, stock
    print(json.dumps([asdict(outcome(each)) for each in (ours(), ours(emitter="fx"), stock)]))
    """)


@pytest.mark.long
def test_a_second_process_starts_warm(tmp_path: Path) -> None:
    """Entries are found by another process, with another hash seed and working directory."""
    root = Path(__file__).parents[2]

    def process(seed: str, where: Path) -> Any:
        import json

        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # stock's, for one small kernel
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SECOND, str(root)],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [Outcome(**each) for each in json.loads(done.stdout.splitlines()[-1])]

    (tmp_path / "elsewhere").mkdir()
    assert process("1", root) == [MADE_BY_US, MADE_BY_US, MADE_BY_STOCK]
    second = process("2", tmp_path / "elsewhere")
    assert second == [OURS_FROM_CACHE, OURS_FROM_CACHE, STOCK_FROM_CACHE]


_WARM = """
import sys, torch
torch.compile(lambda x: x.sin() + 1, backend="wrapper_ir")(torch.ones(8))
rooms = ("lines", "verify", "text", "build", "planning", "frontends.inductor.convert")
print([room for room in rooms if f"wrapper_ir.{room}" in sys.modules])
"""


@pytest.mark.long
def test_a_second_process_does_not_load_what_makes_programs(tmp_path: Path) -> None:
    """With the graph in Inductor's caches, nothing is converted, verified or rendered."""

    def process() -> str:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            "WRAPPER_IR_CACHE_DIR": str(tmp_path / "ours"),
        }
        command = [sys.executable, "-W", "ignore", "-c", _WARM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    assert "verify" in process()
    assert process() == "[]"


def test_keys_hold_tables_beside_modules() -> None:
    names = {file.name for file in _sources(Path(wir.__file__).parent)}
    assert {"abi_table.txt", "draft.py", "api.py"} <= names


# Arguments that overlap, which AOTAutograd's keys do not tell from separate ones.


def _write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return a + b


def _is_right(compiled: Any, *, overlap: bool) -> bool:
    """Whether a call does what eager does, also to its arguments."""
    found = []
    for function in (compiled, _write):
        rows = torch.arange(8.0).view(4, 2)
        a, b = (rows[:-1], rows[1:]) if overlap else (rows[:-1].clone(), rows[1:].clone())
        found.append((function(a, b), a, b))
    return all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_graph_that_writes_is_for_arguments_that_overlap_as_its_examples_did() -> None:
    """Stock takes one graph for both, compiled in this process or from the cache: wrong values."""
    for order in ((False, True), (True, False)):
        for _ in range(2):  # the second time from the caches
            torch._dynamo.reset()
            compiled = torch.compile(_write, backend="wrapper_ir", fullgraph=True)
            assert _is_right(compiled, overlap=order[0])
            with pytest.warns(OpByOpWarning, match="runs op by op"):
                assert _is_right(compiled, overlap=order[1])
            assert _is_right(compiled, overlap=order[0])


def test_a_lazily_negated_argument_keeps_its_sign() -> None:
    """Stock's kernels, and ours, read the memory without the sign."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", fullgraph=True)
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert compiled(x.imag).tolist() == [3.0, -3.0]
    with pytest.warns(OpByOpWarning, match="resolve_neg"):
        assert compiled(x.conj().imag).tolist() == [-1.0, 5.0]
    assert compiled(x.conj().imag.resolve_neg()).tolist() == [-1.0, 5.0]
    assert compiled(x.imag).tolist() == [3.0, -3.0]


def test_overlapping_arguments_that_nothing_writes_to_run_compiled() -> None:
    torch._dynamo.reset()

    def write(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a + b * c

    compiled = torch.compile(write, backend="wrapper_ir", fullgraph=True)
    t = torch.arange(5.0)
    compiled(torch.zeros(4), torch.ones(4), torch.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OpByOpWarning)
        assert torch.equal(compiled(torch.zeros(4), t[:4], t[1:]), 1 + t[:4] * t[1:])
    with pytest.warns(OpByOpWarning, match="runs op by op"):
        compiled(t[:4], t[1:], torch.ones(4))


def test_a_lazily_negated_gradient_keeps_its_sign() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() * 3, backend="wrapper_ir", fullgraph=True)
    for gradient in (-torch.ones(4), torch._neg_view(torch.ones(4)), -torch.ones(4)):
        x = torch.arange(4.0, requires_grad=True)
        # Before 2.13 AOTAutograd looks its function up in each call: ours while it is registered.
        is_ours = TORCH >= (2, 13) or registration._replaced
        if gradient.is_neg() and not is_ours:
            with pytest.raises(InputLayoutError, match="resolve_neg"):
                compiled(x).backward(gradient)
            continue
        compiled(x).backward(gradient)
        torch.testing.assert_close(x.grad, -3 * x.detach().cos())
