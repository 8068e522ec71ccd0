from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path

import pytest
import torch

from tests import warm
from tests.native import calls
from wrapper_ir.runtime import InputCountError, InputLayoutError, TensorSpec, check_layout

X = torch.linspace(-3, 5, 24).reshape(3, 8)
#: Whether this PyTorch keeps the words of its errors; older ones print them.
KEEPS_WORDS = hasattr(calls.SHIM, "torch_exception_get_what_without_backtrace")


def _words_of_torch() -> str:
    with pytest.raises(RuntimeError) as failure:
        torch.mm(X, X)
    return str(failure.value)


IN_TORCH = _words_of_torch() if KEEPS_WORDS else "PyTorch refused the call and printed the reason"
SPEC = TensorSpec("x", torch.float32, (None, 8), (8, 1))


@pytest.mark.parametrize("runners", [1, 4])
def test_runs_with_any_number_of_rows(library: Path, runners: int) -> None:
    model = calls.runner(library, runners)
    for rows in (1, 3, 100, 0):
        x = torch.randn(rows, 8)
        y, total, count, nothing, kept = model.run(calls.inputs(x, 0.5))
        assert torch.equal(y, calls.expected(x, 0.5))
        assert (total.item(), total.dtype) == (48.0, torch.float64)
        assert (count.item(), count.dtype) == (rows, torch.int64)
        assert nothing is None
        assert kept is None


def test_the_single_threaded_entry_does_the_same(library: Path) -> None:
    with calls.Native(library) as model:
        results = model.run(calls.inputs(X), name="RunSingleThreaded")
    assert torch.equal(results[0], calls.expected(X))


WRONG = {
    "dtype": X.double(),
    "size": X[:, :7].contiguous(),
    "rank": X[0],
    "stride": X.t().contiguous().t(),
    "device": X.to("meta"),
    "storage layout": X.to_sparse(),
    "dtype and size": torch.ones(3, 7, dtype=torch.int64),
}


@pytest.mark.parametrize("difference", WRONG)
def test_a_wrong_input_is_refused_in_the_words_of_the_python_emitter(
    library: Path, difference: str
) -> None:
    x = WRONG[difference]
    with pytest.raises(InputLayoutError) as in_python:
        check_layout(x, SPEC.name, SPEC.dtype, SPEC.device, SPEC.size, SPEC.stride)
    assert f"the wrong {difference}:" in str(in_python.value)
    with calls.Native(library) as model:
        with pytest.raises(calls.NativeError) as in_library:
            model.run(calls.inputs(x))
        assert str(in_library.value) == str(in_python.value)
        assert torch.equal(model.run(calls.inputs(X))[0], calls.expected(X))


def test_who_calls_through_pytorchs_runner_sees_what_is_wrong(
    library: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Since 2.13 its error has the words; before, the library prints them."""
    model = calls.runner(library)
    for given, words in (
        (calls.inputs(X.double()), "input 'x' has the wrong dtype: expected float32"),
        (calls.inputs(X, mode=calls.IN_TORCH), f"aten::mm.out(%y, %y): {IN_TORCH}"),
    ):
        with pytest.raises(RuntimeError) as failure:
            model.run(given)
        printed = capfd.readouterr().err
        assert words in (str(failure.value) if KEEPS_WORDS else printed)


def test_strides_that_do_not_count_are_free(library: Path) -> None:
    model = calls.runner(library)
    one_row = torch.ones(8, 1).t()
    assert one_row.stride() != (8, 1)
    assert torch.equal(model.run(calls.inputs(one_row))[0], calls.expected(one_row))
    no_rows = torch.empty_strided((0, 8), (3, 5))
    assert model.run(calls.inputs(no_rows))[0].shape == (0, 8)


def test_a_null_handle_is_refused(library: Path) -> None:
    refused = pytest.raises(calls.NativeError, match=r"'x' has the wrong type: .*got no tensor")
    with calls.Native(library) as model, refused:
        model.run([None, *calls.inputs(X)[1:]])


def test_numbers_come_as_tensors_of_one_element(library: Path) -> None:
    model = calls.runner(library)
    for scale in (torch.tensor([3], dtype=torch.int16), torch.tensor(3.0, dtype=torch.bfloat16)):
        y = model.run([X, scale, torch.tensor([0], dtype=torch.uint8)])[0]
        assert torch.equal(y, calls.expected(X, 3.0))
    with calls.Native(library) as other:
        for scale in (torch.ones(2), torch.tensor(1j), torch.ones(0)):
            with pytest.raises(calls.NativeError, match="'scale' has the wrong type: expected a n"):
                other.run([X, scale, torch.tensor(0)])
        with pytest.raises(calls.NativeError, match="'mode' has the wrong type: expected an int"):
            other.run([X, torch.tensor(1.0), torch.tensor(0.0)])


def test_counts_are_checked(library: Path) -> None:
    words = str(InputCountError(expected=3, got=1))
    with calls.Native(library) as model:
        with pytest.raises(calls.NativeError, match=words):
            model.run([X])
        with pytest.raises(calls.NativeError, match="the program returns 5 results, not 2"):
            model.run(calls.inputs(X), results=2)


ERRORS = {
    calls.RELATION: "WIR2153: the program needs s0 % 2 == 0, but s0 is 3\n"
    "  at body[0] (model.py:12 in forward)\n",
    calls.STANDARD: "WIR2164: kernel fused_mul_add: out of luck\n"
    "  at body[0] (model.py:12 in forward)\n",
    calls.IN_TORCH: f"WIR2160: aten::mm.out(%y, %y): {IN_TORCH}\n  at body[1]\n",
    calls.NO_MEMORY: "WIR2164: kernel fused_mul_add: there is not enough memory\n",
    calls.UNKNOWN: "WIR2164: kernel fused_mul_add: an exception of an unknown type was thrown\n",
}


@pytest.mark.parametrize("mode", ERRORS)
def test_an_error_inside_names_the_line_and_what_came_in(library: Path, mode: int) -> None:
    with calls.Native(library) as model:
        for _ in range(3):
            with pytest.raises(calls.NativeError) as failure:
                model.run(calls.inputs(X, 0.5, mode))
            assert ERRORS[mode] in str(failure.value)
            assert "called with x = float32[3, 8] with strides [8, 1] on cpu, scale = 0.5" in str(
                failure.value
            )
        assert torch.equal(model.run(calls.inputs(X))[0], calls.expected(X))


def test_the_last_error_is_empty_after_a_call_that_succeeds(library: Path) -> None:
    import ctypes

    with calls.Native(library) as model:
        with pytest.raises(calls.NativeError):
            model.run([X])
        words = ctypes.c_char_p(b"?")
        model("GetNumInputs", ctypes.byref(ctypes.c_size_t()))
        model.functions.AOTInductorGetLastError(ctypes.byref(words))
        assert words.value == b""


@pytest.mark.parametrize("mode", [calls.FINE, calls.STANDARD, calls.IN_TORCH, None])
def test_every_handle_given_is_deleted_once(library: Path, mode: int | None) -> None:
    """None: an input that is refused."""
    x = X.clone() if mode is not None else X.double()
    before = x._use_count()
    with calls.Native(library) as model:
        for _ in range(20):
            try:
                results = model.run(calls.inputs(x, 1.0, mode or 0))
            except calls.NativeError:
                results = []
            assert bool(results) == (mode == calls.FINE)
            # A dispatcher that throws keeps what it was given: the fixture's own tensors, not x.
            assert x._use_count() == before
            for result in results:
                assert result is None or result._use_count() == 1


def test_runs_do_not_grow_the_process(library: Path) -> None:
    model = calls.runner(library, 2)
    big = torch.ones(4096, 8)

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    for _ in range(50):
        model.run(calls.inputs(big))
    before = resident()
    for _ in range(400):  # 50 MB of results
        model.run(calls.inputs(big))
    assert resident() - before < 10 << 20


def test_gradients_are_not_recorded(library: Path) -> None:
    model = calls.runner(library)
    x = X.clone().requires_grad_()
    y = model.run(calls.inputs(x))[0]
    assert not y.requires_grad
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert torch.equal(model.run(calls.inputs(x))[0], y)
        assert not torch.is_grad_enabled()
    with pytest.raises(RuntimeError):
        model.run(calls.inputs(X, mode=calls.STANDARD))
    assert torch.is_grad_enabled()


def test_a_library_loaded_and_updated_in_inference_mode_runs_outside_of_it(library: Path) -> None:
    with torch.inference_mode():
        model = calls.runner(library)
        y = model.run(calls.inputs(X, mode=calls.BUFFER))[0]
        assert y.is_inference()
        model.update_constant_buffer({"seen": torch.tensor(7)}, False, False)
    y = model.run(calls.inputs(X, mode=calls.BUFFER))[0]  # writes to what was made before
    assert not y.is_inference()
    assert model.extract_constants_map(False)["norm.seen"].item() == 0


def test_checks_can_be_switched_from_one_call_to_the_next(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    other = X[:, :8].to(torch.int32)  # as large: nothing is read out of bounds
    with calls.Native(library) as model, calls.Native(library) as neighbour:

        def accepts(which: calls.Native = model) -> bool:
            try:
                which.run(calls.inputs(other))
            except calls.NativeError:
                return False
            return True

        assert not accepts()
        monkeypatch.setenv("WRAPPER_IR_CHECK_INPUTS", "0")
        assert accepts()
        monkeypatch.setenv("WRAPPER_IR_CHECK_INPUTS", "1")
        assert not accepts()
        model.call("WrapperIRModelContainerSetInputChecks", model.container, ctypes.c_bool(False))
        assert (accepts(), accepts(neighbour)) == (True, False)
        model.call("WrapperIRModelContainerSetInputChecks", model.container, ctypes.c_bool(True))
        monkeypatch.setenv("WRAPPER_IR_CHECK_INPUTS", "0")
        assert (accepts(), accepts(neighbour)) == (False, True)
        with pytest.raises(calls.NativeError, match="got no tensor"):
            neighbour.run([None, *calls.inputs(X)[1:]])


def test_other_python_threads_run_during_a_call(library: Path) -> None:
    """The call waits for what another thread does only once the call has begun."""
    x = torch.zeros(2, 8)

    def answer() -> None:
        while x[0, 1] == 0:
            time.sleep(0.001)
        x[0, 0] = 3

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    y = calls.runner(library).run(calls.inputs(x, mode=calls.MEET))[0]
    assert torch.equal(y, calls.expected(torch.tensor([[3.0, 1.0, *[0.0] * 6], [0.0] * 8])))
    thread.join()


def test_more_threads_than_runners_wait_for_their_turn(library: Path) -> None:
    model = calls.runner(library, 2)
    results: list[torch.Tensor] = []

    def work() -> None:
        results.append(model.run(calls.inputs(X, mode=calls.SLOW))[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.equal(result, calls.expected(X)) for result in results)
    assert time.perf_counter() - start >= 0.2  # two at a time, 100 ms each


_LIFE = """
import sys
from pathlib import Path
import torch
from tests.native import calls

def loaded():
    return sys.argv[1] in Path("/proc/self/maps").read_text()

for mode in (calls.FINE, calls.CONSTANT):
    model = calls.runner(Path(sys.argv[1]), 2)
    kept = model.run(calls.inputs(torch.ones(2, 8), mode=mode))
    del model
    print(loaded())
print(kept[4].sum().item())
"""


def test_a_library_goes_with_its_runner_unless_its_constants_are_in_use(library: Path) -> None:
    done = warm.run(_LIFE, library, taken_down=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == ["False", "True", "48.0"]
