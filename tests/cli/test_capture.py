"""capture and run: from a model to a program, a module and results."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file, save_file

import wrapper_ir as wir
from tests import warm
from tests.cli.samples import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke


def net() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """The model that the commands have just imported."""
    module = sys.modules["net_model"]
    return module.net, module.inputs


@pytest.mark.parametrize(
    "words",
    [
        ("net_model:make",),
        ("net_model.py:make",),
        ("net_model:net", "--args", "net_model:inputs"),
        ("net_model:net", "--args", "net_model.py:make_inputs"),
    ],
    ids=" ".join,
)
def test_capture_writes_a_program_that_computes_the_same(
    words: tuple[str, ...], room: Path, invoke: Invoke
) -> None:
    result = invoke("capture", *words, "-o", "net.wir")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == ""
    program = wir.load("net.wir")
    wir.verify(program)
    assert sorted(c.qualified_name for c in program.constants.values()) == ["up.bias", "up.weight"]
    model, inputs = net()
    torch.testing.assert_close(wir.compile(program)(*inputs)[0], model(*inputs))


def test_capture_with_kwargs_to_standard_output(room: Path, invoke: Invoke) -> None:
    result = invoke("capture", "net_model:make_with_kwargs")
    assert result.exit_code == 0, result.output
    program = wir.parse(result.stdout)
    assert len(program.inputs) == 2
    assert sorted(path.suffix for path in room.iterdir() if path.is_file()) == [".py", ".wir"]


def test_capture_takes_what_was_exported_before(room: Path, invoke: Invoke) -> None:
    (room / "broken_model.py").write_text(
        "import torch\n\n\ndef make():\n"
        "    return torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))\n"
    )
    result = invoke("capture", "broken_model:make")
    assert result.exit_code == 0, result.output
    assert wir.parse(result.stdout).buffers["weight"].size == (3, 2)


def test_capture_emits_texts_that_take_no_constants(room: Path, invoke: Invoke) -> None:
    words = ("--frontend", "aten", "--emit", "w.cpp", "--target", "cpp")
    result = invoke("capture", "net_model:make", *words)
    assert result.exit_code == 0, result.output
    assert "wir::" in (room / "w.cpp").read_text(encoding="utf-8")
    assert not (room / "w.cpp.safetensors").exists()


def test_capture_emits_a_module_that_runs_from_anywhere(room: Path, invoke: Invoke) -> None:
    result = invoke("capture", "net_model:make", "--emit", "w.py", "-O", "origins=true")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert not (room / "net.wir").exists()
    model, _ = net()
    assert torch.equal(load_file("w.py.safetensors")["up_weight"], model.up.weight)
    (room / "elsewhere").mkdir()
    done = warm.run(room / "w.py", "--calls", "2", "--batches", "1", cwd=room / "elsewhere")
    assert done.returncode == 0, done.stderr
    assert "result 0: float32[4, 16]" in done.stdout
    assert "constants are random" not in done.stderr
    assert "net_model.py" in (room / "w.py").read_text(encoding="utf-8")


def test_emit_with_constants(room: Path, invoke: Invoke) -> None:
    assert invoke("capture", "net_model:make", "-o", "net.wir").exit_code == 0
    model, _ = net()
    for spelling in (("--constants", "beside"), ("--constants=beside",)):
        assert invoke("emit", "net.wir", "-o", "w.py", *spelling).exit_code == 0
        assert torch.equal(load_file("w.py.safetensors")["up_weight"], model.up.weight)
        (room / "w.py.safetensors").unlink()
    assert invoke("emit", "net.wir", "-o", "w.py", "--constants", "none").exit_code == 0
    assert not (room / "w.py.safetensors").exists()
    (room / "net.safetensors").unlink()
    assert invoke("emit", "net.wir", "-o", "v.py").exit_code == 0
    result = invoke("emit", "net.wir", "-o", "u.py", "--constants", "beside")
    assert result.exit_code == 2
    assert "net.safetensors" in result.stderr
    assert not (room / "u.py").exists()


def expected(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x), torch.relu(x) @ w


@pytest.fixture
def arguments() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        "x": torch.randn(4, 8, generator=generator),
        "w": torch.randn(8, 2, generator=generator),
    }


def test_run_by_name_and_in_order(
    room: Path, invoke: Invoke, arguments: dict[str, torch.Tensor]
) -> None:
    save_file(arguments, "in.safetensors")
    torch.save(list(arguments.values()), "in.pt")
    for file in ("in.safetensors", "in.pt"):
        result = invoke("run", "small.wir", "--inputs", file, "-o", f"{file}.safetensors")
        assert result.exit_code == 0, result.output
        assert "4x2" in result.stdout
        found = load_file(f"{file}.safetensors")
        for number, value in enumerate(expected(**arguments)):
            torch.testing.assert_close(found[f"result{number}"], value)


def test_run_random_is_the_same_each_time(room: Path, invoke: Invoke) -> None:
    first = invoke("run", "small.wir", "--random", "5", "--json")
    assert first.exit_code == 0, first.output
    assert first.stdout == invoke("run", "small.wir", "--random", "5", "--json").stdout
    assert first.stdout != invoke("run", "small.wir", "--random", "6", "--json").stdout
    y, z = json.loads(first.stdout)
    assert (y["type"], y["shape"], z["shape"]) == ("float32", [4, 8], [4, 2])
    assert y["min"] == 0.0


SCALED = """
wir 2
program @scaled inference logical

symbol scale : float
symbol flag : bool
symbol free : float
input %x : f32[2] @cpu
input scale
input flag
input free

  assert scale == 2.5
return %x, $scale, $flag, $free
"""


def test_run_makes_up_numbers(room: Path, invoke: Invoke) -> None:
    (room / "scaled.wir").write_text(SCALED)
    result = invoke("run", "scaled.wir", "--random", "0", "--json")
    assert result.exit_code == 0, result.output
    assert [each.get("value") for each in json.loads(result.stdout)] == [None, 2.5, True, 1.0]


def test_run_takes_symbolic_sizes_at_their_hints(room: Path, invoke: Invoke) -> None:
    text = PROGRAM.replace(
        "input %x", "symbol s0 : int [1, 9] hint 3\ninput %free : f32[s0] @cpu\ninput %x"
    )
    text = text.replace("  %y = alloc", "  s0 = size %free, 0\n  %y = alloc")
    text = text.replace("return %y, %z", "return %y, %z, s0")
    result = invoke("run", "-", "--random", "0", "--json", stdin=text)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[2] == {"type": "int", "value": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": None}, "missing: w; unknown: none"),
        ({"v": torch.zeros(1)}, "unknown: v"),
        ({"x": torch.zeros(4, 9)}, "x"),
    ],
)
def test_run_with_inputs_that_do_not_fit(
    change: dict[str, torch.Tensor | None],
    message: str,
    room: Path,
    invoke: Invoke,
    arguments: dict[str, torch.Tensor],
) -> None:
    given = {name: t for name, t in {**arguments, **change}.items() if t is not None}
    save_file(given, "in.safetensors")
    result = invoke("run", "small.wir", "--inputs", "in.safetensors", "-o", "out.safetensors")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (room / "out.safetensors").exists()


def test_run_never_unpickles_code(room: Path, invoke: Invoke) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (open, ("evil", "w"))

    torch.save([Evil()], "in.pt")
    result = invoke("run", "small.wir", "--inputs", "in.pt")
    assert result.exit_code == 2
    assert "WIR4006" in result.stderr
    assert not (room / "evil").exists()


def test_capture_of_aten_ops(room: Path, invoke: Invoke) -> None:
    result = invoke("capture", "net_model:make", "--frontend", "aten", "-o", "net.wir")
    assert result.exit_code == 0, result.output
    program = wir.load("net.wir")
    assert "extern aten::linear" in str(program)
    assert not any(
        hasattr(line, "source") and hasattr(line.source, "code") for line in program.body
    )
    model, inputs = net()
    assert torch.equal(wir.compile(program)(*inputs)[0], model(*inputs))
