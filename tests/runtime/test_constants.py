from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

from wrapper_ir.runtime import ConstantsError, TensorSpec, load_constants, save_constants
from wrapper_ir.runtime.constants import load_program_constants
from wrapper_ir.tensors_file import Packed

if TYPE_CHECKING:
    from pathlib import Path

NAME = "constants.safetensors"
LIKE = (torch.float32, (2, 3), (1, 2))

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
]


def of_dtype(dtype: torch.dtype, *size: int) -> torch.Tensor:
    count = torch.Size(size).numel()
    if dtype is torch.bool:
        return (torch.arange(count) % 2 == 0).reshape(size)
    raw = torch.arange(count * dtype.itemsize, dtype=torch.uint8)
    return raw.view(dtype).reshape(size) if count else torch.empty(size, dtype=dtype)


def bits(tensor: torch.Tensor) -> list[int]:
    """The elements as bytes: some types cannot be compared."""
    plain = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).tolist()


def round_trip(folder: Path, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    save_constants(folder / NAME, tensors)
    loaded = load_constants(folder / "module.py", NAME)
    for name, tensor in tensors.items():
        back = loaded[name]
        assert (back.shape, back.dtype, back.device) == (tensor.shape, tensor.dtype, tensor.device)
        assert bits(back) == bits(tensor)
        free = tensor.numel() == 0
        for size, ours, theirs in zip(tensor.shape, back.stride(), tensor.stride(), strict=True):
            assert free or size == 1 or ours == theirs
    return loaded


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_type(tmp_path: Path, dtype: torch.dtype) -> None:
    round_trip(
        tmp_path,
        matrix=of_dtype(dtype, 2, 3),
        scalar=of_dtype(dtype),
        empty=of_dtype(dtype, 0, 4),
        one=of_dtype(dtype, 1),
        turned=of_dtype(dtype, 2, 3).t(),
    )


def test_layouts(tmp_path: Path) -> None:
    base = torch.arange(24.0)
    loaded = round_trip(
        tmp_path,
        turned=base.reshape(4, 6).t(),
        channels_last=torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        with_holes=base.reshape(4, 6)[:, ::2],
        repeated=base[:3].expand(4, 3),
        overlapping=base.as_strided((3, 3), (2, 1)),
        scalar_repeated=base[2].expand(3, 3),
        part=base[5:9],
        conjugate=torch.randn(3, dtype=torch.complex64).conj(),
        negative=torch.randn(3, dtype=torch.complex64).conj().imag,
        parameter=torch.nn.Parameter(base),
    )
    assert not loaded["parameter"].requires_grad
    loaded["repeated"][0, 0] = 9
    assert loaded["repeated"][3, 0] == 9


def test_tied_constants_stay_tied(tmp_path: Path) -> None:
    weight = torch.randn(4)
    loaded = round_trip(tmp_path, embedding=weight, head=weight, other=weight[1:], e=torch.empty(0))
    assert loaded["embedding"] is loaded["head"]
    assert loaded["other"] is not loaded["head"]
    assert (tmp_path / NAME).stat().st_size < 1000


def test_shared_memory_stays_shared(tmp_path: Path) -> None:
    base = torch.arange(24.0)
    parts = {"whole": base.reshape(4, 6), "turned": base.reshape(4, 6).t(), "part": base[5:9]}
    loaded = round_trip(tmp_path, **parts)
    loaded["whole"].zero_()
    assert not loaded["turned"].any()
    assert not loaded["part"].any()


def test_what_lies_between_constants_is_not_stored(tmp_path: Path) -> None:
    base = torch.arange(100_000.0)
    round_trip(tmp_path, first=base[:3], last=base[-3:])
    assert (tmp_path / NAME).stat().st_size < 1000


def test_tied_views_of_shared_memory_are_one_tensor(tmp_path: Path) -> None:
    base = torch.arange(8.0)
    loaded = round_trip(tmp_path, a=base[::2], b=base, c=base[::2])
    assert loaded["a"] is loaded["c"]


def test_a_file_without_layouts_is_read_by_specs(tmp_path: Path) -> None:
    value = torch.randn(3, 2).t()
    packed = Packed({"w": value, "pair": torch.randn(2, dtype=torch.complex64)})
    packed.write(tmp_path / NAME, {})
    loaded = load_program_constants(tmp_path / NAME, [TensorSpec("v", *LIKE)], {"v": "w"})
    assert torch.equal(loaded["v"], value)
    assert loaded["v"].stride() == value.stride()
    with pytest.raises(ConstantsError, match="its metadata is damaged"):
        load_constants(tmp_path / "module.py", NAME)  # the bytes of ``pair`` have no layout


@pytest.mark.parametrize(
    "about", ["[]", "1", "{}", '{"names": ["w"], "same": {}, "pieces": {}, "layouts": 3}']
)
def test_damaged_metadata(tmp_path: Path, about: str) -> None:
    save_file({"w": torch.ones(1)}, tmp_path / NAME, {"wrapper_ir": about})
    with pytest.raises(ConstantsError, match="its metadata is damaged"):
        load_constants(tmp_path / "module.py", NAME)


def test_awkward_names(tmp_path: Path) -> None:
    names = ["L['self']._modules['0'].weight", 'with "quotes"', "новый", "", "a\nb"]
    round_trip(tmp_path, **{name: torch.ones(1) for name in names})


def test_no_constants(tmp_path: Path) -> None:
    assert round_trip(tmp_path) == {}


def test_changing_a_constant_does_not_change_the_file(tmp_path: Path) -> None:
    loaded = round_trip(tmp_path, running_mean=torch.zeros(3))
    loaded["running_mean"].fill_(7)
    again = load_constants(tmp_path / "module.py", NAME)
    assert again["running_mean"].tolist() == [0.0, 0.0, 0.0]


def test_replacing_the_file_does_not_change_what_was_loaded(tmp_path: Path) -> None:
    loaded = round_trip(tmp_path, w=torch.ones(1000))
    save_constants(tmp_path / NAME, {"w": torch.zeros(3)})
    assert loaded["w"].sum() == 1000
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


SPEC = TensorSpec("w", torch.float32, (2, 3), (3, 1))


def test_expected_constants_come_in_their_order(tmp_path: Path) -> None:
    save_constants(tmp_path / NAME, {"b": torch.ones(1), "w": torch.ones(2, 3), "x": torch.ones(1)})
    other = TensorSpec("b", torch.float32, (1,), (1,))
    loaded = load_constants(tmp_path / "module.py", NAME, [SPEC, other])
    assert list(loaded) == ["w", "b"]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3, 2), r"'w' has size \(3, 2\)"),
        (torch.ones(2, 3, dtype=torch.float16), "'w' has dtype float16"),
        (torch.ones(3).expand(4, 3), r"'w' has size \(4, 3\)"),
        (torch.ones(2, 3, dtype=torch.complex64), "'w' has dtype complex64"),
    ],
)
def test_another_constant_than_expected(tmp_path: Path, tensor: torch.Tensor, message: str) -> None:
    save_constants(tmp_path / NAME, {"w": tensor})
    with pytest.raises(ConstantsError, match=message) as caught:
        load_constants(tmp_path / "module.py", NAME, [SPEC])
    assert "another version" in str(caught.value.hint)


@pytest.mark.parametrize("stored", [torch.randn(3, 2).t(), torch.randn(2, 3, 2)[..., 0]])
@pytest.mark.parametrize("shared", [False, True])
def test_strides_are_those_that_are_expected(
    tmp_path: Path, stored: torch.Tensor, shared: bool
) -> None:
    others = {"other": stored.t()} if shared else {}
    save_constants(tmp_path / NAME, {"w": stored, **others})
    loaded = load_constants(tmp_path / "module.py", NAME, [SPEC])["w"]
    assert loaded.stride() == (3, 1)
    assert torch.equal(loaded, stored)


def test_a_constant_that_is_not_there(tmp_path: Path) -> None:
    save_constants(tmp_path / NAME, {"v": torch.ones(1)})
    with pytest.raises(ConstantsError, match="the value of 'w' is missing"):
        load_constants(tmp_path / "module.py", NAME, [SPEC])


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConstantsError, match="no such file") as caught:
        load_constants(tmp_path / "module.py", NAME)
    assert "module.py" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", b"\xff" * 64])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(ConstantsError, match="cannot be read"):
        load_constants(tmp_path / "module.py", NAME)


def test_a_truncated_file(tmp_path: Path) -> None:
    save_constants(tmp_path / NAME, {"w": torch.ones(1000)})
    content = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(content[:-1000])
    with pytest.raises(ConstantsError, match="cannot be read"):
        load_constants(tmp_path / "module.py", NAME)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(2).to_sparse(), "sparse"),
        (torch.ones(2, device="meta"), "meta"),
    ],
)
def test_what_cannot_be_stored(tmp_path: Path, tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(ConstantsError, match=message):
        save_constants(tmp_path / NAME, {"w": tensor})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConstantsError, match="cannot be written"):
        save_constants(tmp_path / "absent" / NAME, {"w": torch.ones(1)})
