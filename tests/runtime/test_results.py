"""Checks of what ops return, kept memory, loops and scalars."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests import warm
from wrapper_ir.runtime import (
    AlignmentError,
    InputLayoutError,
    ResultLayoutError,
    Scratch,
    SymbolError,
    TensorSpec,
    check_number,
    check_result,
    make_constants,
    once,
    random_tensor,
    refuse_misaligned,
    result_check,
    run_while,
    run_while_stacked,
    save_constants,
)

if TYPE_CHECKING:
    from pathlib import Path

F32 = torch.float32


@pytest.mark.parametrize("calls_before", [0, 1, 3])
@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(4, 4),
        torch.zeros(3, 4).t(),
        torch.zeros(4, 3, dtype=torch.float64),
        torch.zeros(4, 3, device="meta"),
        torch.zeros(12),
    ],
)
def test_result_check(wrong: torch.Tensor, calls_before: int) -> None:
    check = result_check("aten.f", F32, (4, 3), (3, 1))
    for _ in range(calls_before):
        check(torch.zeros(4, 3))
    with pytest.raises(ResultLayoutError, match=r"'aten.f' returned .* expected float32\[4, 3\]"):
        check(wrong)
    check(torch.zeros(4, 3))
    with pytest.raises(AssertionError):
        check_result(wrong, "aten.f", F32, (4, 3), (3, 1))


def test_strides_that_do_not_matter() -> None:
    check = result_check("aten.f", F32, (1, 3), (3, 1))
    for stride in (3, 99, 0):
        check(torch.zeros(300).as_strided((1, 3), (stride, 1)))


def test_once_looks_until_it_has_passed() -> None:
    check = once(result_check("aten.f", F32, (2,), (1,)))
    for _ in range(2):
        with pytest.raises(ResultLayoutError):
            check(torch.zeros(3))
    check(torch.zeros(2))
    check(torch.zeros(3))


def test_alignment() -> None:
    with pytest.raises(AlignmentError, match="'x' is not aligned to 16 bytes"):
        refuse_misaligned(torch.zeros(8)[1:], "x", 16)


def test_numbers() -> None:
    check_number("s0", 4, int, 2, 8)
    check_number("z0", 4, float)
    check_number("b0", True, bool)
    for value, kind in ((True, int), (4.0, int), (1, bool), (torch.tensor(1), int), (None, float)):
        with pytest.raises(InputLayoutError, match="'n' has the wrong type"):
            check_number("n", value, kind)
    for number in (1, 9):
        with pytest.raises(SymbolError, match="2 <= s0 <= 8"):
            check_number("s0", number, int, 2, 8)


def test_scratch_is_used_again() -> None:
    scratch = Scratch(((2, 3), (3, 1), F32), ((4,), (1,), torch.int64))
    first = scratch.take()
    assert [b.shape for b in first] == [(2, 3), (4,)]
    assert first[1].dtype is torch.int64
    second = scratch.take()
    assert not {b.data_ptr() for b in first} & {b.data_ptr() for b in second}
    scratch.give(first)
    assert scratch.take() is first


def test_scratch_does_not_grow_without_end() -> None:
    scratch = Scratch(((1,), (1,), F32))
    for buffers in [scratch.take() for _ in range(20)]:
        scratch.give(buffers)
    assert len(scratch._sets) == 4


def test_scratch_made_in_inference_mode_is_of_use_outside() -> None:
    scratch = Scratch(((1,), (1,), F32))
    with torch.inference_mode():
        (buffer,) = scratch.take()
    assert not buffer.is_inference()


def test_threads_never_share_scratch() -> None:
    scratch = Scratch(((1,), (1,), torch.int64))
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(2000):
            buffers = scratch.take()
            buffers[0].fill_(mark)
            if buffers[0].item() != mark:
                wrong.append(mark)
            scratch.give(buffers)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def below(limit: int) -> Any:
    return lambda i, *_: (i < limit,)


def step(i: int, x: torch.Tensor, c: int) -> tuple[int, torch.Tensor]:
    return i + 1, x * c


def test_while() -> None:
    x = torch.ones(2)
    count, result = run_while(below(3), step, (0, x), (2,))
    assert (count, result.tolist()) == (3, [8.0, 8.0])
    count, result = run_while(below(0), step, (0, x), (2,))
    assert count == 0
    assert torch.equal(result, x)
    assert result is not x


def test_stacked_while() -> None:
    x = torch.ones(2)
    counts, rounds = run_while_stacked(below(2), step, (0, x), (3,))
    assert counts.tolist() == [1, 2]
    assert rounds.tolist() == [[3.0, 3.0], [9.0, 9.0]]
    counts, rounds = run_while_stacked(below(0), step, (0, x), (3,))
    assert counts.tolist() == [0]
    assert rounds.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(
    "dtype", [F32, torch.bfloat16, torch.float8_e5m2, torch.complex64, torch.int8, torch.bool]
)
def test_random_tensors(dtype: torch.dtype) -> None:
    made = random_tensor(dtype, (3, 2), (1, 4))
    assert made.dtype is dtype
    assert made.stride() == (1, 4)


def test_constants_come_from_the_file_beside(tmp_path: Path) -> None:
    specs = (TensorSpec("w", F32, (2,), (1,)), TensorSpec("v", F32, (2,), (1,)))
    module: dict[str, Any] = {"__file__": str(tmp_path / "m.py"), "w": None, "v": torch.ones(2)}
    save_constants(tmp_path / "m.py.safetensors", {"w": torch.tensor([1.0, 2.0])})
    make_constants(module, specs)
    assert module["w"].tolist() == [1.0, 2.0]
    assert module["v"].tolist() == [1.0, 1.0]


def test_constants_are_random_where_there_is_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module: dict[str, Any] = {"__file__": str(tmp_path / "m.py"), "w": None}
    make_constants(module, (TensorSpec("w", F32, (2, 3), (1, 2)),))
    assert module["w"].stride() == (1, 2)
    assert "constants are random" in capsys.readouterr().err


def test_importing_the_runtime_loads_nothing_of_the_compiler() -> None:
    text = (
        "import sys, wrapper_ir.runtime; "
        "print([m for m in sys.modules if m.startswith('wrapper_ir.') "
        "and m.split('.')[1] not in "
        "('runtime', 'toolchain', 'outputs', 'errors', 'devices', 'lazy', 'options', 'plugins')])"
    )
    done = warm.run(text, ours=False)
    assert done.stdout.strip() == "[]"


def test_anywhere_is_any_device() -> None:
    check = result_check("op", torch.int64, (), (), None)
    check(torch.zeros((), dtype=torch.int64))
    check(torch.zeros((), dtype=torch.int64, device="meta"))
    with pytest.raises(ResultLayoutError, match=r"expected int64\[\] with strides \[\], got float"):
        check(torch.zeros(()))
