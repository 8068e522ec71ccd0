"""What depends on constants alone is computed when a library is loaded, and after updates."""

from __future__ import annotations

import copy
import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.export.support import run
from tests.native.calls import Native, NativeError
from wrapper_ir.frontends.inductor import install
from wrapper_ir.lines.program import ConstantKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTION = {"aot_inductor.use_runtime_constant_folding": True}
X = torch.linspace(-1, 1, 8).reshape(2, 4)

FOLD = "AOTInductorModelContainerRunConstantFolding"
UPDATE = "UpdateConstantBufferPairs"
USER_MANAGED = "UpdateUserManagedConstantBufferPairs"


class Folded(nn.Module):
    """Multiplies by a product of two parameters and a buffer, then by one that nothing folds."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 4))
        self.b = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("c", torch.randn(4))
        self.last = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x @ (self.a @ self.b + self.c).relu().t())


@cache
def model() -> Folded:
    torch.manual_seed(0)
    return Folded().eval()


def capture(module: nn.Module, *args: Tensor, **options: Any) -> wir.Program:
    with torch._inductor.config.patch(OPTION):
        return wir.capture(module, args, **options)


@cache
def program() -> wir.Program:
    return capture(model(), X)


def weights(seed: int, *names: str) -> dict[str, Tensor]:
    """New values for some of the model's tensors, or for all."""
    made = torch.Generator().manual_seed(seed)
    state = model().state_dict()
    return {n: torch.randn(state[n].shape, generator=made) for n in names or state}


def expected(state: dict[str, Tensor] | None = None, x: Tensor = X) -> Tensor:
    result: Tensor = torch.func.functional_call(model(), state or {}, (x,))
    return result.detach()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(program(), tmp_path_factory.mktemp("folding") / "model.so")


def result(native: Native) -> Tensor:
    return native.run([X], results=1)[0]


# Programs.


def test_what_depends_on_constants_alone_is_a_program_of_its_own() -> None:
    found = program()
    assert found.folding is not None
    assert wir.verify(found) is found
    kinds = {c.qualified_name: c.kind for c in found.constants.values()}
    assert kinds.pop("_FOLDED_CONST_relu") is ConstantKind.FOLDED
    assert kinds.keys() == model().state_dict().keys()
    assert {found.constants[n].qualified_name for n in found.folding_sources.values()} == set("abc")
    assert not {*found.folded} & found.data.keys()
    assert wir.parse(str(found)) == found
    planned = wir.plan_memory(found)
    assert wir.parse(str(wir.verify(planned))) == planned
    assert found.canonical() == wir.parse(str(found.canonical())).canonical()
    assert "folding" in str(wir.diff(found, wir.capture(model(), (X,))))


@pytest.mark.parametrize("emitter", ["python", "fx", "cpp", None])
def test_every_way_to_run_it_gives_the_same(emitter: str | None, tmp_path: Path) -> None:
    def call(program: wir.Program) -> Callable[..., Any]:
        if emitter is None:
            return lambda *args: wir.interpret(program, *args)
        return wir.compile(program, emitter)

    torch.testing.assert_close(call(program())(X)[0], expected())
    program().save(tmp_path / "p.wir")
    loaded = wir.load(tmp_path / "p.wir")
    assert loaded == program()
    torch.testing.assert_close(call(loaded)(X)[0], expected())
    new = weights(1)
    constants = program().constants.items()
    data = {name: new[c.qualified_name] for name, c in constants if c.qualified_name in new}
    torch.testing.assert_close(call(program().replace(data=data))(X)[0], expected(new))
    lacking = program().replace(data={})
    with pytest.raises(wir.WrapperIRError, match="values"):
        call(lacking)(X)


class Tied(nn.Module):
    """Ties two parameters, and folds what both are."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x.long().abs()[:, 0]) @ (self.head.weight.exp() * 2).t()


class Several(nn.Module):
    """Folds to several tensors, some of them views, and to no floats."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(6, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        one, two = torch.chunk(self.w.exp(), 2)
        best = torch.topk(self.w.sum(1), 3)
        return x @ one.t() + x @ two.t(), best.values, best.indices + x.shape[0]


class Counting(nn.Module):
    """Changes a buffer in each call, so nothing that reads it is folded; returns what is."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        before = (self.n * 2).exp()
        self.n.add_(1)
        return x * before, x * (self.n * 2).exp(), self.w @ self.w


class Choosing(nn.Module):
    """Folds what a branch takes, and nothing random."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        noise = (self.w + torch.rand_like(self.w) > 9).float()
        made = (x, self.w @ self.w + noise)
        return torch.cond(x.sum() > 1, lambda a, w: a @ w, lambda a, w: a - w[0], made)


class Empty(nn.Module):
    """Folds tensors without elements, and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 0))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.w @ self.w.t()).sum(0) + (self.w * 2).sum()


@pytest.mark.parametrize("kind", [Tied, Several, Counting, Choosing, Empty])
def test_other_models(kind: type[nn.Module], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = kind().eval().requires_grad_(requires_grad=False)
    captured = capture(
        copy.deepcopy(module), X, dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}
    )
    assert captured.folded
    rows = torch.cat((X, X, X + 1))
    for call in (
        wir.compile(captured),
        torch._inductor.aoti_load_package(str(wir.export(captured, tmp_path / "m.pt2"))),
    ):
        reference = copy.deepcopy(module)
        for x in (X, rows):  # a second call finds what the first one changed
            wanted = torch.utils._pytree.tree_leaves(reference(x))
            found = torch.utils._pytree.tree_leaves(call(x))
            torch.testing.assert_close([*found], [each.detach() for each in wanted])
        for name, value in captured.data.items():
            if captured.constants[name].mutable:
                value.zero_()


def test_views_and_models_that_need_none_are_left_alone() -> None:
    for module in (nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4).bfloat16()):
        captured = capture(module, X.to(next(module.parameters(), X).dtype))
        assert captured.folding is None
        assert not captured.folded


# Libraries.


def test_updates_are_folded(library: Path) -> None:
    native = Native(library, runners=2)
    torch.testing.assert_close(result(native), expected())
    state = weights(1)
    native.update(UPDATE, state, False, True)
    torch.testing.assert_close(result(native), expected(state))
    for names in (("a",), ("c", "b"), ("last.bias",)):
        part = weights(2, *names)
        state |= part
        native.update(UPDATE, part, False, False)
        torch.testing.assert_close(result(native), expected(state))


def test_inactive_constants_are_folded_before_they_are_swapped_in(library: Path) -> None:
    native = Native(library)
    first, second = weights(1), weights(2)
    native.update(UPDATE, first, True, True)
    torch.testing.assert_close(result(native), expected())
    native("SwapConstantBuffer")
    torch.testing.assert_close(result(native), expected(first))
    native.update(UPDATE, {"b": second["b"]}, True, False)
    mixed = {"b": second["b"], "c": first["c"]}  # buffers that are not given are those in use
    native("SwapConstantBuffer")
    torch.testing.assert_close(result(native), expected(mixed))
    native("SwapConstantBuffer")
    native("FreeInactiveConstantBuffer")
    torch.testing.assert_close(result(native), expected(first))
    with pytest.raises(NativeError, match="no inactive constants to fold"):
        native("RunConstantFolding", ctypes.c_bool(True), None, None)


def test_calls_do_not_fold(library: Path) -> None:
    """What the caller changes in place is seen once it is folded again, and not before."""
    native, state = Native(library), weights(1)
    native.update(USER_MANAGED, state, False, True)
    old = expected(state)
    torch.testing.assert_close(result(native), old)
    state["a"].copy_(weights(2)["a"])
    torch.testing.assert_close(result(native), old)
    native.update(UPDATE, {"last.bias": state["last.bias"]}, False, False)
    torch.testing.assert_close(result(native), old)
    native("RunConstantFolding", ctypes.c_bool(False), None, None)
    torch.testing.assert_close(result(native), expected(state))
    state["b"].copy_(weights(3)["b"])
    native.update(USER_MANAGED, {"b": state["b"]}, False, False)
    torch.testing.assert_close(result(native), expected(state))


def test_the_callers_own_constants_are_folded(library: Path) -> None:
    state = weights(1)
    native = Native(library, external=state)
    torch.testing.assert_close(result(native), expected(state))


def test_folded_constants_are_nobodys_to_give_or_take(library: Path) -> None:
    native = Native(library)
    with pytest.raises(NativeError, match="'_FOLDED_CONST_relu' is made from other constants"):
        native.update(UPDATE, {"_FOLDED_CONST_relu": torch.ones(4, 4)}, False, False)
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(library), 1)
    assert runner.extract_constants_map(False).keys() == model().state_dict().keys()
    flags = {}
    for index, name in enumerate(c.qualified_name for c in program().constants.values()):
        flag = ctypes.c_bool()
        native("GetConstantFromFolded", ctypes.c_size_t(index), ctypes.byref(flag))
        flags[name] = flag.value
    assert flags == {**dict.fromkeys(model().state_dict(), False), "_FOLDED_CONST_relu": True}


def test_a_library_without_values_folds_once_it_has_them(tmp_path: Path) -> None:
    file = wir.export(program(), tmp_path / "m.pt2", constants="none")
    loaded, state = torch._inductor.aoti_load_package(str(file)), weights(1)
    loaded.load_constants({"a": state["a"], "c": state["c"]}, check_full_update=False)
    with pytest.raises(RuntimeError):
        loaded(X)
    rest = {name: state[name] for name in state.keys() - {"a", "c"}}
    loaded.load_constants(rest, check_full_update=False)
    torch.testing.assert_close(loaded(X), expected(state))
    torch.testing.assert_close(wir.load_package(file, weights=state)(X), expected(state))


def test_inductors_callers_get_it_by_its_option(tmp_path: Path) -> None:
    exported = torch.export.export(model(), (X,))
    with torch.no_grad(), install(), wir.record() as programs:
        file = torch._inductor.aoti_compile_and_package(
            exported, package_path=str(tmp_path / "m.pt2"), inductor_configs=dict(OPTION)
        )
        library = torch._inductor.aot_compile(exported.module(), (X,), options=dict(OPTION))
    assert [bool(each.folded) for each in programs] == [True, True]
    loaded, state = torch._inductor.aoti_load_package(file), weights(1)
    torch.testing.assert_close(loaded(X), expected())
    loaded.load_constants(state, check_full_update=True, user_managed=True)
    torch.testing.assert_close(loaded(X), expected(state))
    torch.testing.assert_close(run(library, X)[0], expected())


def test_sources_for_other_builds_fold_too(tmp_path: Path) -> None:
    folder = wir.export(program(), tmp_path / "sources")
    assert (folder / "folding.cpp").exists()
    assert wir.check_folder(folder) == []
    with pytest.raises(wir.WrapperIRError, match="folded is not supported by a folder of Python"):
        wir.export(program(), tmp_path / "python", "python")
