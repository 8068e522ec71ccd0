from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.native import calls
from tests.native.conftest import BLOB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.native.conftest import Toolbox

X = torch.linspace(-3, 5, 24).reshape(3, 8)
NAMES = {
    "weight": "linear.weight",
    "head": "head.weight",
    "bias": "linear.bias",
    "seen": "norm.seen",
    "hollow": "hollow",
}


@pytest.fixture
def model(library: Path) -> Iterator[calls.Native]:
    with calls.Native(library) as container:
        yield container


def values(model: calls.Native, *, inactive: bool = False) -> dict[str, torch.Tensor]:
    """Return copies of the constants, by their names in the model."""
    entries, count = ctypes.POINTER(calls.Pair)(), ctypes.c_size_t()
    where = ctypes.byref(entries), ctypes.byref(count)
    model("ExtractConstantsMapEntries", *where, ctypes.c_bool(inactive))
    return {
        entries[i].name.decode(): calls.peek(entries[i].handle).clone() for i in range(count.value)
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def result(model: calls.Native) -> torch.Tensor:
    y = model.run(calls.inputs(X))[0]
    assert y is not None
    return y


def total(model: calls.Native) -> float:
    found = model.run(calls.inputs(X))[1]
    assert found is not None
    return float(found)


def weight(value: float) -> torch.Tensor:
    return torch.full((4, 8), float(value))


def bias(value: float) -> torch.Tensor:
    return torch.full((8,), float(value))


def test_names_and_types(library: Path) -> None:
    runner = calls.runner(library)
    assert runner.get_constant_names_to_original_fqns() == NAMES
    assert runner.get_constant_names_to_dtypes() == dict.fromkeys(NAMES, 6) | {"seen": 4}
    assert runner.get_call_spec() == ['[1, {"in": 3}]', '[1, {"out": 5}]']
    found = runner.extract_constants_map(False)
    assert found.keys() == set(NAMES.values())
    assert torch.equal(found["head.weight"], torch.arange(4.0).expand(8, 4))
    assert found["head.weight"].data_ptr() == found["linear.weight"].data_ptr()
    assert found["hollow"].shape == (0,)
    assert runner.extract_constants_map(True) == {}


def test_facts_about_each_constant(model: calls.Native) -> None:
    count = ctypes.c_size_t()
    model("GetNumConstants", ctypes.byref(count))
    assert count.value == 5
    facts = []
    for index in range(count.value):
        kind, size, folded = ctypes.c_int32(), ctypes.c_size_t(), ctypes.c_bool(True)
        number = ctypes.c_size_t(index)
        model("GetConstantType", number, ctypes.byref(kind))
        model("GetConstantDataSize", number, ctypes.byref(size))
        model("GetConstantFromFolded", number, ctypes.byref(folded))
        facts.append((kind.value, size.value, folded.value))
    assert facts == [(1, 128, False), (1, 128, False), (1, 32, False), (2, 8, False), (1, 0, False)]
    with pytest.raises(calls.NativeError, match="there is no constant number 5"):
        model("GetConstantType", ctypes.c_size_t(5), ctypes.byref(ctypes.c_int32()))


UPDATES = ["UpdateConstantBufferPairs", "UpdateConstantBufferFromCpuPairs"]


@pytest.mark.parametrize("function", UPDATES)
@pytest.mark.parametrize("names", [("weight", "bias"), ("linear.weight", "linear.bias")])
def test_an_update_by_either_name_copies(
    model: calls.Native, function: str, names: tuple[str, str]
) -> None:
    new = {names[0]: weight(2), names[1]: bias(5)}
    before = [tensor._use_count() for tensor in new.values()]
    model.update(function, new, False, True)
    for tensor in new.values():
        tensor.fill_(99)
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(5), 2))
    assert total(model) == 64.0  # head is a view of weight: it followed
    assert [tensor._use_count() for tensor in new.values()] == before


def test_an_update_through_the_runner_of_pytorch(library: Path) -> None:
    runner = calls.runner(library, 4)
    runner.update_constant_buffer({"bias": bias(1)}, False, False)
    assert torch.equal(runner.run(calls.inputs(X))[0], calls.expected(X, 2.0, bias(1)))
    with pytest.raises(RuntimeError, match="API call failed"):
        runner.update_constant_buffer({"bias": bias(1).double()}, False, False)


def test_strides_are_fixed_by_the_copy(model: calls.Native) -> None:
    new = torch.arange(32.0).reshape(8, 4).t()
    assert new.stride() != (8, 1)
    model.update(UPDATES[0], {"weight": new, "bias": torch.arange(16.0)[::2]}, False, True)
    found = values(model)
    assert torch.equal(found["linear.weight"], new)
    assert torch.equal(found["head.weight"], new.t())
    assert torch.equal(result(model), X * 2 + torch.arange(16.0)[::2] + new[0])
    repeated = torch.ones(1).expand(8)
    model.update(UPDATES[0], {"bias": repeated.requires_grad_()}, False, False)
    assert torch.equal(values(model)["linear.bias"], bias(1))


REFUSED = {
    "dtype": (
        {"weight": weight(1).double()},
        "'linear.weight' has the wrong dtype: expected float",
    ),
    "size": ({"weight": torch.ones(8, 8)}, "'linear.weight' has the wrong size: expected float32"),
    "rank": ({"bias": torch.ones(8, 1)}, "'linear.bias' has the wrong rank"),
    "device": ({"bias": bias(1).to("meta")}, "'linear.bias' has the wrong device"),
    "layout": ({"bias": bias(1).to_sparse()}, "'linear.bias' has the wrong storage layout"),
    "name": ({"wieght": weight(1)}, "there is no constant 'wieght'"),
    "missing": ({"weight": weight(1)}, "missing from a full update: 'linear.bias'"),
    "twice": (
        {"bias": bias(1), "linear.bias": bias(2), "weight": weight(1)},
        "'linear.bias' was given twice",
    ),
    "tied": (
        {"weight": weight(1), "head": torch.zeros(8, 4), "bias": bias(1)},
        "'linear.weight' and 'head.weight' share their memory",
    ),
}


@pytest.mark.parametrize("function", [*UPDATES, "UpdateUserManagedConstantBufferPairs"])
@pytest.mark.parametrize("mistake", REFUSED)
def test_an_update_that_does_not_fit_changes_nothing(
    model: calls.Native, mistake: str, function: str
) -> None:
    new, words = REFUSED[mistake]
    if mistake != "missing":
        new = {"bias": bias(1), "weight": weight(1)} | new
    before = values(model)
    counts = [tensor._use_count() for tensor in new.values()]
    with pytest.raises(calls.NativeError, match="WIR2162") as failure:
        model.update(function, new, False, True)
    assert words in str(failure.value)
    assert "nothing was changed" in str(failure.value)
    assert same(values(model), before)
    assert torch.equal(result(model), calls.expected(X))
    assert [tensor._use_count() for tensor in new.values()] == counts


def test_all_mistakes_are_told_at_once(model: calls.Native) -> None:
    new = {"weight": weight(1).int(), "x": X}
    with pytest.raises(calls.NativeError) as failure:
        model.update(UPDATES[0], new, False, True)
    for words in ("wrong dtype", "no constant 'x'", "missing from a full update: 'linear.bias'"):
        assert words in str(failure.value)
    assert "head" not in str(failure.value)


def test_names_from_outside_are_shown_escaped_and_cut(model: calls.Native) -> None:
    with pytest.raises(calls.NativeError, match=r"no constant 'a\\x1b\[31mé'"):
        model.update(UPDATES[0], {"a\x1b[31mé": X}, False, False)
    with pytest.raises(calls.NativeError, match=r"no constant 'b+ \.\.\.$"):
        model.update(UPDATES[0], {"b" * 100 + "é" * 10_000: X}, False, False)


def test_tied_constants_follow_each_other(model: calls.Native) -> None:
    new = torch.arange(32.0).reshape(8, 4)
    model.update(UPDATES[0], {"head": new}, False, False)
    found = values(model)
    assert torch.equal(found["linear.weight"], new.t())
    both = {"head": weight(3).t(), "weight": weight(3), "bias": bias(0)}
    model.update(UPDATES[0], both, False, True)
    assert torch.equal(values(model)["head.weight"], weight(3).t())


def test_memory_of_the_caller_is_used_and_kept_alive(model: calls.Native) -> None:
    mine = bias(3)
    count = mine._use_count()
    model.update("UpdateUserManagedConstantBufferPairs", {"bias": mine}, False, False)
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(3)))
    mine.fill_(4)
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(4)))
    assert mine._use_count() > count
    model.update(UPDATES[0], {"bias": bias(0)}, False, False)
    assert mine._use_count() == count
    strided = torch.ones(16)[::2]
    with pytest.raises(calls.NativeError, match=r"'linear\.bias' has the wrong stride"):
        model.update("UpdateUserManagedConstantBufferPairs", {"bias": strided}, False, False)
    with pytest.raises(calls.NativeError, match="share their memory in the program, but not here"):
        model.update("UpdateUserManagedConstantBufferPairs", {"weight": weight(0)}, False, False)


def test_what_the_program_writes_is_a_copy_of_each_container(library: Path) -> None:
    with calls.Native(library, 2) as one, calls.Native(library, 2) as other:
        for _ in range(3):
            result(one)
        assert (values(one)["norm.seen"], values(other)["norm.seen"]) == (3, 0)
        mine = torch.tensor(10)
        one.update(UPDATES[0], {"seen": mine}, False, False)
        one.update(UPDATES[0], {"bias": bias(0)}, False, False)  # leaves it as it is
        result(one)
        assert (values(one)["norm.seen"], mine) == (11, 10)


def test_the_inactive_constants_are_prepared_and_swapped_in(model: calls.Native) -> None:
    with pytest.raises(calls.NativeError, match="there are no inactive constants to swap in"):
        model("SwapConstantBuffer")
    result(model)
    full = {"weight": weight(2), "bias": bias(5)}
    model.update("UpdateInactiveConstantBufferPairs", full)
    assert torch.equal(result(model), calls.expected(X))
    assert values(model, inactive=True)["norm.seen"] == 1  # as it was when they were made
    model("SwapConstantBuffer")
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(5), 2))
    assert (values(model)["norm.seen"], values(model, inactive=True)["norm.seen"]) == (2, 2)
    model.update(UPDATES[0], {"bias": bias(7)}, True, False)
    model("SwapConstantBuffer")
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(7)))
    model("FreeInactiveConstantBuffer")
    assert values(model, inactive=True) == {}
    with pytest.raises(calls.NativeError, match="missing from a full update"):
        model.update("UpdateInactiveConstantBufferPairs", {"bias": bias(1)})
    with pytest.raises(calls.NativeError):
        model("SwapConstantBuffer")
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(7)))


def test_folding_has_nothing_to_do(model: calls.Native) -> None:
    model("RunConstantFolding", ctypes.c_bool(False), None, None)
    assert torch.equal(result(model), calls.expected(X))


def test_constants_from_a_blob(model: calls.Native) -> None:
    size = ctypes.c_uint64()
    model("GetConstantsBlobSize", ctypes.byref(size))
    assert size.value == len(BLOB)
    blob = bytearray(BLOB)
    blob[128:160] = bytes(bias(9).numpy())
    buffer = (ctypes.c_uint8 * len(blob)).from_buffer(blob)
    model.call("AOTInductorModelUpdateConstantsFromBlob", model.container, buffer)
    blob[128:160] = bytes(32)
    assert torch.equal(result(model), calls.expected(X, 2.0, bias(9)))


def test_a_blob_through_the_runner_of_pytorch(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "weights.blob"
    file.write_bytes(BLOB[:128] + bytes(bias(9).numpy()) + BLOB[160:])
    runner: Any = calls.runner(library)
    runner.update_constant_buffer_from_blob(str(file))
    assert torch.equal(runner.run(calls.inputs(X))[0], calls.expected(X, 2.0, bias(9)))


def test_constants_that_were_handed_out_can_be_written_to(library: Path) -> None:
    runner = calls.runner(library)
    runner.extract_constants_map(False)["linear.bias"].fill_(6)
    try:
        assert torch.equal(runner.run(calls.inputs(X))[0], calls.expected(X, 2.0, bias(6)))
    finally:
        runner.extract_constants_map(False)["linear.bias"].copy_(torch.arange(8.0))


@pytest.mark.parametrize("runners", [1, 4])
def test_a_call_finishes_with_the_constants_it_began_with(library: Path, runners: int) -> None:
    runner = calls.runner(library, runners)
    runner.run(calls.inputs(X))
    found: list[torch.Tensor] = []

    def work() -> None:  # reads the bias, sleeps, reads the weight
        found.append(runner.run(calls.inputs(X, mode=calls.SLOW))[0])

    thread = threading.Thread(target=work)
    thread.start()
    threading.Event().wait(0.03)
    runner.update_constant_buffer({"bias": bias(5), "weight": weight(2)}, False, True)
    thread.join()
    after = calls.expected(X, 2.0, bias(5), 2)
    assert torch.equal(found[0], calls.expected(X)) or torch.equal(found[0], after)
    assert torch.equal(runner.run(calls.inputs(X))[0], after)


@pytest.mark.parametrize("runners", [1, 4])
def test_eight_threads_and_updates_between_their_calls(library: Path, runners: int) -> None:
    """Bias and weight always change together, so no call may see one without the other."""
    runner = calls.runner(library, runners)
    runner.update_constant_buffer({"bias": bias(0), "weight": weight(0)}, False, True)
    stop = threading.Event()
    wrong: list[object] = []
    counts = [0] * 8

    def work(number: int) -> None:
        x = torch.randn(number + 1, 8)
        while not stop.is_set() or not counts[number]:
            try:
                y = runner.run(calls.inputs(x, 0.0))[0]
            except RuntimeError as error:
                wrong.append(error)
                return
            if y.shape != x.shape or y.unique().numel() != 1 or float(y[0, 0]) % 3:
                wrong.append(y)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for step in range(1, 200):
        new = {"bias": bias(step), "weight": weight(2 * step)}
        runner.update_constant_buffer(new, step % 3 == 0, True)
        if step % 3 == 0:
            runner.swap_constant_buffer()
            runner.free_inactive_constant_buffer()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert torch.equal(runner.run(calls.inputs(X))[0], calls.expected(X, 2.0, bias(199), 398))


def test_constants_beside_the_library(toolbox: Toolbox, beside: Path) -> None:
    library = toolbox.with_file(beside, "good")
    with calls.Native(library, 4) as model:
        (library.parent / "fixture.constants").unlink()  # mapped: its name is not needed any more
        for _ in range(3):
            assert torch.equal(result(model), calls.expected(X))
        kept = model.run(calls.inputs(X, mode=calls.CONSTANT))[4]
        model.update(UPDATES[0], {"bias": bias(5)}, False, False)
        assert torch.equal(result(model), calls.expected(X, 2.0, bias(5)))
    assert kept is not None
    assert kept.sum() == 48.0  # after the container: what it showed stays


def test_the_folder_of_the_constants_can_be_named(
    toolbox: Toolbox, beside: Path, tmp_path: Path
) -> None:
    library = toolbox.with_file(beside, "elsewhere")
    file = (library.parent / "fixture.constants").rename(tmp_path / "fixture.constants")
    with calls.Native(library, folder=tmp_path) as model:
        assert torch.equal(result(model), calls.expected(X))
    with pytest.raises(calls.NativeError, match="there is no such file\n  hint: keep it beside"):
        calls.Native(library)
    assert file.exists()


def test_a_file_of_constants_that_does_not_fit_is_refused(
    toolbox: Toolbox, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = toolbox.with_file(beside, "bad")
    file = library.parent / "fixture.constants"
    whole = file.read_bytes()
    mistakes = {
        whole[:-1]: "it has 303 bytes instead of 304",
        whole[:-48]: "it has 256 bytes instead of 304",
        whole[:-40] + bytes(40): "it belongs to another build",
        whole[:-48] + bytes(48): "it is not a whole file of constants",
    }
    for content, words in mistakes.items():
        file.write_bytes(content)
        with pytest.raises(calls.NativeError, match="WIR2154: constants in ") as failure:
            calls.Native(library)
        assert words in str(failure.value)
    file.write_bytes(b"\1" + whole[1:])
    with calls.Native(library):
        pass  # the bytes are not read unless that is wanted
    monkeypatch.setenv("WRAPPER_IR_VERIFY_CONSTANTS", "1")
    with pytest.raises(calls.NativeError, match="their bytes have changed"):
        calls.Native(library)
    file.write_bytes(whole)
    with calls.Native(library) as model:
        assert torch.equal(result(model), calls.expected(X))
