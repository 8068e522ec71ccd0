"""Layouts, devices, dtypes, arguments, programs: small values with exact equality."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests import strategies
from wrapper_ir import lines as ir
from wrapper_ir.lines import (
    CPU,
    Device,
    DType,
    FrozenMap,
    Layout,
    Program,
    contiguous_strides,
    symbol,
)

S0 = symbol("s0")
slowly = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.short)
def test_dtypes_are_torchs(dtype: DType) -> None:
    theirs = getattr(torch, dtype.torch_name)
    assert isinstance(theirs, torch.dtype)
    assert dtype.itemsize == theirs.itemsize
    assert dtype.is_floating == theirs.is_floating_point
    assert dtype.is_complex == theirs.is_complex
    assert DType.from_torch_name(str(theirs)) is dtype
    assert ir.DTYPE_BY_SHORT_NAME[dtype.short] is dtype


def test_every_dtype_of_torch_has_a_name_here() -> None:
    theirs = {v for v in vars(torch).values() if isinstance(v, torch.dtype)}
    ours = {getattr(torch, d.torch_name) for d in DType}
    packed = {str(d) for d in theirs - ours}
    # Types of less than a byte, which no tensor of torch's kernels has; and the complex numbers of
    # bfloat16 since PyTorch 2.14, which next to no op takes, and only those releases have.
    packed.discard("torch.bcomplex32")
    assert all(
        any(
            word in name
            for word in ("bits", "quint", "int1", "int2", "int3", "int4", "int5", "int6", "int7")
        )
        for name in packed
    ), packed


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:0", "xpu:12"])
def test_devices_are_spelled_as_torch_spells_them(text: str) -> None:
    assert str(Device.parse(text)) == text == str(torch.device(text))
    with pytest.raises(ValueError, match="x"):
        Device.parse("cuda:x")


@pytest.mark.parametrize(
    "size", [(), (0,), (1,), (2, 3), (2, 0, 3), (4, 1, 5), (0, 0), (2, 3, 4, 5)]
)
def test_strides_are_torchs(size: tuple[int, ...]) -> None:
    tensor = torch.empty(size)
    assert contiguous_strides(size) == tensor.stride()
    layout = Layout.contiguous(DType.FLOAT32, size)
    assert layout.is_contiguous
    assert layout.numel == tensor.numel()
    assert layout.extent == tensor.untyped_storage().nbytes() // 4
    assert layout.nbytes == tensor.untyped_storage().nbytes()
    assert layout.rank == tensor.dim()


@pytest.mark.parametrize(
    ("size", "stride", "extent"),
    [
        ((3, 4), (1, 3), 12),
        ((3,), (2,), 5),
        ((3, 4), (0, 1), 4),
        ((1, 5), (100, 1), 5),
        ((2, 0), (5, 1), 0),
    ],
)
def test_extent_counts_gaps(size: tuple[int, ...], stride: tuple[int, ...], extent: int) -> None:
    assert Layout(DType.FLOAT32, CPU, size, stride).extent == extent


def test_symbolic_layouts() -> None:
    layout = Layout.contiguous(DType.FLOAT32, (S0, 4))
    assert layout.stride == (4, 1)
    assert layout.symbols == {"s0"}
    assert not layout.is_static
    assert layout.numel == 4 * S0
    assert layout.extent == 4 * S0
    assert layout.nbytes == 16 * S0
    assert Layout(DType.FLOAT32, CPU, (S0,), (S0,)).extent == S0 * (S0 - 1) + 1
    assert Layout.contiguous(DType.FLOAT32, (3,)).is_static


def test_layouts_are_canonical() -> None:
    import sympy

    odd = Layout(
        DType.FLOAT32, CPU, (sympy.Integer(3), sympy.Mul(2, S0 + 1, evaluate=False)), (1, 1)
    )
    assert odd.size == (3, 2 * S0 + 2)
    assert type(odd.size[0]) is int


def _option(value: Any) -> ir.DeviceKernel:
    return ir.DeviceKernel("language", "code", "entry", options=(("option", value),))


def _constant(value: Any) -> ir.TritonKernel:
    return ir.TritonKernel("code", "entry", constants=(("N", value),))


SCALARS = [ir.ScalarArg, ir.ScalarValue, _option, _constant]


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0, False),
        (1.0, 1 + 0j),
        (0j, complex(0, -0.0)),
        (math.nan, 0.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", SCALARS)
def test_numbers_are_told_apart(values: tuple[Any, Any], make: Any) -> None:
    a, b = map(make, values)
    assert a != b
    assert a == make(values[0])
    assert hash(a) == hash(make(values[0]))
    assert a != "a number"


@pytest.mark.parametrize("make", SCALARS)
def test_nan_is_itself(make: Any) -> None:
    assert make(math.nan) == make(float("nan"))
    assert len({make(math.nan), make(float("nan"))}) == 1


def test_a_frozen_map() -> None:
    first = FrozenMap({"a": 1, "b": 2})
    assert list(first) == ["a", "b"]
    assert first == FrozenMap({"b": 2, "a": 1}) == {"a": 1, "b": 2}
    assert hash(first) == hash(FrozenMap({"b": 2, "a": 1}))
    assert first.set(c=3)["c"] == 3
    assert "c" not in first
    assert pickle.loads(pickle.dumps(first)) == first
    assert eval(repr(first), {"FrozenMap": FrozenMap}) == first
    with pytest.raises(KeyError):
        first["z"]
    with pytest.raises(TypeError):
        first["a"] = 2


@slowly
@given(strategies.any_programs())
def test_programs_are_values(program: Program) -> None:
    assert program == program.replace()
    assert hash(program) == hash(program.replace())
    again = pickle.loads(pickle.dumps(program))
    assert again == program
    assert again.origins == program.origins
    assert program.replace(origins=(), data={"w": 1}) == program
    assert program.replace(name="another_name") != program
    assert program.region == ir.Region(program.inputs, program.body, program.results)


def test_kernels_by_name() -> None:
    first = ir.KernelDefinition("k", (), ir.CppKernel("1"))
    second = ir.KernelDefinition("k", (), ir.CppKernel("2"))
    program = Program(body=(first, second, ir.Comment("x")))
    assert program.kernels == {"k": first}
    with pytest.raises(KeyError):
        program.layout("x")
