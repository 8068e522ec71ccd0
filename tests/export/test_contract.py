"""What AOTInductor's callers may rely on, a sentence of docs/aot-runtime.md at a time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests import warm
from tests.export.support import plus_one
from tests.release import TORCH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.ones(3)


class Counting(torch.nn.Module):
    """Returns a buffer that calls write to, a constant, and views of both."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(3))
        self.register_buffer("c", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> Any:
        self.n += x
        views = self.c.t(), self.c[1], self.c.reshape(-1), self.n.view(3, 1), self.c.split(1)
        return self.n, self.n + 0, self.c, *views[:-1], *views[-1], x


@cache
def counting() -> wir.Program:
    return wir.capture(Counting(), (X,))


def _loaders() -> dict[str, tuple[str, Callable[[Path], Any]]]:
    return {
        "package": ("m.pt2", wir.load_package),
        "library": ("m.so", wir.load_package),
        "torch's package": ("m.pt2", lambda file: torch._inductor.aoti_load_package(str(file))),
        "torch's library": ("m.so", lambda file: _runner(str(file))),
    }


def _runner(file: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    runner: Any = torch._C._aoti.AOTIModelContainerRunnerCpu(file, 1)
    return lambda x: runner.run([x])


@pytest.mark.parametrize("loader", _loaders())
def test_results_share_no_memory_with_constants_or_later_calls(loader: str, tmp_path: Path) -> None:
    ending, load = _loaders()[loader]
    loaded = load(wir.export(counting(), tmp_path / ending))
    first = loaded(X)
    kept = [each.clone() for each in first]
    torch.testing.assert_close(list(first), list(Counting()(X)), rtol=0, atol=0)
    loaded(X)
    assert all(torch.equal(*pair) for pair in zip(first, kept, strict=True))
    for each in first[:-1]:  # the last one is the input
        each.fill_(9)
    last = [loaded(X) for _ in range(2)][-1]
    assert torch.equal(last[2], Counting().c)
    assert [each.stride() for each in last] == [each.stride() for each in kept]


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_results_in_the_models_own_process_may_be_its_tensors(emitter: str) -> None:
    model = Counting()
    results = wir.compile(wir.capture(model, (X,)), emitter)(X)
    assert results[0].data_ptr() == model.n.data_ptr()
    assert results[2].data_ptr() == model.c.data_ptr()


def test_a_result_that_is_an_argument_is_that_tensor(tmp_path: Path) -> None:
    assert (
        wir.load_package(wir.export(counting(), tmp_path / "m.so"))(X)[-1].data_ptr()
        == X.data_ptr()
    )


def test_constants_begin_at_multiples_of_64_bytes(tmp_path: Path) -> None:
    for file, constants in (("m.so", "embedded"), ("n.so", "beside"), ("m.pt2", "beside")):
        loaded = wir.load_package(wir.export(counting(), tmp_path / file, constants=constants))
        assert all(each.data_ptr() % 64 == 0 for each in loaded.constants.values())


def test_constants_have_every_name_that_the_model_has_for_them(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    with torch.no_grad():
        file = wir.export(wir.capture(model, (X,)), tmp_path / "m.so")
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(file), 1)
    names = runner.get_constant_names_to_original_fqns().values()
    assert sorted(names) == sorted(model.state_dict())


# Checks when a library is loaded.


def test_a_missing_file_of_constants_is_refused_at_load(tmp_path: Path) -> None:
    file = wir.export(counting(), tmp_path / "m.so", constants="beside")
    (tmp_path / "m.constants").unlink()
    with pytest.raises(wir.WrapperIRError, match=r"WIR2154.*m\.constants: there is no such file"):
        wir.load_package(file)


OPS = """
import torch
library = torch.library.Library("contract", "DEF")
for name in ("twice", "shift.much"):
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: 2 * x, "CompositeExplicitAutograd")
"""

LOAD = """
import sys, torch, wrapper_ir as wir
for known in (False, True):
    if known:
        exec(sys.argv[1])
    for file in sys.argv[2:]:
        try:
            print(wir.load_package(file)(torch.ones(3))[0].tolist())
        except wir.WrapperIRError as error:
            print(str(error).splitlines()[0])
"""


def test_ops_that_nobody_registered_are_all_named_at_load(tmp_path: Path) -> None:
    b = wir.Builder("calls")
    x = b.input("x", "f32", (3,))
    for name in ("twice", "shift.much"):
        x = b.extern(f"contract::{name}(Tensor x) -> Tensor", x, result=x)
    b.returns(x)
    files = [wir.export(b.build(), tmp_path / file) for file in ("m.pt2", "m.so")]
    done = warm.run(LOAD, OPS, *files)
    missing = "no library that is loaded has the ops 'contract::twice', 'contract::shift.much'"
    said = done.stdout.splitlines()
    assert [missing in line for line in said] == [True, True, False, False]
    assert said[2:] == ["[4.0, 4.0, 4.0]"] * 2


@pytest.mark.parametrize("loader", _loaders())
def test_arguments_whose_memory_kernels_read_are_stored_as_they_read(
    loader: str, tmp_path: Path
) -> None:
    ending, load = _loaders()[loader]
    loaded = load(wir.export(plus_one(), tmp_path / ending))
    x = torch._neg_view(torch.arange(4.0))
    assert _first(loaded(x.resolve_neg())).tolist() == [1.0, 0.0, -1.0, -2.0]
    with pytest.raises(Exception, match=_said(loader, r"'x' has the wrong form.*negated lazily")):
        loaded(x)


@pytest.mark.parametrize("loader", ["package", "torch's package"])
def test_an_argument_that_is_written_to_shares_no_memory(loader: str, tmp_path: Path) -> None:
    def write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a + b

    program = wir.capture(write, (torch.ones(3), torch.ones(3)))
    call, t = _loaders()[loader][1](wir.export(program, tmp_path / "m.pt2")), torch.arange(4.0)
    with pytest.raises(Exception, match=_said(loader, "WIR2158: inputs 'a' and 'b' share memory")):
        call(t[:3], t[1:])
    assert torch.equal(_first(call(t[:3].clone(), t[1:])), t[:3] + 1 + t[1:])


def _said(loader: str, message: str) -> str:
    """Return what an error says; before torch 2.13 its own loaders write that to stderr alone."""
    return "run_func_" if loader.startswith("torch's") and TORCH < (2, 13) else message


def _first(results: Any) -> torch.Tensor:
    found: torch.Tensor = results if isinstance(results, torch.Tensor) else results[0]
    return found
