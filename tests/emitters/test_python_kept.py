"""Arenas that outlive a call: what is in them never shows, however calls follow or cross."""

from __future__ import annotations

import gc
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests import strategies
from tests.emitters.corpus import CASES, program
from tests.emitters.test_python_corpus import kept as planned_to_be_kept
from tests.models.memory import peak_bytes
from tests.planning.test_pool_runs import without
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.lines import GraphRole, Probe, Program, Stage
from wrapper_ir.planning import plan
from wrapper_ir.runtime import KeptArena

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DYNAMIC = """\
wir 2
program @p inference logical

symbol s0 : int [1, 4096] hint 16
input %x : f32[s0, s0] @cpu

extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  s0 = size %x, 0
  %a = allocate : f32[s0, s0] @cpu
  aten::add.out(%x, %x, out=out %a)
  %b = allocate : f32[s0, s0] @cpu
  aten::mm.out(%x, %x, out=out %b)
  %c = allocate : f32[s0, s0] @cpu
  aten::mm.out(%a, %b, out=out %c)
  %c_t = reinterpret %c : f32[s0, s0]{1, s0} @cpu
  %d = allocate : f32[s0, s0] @cpu
  aten::mm.out(%c_t, %b, out=out %d)
  %e = allocate : f32[s0, s0] @cpu
  aten::mm.out(%d, %a, out=out %e)
return %e
"""

STATIC = DYNAMIC.replace("s0, s0]", "16, 16]").replace("{1, s0}", "{1, 16}")


def test_on_a_gpu_arenas_belong_to_streams() -> None:
    text = STATIC.replace("@cpu", "@cuda:0")
    source = wir.emit(wir.parse(text), arena="kept").source
    assert "kept_pool0 = KeptGpuArena(\n    cuda_0,\n    4096,\n" in source
    assert "b = pool0[1]" in source
    assert "KeptHeap" not in source
    assert (
        "kept_pool0 = KeptGpuArena(cuda_0)\n"
        in wir.emit(wir.parse(DYNAMIC.replace("@cpu", "@cuda:0")), arena="kept").source
    )


def made_input(size: int = 16) -> Tensor:
    """Of numbers whose products are exact."""
    return torch.randint(-1, 2, (size, size)).float()


def arenas(function: Any) -> list[KeptArena]:
    names = vars(function.module).values()
    return [value for value in names if isinstance(value, KeptArena)]


def poison(function: Any) -> None:
    """Overwrites all that is kept."""
    for kept in arenas(function):
        for arena in kept._free:
            arena.memory.fill_(255)


def expected(x: Tensor) -> Tensor:
    b = x @ x
    return (2 * x @ b).t() @ b @ (2 * x)


def same(ours: Any, theirs: Any) -> None:
    for a, b in zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True):
        if isinstance(a, Tensor):
            assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
        else:
            assert a == b or a != a


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", CASES)
def test_the_corpus_computes_the_same(name: str) -> None:
    made = program(name)
    kept = wir.compile(planned_to_be_kept(name), arena="kept", scratch_bytes=0)
    plain = wir.compile(made)
    for seed in range(3):
        torch.manual_seed(seed)
        inputs = CASES[name].make()
        data = {key: value.clone() for key, value in made.data.items()}
        theirs = plain(*inputs)
        theirs = pytree.tree_map_only(Tensor, torch.clone, theirs)
        for key, value in made.data.items():  # some programs change constants
            value.copy_(data[key])
        torch.manual_seed(seed)
        same(kept(*CASES[name].make()), theirs)
        poison(kept)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
@given(strategies.programs())
def test_made_up_programs_compute_the_same(source: Program) -> None:
    if source.stage is Stage.PLANNED:
        return
    source = without(source, Probe)
    source = source.replace(data={name: torch.ones(4, 4) for name in source.constants})
    kept, plain = wir.compile(source, arena="kept"), wir.compile(source)
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(3, 4, generator=generator) for _ in source.inputs]
        copies = [x.clone() for x in inputs]
        same(kept(*inputs), plain(*copies))
        same(inputs, copies)
        poison(kept)


@pytest.mark.parametrize("checks", ["always", "first_call", "never"])
@pytest.mark.parametrize("role", [GraphRole.INFERENCE, GraphRole.FORWARD])
def test_the_second_call_allocates_nothing_but_results(role: GraphRole, checks: str) -> None:
    source = wir.parse(STATIC).replace(role=role)
    function = wir.compile(source, arena="kept", checks=checks)
    report = plan(source, arena="kept").report
    result_bytes = 16 * 16 * 4
    x = made_input()
    function(x)
    assert peak_bytes(lambda: function(x)) == result_bytes
    assert report.peak_bytes == report.kept_bytes + result_bytes


@pytest.mark.parametrize("dynamic", [True, False])
def test_the_measured_peak_is_the_reported_one(dynamic: bool) -> None:
    source = wir.parse(DYNAMIC if dynamic else STATIC)
    function = wir.compile(source, arena="kept")
    report = plan(source, arena="kept").report
    x = made_input()
    assert peak_bytes(lambda: function(x)) == report.peak_bytes
    assert function.release() == report.kept_bytes  # type: ignore[attr-defined]


def test_views_are_the_same_in_every_call() -> None:
    function: Any = wir.compile(wir.parse(STATIC), arena="kept")
    function(made_input())
    (kept,) = arenas(function)
    (first,) = kept._free
    pointers = [view.data_ptr() for view in first]
    function(made_input())
    (second,) = kept._free
    assert second is first
    assert [view.data_ptr() for view in second] == pointers
    assert len(pointers) == 5  # four buffers, and one of them transposed


def test_an_op_that_resizes_what_it_writes_to_spoils_no_later_call() -> None:
    head, _, _ = STATIC.partition("  %a = ")
    text = f"""{head}\
  %a = allocate : f32[16, 16] @cpu
  aten::mm.out(%x, %x, out=out %a)
  %b = allocate : f32[16, 16] @cpu
  aten::mm.out(%a, %a, out=out %b)
return %b
"""
    function: Any = wir.compile(wir.parse(text), arena="kept", checks="never")
    with pytest.warns(UserWarning, match="was resized"):
        function(made_input(32))  # which nobody noticed
    for _ in range(2):
        x = made_input()
        assert torch.equal(function(x)[0], x @ x @ (x @ x))
        poison(function)


def test_an_arena_grows_to_the_largest_call() -> None:
    function: Any = wir.compile(wir.parse(DYNAMIC), arena="kept")
    (kept,) = arenas(function)
    held = []
    for size in (4, 8, 2, 16, 15):
        x = made_input(size)
        assert torch.equal(function(x)[0], expected(x))
        poison(function)
        held.append(kept._free[0].memory.numel())
    assert held[0] < held[1] == held[2] < held[3] == held[4]
    assert len(kept._free) == 1


def test_release() -> None:
    function: Any = wir.compile(wir.parse(STATIC), arena="kept")
    x = made_input()
    assert function.release() == 0
    function(x)
    held = plan(wir.parse(STATIC), arena="kept").report.kept_bytes
    assert function.release() == held
    assert function.release() == 0
    assert torch.equal(function(x)[0], expected(x))
    assert function.module.release() == held
    boxed: Any = wir.emit(wir.parse(STATIC), arena="kept").load_boxed()
    boxed([x])
    assert boxed.release() == held


def test_release_of_everything() -> None:
    wir.release_kept_memory()
    functions = [wir.compile(wir.parse(text), arena="kept") for text in (STATIC, DYNAMIC)]
    for function in functions:
        function(made_input())
    held = plan(wir.parse(STATIC), arena="kept").report.kept_bytes
    assert wir.release_kept_memory() == 2 * held
    assert wir.release_kept_memory() == 0


def test_what_keeps_nothing_releases_nothing() -> None:
    function: Any = wir.compile(program("views"))
    assert function.release() == 0
    assert not hasattr(function.module, "release")
    scratch: Any = wir.compile(program("relu_twice"))
    scratch(torch.randn(4, 64))
    assert scratch.release() == 4 * 64 * 4
    assert scratch.release() == 0


AGAIN = """\
wir 2
program @again inference logical

symbol s0 : int [1, 4096] hint 16
input %x : f32[s0, 33] @cpu

extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
extern wir_test_kept::again(Tensor x) -> Tensor

  s0 = size %x, 0
  %a = allocate : f32[s0, 33] @cpu
  aten::neg.out(%x, out=out %a)
  %b = allocate : f32[s0, 33] @cpu
  aten::mul.out(%a, %x, out=out %b)
  %inner = wir_test_kept::again(%x) : f32[s0, 33] @cpu
  %c = allocate : f32[s0, 33] @cpu
  aten::mul.out(%a, %inner, out=out %c)
  %r = allocate : f32[s0, 33] @cpu
  aten::mul.out(%b, %c, out=out %r)
return %r
"""


@pytest.fixture
def again() -> Iterator[types.SimpleNamespace]:
    """An op that calls ``.function``, and says what it was called with."""
    state = types.SimpleNamespace(function=lambda x: x.clone())
    library = torch.library.Library("wir_test_kept", "DEF")
    library.define("again(Tensor x) -> Tensor")
    library.impl("again", lambda x: state.function(x), "CPU")
    yield state
    library._destroy()


@pytest.mark.parametrize("text", [AGAIN, AGAIN.replace("s0, 33]", "16, 33]")])
def test_a_call_inside_a_call_has_an_arena_of_its_own(
    again: types.SimpleNamespace, text: str
) -> None:
    function: Any = wir.compile(wir.parse(text), arena="kept")
    depth = 0

    def deeper(x: Tensor) -> Tensor:
        nonlocal depth
        depth += 1
        poison(function)
        return x.clone() if depth > 2 else function(x)[0]

    again.function = deeper
    x = torch.rand(16, 33) + 1
    (result,) = function(x)
    (kept,) = arenas(function)
    assert len(kept._free) == 3  # as many as there were calls at a time
    want = x
    for _ in range(3):
        want = -x * x * (-x * want)
    torch.testing.assert_close(result, want)


def test_a_call_that_fails_gives_nothing_back(again: types.SimpleNamespace) -> None:
    function: Any = wir.compile(wir.parse(AGAIN), arena="kept")

    def fail(x: Tensor) -> Tensor:
        raise ValueError("no")

    again.function = fail
    x = torch.randn(16, 33)
    with pytest.raises(ValueError, match="no"):
        function(x)
    (kept,) = arenas(function)
    assert kept._free == []
    again.function = torch.clone
    torch.testing.assert_close(function(x)[0], (-x * x) * (-x * x))
    assert len(kept._free) == 1


def test_release_in_the_middle_of_a_call(again: types.SimpleNamespace) -> None:
    function: Any = wir.compile(wir.parse(AGAIN), arena="kept")
    released: list[int] = []

    def release(x: Tensor) -> Tensor:
        released.append(function.release())
        gc.collect()
        return x.clone()

    again.function = release
    x = torch.randn(16, 33)
    torch.testing.assert_close(function(x)[0], (-x * x) * (-x * x))
    assert released == [0]
    (kept,) = arenas(function)
    assert kept._free == []  # what was in use went when the call ended


def test_threads() -> None:
    functions: list[Any] = [wir.compile(wir.parse(t), arena="kept") for t in (STATIC, DYNAMIC)]
    wrong: list[str] = []
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        start.wait()
        for n in range(60):
            x = made_input()
            right = [torch.equal(function(x)[0], expected(x)) for function in functions]
            if not all(right):
                wrong.append(f"{seed}/{n}")
            if seed == 0 and n % 20 == 0:
                wir.release_kept_memory()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for function in functions:
        assert len(arenas(function)[0]._free) <= 8


@pytest.mark.parametrize("text", [STATIC, DYNAMIC])
@pytest.mark.parametrize(
    "modes",
    [(torch.inference_mode, torch.enable_grad), (torch.enable_grad, torch.inference_mode)],
    ids=["inference first", "gradients first"],
)
def test_modes(text: str, modes: tuple[Callable[[], Any], ...]) -> None:
    function: Any = wir.compile(wir.parse(text), arena="kept")
    for mode in (*modes, *modes):
        with mode():
            x = made_input()
            (result,) = function(x)
            assert torch.equal(result, expected(x))
            result += 1  # the caller's own, in every mode


def test_results_are_never_in_an_arena() -> None:
    function: Any = wir.compile(wir.parse(STATIC), arena="kept")
    results = [function(made_input())[0] for _ in range(4)]
    before = [result.clone() for result in results]
    assert len({result.data_ptr() for result in results}) == 4
    poison(function)
    for result, was in zip(results, before, strict=True):
        assert torch.equal(result, was)


def test_options() -> None:
    assert "KeptArena" not in wir.emit(wir.parse(STATIC)).source
    with pytest.raises(OptionValueError, match="'call', 'kept'"):
        wir.emit(wir.parse(STATIC), arena="always")
    with pytest.raises(OptionError, match="emitter 'fx' has no option 'arena'"):
        wir.emit(wir.parse(STATIC), "fx", arena="kept")
    # A program that is planned already is taken as it is, with the pools that it has.
    assert "KeptArena(\n    128,\n" in wir.emit(program("pools"), arena="kept").source
    assert "KeptArena" not in wir.emit(program("planned"), arena="kept").source


def test_emitting_is_repeatable() -> None:
    sources = {wir.emit(wir.parse(DYNAMIC), arena="kept", out=True).source for _ in range(2)}
    assert len(sources) == 1
