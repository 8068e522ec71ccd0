"""Calls that skip torch's layers between Dynamo and the emitted function: when, and what holds."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.support import ours
from tests.release import TORCH
from wrapper_ir.aot import load
from wrapper_ir.frontends.inductor import compat, straight

if TYPE_CHECKING:
    from collections.abc import Callable

EMITTERS = ["python", "cpp", "fx"]


@pytest.fixture(params=["C++", "Python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Call graphs from C++, and from Python, as where the module is not compiled yet."""
    if request.param == "Python":
        monkeypatch.setattr(straight, "module_if_made", lambda: None)
    else:
        load.extension_module()
    return str(request.param)


pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.skipif(
        TORCH < (2, 13), reason="older releases put one more function around each graph"
    ),
]


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_second_call_is_straight(emitter: str, dynamic: bool, through_torch: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    compiled = ours(model, emitter, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        for rows in (3, 3, 5, 5, 3):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), model(x))
    assert len(through_torch) == (1 if dynamic else 2)  # a first call of each graph


@pytest.mark.parametrize("emitter", EMITTERS)
def test_warm_caches(emitter: str, through_torch: list[Any]) -> None:
    """What a cache gives back is called straight, too."""
    x = torch.randn(4)
    for _ in range(2):
        torch._dynamo.reset()
        through_torch.clear()
        compiled = ours(lambda x: x.sin() + 1, emitter)
        for _ in range(3):
            assert torch.equal(compiled(x), torch.compile(lambda x: x.sin() + 1)(x))
        mine = [graph for graph in through_torch if "wrapper_ir" in graph.source_code]
        assert len(mine) == 1


# Where any op will do, it is one of PyTorch's library: nothing has to be compiled for it.
def in_place(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return x + y


def view_of_argument(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.t(), x @ y


def argument_itself(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return y, x + y


def views_of_one(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    made = x @ y
    return made[0], made[1:]


def other_shape(x: Tensor, y: Tensor) -> Tensor:
    x.t_()
    return x @ y


def no_gradients(x: Tensor, y: Tensor) -> Tensor:
    torch._C._set_grad_enabled(False)
    return x @ y


def random_numbers(x: Tensor, y: Tensor) -> Tensor:
    return functional.dropout(x, 0.5) + y


def given_twice(x: Tensor, y: Tensor) -> Tensor:
    return torch.add(x, x) + y


def resized(x: Tensor, y: Tensor) -> Tensor:
    x.resize_(2, 2)
    return y + 1


def detached(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.detach(), (x @ y).detach()


def data_set(x: Tensor, y: Tensor) -> Tensor:
    x.set_(y.clone())
    return x + 1


FUNCTIONS = (
    in_place,
    view_of_argument,
    argument_itself,
    views_of_one,
    other_shape,
    no_gradients,
    random_numbers,
    given_twice,
    resized,
    detached,
    data_set,
)


def seen(function: Callable[..., Any], *args: Tensor) -> Any:
    """Return all that a caller can see of a call: results, what they share, what was written."""
    torch.manual_seed(0)
    before = torch.is_grad_enabled()
    found = function(*args)
    mode = torch.is_grad_enabled()
    torch._C._set_grad_enabled(before)
    results = found if isinstance(found, tuple) else (found,)
    storages = [each.untyped_storage().data_ptr() for each in (*args, *results)]
    return {
        "values": [each.tolist() for each in (*results, *args)],
        "layouts": [(each.shape, each.stride(), each.storage_offset()) for each in results],
        "same": [[a is b for b in args] for a in results],
        "shared": [[a == b for b in storages] for a in storages],
        "gradients": [(each.requires_grad, each.is_leaf) for each in results],
        "views": [each._is_view() for each in results],
        "versions": [each._version for each in args],
        "mode": mode,
    }


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_a_caller_sees_is_what_stock_shows(function: Callable[..., Any], grad: bool) -> None:
    """Four calls each, with sizes that change in between and become dynamic."""
    torch.set_grad_enabled(grad)
    try:
        stock, mine = torch.compile(function), ours(function)
        for size in (2, 2, 3, 3, 2):
            args = torch.randn(size, size), torch.randn(size, size)
            copies = tuple(each.clone() for each in args)
            wanted = seen(stock, *args)
            assert seen(mine, *copies) == wanted
    finally:
        torch.set_grad_enabled(True)


@pytest.mark.skipif(compat.RuntimeEpilogue is None, reason="its epilogue cannot be called")
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_gradients_all_of_them_are_called_straight(
    function: Callable[..., Any], through_torch: list[Any]
) -> None:
    """Also those that change arguments afterwards, and those whose results are views."""
    compiled = ours(function, dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.randn(2, 2), torch.randn(2, 2))
            torch._C._set_grad_enabled(False)
    assert len({*map(id, through_torch)}) == len(through_torch)  # each graph once, at first


def rows_of(made: Tensor) -> tuple[Tensor, Tensor]:
    return made[:2], made[1:3]


def twice(made: Tensor) -> tuple[Tensor, Tensor]:
    return made, made


@pytest.mark.parametrize("function", [in_place, argument_itself, given_twice])
@pytest.mark.parametrize("share", [rows_of, twice])
def test_arguments_that_share_memory(
    function: Callable[..., Any], share: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> None:
    """One tensor passed twice, and views that overlap: AOTAutograd wraps such graphs once more."""
    stock, mine = torch.compile(function), ours(function)
    for _ in range(3):
        made = torch.randn(4, 3)
        wanted = seen(stock, *share(made.clone()))
        assert seen(mine, *share(made)) == wanted


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.filterwarnings("ignore:a call of a compiled function runs op by op")
def test_arguments_that_overlap_in_turns(dynamic: bool, grad: bool) -> None:
    """As in the call before, in another way, not at all, and as before again."""

    def writes(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        x.add_(1)
        return y * w

    compiled = ours(writes, dynamic=dynamic)
    w = torch.randn((), requires_grad=grad)
    rows: tuple[tuple[int, int, int], ...] = ((5, 0, 3), (5, 0, 3), (5, 0, 4), (5, 0, 6))
    rows += ((5, 0, 3), (5, 3, 0), (5, 0, 3), (6, 0, 3), (6, 0, 3), (6, 0, 7), (5, 0, 3))
    for length, first, second in (*rows, *rows):
        base = torch.randint(9, (16,)).float()  # sums are exact in any order
        wanted, at = base.clone(), (slice(first, first + length), slice(second, second + length))
        expected = writes(wanted[at[0]], wanted[at[1]], w)
        x = base[at[0]]
        found = compiled(x, base[at[1]], w)
        assert torch.equal(found, expected)
        assert torch.equal(base, wanted)
        assert x._version == base._version == wanted._version
        if grad:
            (mine,), (theirs,) = (torch.autograd.grad(each.sum(), w) for each in (found, expected))
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_of_an_optimizer(kind: type[torch.optim.Optimizer]) -> None:
    """AOTAutograd puts its parameters before the arguments of the call."""

    def updated(compiles: Callable[..., Any]) -> Tensor:
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(4, 4))
        optimizer = kind([weight], lr=0.1)  # type: ignore[call-arg]  # each kind takes one
        step = compiles(optimizer.step)
        for _ in range(3):
            weight.grad = torch.ones_like(weight)
            step()
        return weight.detach()

    assert torch.equal(updated(ours), updated(torch.compile))


@pytest.mark.usefixtures("way")
def test_modes_of_the_caller_are_kept() -> None:
    """Gradients stay on round a straight call, after an error in it, too; inference mode works."""
    compiled = ours(lambda x: x.sin() + 1)
    x = torch.randn(4)
    for _ in range(3):
        found = compiled(x)
        assert torch.is_grad_enabled()
        assert not found.requires_grad
    with torch.inference_mode():
        for _ in range(3):
            assert compiled(torch.randn(4)).is_inference()
    checked = ours(lambda x: torch.ops.aten.index.Tensor(x, [x.long()]), fullgraph=True)
    for _ in range(2):
        checked(torch.zeros(4))
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            checked(torch.full((4,), 9.0))
        assert torch.is_grad_enabled()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("grad", [False, True])
def test_autocast_is_off_inside_and_on_outside(
    grad: bool, emitter: str, through_torch: list[Any]
) -> None:
    layer = nn.Linear(8, 8).requires_grad_(requires_grad=False)
    compiled = ours(layer, emitter)
    x = torch.randn(2, 8)
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        wanted = torch.compile(layer)(x)
        through_torch.clear()
        for _ in range(3):
            found = compiled(x)
            assert found.dtype is torch.bfloat16
            assert torch.equal(found, wanted)
            assert torch.is_autocast_enabled("cpu")
    assert len(through_torch) == 1


def test_a_profiler_sees_what_it_sees_of_stock() -> None:
    x = torch.randn(4)
    compiled = ours(lambda x: x.sin() + 1)
    compiled(x)
    compiled(x)
    with torch.profiler.profile() as profile:
        compiled(x)
    names = [event.name for event in profile.events()]
    assert any("Call CompiledFxGraph" in name for name in names)
    assert any("AOTDispatcher Runtime Wrapper Prologue" in name for name in names)


def test_hooks_and_graph_breaks() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    seen_by_hook: list[Tensor] = []
    model[0].register_forward_hook(lambda _, __, result: seen_by_hook.append(result))

    def function(x: Tensor) -> Tensor:
        made = model(x)
        torch._dynamo.graph_break()
        return made * 2

    compiled = ours(function)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(2, 4)
            torch.testing.assert_close(compiled(x), function(x))
    assert len(seen_by_hook) == 6


@pytest.mark.parametrize("transform", [torch.func.vmap, torch.func.jvp, torch.func.grad])
def test_transforms_round_a_compiled_function(transform: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return (x * x).sum()

    def apply(function: Callable[..., Any]) -> Any:
        x = torch.arange(6.0).reshape(2, 3)
        if transform is torch.func.jvp:
            return transform(function, (x,), (torch.ones_like(x),))
        return transform(function)(x)

    compiled = ours(function)
    compiled(torch.randn(2, 3))
    compiled(torch.randn(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, at the first jvp
        found, wanted = apply(compiled), apply(function)
    torch.testing.assert_close(found, wanted)


@pytest.mark.usefixtures("way")
def test_many_threads(through_torch: list[Any]) -> None:
    compiled = ours(lambda x: x.sin() + 1)
    compiled(torch.randn(4))
    wrong: list[object] = []

    def work(seed: int) -> None:
        x = torch.full((4,), float(seed))
        torch.set_grad_enabled(bool(seed % 2))
        for _ in range(200):
            if not torch.allclose(compiled(x), x.sin() + 1):
                wrong.append(seed)
            if torch.is_grad_enabled() != bool(seed % 2):
                wrong.append("mode")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(through_torch) <= 1 + 4 * 2  # each thread's grad mode may compile once more


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("emitter", EMITTERS)
def test_results_and_arguments_are_not_kept_alive(emitter: str) -> None:
    compiled = ours(lambda x: x.sin() + 1, emitter)
    for _ in range(3):
        x = torch.randn(4)
        found = compiled(x)
        alive = [weakref.ref(x), weakref.ref(found)]
        del x, found
        gc.collect()
        assert [each() for each in alive] == [None, None]


def test_calls_of_c_plus_plus_go_when_dynamo_forgets_them() -> None:
    straight_type = load.extension_module().Straight

    def alive() -> list[Any]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is straight_type]

    before = {id(each) for each in alive()}
    compiled = ours(lambda x: x.sin() + 1, "cpp")
    for _ in range(3):
        compiled(torch.randn(4))
    (made,) = (each for each in alive() if id(each) not in before)
    assert made.is_ready
    assert made.__name__ == "forward"  # as of what torch made
    assert "x.sin" not in repr(made)
    del made, compiled
    torch._dynamo.reset()
    assert {id(each) for each in alive()} <= before


def test_a_call_of_c_plus_plus_says_what_is_wrong() -> None:
    made: Any = load.extension_module().Straight
    with pytest.raises(TypeError, match="argument"):
        made()
    options = {"apply": None, "finish": None, "switches": (), "watchers": {}, "written": (0,)}
    options |= {"detached": (), "parts": None}
    entry = made(unusual=lambda *args: args, graph={}, has_autocast=False, **options)
    assert entry(1, 2) == (1, 2)  # it is not ready
    entry.is_ready = True
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="has no function"):
        entry(x)
    assert x._version == 1
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="inference tensor"):
        entry(y)
    graph = {"current_callable": lambda values: (values, torch.is_grad_enabled())}
    entry = made(unusual=None, graph=graph, has_autocast=False, **{**options, "written": ()})
    entry.is_ready = True
    assert entry(1, 2) == ([1, 2], False)
