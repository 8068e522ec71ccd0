"""Numbers among the results of libraries: each has the element type of AOTInductor's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.export.support import run

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.build import Builder

TYPES = ("i8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64", "bool")

# What aoti_compile_and_package makes of x.item(), -x.item() and so on, by torch 2.13.
ITEMS = (
    *(torch.int8, torch.uint8, torch.int32, torch.int64),
    *(torch.float32, torch.float32, torch.float32, torch.float64, torch.bool),
)
COMPUTED = (
    *(torch.int64, torch.int32, torch.int64, torch.int64, torch.int32),
    *(torch.float32, torch.float64, torch.float64, torch.int64),
)


def program() -> wir.Program:
    b: Builder = wir.Builder("numbers")
    inputs = {name: b.input(f"x_{name}", name, ()) for name in TYPES}
    item = {name: b.item(value, name=f"n_{name}") for name, value in inputs.items()}
    b.returns(
        *item.values(),
        -1 * item["i32"],
        item["i8"] + item["u8"],
        item["i32"] + item["i64"],
        2 * item["i8"] + 1,
        item["i32"] + item["i32"] * item["i8"],
        -1 * item["f16"],
        2.0 * item["f32"] + 1.0,
        item["f32"] + item["f64"],
        7,
    )
    return b.build()


def test_numbers_have_the_types_that_stock_packages_return(tmp_path: Path) -> None:
    inputs = [torch.tensor(3, dtype=torch_type(name)) for name in TYPES]
    library = wir.export(program(), tmp_path / "numbers.so")
    results = run(library, *inputs)
    assert tuple(each.dtype for each in results) == (*ITEMS, *COMPUTED)
    numbers = [value.item() for value in inputs]
    assert [each.item() for each in results] == [*numbers, -3, 6, 6, 7, 12, -3.0, 7.0, 6.0, 7]
    assert results[2].shape == ()

    inputs[2] = torch.tensor(2**31 - 1, dtype=torch.int32)  # times 1 and 3: beyond the type
    with pytest.raises(RuntimeError, match=r"WIR2153|run_func_"):
        run(library, *inputs)


def torch_type(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, wir.DType(name).torch_name)
    return found
