from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime import (
    InputChecks,
    InputCountError,
    InputLayoutError,
    SymbolError,
    TensorSpec,
    check_layout,
    check_symbol,
    check_that,
    checks,
)

CPU = torch.device("cpu")
F32 = torch.float32


def spec(name: str, size: tuple[int | None, ...], stride: tuple[int | None, ...]) -> TensorSpec:
    return TensorSpec(name, F32, size, stride)


GOOD = [
    (torch.zeros(4, 3), (4, 3), (3, 1)),
    (torch.zeros(4, 3), (None, 3), (3, 1)),
    (torch.zeros(4, 3), (None, None), (None, 1)),
    (torch.zeros(1, 3).as_strided((1, 3), (99, 1)), (1, 3), (3, 1)),
    (torch.zeros(0, 3).as_strided((0, 3), (1, 7)), (0, 3), (3, 1)),
    (torch.tensor(1.0), (), ()),
    (torch.zeros(4, 6)[:, :3], (4, 3), (6, 1)),
    (torch.nn.Parameter(torch.zeros(2)), (2,), (1,)),
]
BAD: list[tuple[Any, str, str]] = [
    (torch.zeros(4, 5), "size", r"got float32\[4, 5\] with strides \[5, 1\] on cpu"),
    (torch.zeros(4, 3, 1), "rank", r"got float32\[4, 3, 1\]"),
    (torch.zeros(3, 4).t(), "stride", r"strides \[1, 4\]"),
    (torch.zeros(4, 3, dtype=torch.float64), "dtype", "got float64"),
    (torch.zeros(4, 3, device="meta"), "device", "on meta"),
    (torch.zeros(3, dtype=torch.int8), "dtype and rank", r"int8\[3\]"),
    (torch.zeros(4, 3).to_sparse(), "storage layout", "a tensor stored as torch.sparse_coo"),
    (7, "type", "a value of type int"),
    (None, "type", "a value of type NoneType"),
]


def by_function(tensor: Any, size: Any, stride: Any) -> None:
    check_layout(tensor, "arg0", F32, CPU, size, stride)


def by_object(tensor: Any, size: Any, stride: Any) -> None:
    InputChecks(spec("arg0", size, stride))(tensor)


def by_used_object(tensor: Any, size: Any, stride: Any) -> None:
    all_inputs = InputChecks(spec("arg0", size, stride))
    concrete = [[1 if n is None else n for n in numbers] for numbers in (size, stride)]
    all_inputs(torch.empty_strided(*concrete))
    assert all_inputs._guards
    all_inputs(tensor)


WAYS = pytest.mark.parametrize("check", [by_function, by_object, by_used_object])


@WAYS
@pytest.mark.parametrize(("tensor", "size", "stride"), GOOD)
def test_what_fits_passes(check: Any, tensor: Any, size: Any, stride: Any) -> None:
    check(tensor, size, stride)


@WAYS
@pytest.mark.parametrize(("value", "difference", "message"), BAD)
def test_what_does_not_fit_is_described(
    check: Any, value: Any, difference: str, message: str
) -> None:
    with pytest.raises(InputLayoutError, match=message) as caught:
        check(value, (4, 3), (3, 1))
    error = caught.value
    assert isinstance(error, WrapperIRError)
    assert isinstance(error, AssertionError)
    assert f"input 'arg0' has the wrong {difference}: expected float32[4, 3]" in str(error)
    assert error.hint


def test_a_device_without_index_stands_for_all_of_its_type() -> None:
    assert checks._same_device(torch.device("cuda:1"), torch.device("cuda"))
    assert not checks._same_device(torch.device("cuda:1"), torch.device("cuda:0"))


PAIR = InputChecks(spec("a", (4, 3), (3, 1)), spec("b", (None,), (1,)))


def test_a_wrong_input_fails_on_every_call() -> None:
    a, b = torch.zeros(4, 3), torch.zeros(5)
    for _ in range(3):
        PAIR(a, b)
        PAIR(a, torch.zeros(9))
        with pytest.raises(InputLayoutError, match="input 'b'"):
            PAIR(a, b.double())
        with pytest.raises(InputLayoutError, match="input 'a'"):
            PAIR(b, a)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_inputs(count: int) -> None:
    PAIR(torch.zeros(4, 3), torch.zeros(5))
    with pytest.raises(InputCountError, match=f"takes 2 inputs, not {count}"):
        PAIR(*[torch.zeros(4, 3)] * count)


def test_no_inputs_at_all() -> None:
    InputChecks()()


def test_kinds_of_inputs_are_remembered_in_bounds() -> None:
    one = InputChecks(spec("x", (2,), (1,)))
    plain, grad = torch.zeros(2), torch.zeros(2, requires_grad=True)
    with torch.inference_mode():
        inference = torch.zeros(2)
    kinds = [plain, grad, torch.nn.Parameter(torch.zeros(2)), inference]
    for _ in range(3):
        for tensor in kinds:
            one(tensor)
            with torch.inference_mode():
                one(tensor)
    assert len(one._guards) <= checks._MAX_GUARDS


def test_inputs_are_not_kept_alive() -> None:
    one = InputChecks(spec("x", (2,), (1,)))
    tensor = torch.zeros(2)
    one(tensor)
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert gone() is None


def test_without_torchs_guards_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "tensor_guard", lambda *_: None)
    one = InputChecks(spec("x", (2,), (1,)))
    one(torch.zeros(2))
    one(torch.zeros(2))
    with pytest.raises(InputLayoutError):
        one(torch.zeros(3))


def test_symbols() -> None:
    assert check_symbol("s0", 5, 2, 9) == 5
    assert check_symbol("s0", 5) == 5
    for value, low, high in ((1, 2, None), (10, None, 9), (10, 2, 9)):
        with pytest.raises(SymbolError, match=f"s0 is {value}"):
            check_symbol("s0", value, low, high)
    with pytest.raises(SymbolError, match="needs 2 <= s0 <= 9, but s0 is 10"):
        check_symbol("s0", 10, 2, 9)
    with pytest.raises(SymbolError, match=r"but s0 is 1 \(size 0 of 'x'\)"):
        check_symbol("s0", 1, 2, 9, "size 0 of 'x'")


def test_what_may_vary_is_told_from_what_may_not() -> None:
    with pytest.raises(InputLayoutError) as caught:
        check_layout(torch.ones(3, 5), "x", torch.float32, None, (None, 4), (4, 1))
    assert "shown as * may vary" in str(caught.value.hint)
    with pytest.raises(InputLayoutError) as caught:
        check_layout(torch.ones(3, 5), "x", torch.float32, None, (3, 4), (4, 1))
    assert "sizes were fixed" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("tensor", "size", "stride"),
    [
        (torch.ones(4), (3,), (1,)),
        (torch.ones(2, 3, 4), (2, 5, 4), (20, 4, 1)),
        (torch.ones(3, 4).t(), (4, 3), (3, 1)),
        (torch.ones(1, 4), (1, 5), (9, 1)),
    ],
)
def test_dimensions_that_differ_are_named_as_inductors_wrappers_name_them(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    with pytest.raises(AssertionError) as theirs:
        torch._C._dynamo.guards.assert_size_stride(tensor, size, stride)
    with pytest.raises(InputLayoutError) as ours:
        check_layout(tensor, "x", F32, CPU, size, stride)
    words = str(theirs.value).partition("\n")[0]
    assert words.startswith("expected size ")
    assert f"hint: {words}: " in str(ours.value)


def test_dimensions_that_may_be_anything_are_named_if_their_stride_differs() -> None:
    with pytest.raises(InputLayoutError) as caught:
        check_layout(torch.ones(4, 3).t(), "x", F32, CPU, (None, 4), (4, 1))
    words = "expected size 3==*, stride 1==4 at dim=0; expected size 4==4, stride 3==1 at dim=1: "
    assert words in str(caught.value)


def test_relations() -> None:
    check_that(True, "s0 % 8 == 0", s0=16)
    with pytest.raises(SymbolError, match=r"needs s0 == s1, but s0 is 3, s1 is 4"):
        check_that(False, "s0 == s1", s0=3, s1=4)
