"""No command writes over what it did not make."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

import wrapper_ir as wir
from tests import warm
from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.cli.conftest import Invoke

WEIGHTS = """\
wir 2
program @{name} inference logical

input %x : f32[2, 2] @cpu
constant %w : f32[2, 2] @cpu = parameter "w"

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %z = allocate : f32[2, 2] @cpu
  aten::mm.out(%x, %w, out=out %z)
return %z
"""


def weights(value: float, name: str = "mlp") -> wir.Program:
    program = wir.parse(WEIGHTS.format(name=name))
    return program.replace(data={"w": torch.full((2, 2), value)})


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.fixture
def mlp(room: Path) -> Path:
    weights(3.0).save(room / "mlp.wir")
    return room


def test_emitting_beside_a_program_leaves_its_weights(mlp: Path, invoke: Invoke) -> None:
    before = contents(mlp)
    words = ("emit", "mlp.wir", "--target", "python", "-o", "mlp.py", "--constants", "beside")
    for _ in range(2):  # what was made for the output is replaced
        result = invoke(*words)
        assert result.exit_code == 0, result.output
    after = contents(mlp)
    assert after.keys() - before.keys() == {"mlp.py", "mlp.py.safetensors"}
    assert before.items() <= after.items()
    assert torch.equal(load_file("mlp.py.safetensors")["w"], torch.full((2, 2), 3.0))
    assert invoke("run", "mlp.wir", "--random", "0").exit_code == 0


def test_outputs_of_other_names_have_constants_of_their_own(room: Path) -> None:
    for number, name in enumerate(("m.wir", "m.txt", "m.2")):
        weights(float(number)).save(room / name)
    for number, name in enumerate(("m.wir", "m.txt", "m.2")):
        assert wir.load(room / name).data["w"][0, 0] == number
    with pytest.raises(WrapperIRError, match="constants of 'm'") as caught:
        weights(9.0).save(room / "m")  # its constants would be called like those of m.wir
    assert caught.value.code == "WIR0004"
    assert wir.load(room / "m.wir").data["w"][0, 0] == 0


def test_a_checkpoint_beside_a_program_is_kept(room: Path) -> None:
    save_file({"theirs": torch.ones(3)}, room / "m.safetensors")
    before = contents(room)
    with pytest.raises(WrapperIRError, match=r"m\.safetensors"):
        weights(1.0).save(room / "m.wir")
    assert contents(room) == before


@pytest.mark.parametrize(
    "words",
    [
        "emit mlp.wir -o mlp.wir",
        "emit mlp.wir -o mlp.wir --force",
        "emit mlp.wir -o mlp.safetensors",
        "emit mlp.wir -o mlp.safetensors --force",
        "plan mlp.wir -o mlp.wir",
        "plan mlp.wir --svg mlp.wir",
        "plan mlp.wir --svg net_model.py",
        "plan mlp.wir -o planned --svg planned",
        "run mlp.wir --random 0 -o mlp.safetensors",
        "run mlp.wir --inputs in.safetensors -o in.safetensors",
        "run mlp.wir --inputs in.safetensors -o checkpoint.safetensors",
        "emit mlp.wir -o net_model.py",
        "emit mlp.wir -o mlp.py --constants beside",
        "capture net_model.py:make --emit net_model.py",
        "capture net_model.py:make --emit net_model.py --force",
        "capture net_model.py:make -o notes.txt",
        "capture net_model.py:make -o checkpoint.wir",
        "plan-csv table.csv -o table.csv",
        "plan-csv table.csv -o notes.txt",
        "export mlp.wir -o notes.so",
        "export mlp.wir -o notes.pt2",
        "export mlp.wir -o clear.so --constants beside",
    ],
)
def test_what_is_there_is_kept(mlp: Path, invoke: Invoke, words: str) -> None:
    (mlp / "notes.txt").write_text("mine\n")
    (mlp / "notes.so").write_text("mine\n")
    (mlp / "notes.pt2").write_text("mine\n")
    (mlp / "clear.constants").write_text("mine\n")
    (mlp / "table.csv").write_text("lower,upper,size\n0,2,8\n")
    save_file({"x": torch.ones(2, 2)}, mlp / "in.safetensors")
    save_file({"theirs": torch.ones(2, 2)}, mlp / "checkpoint.safetensors")
    save_file({"theirs": torch.ones(2, 2)}, mlp / "mlp.py.safetensors")
    before = contents(mlp)
    result = invoke(*words.split())
    assert result.exit_code == 2, result.output
    assert "WIR0004" in result.stderr
    hint = result.stderr.partition("hint:")[2]
    assert ("--force" in hint) == ("--force" not in words)
    # Of two outputs the other one may be there.
    assert before.items() <= contents(mlp).items()


def test_force_writes_over_what_is_meant(mlp: Path, invoke: Invoke) -> None:
    (mlp / "old.py").write_text("mine\n")
    save_file({"theirs": torch.ones(2, 2)}, mlp / "old.py.safetensors")
    words = ("emit", "mlp.wir", "-o", "old.py", "--constants", "beside", "--force")
    assert invoke(*words).exit_code == 0
    assert "Wrapper program" in (mlp / "old.py").read_text()
    assert "w" in load_file("old.py.safetensors")


@pytest.mark.parametrize(
    "words",
    [
        "emit mlp.wir -o made.py",
        "emit mlp.wir -o made.cpp --target cpp",
        "emit mlp.wir -o made.fx --target fx",
        "plan mlp.wir -o planned.wir --svg planned.svg",
        "run mlp.wir --random 0 -o results.safetensors",
        "plan-csv table.csv -o planned.csv",
        "export mlp.wir -o made.so --constants beside --debug-info",
        "export mlp.wir -o made.pt2 --debug-info",
        "export mlp.wir -o made",
        "reduce mlp.wir --fails false",
    ],
)
def test_what_a_command_made_it_makes_again(mlp: Path, invoke: Invoke, words: str) -> None:
    (mlp / "table.csv").write_text("lower,upper,size\n0,2,8\n")
    for _ in range(2):
        result = invoke(*words.split())
        assert result.exit_code == 0, result.output


# A module's constants are those that were written with it.


@pytest.fixture
def modules(room: Path, invoke: Invoke) -> Path:
    """Two modules whose constants have the same names and sizes, and one with none."""
    for name, value in (("one", 3.0), ("other", 5.0)):
        weights(value, name).save(room / f"{name}.wir")
        words = ("emit", f"{name}.wir", "-o", f"{name}.py", "--constants", "beside")
        assert invoke(*words).exit_code == 0
    (room / "fresh.py").write_text(
        "import sys, torch, one\nfrom wrapper_ir.runtime import load_constants\n"
        "one.w = load_constants(one.__file__, 'one.py.safetensors', one.CONSTANTS,"
        " *sys.argv[1:] and [one.CONSTANTS_HASH])['w']\n"
        "print(*one.call([torch.eye(2)]))\n"
    )
    return room


def times(module: Path) -> subprocess.CompletedProcess[str]:
    return warm.run(module, "--calls", "1", "--batches", "1", cwd=module.parent)


def test_a_module_takes_its_own_constants(modules: Path) -> None:
    done = times(modules / "one.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "result 0: float32[2, 2]" in done.stdout
    done = warm.run(modules / "fresh.py", "hash", cwd=modules)
    assert "[3., 3.]" in done.stdout


def test_a_module_refuses_the_constants_of_another_one(modules: Path) -> None:
    shutil.copy(modules / "other.py.safetensors", modules / "one.py.safetensors")
    for done in (times(modules / "one.py"), warm.run(modules / "fresh.py", "hash", cwd=modules)):
        assert done.returncode != 0
        assert "result 0" not in done.stdout
        assert "WIR2154" in done.stderr
        assert f"constants in {modules / 'one.py.safetensors'}: " in done.stderr
        assert f"not the values that were written with {modules / 'one.py'}" in done.stderr
        assert "delete the line 'CONSTANTS_HASH'" in done.stderr


def test_values_are_replaced_on_purpose_once_the_module_names_none(modules: Path) -> None:
    shutil.copy(modules / "other.py.safetensors", modules / "one.py.safetensors")
    text = (modules / "one.py").read_text("utf-8")
    lines = (line for line in text.splitlines(keepends=True) if "CONSTANTS_HASH" not in line)
    (modules / "one.py").write_text("".join(lines), "utf-8")
    done = times(modules / "one.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[5., 5.]" in warm.run(modules / "fresh.py", cwd=modules).stdout


def test_both_files_may_be_renamed_and_the_text_edited(modules: Path) -> None:
    text = (modules / "one.py").read_text("utf-8")
    (modules / "moved.py").write_text(text + "\n# edited\n", "utf-8")
    (modules / "one.py.safetensors").rename(modules / "moved.py.safetensors")
    done = times(modules / "moved.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_constants_that_do_not_fit_are_no_reason_to_make_some_up(modules: Path) -> None:
    save_file({"w": torch.ones(1)}, modules / "one.py.safetensors")
    done = times(modules / "one.py")
    assert done.returncode != 0
    assert "WIR2154" in done.stderr
    (modules / "one.py.safetensors").unlink()
    done = times(modules / "one.py")
    assert done.returncode == 0
    assert "constants are random: " in done.stderr


def test_a_text_that_is_only_emitted_reads_no_values(modules: Path, invoke: Invoke) -> None:
    emitted = wir.emit(weights(3.0, "one"), "python").source
    assert "CONSTANTS_HASH" not in emitted
    assert emitted == wir.emit(weights(5.0, "one"), "python").source
    assert invoke("emit", "one.wir").stdout == emitted
    lines = (modules / "one.py").read_text("utf-8").splitlines(keepends=True)
    assert "".join(line for line in lines if "CONSTANTS_HASH" not in line) == emitted
