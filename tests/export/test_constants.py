"""The blob of constants: where each lies, and what bytes lie there."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.aot.build import library as building
from wrapper_ir.aot.build.constants import blob_of, write_blob
from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.aot.errors import ConstantValueError, TooLargeError
from wrapper_ir.devices import TYPE_NUMBERS
from wrapper_ir.emitters.cpp.constants import constant_table
from wrapper_ir.lines.layout import DType
from wrapper_ir.toolchain.manifest import DTYPE_NUMBERS


def _program(values: dict[str, torch.Tensor], tied: dict[str, str] | None = None) -> wir.Program:
    layouts = {
        name: wir.Layout(
            DType.from_torch_name(str(value.dtype)), wir.Device("cpu"), value.shape, value.stride()
        )
        for name, value in values.items()
    }
    constants = {
        name: wir.Constant(f"model.{name}", tied_to=(tied or {}).get(name)) for name in values
    }
    return wir.Program(
        buffers=wir.FrozenMap(layouts), constants=wir.FrozenMap(constants), data=dict(values)
    )


def _blob(program: wir.Program, folder: Path) -> bytes:
    blob = blob_of(program)
    digest = write_blob(program, blob, folder / "blob", trailer=False)
    content = (folder / "blob").read_bytes()
    assert len(content) == blob.size
    assert hashlib.sha256(content).hexdigest() == digest
    return content


def _read(program: wir.Program, blob: bytes, name: str) -> torch.Tensor:
    entry = next(entry for entry in constant_table(program).entries if entry.name == name)
    dtype = program.data[name].dtype
    raw = bytearray(blob[entry.data_offset : entry.data_offset + entry.data_bytes])
    memory = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    return memory.as_strided(entry.size, entry.stride, entry.storage_offset)


VALUES = {
    "plain": torch.arange(6.0).reshape(2, 3),
    "turned": torch.arange(6.0).reshape(2, 3).t(),
    "gappy": torch.arange(20.0).reshape(4, 5)[:, :2],
    "wide": torch.arange(3.0).expand(4, 3),
    "half": torch.arange(5, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False, True]),
    "complex": torch.tensor([1 + 2j, 3 - 1j]),
    "scalar": torch.tensor(7, dtype=torch.int16),
    "nothing": torch.empty(0, 3),
    "last": torch.arange(2, dtype=torch.int64),
}


def test_every_value_lies_where_the_table_says(tmp_path: Path) -> None:
    program = _program(VALUES)
    blob = _blob(program, tmp_path)
    for name, value in VALUES.items():
        assert torch.equal(_read(program, blob, name), value), name


def test_parts_are_aligned_and_apart() -> None:
    entries = [e for e in constant_table(_program(VALUES)).entries if e.data_bytes]
    assert all(entry.data_offset % 64 == 0 for entry in entries)
    ends = [entry.data_offset + entry.data_bytes for entry in entries]
    assert all(end <= entry.data_offset for end, entry in zip(ends, entries[1:], strict=False))


@pytest.mark.parametrize("names", ["plain nothing", "nothing half nothing", "flags nothing turned"])
def test_what_has_no_bytes_has_no_place(tmp_path: Path, names: str) -> None:
    values = {f"{name}{n}": VALUES[name] for n, name in enumerate(names.split())}
    program = _program(values)
    blob = _blob(program, tmp_path)
    assert len(blob) == max(e.data_offset + e.data_bytes for e in constant_table(program).entries)
    for name, value in values.items():
        assert torch.equal(_read(program, blob, name), value), name


def test_tied_constants_are_stored_once(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    values = {"a": base.reshape(3, 4), "b": base.reshape(3, 4).t(), "c": torch.ones(1)}
    program = _program(values, {"b": "a"})
    blob = _blob(program, tmp_path)
    assert len(blob) < 2 * 48 + 64
    first, second, _ = constant_table(program).entries
    assert (second.tied_to, second.data_offset, second.data_bytes) == (0, 0, first.data_bytes)
    assert torch.equal(_read(program, blob, "b"), values["b"])


def test_a_tied_constant_may_reach_further_than_its_root(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    values = {"short": base[:4], "long": base}
    program = _program(values, {"long": "short"})
    blob = _blob(program, tmp_path)
    assert torch.equal(_read(program, blob, "short"), base[:4])
    assert torch.equal(_read(program, blob, "long"), base)


def test_memory_between_elements_is_not_stored(tmp_path: Path) -> None:
    """It belongs to something else, and would differ from run to run."""
    secret = torch.full((4, 5), 42.0)
    secret[:, :2] = 1.0
    blob = _blob(_program({"gappy": secret[:, :2]}), tmp_path)
    assert torch.frombuffer(bytearray(blob), dtype=torch.float32).max() == 1.0


def test_lazily_conjugated_values_are_stored_as_they_read(tmp_path: Path) -> None:
    value = torch.tensor([1 + 2j, 3 - 1j])
    program = _program({"c": value.conj()})
    assert torch.equal(_read(program, _blob(program, tmp_path), "c"), value.conj())


def test_values_are_laid_out_as_the_program_says(tmp_path: Path) -> None:
    program = _program({"a": torch.arange(6.0).reshape(2, 3)})
    turned = program.replace(data={"a": torch.arange(6.0).reshape(3, 2).t().contiguous().t().t()})
    for data in (torch.arange(6.0).reshape(2, 3).t().contiguous().t(), turned.data["a"]):
        other = program.replace(data={"a": data})
        assert torch.equal(_read(other, _blob(other, tmp_path), "a"), data)


@pytest.mark.parametrize(
    "value",
    [None, torch.zeros(3), torch.zeros(2, dtype=torch.float64), torch.zeros(2, device="meta"), 1.0],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, value: Any) -> None:
    program = _program({"a": torch.zeros(2)}).replace(data={} if value is None else {"a": value})
    with pytest.raises(ConstantValueError, match=r"model\.a"):
        write_blob(program, blob_of(program), tmp_path / "blob", trailer=False)


def test_what_is_too_large_is_told_before_it_is_written() -> None:
    huge = wir.Layout.contiguous(DType.FLOAT32, (1 << 30,))
    program = wir.Program(
        buffers=wir.FrozenMap({"w": huge}), constants=wir.FrozenMap({"w": wir.Constant("w")})
    )
    artifact = building_artifact(program)
    with pytest.raises(TooLargeError, match="4294967296"):
        building.prepared(artifact, BuildOptions(constants="embedded"))
    assert building.prepared(artifact, BuildOptions())[1] == "beside"


_LARGE = """
import resource, sys, pathlib, torch
from tests.export.test_constants import _program
from wrapper_ir.aot.build.constants import blob_of, write_blob
program = _program({name: torch.ones(8 << 20) for name in "abcd"})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
write_blob(program, blob_of(program), pathlib.Path(sys.argv[1]), trailer=True)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_values_are_not_copied_in_memory(tmp_path: Path) -> None:
    """128 MB of constants, of which a few are in memory a second time."""
    command = [sys.executable, "-W", "ignore", "-c", _LARGE, str(tmp_path / "blob")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    assert (tmp_path / "blob").stat().st_size == (128 << 20) + 48
    assert int(done.stdout) < 48


def building_artifact(program: wir.Program) -> Any:
    from wrapper_ir.aot.emitter import CppArtifact
    from wrapper_ir.emitters.writer import SourceMap

    return CppArtifact({}, (), source="", source_map=SourceMap(()), program=program)


def test_numbers_of_types_are_those_of_torch() -> None:
    """They are torch's ABI; the dispatcher-free way to ask is the C shim that is loaded already."""
    import ctypes

    torch_cpu = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so"))
    asked = 0
    for dtype, code in DTYPE_NUMBERS.items():
        function = getattr(torch_cpu, f"aoti_torch_dtype_{dtype}", None)
        if function is not None:
            assert function() == code, dtype
            asked += 1
    assert asked >= 19
    assert torch_cpu.aoti_torch_device_type_cpu() == TYPE_NUMBERS["cpu"]
    assert torch_cpu.aoti_torch_device_type_cuda() == TYPE_NUMBERS["cuda"]
