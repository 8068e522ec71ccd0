"""Programs in files: what is saved is what is loaded, or there is a clear error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import wrapper_ir as wir
from wrapper_ir.lines import (
    CPU,
    BufferInput,
    Constant,
    DType,
    Frame,
    FrozenMap,
    Layout,
    Origin,
    Program,
)
from wrapper_ir.text import CharacterTextError, ConstantsError, FileError, TextError

if TYPE_CHECKING:
    from pathlib import Path


def _program(**data: torch.Tensor) -> Program:
    """A program whose constants have the layouts of the tensors."""
    return Program(
        constants=FrozenMap({name: Constant(f"m.{name}") for name in data}),
        buffers=FrozenMap({name: _layout(tensor) for name, tensor in data.items()}),
        data=data,
    )


def _layout(tensor: torch.Tensor) -> Layout:
    dtype = DType.from_torch_name(str(tensor.dtype))
    return Layout(dtype, CPU, tuple(tensor.shape), tuple(tensor.stride()))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal bit by bit, NaN and all."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = (t.resolve_conj().contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return torch.equal(a, b)


DTYPES = sorted(
    (d for d in DType if not d.name.startswith(("QINT", "QUINT")) and hasattr(torch, d.torch_name)),
    key=lambda d: d.short,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.short)
def test_every_dtype_comes_back(dtype: DType, tmp_path: Path) -> None:
    bits = torch.arange(24 * dtype.itemsize, dtype=torch.int64).to(torch.uint8)
    tensor = bits.view(getattr(torch, dtype.torch_name)).reshape(4, 6)
    if dtype is DType.BOOL:
        tensor = (bits % 2).reshape(4, 6).bool()
    program = _program(w=tensor)
    program.save(tmp_path / "m.wir")
    loaded = wir.load(tmp_path / "m.wir")
    assert loaded == program
    assert _same(loaded.data["w"], tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.empty(0, 4),
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(24.0)[::2],
        torch.arange(3.0).expand(4, 3),
        torch.arange(10.0).as_strided((3, 3), (2, 1)),
        torch.arange(60.0).reshape(1, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([float("nan"), -0.0, float("inf")]),
        torch.nn.Parameter(torch.ones(2)),
        torch.arange(100.0)[90:],
    ],
    ids=["0d", "empty", "t", "step", "expand", "overlap", "nhwc", "conj", "nan", "param", "slice"],
)
def test_every_layout_comes_back(tensor: torch.Tensor, tmp_path: Path) -> None:
    program = _program(w=tensor)
    program.save(tmp_path / "m.wir")
    value = wir.load(tmp_path / "m.wir").data["w"]
    assert _same(value, tensor)
    assert value.stride() == tensor.stride()
    assert value.data_ptr() % 64 == 0 or value.numel() == 0


def test_a_plain_constant_is_readable_by_others_under_its_name(tmp_path: Path) -> None:
    tensor = torch.randn(3, 4)
    _program(w=tensor.t()).save(tmp_path / "m.wir")
    assert torch.equal(load_file(tmp_path / "m.safetensors")["w"], tensor.t())


def test_tied_constants_stay_tied_and_are_stored_once(tmp_path: Path) -> None:
    tensor = torch.randn(64, 64)
    _program(a=tensor, b=tensor, c=torch.randn(2)).save(tmp_path / "m.wir")
    data = wir.load(tmp_path / "m.wir").data
    data["a"][0, 0] = 7.0
    assert data["b"][0, 0] == 7.0
    assert (tmp_path / "m.safetensors").stat().st_size < 1.5 * tensor.nbytes


def test_different_views_of_one_storage_stay_so(tmp_path: Path) -> None:
    base = torch.arange(40.0)
    views = {
        "a": base[4:12],
        "b": base[8:20:2],
        "c": base[4:12].view(torch.int32),
        "d": base.view(torch.complex64)[3:5],
    }
    program = _program(**views)
    program.save(tmp_path / "m.wir")
    data = wir.load(tmp_path / "m.wir").data
    assert all(_same(data[name], view) for name, view in views.items())
    data["a"][4] = -1.0
    assert data["b"][0] == -1.0
    assert data["c"][4] == torch.tensor([-1.0]).view(torch.int32)[0]
    assert data["d"][1].real == -1.0


_BASE = torch.arange(1_000_000.0)
_PAIR = _BASE.view(torch.complex64)


@pytest.mark.parametrize(
    "views",
    [
        (_BASE[:64].view(8, 8), _BASE[-64:].view(8, 8)),
        (_BASE[-64:].view(8, 8).t(), _BASE[:64].view(torch.int32)),
        (_BASE[:64], _BASE[32:96], _BASE[-64:], _BASE[-64:]),
        (_PAIR[:64], _PAIR[-64:], _BASE[64:128]),
        (_BASE[500_001:500_030], _BASE[3:30], _BASE[999_000:][::2], _BASE[999_001:][::2]),
        (_BASE[64:80], _BASE[80:96], _BASE[:0], _BASE[96:100].expand(3, 4)),
    ],
    ids=["ends", "reversed", "three", "complex", "interleaved", "adjacent"],
)
def test_what_lies_between_the_constants_of_a_storage_is_not_stored(
    views: tuple[torch.Tensor, ...], tmp_path: Path
) -> None:
    program = _program(**{f"c{index}": view for index, view in enumerate(views)})
    program.save(tmp_path / "m.wir")
    data = wir.load(tmp_path / "m.wir").data
    assert all(_same(data[f"c{index}"], view) for index, view in enumerate(views))
    assert (tmp_path / "m.safetensors").stat().st_size < 10_000


def test_a_program_without_constants_is_one_file(tmp_path: Path) -> None:
    Program(inputs=(), origins=(Origin(("n",), (), (Frame("f.py", 3),)),)).save(tmp_path / "m.wir")
    assert os.listdir(tmp_path) == ["m.wir"]
    assert wir.load(tmp_path / "m.wir").origins == (Origin(("n",), (), (Frame("f.py", 3),)),)


def test_a_program_whose_values_are_not_there_can_be_saved(tmp_path: Path) -> None:
    program = _program(w=torch.ones(2), v=torch.ones(3)).replace(data={"v": torch.ones(3)})
    program.save(tmp_path / "m.wir")
    assert list(wir.load(tmp_path / "m.wir").data) == ["v"]
    program.replace(data={}).save(tmp_path / "m.wir")
    assert wir.load(tmp_path / "m.wir") == program
    assert not wir.load(tmp_path / "m.wir").data


def test_without_data_torch_is_not_needed(tmp_path: Path) -> None:
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    code = (
        "import sys; sys.modules['torch'] = None; import wrapper_ir as wir;"
        f"p = wir.load({str(tmp_path / 'm.wir')!r}, data=False); print(len(p.constants));"
        "print(len(wir.parse(str(p)).constants)); p.save(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "n.wir")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert (tmp_path / "n.safetensors").exists()


def test_a_missing_file_of_constants(tmp_path: Path) -> None:
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    (tmp_path / "m.safetensors").unlink()
    with pytest.raises(ConstantsError, match="there is no such file"):
        wir.load(tmp_path / "m.wir")


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_truncated_file_of_constants(keep: int, tmp_path: Path) -> None:
    _program(w=torch.ones(100)).save(tmp_path / "m.wir")
    file = tmp_path / "m.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ConstantsError, match=r"m\.safetensors"):
        wir.load(tmp_path / "m.wir")


def test_constants_of_another_program(tmp_path: Path) -> None:
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    for other in (
        _program(w=torch.ones(3)),
        _program(w=torch.ones(2).half()),
        _program(v=torch.ones(2)),
    ):
        other.save(tmp_path / "n.wir")
        os.replace(tmp_path / "n.safetensors", tmp_path / "m.safetensors")
        with pytest.raises(ConstantsError):
            wir.load(tmp_path / "m.wir")


def _swap(folder: Path, old: Program, new: Program) -> None:
    """Put the values of ``new`` beside the text of ``old``, in ``m.wir``."""
    old.save(folder / "m.wir")
    new.save(folder / "n.wir")
    os.replace(folder / "n.safetensors", folder / "m.safetensors")


def _forget_the_hash(text: Path) -> None:
    lines = text.read_text().splitlines(keepends=True)
    text.write_text("".join(line for line in lines if not line.startswith("values")))


_ONES = torch.ones(2, 3)

#: Values of other programs whose constants have equal names, sizes and types.
OTHERS = {
    "values": ({"w": _ONES}, {"w": _ONES * 2}),
    "one element": ({"w": torch.zeros(100_000)}, {"w": torch.eye(1, 100_000)[0]}),
    "swapped": ({"v": _ONES, "w": _ONES * 2}, {"v": _ONES * 2, "w": _ONES}),
    "sign of zero": ({"w": torch.zeros(3)}, {"w": -torch.zeros(3)}),
    "flags": ({"w": torch.ones(9, dtype=torch.bool)}, {"w": torch.zeros(9, dtype=torch.bool)}),
    "tied": ({"v": _ONES, "w": _ONES}, {"v": _ONES, "w": _ONES.clone()}),
    "bytes": ({"w": torch.ones(3) * 1j}, {"w": torch.ones(3) * 2j}),
    "some": ({"v": _ONES, "w": _ONES}, {"w": _ONES}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_values_of_another_program_that_fit_are_refused(case: str, tmp_path: Path) -> None:
    old, new = (_program(**data) for data in OTHERS[case])
    new = new.replace(constants=old.constants, buffers=old.buffers)
    _swap(tmp_path, old, new)
    with pytest.raises(ConstantsError, match="not the values that were saved with") as caught:
        wir.load(tmp_path / "m.wir")
    assert "delete the line 'values'" in str(caught.value.hint)
    assert wir.load(tmp_path / "m.wir", data=False) == old


def test_replaced_values_are_read_if_that_is_meant(tmp_path: Path) -> None:
    old, new = _program(w=torch.ones(2)), _program(w=torch.zeros(2))
    _swap(tmp_path, old, new)
    text = tmp_path / "m.wir"
    _forget_the_hash(text)
    assert torch.equal(wir.load(text).data["w"], torch.zeros(2))
    own = wir.load(text, data=False).replace(data={"w": torch.full((2,), 3.0)})
    own.save(tmp_path / "k.wir")
    assert torch.equal(wir.load(tmp_path / "k.wir").data["w"], torch.full((2,), 3.0))


def test_equal_values_in_files_with_other_names_are_read(tmp_path: Path) -> None:
    old = _program(w=torch.ones(2))
    _swap(tmp_path, old, _program(w=torch.ones(2)))
    assert wir.load(tmp_path / "m.wir") == old
    os.replace(tmp_path / "m.wir", tmp_path / "k.wir")
    os.replace(tmp_path / "m.safetensors", tmp_path / "k.safetensors")
    assert torch.equal(wir.load(tmp_path / "k.wir").data["w"], torch.ones(2))


def test_files_of_values_without_a_hash_belong_to_texts_without_one(tmp_path: Path) -> None:
    """Files as they were written before texts named the hash of their values."""
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    text, values = tmp_path / "m.wir", tmp_path / "m.safetensors"
    with safe_open(values, framework="pt") as opened:
        about = json.loads(opened.metadata()["wrapper_ir"])
    del about["hash"]
    save_file({"w": torch.ones(2)}, values, {"wrapper_ir": json.dumps(about)})
    with pytest.raises(ConstantsError, match="not the values that were saved with"):
        wir.load(text)
    _forget_the_hash(text)
    assert torch.equal(wir.load(text).data["w"], torch.ones(2))


def test_the_hash_of_values_is_no_part_of_a_program(tmp_path: Path) -> None:
    program = _program(w=torch.ones(2))
    program.save(tmp_path / "m.wir")
    text = (tmp_path / "m.wir").read_text()
    assert "\nvalues " in text
    assert wir.parse(text) == program
    assert "values" not in str(wir.parse(text))
    program.replace(data={}).save(tmp_path / "m.wir")  # there is nothing to tell apart
    assert "values" not in (tmp_path / "m.wir").read_text()
    with pytest.raises(TextError, match="given twice"):
        wir.parse(text.replace("\nvalues", '\nvalues "a"\nvalues'))


def test_a_foreign_file_of_constants(tmp_path: Path) -> None:
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    save_file({"w": torch.ones(2)}, tmp_path / "m.safetensors")
    with pytest.raises(ConstantsError, match="not written by wrapper_ir"):
        wir.load(tmp_path / "m.wir")


@pytest.mark.parametrize(
    "about",
    [
        "not json",
        "[]",
        '{"names": ["w"], "same": {}}',
        '{"names": [["w"]], "same": {}, "pieces": {}}',
        '{"names": ["w"], "same": {"w": "w"}, "pieces": {}}',
        '{"names": ["w"], "same": {"w": ["w"]}, "pieces": {}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": 3}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "x", "offset": 0, "stride": [1]}}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "w", "offset": 9, "stride": [1]}}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "w", "offset": 4, "stride": [99]}}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "w", "offset": -4, "stride": [1]}}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "w", "offset": 0, "stride": ["a"]}}}',
        '{"names": ["w"], "same": {}, "pieces": {"w": {"key": "w", "offset": 0, "stride": []}}}',
    ],
)
def test_damaged_metadata(about: str, tmp_path: Path) -> None:
    _program(w=torch.ones(2)).save(tmp_path / "m.wir")
    stored = {"w": torch.zeros(8, dtype=torch.uint8)}
    save_file(stored, tmp_path / "m.safetensors", {"wrapper_ir": about})
    with pytest.raises(ConstantsError):
        wir.load(tmp_path / "m.wir")


def test_values_that_do_not_fit_are_not_saved(tmp_path: Path) -> None:
    program = _program(w=torch.ones(2))
    wrong = [
        {"w": torch.ones(3)},
        {"w": torch.ones(2, device="meta")},
        {"x": torch.ones(2)},
        {"w": torch.ones(2, dtype=torch.int32)},
    ]
    for data in wrong:
        with pytest.raises(ConstantsError):
            program.replace(data=data).save(tmp_path / "m.wir")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_what_was_there(tmp_path: Path) -> None:
    good = _program(w=torch.ones(2))
    good.save(tmp_path / "m.wir")
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    with pytest.raises(ConstantsError):
        good.replace(data={"w": torch.ones(5)}, name="other").save(tmp_path / "m.wir")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


def test_the_same_program_gives_the_same_files(tmp_path: Path) -> None:
    tensor = torch.randn(3, 3)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        _program(w=tensor, v=tensor.t()).save(folder / "m.wir")
    for name in ("m.wir", "m.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with safe_open(tmp_path / "a" / "m.safetensors", framework="pt") as opened:
        assert json.loads(opened.metadata()["wrapper_ir"])["names"] == ["w", "v"]


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    program = _program(w=torch.ones(2))
    with pytest.raises(FileError):
        wir.load(tmp_path / "no.wir")
    with pytest.raises(FileError):
        wir.load(tmp_path)
    with pytest.raises(FileError):
        program.save(tmp_path / "no" / "m.wir")
    with pytest.raises(FileError, match=r"m\.wir"):
        program.save(tmp_path / "m.safetensors")
    (tmp_path / "d.wir").mkdir()
    with pytest.raises(FileError):
        program.save(tmp_path / "d.wir")
    assert sorted(os.listdir(tmp_path)) == ["d.wir"]


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "m.wir").write_bytes(b"wir 2\nprogram @\xff")
    with pytest.raises(CharacterTextError) as caught:
        wir.load(tmp_path / "m.wir")
    assert (caught.value.line, caught.value.column) == (2, 10)
    (tmp_path / "m.wir").write_bytes(os.urandom(2000))
    with pytest.raises(TextError):
        wir.load(tmp_path / "m.wir")


def test_crlf_files_are_read(tmp_path: Path) -> None:
    program = Program(inputs=(BufferInput("x"),), buffers=FrozenMap({"x": _layout(torch.ones(2))}))
    (tmp_path / "m.wir").write_bytes(str(program).replace("\n", "\r\n").encode())
    assert wir.load(tmp_path / "m.wir") == program
