"""The private fast paths and their public fallbacks: the same results both ways."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from wrapper_ir.runtime import _private


@pytest.fixture(params=["private", "public"])
def ways(request: pytest.FixtureRequest) -> Any:
    if request.param == "private":
        assert _private.empty_strided_cpu is not _private._public_empty_strided_cpu
        return SimpleNamespace(
            empty=_private.empty_strided_cpu, reinterpret=_private.reinterpret_tensor
        )
    return SimpleNamespace(
        empty=_private._public_empty_strided_cpu, reinterpret=_private._public_reinterpret_tensor
    )


@pytest.mark.parametrize(
    ("size", "stride", "dtype"),
    [
        ((4, 3), (3, 1), torch.float32),
        ((4, 3), (1, 4), torch.bfloat16),
        ((), (), torch.int64),
        ((0, 5), (5, 1), torch.bool),
        ((2, 3), (8, 1), torch.complex64),
    ],
)
def test_empty_strided(
    ways: Any, size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> None:
    made = ways.empty(size, stride, dtype)
    assert (tuple(made.shape), made.stride(), made.dtype) == (size, stride, dtype)
    assert made.device.type == "cpu"
    assert not made.requires_grad


def test_reinterpret_counts_from_the_tensor_itself(ways: Any) -> None:
    base = torch.arange(24.0)[4:]
    view = ways.reinterpret(base, (2, 3), (3, 1), 5)
    assert view.tolist() == [[9.0, 10.0, 11.0], [12.0, 13.0, 14.0]]
    assert view.storage_offset() == 9
    view[0, 0] = -1
    assert base[5] == -1
    assert ways.reinterpret(base, (20,), (1,), 0).tolist() == base.tolist()


def test_reinterpret_is_not_recorded(ways: Any) -> None:
    weight = torch.zeros(6, requires_grad=True)
    assert not ways.reinterpret(weight, (2, 3), (3, 1), 0).requires_grad


def test_without_the_private_names_everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.setattr(torch._C._dynamo, "guards", SimpleNamespace())
    monkeypatch.delitem(sys.modules, _private.__name__)
    bare = importlib.import_module(_private.__name__)
    assert bare is not _private
    assert bare.empty_strided_cpu is bare._public_empty_strided_cpu
    assert bare.reinterpret_tensor is bare._public_reinterpret_tensor
    assert bare.data_ptr_address() == 0
    assert bare.tensor_guard([torch.zeros(1)], [[1]], [[1]]) is None


def test_amx_is_asked_for_where_torch_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_init_amx", lambda: True, raising=False)
    assert _private.enable_amx() is True
    monkeypatch.delattr(torch.cpu, "_init_amx")
    assert _private.enable_amx() is False


@pytest.mark.parametrize("way", ["private", "public"])
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_autocast_is_seen_and_switched_off(way: str, kind: str) -> None:
    is_private = way == "private"
    enabled = getattr(
        _private, "any_autocast_enabled" if is_private else "_public_any_autocast_enabled"
    )
    off = getattr(_private, "no_autocast" if is_private else "_public_no_autocast")
    assert not enabled()
    torch.set_autocast_enabled(kind, True)
    try:
        assert enabled()
        with off():
            assert not torch.is_autocast_enabled(kind)
        assert torch.is_autocast_enabled(kind)
    finally:
        torch.set_autocast_enabled(kind, False)
