"""Weights that callers give to packages and libraries: which names count, and which are refused."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.aot.package.archive import PackageError
from wrapper_ir.aot.package.library import PackageCallError

if TYPE_CHECKING:
    from pathlib import Path


class Tied(torch.nn.Module):
    """Has two names for one weight, and tensors that its program does not need."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.emb = torch.nn.Embedding(20, 8)
        self.head = torch.nn.Linear(8, 20, bias=False)
        self.head.weight = self.emb.weight
        self.norm = torch.nn.BatchNorm1d(8)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.norm(self.emb(x)))


X = torch.arange(4)


@cache
def captured() -> wir.Program:
    with torch.no_grad():
        return wir.capture(Tied().eval(), (X,))


@pytest.fixture(scope="module", params=["m.pt2", "m.so"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wir.export(captured(), tmp_path_factory.mktemp("tied") / request.param)


def check(loaded: Any, model: torch.nn.Module) -> None:
    with torch.no_grad():
        torch.testing.assert_close(loaded(X), model.eval()(X))


def test_every_name_of_a_tensor_is_recorded() -> None:
    program = captured()
    names = {constant.qualified_name: constant for constant in program.constants.values()}
    assert {"emb.weight", "head.weight"} < names.keys()
    first, second = names["emb.weight"], names["head.weight"]
    assert [first.tied_to, second.tied_to].count(None) == 1
    assert set(program.unread) == {"unused.weight", "unused.bias", "norm.num_batches_tracked"}
    assert names.keys() | {*program.unread} == Tied().state_dict().keys()
    assert wir.parse(str(program)) == program
    graph = torch.export.export(Tied().eval(), (X,))
    plain = wir.from_fx(graph)
    assert {each.qualified_name for each in plain.constants.values()} == names.keys()
    assert set(plain.unread) == set(program.unread)


def test_any_name_of_a_tied_weight_counts(file: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_model

    new = Tied(1).eval()
    save_model(new, str(tmp_path / "new.safetensors"))
    whole = new.state_dict()
    kept: dict[str, Any] = {
        "emb": {name: value for name, value in whole.items() if name != "head.weight"},
        "head": {name: value for name, value in whole.items() if name != "emb.weight"},
        "equal": {name: value.clone() for name, value in whole.items()},
    }
    for weights in (
        whole,
        dict(new.named_parameters()),
        tmp_path / "new.safetensors",
        *kept.values(),
    ):
        check(wir.load_package(file, weights=weights), new)
    other = {**whole, "head.weight": torch.zeros(20, 8)}
    with pytest.raises(PackageCallError, match=r"'(emb|head)\.weight' share their memory"):
        wir.load_package(file, weights=other)


def test_unknown_names_are_refused(file: Path) -> None:
    whole = Tied(1).state_dict()
    for partial in (False, True):
        with pytest.raises(PackageError, match=r"no 'hed\.weight'\n.*did you mean 'head\.weight'"):
            wir.load_package(file, weights={**whole, "hed.weight": X}, partial=partial)


def test_missing_parameters_are_refused_unless_it_is_said(file: Path) -> None:
    new = Tied(1).eval()
    weights = {"emb.weight": new.emb.weight.detach()}
    for given in ({}, weights):
        with pytest.raises(wir.WrapperIRError, match=r"(lack|missing: ).*norm\.weight") as caught:
            wir.load_package(file, weights=given)
        assert ("emb.weight" in str(caught.value) or "head.weight" in str(caught.value)) != bool(
            given
        )
    check(wir.load_package(file, weights=weights, partial=True), new)
    check(wir.load_package(file, weights={}, partial=True), Tied())


def test_constants_are_exchanged_by_a_whole_state_dict(file: Path) -> None:
    loaded = wir.load_package(file)
    loaded.load_constants(Tied(1).state_dict(), check_full_update=True)
    check(loaded, Tied(1))
    with pytest.raises(PackageCallError, match=r"no constant 'hed'\n.*get_constant_fqns\(\) lists"):
        loaded.load_constants({"hed": X}, check_full_update=False)


def test_torchs_loader_takes_either_name(file: Path) -> None:
    if file.suffix != ".pt2":
        pytest.skip("a library has no names of the model for torch's runner")
    for name, other in (("emb.weight", "head.weight"), ("head.weight", "emb.weight")):
        loaded = torch._inductor.aoti_load_package(str(file))
        known = loaded.get_constant_fqns()
        whole = {key: value for key, value in Tied(1).state_dict().items() if key in known}
        assert name in whole
        loaded.load_constants(
            {key: value for key, value in whole.items() if key != other}, check_full_update=True
        )
        check(loaded, Tied(1))


def test_a_frozen_weight_cannot_be_replaced_in_part(tmp_path: Path) -> None:
    with torch.no_grad():
        program = wir.capture(torch.nn.Linear(10, 10).eval(), (torch.ones(4, 10),), freeze=True)
    assert program.unread == ()  # `weight` is part of a packed constant
    file = wir.export(program, tmp_path / "m.pt2")
    with pytest.raises(PackageError, match="no 'weight'"):
        wir.load_package(file, weights=torch.nn.Linear(10, 10).state_dict(), partial=True)


def test_weights_under_the_names_of_another_model_are_missing(tmp_path: Path) -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> Any:
            return self.model(x) + 1

    model = torch.nn.Linear(4, 4)
    with torch.no_grad():
        programs = {
            "first": wir.capture(Wrapped(model), (torch.ones(2, 4),)),
            "second": wir.capture(model, (torch.ones(2, 4),)),
        }
    file = wir.export(programs, tmp_path / "m.pt2")
    weights = wir.load_package(file, "first").constants
    with pytest.raises(PackageError, match="the weights lack 'bias', 'weight'"):
        wir.load_package(file, "second", weights=weights)
