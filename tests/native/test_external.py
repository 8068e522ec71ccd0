"""Containers that begin with constants in memory of the caller."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.native import calls
from tests.native.conftest import BLOB

if TYPE_CHECKING:
    from pathlib import Path

    from tests.native.conftest import Toolbox

X = torch.linspace(-3, 5, 24).reshape(3, 8)

#: Whether PyTorch's own runners take such constants.
RUNNERS_TAKE_THEM = hasattr(torch._C._aoti.AOTIModelContainerRunnerCpu, "did_call_load_constants")


def given(weight: float = 2.0, bias: float = 5.0) -> dict[str, torch.Tensor]:
    """Return all constants of the fixture; head.weight is a view of linear.weight."""
    matrix = torch.full((4, 8), weight)
    return {
        "linear.weight": matrix,
        "head.weight": matrix.t(),
        "linear.bias": torch.full((8,), bias),
        "norm.seen": torch.tensor(0),
        "hollow": torch.empty(0),
    }


def wanted(weight: float = 2.0, bias: float = 5.0) -> torch.Tensor:
    return calls.expected(X, bias=torch.full((8,), bias), weight=weight)


def result(model: calls.Native) -> torch.Tensor:
    y = model.run(calls.inputs(X))[0]
    assert y is not None
    return y


def has_loaded(model: calls.Native) -> bool:
    found = ctypes.c_bool()
    model("DidCallLoadConstants", ctypes.byref(found))
    return found.value


@pytest.mark.parametrize("named", ["in the model", "in the program"])
def test_they_are_used_where_they_are_and_the_bytes_of_the_library_are_not(
    beside: Path, named: str
) -> None:
    """The file of constants is not even there."""
    mine = given()
    counts = [tensor._use_count() for tensor in mine.values()]
    names = mine if named == "in the model" else ("weight", "head", "bias", "seen", "hollow")
    external = dict(zip(names, mine.values(), strict=True))
    with (
        calls.Native(beside, 2, external=external) as one,
        calls.Native(beside, external=external) as other,
    ):
        assert not has_loaded(one)
        assert torch.equal(result(one), wanted())
        mine["linear.bias"].fill_(7)
        for model in (one, other):
            assert torch.equal(result(model), wanted(bias=7))
        assert mine["norm.seen"] == 3  # what the program writes to is written there
    assert [tensor._use_count() for tensor in mine.values()] == counts


def test_they_live_as_long_as_the_container(beside: Path) -> None:
    with calls.Native(beside, external=given()) as model:
        torch.full((4, 8), 99.0)  # where the others were, if they were gone
        torch.full((8,), 99.0)
        assert torch.equal(result(model), wanted())
        kept = model.run(calls.inputs(X, mode=calls.CONSTANT))[4]
    assert kept is not None
    assert torch.equal(kept, torch.full((4, 8), 2.0))


def test_buffers_may_be_left_out_and_are_the_librarys_then(toolbox: Toolbox, beside: Path) -> None:
    parameters = given()
    del parameters["norm.seen"], parameters["hollow"]
    library = toolbox.with_file(beside, "external")
    with calls.Native(library, external=parameters) as model:
        assert has_loaded(model)
        assert torch.equal(result(model), wanted())
    (library.parent / "fixture.constants").unlink()
    with pytest.raises(calls.NativeError, match="there is no such file"):
        calls.Native(library, external=parameters)


REFUSED: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "half of them": (
        {"linear.weight": None, "head.weight": None},
        "missing: 'linear.weight', 'head.weight'",
    ),
    "dtype": (
        {"linear.bias": torch.zeros(8).double()},
        "'linear.bias' has the wrong dtype: expected float32[8] with strides [1] on cpu, got",
    ),
    "size": ({"linear.bias": torch.zeros(4)}, "'linear.bias' has the wrong size"),
    "stride": ({"linear.bias": torch.zeros(16)[::2]}, "'linear.bias' has the wrong stride"),
    "device": (
        {"linear.bias": torch.zeros(8, device="meta")},
        "'linear.bias' has the wrong device",
    ),
    "name": ({"linear.bias": None, "linear.bais": torch.zeros(8)}, "missing: 'linear.bias'"),
    "apart": (
        {"head.weight": torch.zeros(4, 8).t()},
        "'linear.weight' and 'head.weight' share their memory in the program, but not here",
    ),
    "a view alone": (
        {"linear.weight": None},
        "'linear.weight' and 'head.weight' share their memory in the program, but not here",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_does_not_fit_is_refused_in_words(library: Path, mistake: str) -> None:
    changed, words = REFUSED[mistake]
    mine = {name: tensor for name, tensor in (given() | changed).items() if tensor is not None}
    counts = [tensor._use_count() for tensor in mine.values()]
    with pytest.raises(calls.NativeError) as failure:
        calls.Native(library, external=mine)
    assert "WIR2162: these constants are not the program's: " in str(failure.value)
    assert words in str(failure.value)
    assert "nothing was changed" not in str(failure.value)
    assert [tensor._use_count() for tensor in mine.values()] == counts


def test_without_any_all_are_missing(library: Path) -> None:
    words = "missing: 'linear.weight', 'head.weight', 'linear.bias'"
    with pytest.raises(calls.NativeError, match=re.escape(words)):
        calls.Native(library, external={})


def test_others_may_be_among_them(beside: Path) -> None:
    more = {"norm.num_batches_tracked": torch.tensor(3)}
    with calls.Native(beside, external=given() | more) as model:
        assert torch.equal(result(model), wanted())


def test_later_updates(beside: Path) -> None:
    mine = given()
    bias = mine["linear.bias"]
    held = bias._use_count()
    with calls.Native(beside, external=mine) as model:
        holding = bias._use_count()
        assert holding > held
        model.update("UpdateConstantBufferPairs", {"bias": torch.zeros(8)}, False, False)
        assert torch.equal(result(model), wanted(bias=0))
        assert torch.equal(bias, torch.full((8,), 5.0))  # a copy took its place
        assert bias._use_count() == held
        managed = {"bias": bias}
        model.update("UpdateUserManagedConstantBufferPairs", managed, False, False)
        assert torch.equal(result(model), wanted())
        assert bias._use_count() == holding

        model.update("UpdateConstantBufferPairs", {"bias": torch.ones(8)}, True, False)
        model("SwapConstantBuffer")
        assert torch.equal(result(model), wanted(bias=1))
        assert mine["norm.seen"] == 2  # the inactive set has its own
        model("SwapConstantBuffer")
        assert torch.equal(result(model), wanted())
        assert mine["norm.seen"] == 3
        model("FreeInactiveConstantBuffer")
        assert not has_loaded(model)

        buffer = (ctypes.c_uint8 * len(BLOB)).from_buffer_copy(BLOB)
        model.call("AOTInductorModelUpdateConstantsFromBlob", model.container, buffer)
        assert has_loaded(model)
        assert torch.equal(result(model), calls.expected(X))
        assert bias._use_count() == held


def test_containers_of_the_librarys_constants_have_loaded_them(library: Path) -> None:
    with calls.Native(library) as model:
        assert has_loaded(model)


@pytest.mark.skipif(not RUNNERS_TAKE_THEM, reason="PyTorch's runners take none before 2.14")
def test_the_runner_of_pytorch(beside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kind: Any = torch._C._aoti.AOTIModelContainerRunnerCpu
    mine = given()
    runner = kind(str(beside), 4, mine)
    assert not runner.did_call_load_constants()
    assert torch.equal(runner.run(calls.inputs(X))[0], wanted())
    shown = runner.extract_constants_map(False)
    assert shown["linear.weight"].data_ptr() == mine["linear.weight"].data_ptr()
    assert capfd.readouterr().err == ""
    mine["linear.bias"] = mine["linear.bias"].double()
    with pytest.raises(RuntimeError):
        kind(str(beside), 1, mine)
    assert re.match("WIR2162: .* 'linear.bias' has the wrong dtype", capfd.readouterr().err)


def test_loading_warns_of_nothing(library: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """PyTorch's loader warns of functions that it looks for and does not find."""
    runner = calls.runner(library)
    assert torch.equal(runner.run(calls.inputs(X))[0], calls.expected(X))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
