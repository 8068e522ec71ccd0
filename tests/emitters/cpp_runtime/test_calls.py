"""What a call of a library costs nobody: no copies, no leaks, no waiting, no words missing."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from tests.emitters.cpp_runtime import handmade
from wrapper_ir.aot.load import load_library
from wrapper_ir.runtime import InputCountError, InputLayoutError, ProgramRunError, SymbolError
from wrapper_ir.toolchain.errors import LibraryLoadError


@pytest.fixture
def weight() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0])


def check(results: tuple[Any, ...], arguments: list[Any], weight: Tensor) -> None:
    assert torch.equal(results[0], handmade.expected(arguments, weight))


def test_every_kind_of_input_and_result(weight: Tensor) -> None:
    gc.collect()  # other functions' states, which count too, do not go between the two calls
    call = handmade.function(weight)
    arguments = handmade.arguments()
    total, x, missing, alive, scale, flag, nothing = call(*arguments)
    assert torch.equal(total, handmade.expected(arguments, weight))
    assert x is arguments[0]
    assert missing is None
    assert alive >= 1
    assert scale == 2.0
    assert isinstance(scale, float)
    assert flag is True
    assert nothing is None
    assert call(*arguments[:3], 3, False, None)[3:6] == (alive, 3.0, False)


def test_a_function_says_what_it_is(weight: Tensor) -> None:
    call = handmade.function(weight)
    assert call.__name__ == "handmade"
    assert "6 inputs" in call.__doc__
    call.note = 1
    assert call.note == 1
    with pytest.raises(TypeError, match="by position"):
        call(x=1)


def test_a_boxed_call_empties_its_list(weight: Tensor) -> None:
    call = handmade.function(weight, boxed=True)
    arguments = handmade.arguments()
    given = list(arguments)
    check(call(given), arguments, weight)
    assert given == []
    with pytest.raises(InputLayoutError, match="'saved'"):
        call(given := [arguments[0], None, 1, 2.0, True, None])
    assert given == []
    with pytest.raises(InputCountError, match="6 inputs, not 0"):
        call(given)
    for wrong in ((), (arguments, arguments), (tuple(arguments),)):
        with pytest.raises(TypeError, match="one list"):
            call(*wrong)


def test_what_only_the_list_holds_goes_with_its_last_use(weight: Tensor) -> None:
    call = handmade.function(weight, boxed=True)
    with pytest.raises(RuntimeError, match="after the last use") as error:
        call(handmade.arguments(number=-6))
    assert error.value.__notes__[-1] == "called with x = float32[4, 3]"
    arguments = handmade.arguments(number=-6)
    with pytest.raises(RuntimeError, match="after the last use") as error:
        call(list(arguments))  # somebody else holds them, too
    assert error.value.__notes__[-1] == "called with x = float32[4, 3], saved = float32[4, 3]"
    gone = weakref.ref(arguments[1])
    del arguments, error
    gc.collect()
    assert gone() is None


X = torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (0, X.double(), r"dtype: expected float32\[\*, 3\].*got float64\[4, 3\]"),
        (0, X[:, :2], r"size: expected float32\[\*, 3\].*got float32\[4, 2\]"),
        (0, X[0], r"rank"),
        (1, torch.zeros(3, 3).t(), r"'saved' has the wrong stride"),
        (0, X.to_sparse(), "storage layout"),
        (0, X.to("meta"), "device"),
        (0, 3.0, "a value of type float"),
        (0, None, "a value of type NoneType"),
        (2, 1.0, "a number of type int, got a value of type float"),
        (2, True, "a number of type int, got a value of type bool"),
        (2, 1 << 70, "at most 64 bits"),
        (3, "2", "a number of type float"),
        (3, True, "a number of type float"),
        (4, 1, "a number of type bool"),
    ],
)
def test_wrong_inputs_are_refused(weight: Tensor, position: int, value: object, words: str) -> None:
    arguments = handmade.arguments()
    arguments[position] = value
    with pytest.raises(InputLayoutError, match=words):
        handmade.function(weight)(*arguments)
    with pytest.raises(InputLayoutError, match=words):
        handmade.function(weight, boxed=True)(arguments)


def test_a_wrong_number_of_inputs_is_refused(weight: Tensor) -> None:
    with pytest.raises(InputCountError, match="takes 6 inputs, not 2"):
        handmade.function(weight)(X, X)


class Noted(Tensor):
    """A subclass that computes as its base does."""


def test_tensors_that_are_not_plain(weight: Tensor) -> None:
    call = handmade.function(weight)
    arguments = handmade.arguments()
    arguments[0] = nn.Parameter(arguments[0])
    check(call(*arguments), arguments, weight)
    arguments[0] = arguments[0].detach().as_subclass(Noted)
    check(call(*arguments), arguments, weight)
    with FakeTensorMode():
        fake = torch.empty(4, 3)
    arguments[0] = fake
    with pytest.raises(InputLayoutError, match="'x'"):
        call(*arguments)
    arguments[0] = torch.zeros(4, 3)

    def mapped(row: Tensor) -> Tensor:
        return call(row, *arguments[1:])[0]

    with pytest.raises(InputLayoutError, match="'x'"):
        torch.func.vmap(mapped)(torch.zeros(2, 4, 3))


def test_strides_of_single_rows_are_free(weight: Tensor) -> None:
    arguments = handmade.arguments(rows=1)
    arguments[0] = torch.empty_strided((1, 3), (77, 1)).fill_(1.0)
    check(handmade.function(weight)(*arguments), arguments, weight)
    arguments = [torch.empty(0, 3), torch.empty_strided((0, 3), (9, 9)), 1, 1.0, True, None]
    assert handmade.function(weight)(*arguments)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (-1, SymbolError, "WIR2153: the program needs n >= 0, but n is -1"),
        (-2, MemoryError, ""),
        (-3, ProgramRunError, "WIR2160"),
        (-3, RuntimeError, "WIR2160"),
        (-4, RuntimeError, "something else"),
        (-5, RuntimeError, "an unknown C++ exception"),
    ],
)
def test_errors_name_the_line(
    weight: Tensor, number: int, kind: type[Exception], words: str
) -> None:
    call = handmade.function(weight)
    arguments = handmade.arguments(number=number)
    with pytest.raises(kind) as error:
        call(*arguments)
    told = "\n".join([str(error.value), *error.value.__notes__])
    assert words in told
    assert "body[1]" in told
    assert "model.py:7 in forward" in told
    assert "kernel add(sum: f32[4, 3])" in told
    assert "x = float32[4, 3]" in told
    arguments[2] = 1
    check(call(*arguments), arguments, weight)


def test_fields_of_errors_survive_the_way_through_text(weight: Tensor) -> None:
    with pytest.raises(SymbolError) as error:
        handmade.function(weight)(*handmade.arguments(number=-1))
    assert error.value.fields == {"relation": "n >= 0", "values": "n is -1"}
    assert error.value.hint == "give another n"
    assert error.value.path == "body[1]"


def test_constants_are_the_owners_tensors(weight: Tensor) -> None:
    call = handmade.function(weight)
    arguments = handmade.arguments()
    check(call(*arguments), arguments, weight)
    weight.mul_(3)
    check(call(*arguments), arguments, weight)
    old = weakref.ref(weight.untyped_storage())
    weight.data = torch.tensor([7.0, 8.0, 9.0])
    check(call(*arguments), arguments, weight)
    assert old() is None
    weight.set_(torch.tensor([0.0, 7.0, 8.0, 9.0, 10.0]).untyped_storage(), 2, (3,), (1,))
    check(call(*arguments), arguments, weight)
    weight.data = torch.zeros(4)
    with pytest.raises(InputLayoutError, match="'weight' has the wrong size"):
        call(*arguments)
    weight.data = torch.ones(3)
    check(call(*arguments), arguments, weight)
    assert call(*arguments)[3] >= 1


def test_constants_are_checked_when_they_are_bound(weight: Tensor) -> None:
    with pytest.raises(InputLayoutError, match="'weight' has the wrong dtype"):
        handmade.function(weight.double())


def test_constants_may_come_with_the_first_call(weight: Tensor) -> None:
    asked = []

    def constants() -> tuple[Tensor]:
        asked.append(1)
        return (weight,)

    call = load_library(handmade.library(), constants, name="handmade")
    assert not asked
    arguments = handmade.arguments()
    for _ in range(3):
        check(call(*arguments), arguments, weight)
    assert asked == [1]

    def failing() -> tuple[Tensor]:
        raise KeyError("weight")

    with pytest.raises(KeyError):
        load_library(handmade.library(), failing, name="handmade")(*arguments)


def test_autograd_sees_writes_and_records_nothing(weight: Tensor) -> None:
    call = handmade.function(nn.Parameter(weight))
    arguments = handmade.arguments()
    arguments[0].requires_grad_()
    before = arguments[0]._version, arguments[1]._version
    total = call(*arguments)[0]
    assert not total.requires_grad
    assert (arguments[0]._version, arguments[1]._version) == (before[0] + 1, before[1])
    with pytest.raises(RuntimeError, match="something else"):
        call(*arguments[:2], -4, *arguments[3:])
    assert arguments[0]._version == before[0] + 2


def test_inference_mode_leaves_nothing_behind(weight: Tensor) -> None:
    call = handmade.function(weight)
    with torch.inference_mode():
        arguments = handmade.arguments()
        assert call(*arguments)[0].is_inference()
    arguments = handmade.arguments()
    check(call(*arguments), arguments, weight)
    assert not call(*arguments)[0].is_inference()


def test_eight_threads_and_a_weight_that_changes(weight: Tensor) -> None:
    """Every result is right for one of the values that the weight had."""
    call = handmade.function(weight, keep=2)
    values = [torch.full((3,), float(n)) for n in range(4)]
    weight.data = values[0].clone()
    elsewhere = call(*handmade.arguments())[3] - 1  # states of other functions of the library
    wrong: list[str] = []
    done = threading.Event()

    def run(rows: int) -> None:
        arguments = handmade.arguments(rows)
        legal = [handmade.expected(arguments, value) for value in values]
        while not done.is_set():
            result = call(*arguments)[0]
            if not any(torch.equal(result, one) for one in legal):
                wrong.append(f"{rows} rows")

    threads = [threading.Thread(target=run, args=(rows,)) for rows in range(1, 9)]
    for thread in threads:
        thread.start()
    for number in range(400):
        weight.data = values[number % 4].clone()
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    arguments = handmade.arguments()
    check(call(*arguments), arguments, weight)
    assert call(*arguments)[3] - elsewhere <= 2


def test_nothing_is_leaked(weight: Tensor) -> None:
    plain, boxed = handmade.function(weight), handmade.function(weight, boxed=True)
    arguments = handmade.arguments(rows=2000)

    def calls(number: int) -> None:
        for n in range(number):
            plain(*arguments)
            boxed(list(arguments))
            boxed(handmade.arguments(rows=2000))
            if n % 10 == 0:
                with pytest.raises(RuntimeError):
                    plain(*arguments[:2], -4, *arguments[3:])
                with pytest.raises(InputLayoutError):
                    boxed([*arguments[:2], "", *arguments[3:]])

    calls(100)
    gc.collect()
    counts = [sys.getrefcount(each) for each in (*arguments[:2], weight, plain, boxed)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls(3000)
    gc.collect()
    assert [sys.getrefcount(each) for each in (*arguments[:2], weight, plain, boxed)] == counts
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8 * 1024  # kilobytes


def test_a_function_goes_and_lets_its_constants_go() -> None:
    weight = torch.ones(3)
    call = handmade.function(weight)
    call(*handmade.arguments())
    call.me = call  # a cycle
    gone = weakref.ref(weight), weakref.ref(call)
    del weight, call
    gc.collect()
    assert gone[0]() is None
    assert gone[1]() is None


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_goes_on(weight: Tensor) -> None:
    call = handmade.function(weight)
    arguments = handmade.arguments()
    check(call(*arguments), arguments, weight)
    child = os.fork()
    if child == 0:
        weight.data = torch.zeros(3)
        right = torch.equal(call(*arguments)[0], handmade.expected(arguments, weight))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_no_library_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "no.so"
    file.write_bytes(b"no")
    with pytest.raises(LibraryLoadError, match="file too short"):
        load_library(file, (), name="no")
    with pytest.raises(LibraryLoadError, match="wir_program_info"):
        load_library("libm.so.6", (), name="no")
