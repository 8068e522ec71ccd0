"""``wir.jit``: whatever a call depends on is changed, and the call gives what eager gives."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import gc
import pickle
import threading
import warnings
import weakref
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.changes.models import Cube, Pair
from wrapper_ir.frontends.inductor import EagerCallWarning, JitError
from wrapper_ir.frontends.inductor.jitted.walking import reach

if TYPE_CHECKING:
    from collections.abc import Callable

FACTOR = 2.0
CONFIG = {"shift": 1.0}
LISTED = [1.0]
IN_DICT = IN_PARTIAL = IN_ENUM = 1.0


class Scale:
    """A plain object that a model reads."""

    by = 3.0

    def __init__(self) -> None:
        self.extra = 0.5

    def times(self, k: float) -> float:
        return k * IN_PARTIAL

    twice = functools.partialmethod(times, 2.0)


class Settings(dict[str, Any]):
    """A dict with an attribute and a method."""

    more = 1.0

    def deep(self) -> Any:
        return self["deep"]["b"][0] * IN_DICT + self.more


class Mode(enum.Enum):
    """An enumeration with a method."""

    ONE = 1

    def factor(self) -> float:
        return self.value * IN_ENUM


class Slotted:
    """An object without a dict."""

    __slots__ = ("__own", "empty", "value")

    def __init__(self) -> None:
        self.value = self.__own = 1.0

    def own(self) -> float:
        try:
            return self.__own + self.empty  # type: ignore[attr-defined]
        except AttributeError:
            return self.__own


class Inner(nn.Module):
    """A nested module with a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.slope = 1.0

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x)
        return made * self.slope


class Model(nn.Module):
    """Reads everything that a dispatcher has to look at."""

    bias = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.register_buffer("memory", torch.ones(4))
        self.plain = torch.full((4,), 2.0)
        self.steps = [1.0, 2.0]
        self.settings = Settings(a=1.0, deep={"b": [1.0]})
        self.mode = Mode.ONE
        self.scale = Scale()
        self.slotted = Slotted()
        self.chosen = {1}
        self.number = 1.0
        self.unread = 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x) * self.memory + self.plain * self.bias
        y = y * sum(self.steps) + self.settings["a"] + self.settings.deep()
        y = y * self.scale.by + self.scale.extra + self.slotted.value + len(self.chosen)
        y = y * self.slotted.own() + self.scale.twice() + self.mode.factor()
        y = self.turned(y) * FACTOR + CONFIG["shift"] + LISTED[0]
        return y * 2 if self.training else y

    def turned(self, y: Tensor, by: float = 1.0, *, more: float = 0.0) -> Tensor:
        return y * self.number * by + more


def _set(path: str, value: Any) -> Callable[[Any], None]:
    """Return what sets an attribute of the model."""
    *owners, name = path.split(".")

    def change(model: Any) -> None:
        for owner in owners:
            model = getattr(model, owner)
        setattr(model, name, value)

    return change


def _of(action: Callable[[Any], object]) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        with torch.no_grad():
            action(model)

    return change


#: Changes to what a model reads. Each is followed by calls that have to notice it.
CHANGES: dict[str, Callable[[Any], None]] = {
    "an attribute": _set("number", 2.0),
    "its type": _set("number", 2),
    "a nested attribute": _set("inner.slope", 0.5),
    "an object's attribute": _set("scale.extra", 1.5),
    "a class attribute hidden": _set("scale.by", 4.0),
    "an object": _set("scale", Scale()),
    "a slot": _set("slotted.value", 5.0),
    "a private slot": _set("slotted._Slotted__own", 5.0),
    "an empty slot": _set("slotted.empty", 5.0),
    "a dict's attribute": _set("settings.more", 5.0),
    "a list's item": _of(lambda m: m.steps.append(3.0)),
    "a list": _set("steps", [4.0]),
    "a dict's item": _of(lambda m: m.settings.update(a=3.0)),
    "a deep item": _of(lambda m: m.settings["deep"]["b"].__setitem__(0, 7.0)),
    "a set": _of(lambda m: m.chosen.add(2)),
    "the flag": _of(lambda m: m.eval()),
    "the flag again": _of(lambda m: m.train()),
    "a parameter's values": _of(lambda m: m.inner.linear.weight.mul_(2)),
    "its memory": _of(lambda m: setattr(m.inner.linear.weight, "data", torch.ones(4, 4).tril())),
    "its strides": _of(
        lambda m: setattr(m.inner.linear.weight, "data", torch.eye(4).t().cumsum(0).t())
    ),
    "a parameter": _set("inner.linear.weight", nn.Parameter(torch.eye(4))),
    "a buffer's values": _of(lambda m: m.memory.add_(1)),
    "a buffer": _set("memory", torch.full((4,), 3.0)),
    "a tensor's values": _of(lambda m: m.plain.add_(1)),
    "a tensor": _set("plain", torch.zeros(4)),
    "a module": _set("inner", Inner()),
    "a method": _of(lambda m: setattr(m, "turned", lambda y: y + 3)),
    "all dtypes": _of(lambda m: m.double()),
}


def same(wanted: Any, got: Any) -> None:
    """Compare results."""
    pairs = zip(pytree.tree_leaves(wanted), pytree.tree_leaves(got), strict=True)
    for a, b in pairs:
        if not isinstance(a, Tensor):
            assert a == b
            continue
        torch.testing.assert_close(b, a, check_stride=False, rtol=1e-4, atol=1e-4)
        assert a.requires_grad == b.requires_grad


@pytest.fixture(params=["python", "cpp"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


#: The same for what is the module's and the classes'.
ELSEWHERE: dict[str, Callable[[Any], None]] = {
    "a global": lambda _: globals().update(FACTOR=3.0),
    "a global's absence": lambda _: globals().update(sum=lambda values: max(values)),
    "a global dict": lambda _: CONFIG.update(shift=5.0),
    "a global list": lambda _: LISTED.append(1.0) or LISTED.__setitem__(0, 8.0),
    "a class attribute": lambda _: setattr(Scale, "by", 9.0),
    "the model's class": lambda _: setattr(Model, "bias", 9.0),
    "a method of the class": lambda _: setattr(Model, "turned", lambda _, y: y - 1),
    "a default": lambda _: setattr(Model.turned, "__defaults__", (2.0,)),
    "a keyword's default": lambda _: setattr(Model.turned, "__kwdefaults__", {"more": 2.0}),
    "a function's code": lambda _: setattr(Model.turned, "__code__", _halved.__code__),
    "a global of a dict's method": lambda _: globals().update(IN_DICT=3.0),
    "a global of a partial method": lambda _: globals().update(IN_PARTIAL=3.0),
    "a global of an enumeration's method": lambda _: globals().update(IN_ENUM=3.0),
}


def _halved(self: Model, y: Tensor, by: float = 1.0, *, more: float = 0.0) -> Tensor:
    return y / 2


def _undone(model: Model, classes: tuple[type, ...] = (Model, Scale)) -> Callable[[], None]:
    """Return what gives a model, and what else it reads, its present state again."""
    reached = reach(model)
    tensors = [(each, each.detach().clone()) for each in reached.tensors]
    attributes = [(each, dict(each.__dict__)) for each in classes]
    variables = dict(globals())

    def undo() -> None:
        reached.restore()
        for tensor, values in tensors:
            tensor.data = values
        for kind, items in attributes:
            for name in ("by", "bias", "turned"):
                if name in items and kind.__dict__[name] is not items[name]:
                    setattr(kind, name, items[name])
        for name in globals().keys() - variables.keys():
            del globals()[name]

    return undo


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("count", [1, 40])
def test_what_autograd_knows_of_a_models_tensors(count: int) -> None:
    """Each object is in turn without gradients, a leaf that has them, and a result."""
    weights = [torch.ones(3) for _ in range(count)]
    source = torch.ones(3, requires_grad=True)
    x = torch.randn(3)
    f = wir.jit(lambda x: sum(x * weight for weight in weights))
    kinds = (False, True), (True, True), (True, False), (False, True)
    for has_gradients, is_leaf in kinds:
        weight = weights[-1]
        weight.detach_().requires_grad_(False)
        if has_gradients and is_leaf:
            weight.requires_grad_()
        elif has_gradients:
            weight.mul_(source)
        assert (weight.requires_grad, weight.is_leaf) == (has_gradients, is_leaf)
        for _ in range(2):
            result = f(x)
            torch.testing.assert_close(result, x * count)
            assert result.requires_grad == has_gradients
            if has_gradients:
                (gradient,) = torch.autograd.grad(result.sum(), weight if is_leaf else source)
                torch.testing.assert_close(gradient, x)
                if not is_leaf:  # its graph has run
                    weight.detach_().fill_(1).mul_(source)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("is_argument", [True, False])
def test_views_learn_of_gradients_from_their_base(is_argument: bool) -> None:
    base, source = torch.ones(3), torch.ones(3, requires_grad=True)
    view = base.view(3)
    f = wir.jit((lambda x: x * 2) if is_argument else lambda x: x * view)
    given = view if is_argument else torch.randn(3)
    assert not f(given).requires_grad
    base.mul_(source)
    for _ in range(2):
        result = f(given)
        assert result.requires_grad
        torch.testing.assert_close(result, given * 2 if is_argument else given * view)
    torch.autograd.grad(result.sum(), source)


def test_each_thing_that_a_model_reads_may_change(target: str) -> None:
    model, x = Model(), torch.randn(3, 4)
    f = wir.jit(model, target=target, max_programs=1)
    undo = _undone(model)

    def check(what: str) -> None:
        given = x.to(model.memory.dtype)
        for _ in range(2):
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", EagerCallWarning)
                wanted, got = model(given), f(given)
            torch.testing.assert_close(got, wanted, msg=lambda text: f"{what}: {text}")

    check("nothing")
    (entry,) = f._table.entries
    for number, (what, change) in enumerate({**CHANGES, **ELSEWHERE}.items(), start=1):
        change(model)
        check(what)
        undo()
        check(f"{what}, undone")
        assert entry.calls >= 2 + 2 * number, what


def test_a_change_makes_a_program(target: str) -> None:
    model, x = Model(), torch.randn(3, 4)
    f = wir.jit(model, target=target, fallback=False)
    with torch.no_grad():
        for name in ("nothing", "an attribute", "the flag", "a buffer", "a list's item"):
            CHANGES.get(name, lambda _: None)(model)
            for _ in range(2):
                same(model(x), f(x))
        assert len(f.programs) == 5
        model.train()
        same(model(x), f(x))
        assert len(f.programs) == 6


def test_what_is_not_read_may_change_without_a_program() -> None:
    global UNREAD
    model = Model()
    f = wir.jit(model, max_programs=1, fallback=False)
    with torch.no_grad():
        for number in range(4):
            model.unread = UNREAD = number
            f(torch.ones(3, 4))
    assert len(f.programs) == 1


UNREAD = 0


@dataclasses.dataclass
class Batch:
    tokens: Tensor
    scale: float = 1.0


pytree.register_dataclass(Batch)


def structured(batch: Any, *rest: Any, k: Any = 1.0, more: Any = None) -> Any:
    """Return something of what it is given."""
    tokens = batch.tokens if isinstance(batch, Batch) else pytree.tree_leaves(batch)[0]
    total = tokens * float(k)
    for each in rest:
        total = total + (each if isinstance(each, Tensor) else 0)
    if len(rest) > 1 and rest[0] is rest[1]:
        total = total * 10
    text = str(type(k).__name__) + str(k) + (",".join(more) if isinstance(more, dict) else "")
    return {"total": total, "pair": Pair(tokens, total), "batch": Batch(total, 2.0), "text": text}


def test_each_thing_about_arguments_may_change() -> None:
    f = wir.jit(structured, max_programs=100, fallback=False)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x.double(),), {}),
        ((x.t(),), {}),
        ((x[0],), {}),
        ((torch.randn(5, 4),), {}),
        ((Batch(x),), {}),
        ((Batch(x, 2.0),), {}),
        ((Pair(x, y),), {}),
        (((x, y),), {}),
        (([x, y],), {}),
        (({"a": x, "b": y},), {}),
        (({"b": x, "a": y},), {}),
        ((x, x), {}),
        ((x, y, y), {}),
        ((x, y, y.clone()), {}),
        ((x,), {"k": 2.0}),
        ((x,), {"k": 2}),
        ((x,), {"k": True}),
        ((x,), {"k": 0.0}),
        ((x,), {"k": -0.0}),
        ((x,), {"more": {"a": 1, "b": 2}}),
        ((x,), {"more": {"b": 1, "a": 2}}),
        ((x,), {"k": 2.0, "more": None}),
        ((x,), {"more": None, "k": 2.0}),
    ]
    for args, kwargs in [*calls, *calls]:
        got, wanted = f(*args, **kwargs), structured(*args, **kwargs)
        same(wanted, got)
        assert type(got["batch"]) is Batch
        assert type(got["pair"]) is Pair
    assert sum(each.entry.calls for each in f._kept) == 2 * len(calls)


def test_equal_devices_are_the_same() -> None:
    f = wir.jit(lambda x, device: x.to(device) * 2, max_programs=1, fallback=False)
    for _ in range(2):
        f(torch.ones(3), torch.device("cpu"))
    with pytest.raises(JitError, match="max_programs"):
        f(torch.ones(3), torch.device("cpu", 0))


def test_modes_are_told_apart(target: str) -> None:
    linear = nn.Linear(4, 4)

    def function(x: Tensor) -> Any:
        made = torch.ones(2)  # of the default type
        return linear(x), made, torch.is_grad_enabled()

    f = wir.jit(function, target=target, max_programs=20)
    x = torch.randn(3, 4)
    for context in (
        torch.no_grad,
        torch.enable_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
    ):
        for _ in range(2):
            with context():
                got, wanted = f(x), function(x)
            assert got[0].is_inference() == wanted[0].is_inference()
            same(wanted, got)
    before = torch.get_default_dtype()
    with torch.no_grad():
        torch.set_default_dtype(torch.float64)
        try:
            assert f(x)[1].dtype == torch.float64
        finally:
            torch.set_default_dtype(before)
        assert f(x)[1].dtype == before
    assert "op by op" not in f.explain()


def test_gradients_are_eagers(target: str) -> None:
    torch.manual_seed(0)
    weight = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()).double()
    other = copy.deepcopy(model)

    def function(module: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            kept = module(x)
        return Cube.apply(module(x) @ weight) + kept.detach()

    f = wir.jit(lambda x: function(model, x), target=target, fallback=False)
    for number in range(3):
        x = torch.randn(3, 4, dtype=torch.float64, requires_grad=number > 0)
        y = x.detach().clone().requires_grad_(number > 0)
        weight.grad = None
        f(x).sum().backward()
        found, weight.grad = weight.grad, None
        function(other, y).sum().backward()
        same([weight.grad, y.grad], [found, x.grad])
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        same(theirs.grad, mine.grad)
    same(list(other.buffers()), list(model.buffers()))
    assert "forward and backward" in f.explain()


def test_without_training_nothing_is_recorded(target: str) -> None:
    linear = nn.Linear(4, 4)
    f = wir.jit(linear, target=target, training=False, fallback=False)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(2):
        result = f(x)
        assert not result.requires_grad
    torch.testing.assert_close(result, linear(x).detach())
    assert torch.is_grad_enabled()


class Counting(nn.Module):
    """Writes to its buffers and to an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.count += 1
        self.last.copy_(x.sum(0))
        y.mul_(x.sum())
        return y * self.count + x


def test_buffers_and_arguments_are_written(target: str) -> None:
    mine, theirs = Counting(), Counting()
    f = wir.jit(mine, target=target)
    version = mine.count._version
    for _ in range(3):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        other = y.clone()
        same(theirs(x, other), f(x, y))
        same([other, theirs.count, theirs.last], [y, mine.count, mine.last])
    assert mine.count._version > version  # for whoever saved it
    assert len(f.programs) == 1
    # Arguments that share memory with one another, or with what is written.
    base, like = torch.randn(4, 4), torch.zeros(0)
    like = base.clone()
    with pytest.warns(EagerCallWarning, match="refuses it"):
        same(theirs(base[1:], base[:-1]), f(like[1:], like[:-1]))
    same(base, like)
    with pytest.warns(EagerCallWarning, match="shares memory"):
        same(theirs(theirs.last[None], torch.ones(1, 4)), f(mine.last[None], torch.ones(1, 4)))
    same(theirs.last, mine.last)


def test_no_effect_of_tracing_is_left() -> None:
    counter, outside = [0], torch.zeros(())

    class Logging(nn.Module):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            self.seen += 1
            counter[0] += 1
            return x * self.seen

    def writes(x: Tensor) -> Tensor:
        outside.add_(1)
        return x * outside

    def counting() -> Callable[[Tensor], Tensor]:
        count = 0

        def function(x: Tensor) -> Tensor:
            nonlocal count
            count += 1
            return x * count

        return function

    slotted: Any = Slotted()

    def slots(x: Tensor) -> Tensor:
        slotted.value += 1
        slotted.empty = x * slotted.value
        made: Tensor = slotted.empty - 1
        return made

    model = Logging()
    f, g = wir.jit(model), wir.jit(writes)
    x = torch.ones(3)
    for each in (wir.jit(counting()), wir.jit(slots)):
        with pytest.warns(EagerCallWarning, match="changes what it reads"):
            assert each(x).eq(1).all()
        assert each(x).eq(2).all()
    assert slotted.empty.eq(3).all()
    with pytest.warns(EagerCallWarning, match="changes what it reads"):
        assert f(x).eq(1).all()
    assert f(x).eq(2).all()
    assert (model.seen, counter) == (2, [2])
    with pytest.warns(EagerCallWarning, match="writes to a tensor"):
        assert g(x).eq(1).all()
    assert g(x).eq(2).all()


NUMBER = torch.tensor(2.0)


def _with_item(x: Tensor) -> Tensor:
    return x * NUMBER.item()


def _with_hook(x: Tensor) -> Tensor:
    made = x * 2
    if made.requires_grad:
        made.register_hook(lambda gradient: gradient * 7)
    return made


def _with_version(x: Tensor) -> Tensor:
    return x * x._version


def _with_values(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def _with_number(x: Tensor) -> Tensor:
    return x * (x.output_nr + 2)


def _with_kept_gradients(x: Tensor) -> Tensor:
    return x * 2 if x.retains_grad else x


def _in_inference_mode(x: Tensor) -> Tensor:
    return x * 2 if torch.is_inference_mode_enabled() else x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_with_number, "uses Tensor.output_nr"),
        (_with_kept_gradients, "uses Tensor.retains_grad"),
        (_in_inference_mode, r"uses is_inference_mode_enabled\(\)"),
        (_with_item, "computes with item"),
        (_with_hook, "uses Tensor.register_hook"),
        (_with_version, "uses Tensor._version"),
        (_with_values, "data-dependent"),
    ],
)
def test_what_is_not_sound_runs_op_by_op(function: Any, words: str) -> None:
    f, strict = wir.jit(function), wir.jit(function, fallback=False)
    x = torch.ones(3, requires_grad=function is _with_hook)
    with pytest.warns(EagerCallWarning, match=words):
        same(function(x), f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        same(function(x), f(x))
    with pytest.raises(JitError, match=words):
        strict(x)
    assert not f.programs


class Marked(Tensor):
    """A subclass."""


def test_sizes_stay_sizes() -> None:
    def resized(x: Tensor, size: torch.Size) -> tuple[torch.Size, dict[str, Any], Tensor]:
        return x.shape, {"of": size, "twice": (x + 1).size()}, x[0] + size.numel()

    run: Any = wir.jit(resized, fallback=False)
    for rows, size in ((3, (2, 3)), (3, (2, 3)), (3, (2, 4)), (5, (2, 4)), (6, (2, 4))):
        x, given = torch.ones(rows, 2), torch.Size(size)
        wanted, found = resized(x, given), run(x, given)
        assert found[:2] == wanted[:2]
        assert torch.equal(found[2], wanted[2])
        sizes = (found[0], *found[1].values())
        assert [type(each) for each in sizes] == [torch.Size] * 3


def test_containers_among_arguments_change() -> None:
    def appended(x: Tensor, listed: list[Any], named: dict[str, Any]) -> Tensor:
        listed.append(x * 2)
        named["x"] = x
        return x + 1

    run = wir.jit(appended)
    for _ in range(2):
        x, listed, named = torch.ones(3), list[Any](), dict[str, Any]()
        if not run.programs and not run._kept:
            with pytest.warns(EagerCallWarning, match="a list, dict or other container among"):
                run(x, listed, named)
        else:
            run(x, listed, named)
        assert named["x"] is x
        assert torch.equal(listed[0], x * 2)


def test_odd_arguments_run_op_by_op() -> None:
    f = wir.jit(lambda x: x * 2)
    for odd, words in (
        (torch.ones(3).as_subclass(Marked), "Marked"),
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.complex(torch.ones(3), torch.ones(3)).conj(), "lazily"),
    ):
        with pytest.warns(EagerCallWarning, match=words):
            assert type(f(odd)) is type(odd)
    assert not f.programs


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_where_others_look_on_the_model_runs() -> None:
    linear = nn.Linear(4, 4)
    f, x = wir.jit(linear, training=False), torch.randn(3, 4)
    f(x)
    torch.testing.assert_close(torch.func.vmap(f)(x), linear(x))
    recording = wir.jit(linear)
    found = torch.func.grad(lambda x: recording(x).sum())(x)
    torch.testing.assert_close(found, torch.func.grad(lambda x: linear(x).sum())(x))
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own
        assert forward_ad.unpack_dual(f(forward_ad.make_dual(x, x))).tangent is not None
    graph = make_fx(f)(x)
    assert any("mm" in str(node.target) for node in graph.graph.nodes)
    torch.testing.assert_close(torch.compile(f, backend="eager", fullgraph=True)(x), linear(x))
    exported = torch.export.export(nn.Sequential(linear), (x,))
    torch.testing.assert_close(exported.module()(x), linear(x))
    assert f.explain().startswith("1 calls")


def test_hooks_run() -> None:
    linear, heard = nn.Linear(4, 4), []
    f, x = wir.jit(linear, training=False), torch.randn(3, 4)
    f(x)
    handle = linear.register_forward_hook(lambda *_: heard.append(1))
    with pytest.warns(EagerCallWarning, match="hooks"):
        f(x)
    assert heard == [1]
    handle.remove()
    f(x)
    assert heard == [1]
    assert f.explain().startswith("2 calls, a program")


def test_a_second_size_makes_a_dimension_dynamic(target: str) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        return (x + y).sum(-1), x.shape[0]

    f = wir.jit(function, target=target, fallback=False)
    for rows in (3, 5, 7, 2, 1, 0, 3):
        x = torch.randn(rows, 4)
        same(function(x, x.clone()), f(x, x.clone()))
        broadcast = torch.randn(1, 4)
        same(function(x, broadcast), f(x, broadcast))
    assert len(f.programs) < 7
    fixed = wir.jit(function, target=target, dynamic=False)
    free = wir.jit(function, target=target, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        for each in (fixed, free):
            same(function(x, x), each(x, x))
    assert (len(fixed.programs), len(free.programs)) == (2, 1)


def test_a_program_refuses_sizes_by_itself(target: str) -> None:
    def function(x: Tensor) -> Tensor:
        return x.view(-1, 2).sum(0) if x.shape[0] % 2 == 0 else x * 3

    f = wir.jit(function, target=target, dynamic=True, fallback=False)
    for size in (4, 6, 5, 8, 7, 4):
        x = torch.randn(size)
        same(function(x), f(x))
    assert len(f.programs) >= 2


def test_the_number_of_programs_is_bounded() -> None:
    f = wir.jit(lambda x, k: x * k, max_programs=2)
    x = torch.ones(3)
    for number in (1.0, 2.0):
        f(x, number)
    with pytest.warns(EagerCallWarning, match="2 programs already"):
        assert f(x, 3.0).eq(3).all()
    assert len(f.programs) == 2
    f.clear()
    assert f.explain() == "nothing is kept: no call so far"
    assert f(x, 3.0).eq(3).all()
    assert len(f.programs) == 1


def test_errors_are_the_models() -> None:
    class WrongError(Exception):
        pass

    def function(x: Tensor) -> Tensor:
        if x.shape[0] == 3:
            raise WrongError
        return x

    f = wir.jit(function)
    f(torch.ones(2))
    with pytest.warns(EagerCallWarning), pytest.raises(WrongError):
        f(torch.ones(3))
    with pytest.raises(WrongError):
        f(torch.ones(3))


def test_threads_call_and_capture(target: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    reference = copy.deepcopy(model)
    f, problems = wir.jit(model, target=target, training=False, fallback=False), []

    def work(number: int) -> None:
        try:
            for step in range(10):
                x = torch.randn(2 + (number + step) % 4, 4)
                torch.testing.assert_close(f(x), reference(x).detach())
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []
    assert len(f.programs) <= 3


def test_it_stands_for_the_model() -> None:
    model: Any = nn.Linear(4, 4)
    f: Any = wir.jit(model, training=False)
    assert f.weight is model.weight
    assert f.eval() is f
    assert not model.training
    f.note = 3
    assert model.note == 3
    del f.note
    assert not hasattr(model, "note")
    assert set(f.state_dict()) == {"weight", "bias"}
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert type(other) is type(f)
        torch.testing.assert_close(other(torch.ones(2, 4)), f(torch.ones(2, 4)))
    assert "Linear" in repr(f)

    @wir.jit(max_programs=2)
    def function(x: Tensor) -> Tensor:
        """Double."""
        return x * 2

    assert (function.__name__, function.__doc__) == ("function", "Double.")
    assert function(torch.ones(2)).eq(2).all()


def test_what_it_holds_is_collected() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model.__dict__["fast"] = wir.jit(model, training=False)
    x = torch.ones(2, 4)
    model.fast(x)
    dead = weakref.ref(model), weakref.ref(x)
    del model, x
    gc.collect()
    assert [each() for each in dead] == [None, None]


def test_options_are_checked_at_once() -> None:
    with pytest.raises(wir.OptionError, match="no option 'arean'"):
        wir.jit(nn.ReLU(), arean="kept")
    with pytest.raises(wir.WrapperIRError, match="max_programs"):
        wir.jit(nn.ReLU(), max_programs=0)
    with pytest.raises(wir.WrapperIRError, match="emitter"):
        wir.jit(nn.ReLU(), target="nothing")


class Distributed(nn.Module):
    """Reads a tensor of an object of torch, whose attributes are tensors and caches."""

    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        self.normal = torch.distributions.Normal(mean, torch.ones(3), validate_args=False)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.normal.loc) / self.normal.scale


def test_tensors_of_torchs_objects_are_found() -> None:
    mean = torch.zeros(3, requires_grad=True)
    model = Distributed(mean)
    f, x = wir.jit(model, fallback=False), torch.randn(3)
    f(x).sum().backward()
    assert mean.grad is not None
    with torch.no_grad():
        same(model(x), f(x))
        model.normal.loc = torch.ones(3)
        same(model(x), f(x))


def test_a_tensor_that_is_not_found_is_refused() -> None:
    hidden = deque([torch.ones(3, requires_grad=True)])
    f, x = wir.jit(lambda x: x * hidden[0]), torch.randn(3)
    with pytest.warns(EagerCallWarning, match="uses a tensor that is in no module"):
        f(x).sum().backward()
    assert hidden[0].grad is not None
    with torch.no_grad():
        f(x)
        hidden[0] = torch.zeros(3)
        assert f(x).eq(0).all()


class Making(OrderedDict):
    """A dict that makes what it is asked for, as registries do."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()

    def __setitem__(self, key: str, value: Any) -> None:
        raise NotImplementedError


REGISTRY = Making()
OrderedDict.__setitem__(REGISTRY, "act", nn.ReLU)


def test_dicts_that_compute_are_left_alone() -> None:
    f, x = wir.jit(lambda x: REGISTRY["act"]()(x)), torch.randn(3)
    g = wir.jit(lambda x: REGISTRY["act"](x), fallback=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerCallWarning)
        with pytest.raises(TypeError):
            f(x)
    for _ in range(2):
        same(x.relu(), g(x))
    assert dict.__getitem__(REGISTRY, "act") is nn.ReLU


def test_a_graph_may_be_kept() -> None:
    linear, x = nn.Linear(6, 6), torch.randn(4, 6)

    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            kept = linear(x)
        made: Tensor = kept * linear(x)
        return made

    f = wir.jit(function, fallback=False)
    result = f(x).sum()
    for _ in range(2):
        result.backward(retain_graph=True)
    (found,) = torch.autograd.grad(function(x).sum(), [linear.weight])
    same(2 * found, linear.weight.grad)
    (once,) = torch.autograd.grad(f(x).sum(), [linear.weight], create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        once.sum().backward()


def test_a_first_call_that_shares_memory_spoils_no_other(target: str) -> None:
    mine, theirs = Counting(), Counting()
    f = wir.jit(mine, target=target)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EagerCallWarning)
            same(theirs(theirs.last[None], torch.ones(1, 4)), f(mine.last[None], torch.ones(1, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(1, 4)
        same(theirs(x, torch.ones(1, 4)), f(x, torch.ones(1, 4)))
    assert len(f.programs) == 1
