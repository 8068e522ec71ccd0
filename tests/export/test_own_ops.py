"""Libraries that call ops of the front end's run in processes that know nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests import warm

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

TEXT = r"""wir 2
program @own inference planned

input %x : f32[2] @cpu

extern wrapper_ir_inductor::random_state() -> Tensor

extern wrapper_ir_inductor::set_random_state(Tensor state) -> ()

extern wrapper_ir_inductor::print(str text, Tensor[] tensors, Scalar[] numbers, str[] given) -> ()

extern wrapper_ir_inductor::assert_finite(Tensor value, str name) -> ()

extern wrapper_ir_inductor::intermediate_hook(Tensor value, str name) -> ()

extern RAND

  wrapper_ir_inductor::assert_finite(%x, "input 'x'")
  %before = wrapper_ir_inductor::random_state() : u8[SIZE] @cpu
  %first = aten::rand([4]) : f32[4] @cpu
  wrapper_ir_inductor::set_random_state(%before)
  %second = aten::rand([4]) : f32[4] @cpu
  wrapper_ir_inductor::print("PLACES", [%x], [3, 2.5, true], GIVEN)
  HOOK
  free %before
return %first, %second
"""
TEXT = TEXT.replace("SIZE", str(torch.get_rng_state().numel()))
TEXT = TEXT.replace("RAND", str(torch.ops.aten.rand.default._schema))
TEXT = TEXT.replace("GIVEN", '["tensor", "number", "size=number", "number"]')
PLACES = "{} then {1} and {{}} of {size} is {2}"

USER = """
import sys, torch
runner = torch._C._aoti.AOTIModelContainerRunnerCpu(sys.argv[1], 1)
torch.manual_seed(5)
before = torch.get_rng_state()
try:
    first, second = runner.run([torch.tensor([1.0, float(sys.argv[2])])])
except RuntimeError as error:
    sys.exit(f"refused: {error}")
assert torch.equal(first, second)
after = torch.get_rng_state()
torch.set_rng_state(before)
assert torch.equal(first, torch.rand(4))
assert torch.equal(after, torch.get_rng_state())
assert not any(name.startswith("wrapper_ir") for name in sys.modules)
"""


def run(library: Path, value: str = "2") -> subprocess.CompletedProcess[str]:
    return warm.run(USER, library, value, ours=False)


def test_random_states_and_printing_need_no_python(tmp_path: Path) -> None:
    text = TEXT.replace("PLACES", PLACES).replace("  HOOK\n", "")
    library = wir.export(wir.parse(text), tmp_path / "own.so")
    found = run(library)
    assert found.returncode == 0, found.stderr
    printed = found.stdout.splitlines()
    assert printed[:2] == [" 1", " 2"]  # a tensor, as C++ prints it
    assert printed[-1].endswith(" then 3 and {} of 2.5 is True")
    found = run(library, "nan")
    assert found.returncode == 1
    assert "input 'x' has NaN" in found.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("PLACES", "{:.2f}").replace("  HOOK\n", ""), "without Python"),
        (
            TEXT.replace("PLACES", PLACES).replace(
                "HOOK", 'wrapper_ir_inductor::intermediate_hook(%x, "x")'
            ),
            "calls Python",
        ),
    ],
)
def test_what_needs_python_says_so(text: str, words: str, tmp_path: Path) -> None:
    found = run(wir.export(wir.parse(text), tmp_path / "own.so"))
    assert found.returncode == 1
    assert words in found.stderr


ALONE = """
import sys, torch
text = open(sys.argv[1]).read()
module = {"__name__": "alone"}
exec(compile(text, sys.argv[1], "exec"), module)
first, second = module["call"]([torch.tensor([1.0, 2.0])])
assert torch.equal(first, second)
print([name for name in sys.modules if name.startswith("wrapper_ir.frontends")])
"""


def test_emitted_python_registers_the_ops_that_it_calls(tmp_path: Path) -> None:
    text = TEXT.replace("PLACES", "{} then {} of {size}").replace("  HOOK\n", "")
    file = tmp_path / "own.py"
    file.write_text(wir.emit(wir.parse(text), "python").source)
    found = warm.run(ALONE, file, ours=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["tensor([1., 2.]) then 3 of 2.5", "[]"]


LOADED = """
import sys, torch, wrapper_ir as wir
function = wir.compile(wir.parse(open(sys.argv[1]).read()), sys.argv[2])
from torch._inductor.hooks import intermediate_hook
seen = []
with intermediate_hook(lambda name, value: seen.append((name, value.tolist()))):
    function(torch.tensor([1.0, 2.0]))
print(seen)
"""


@pytest.mark.parametrize("target", ["cpp", "fx"])
def test_loading_registers_the_ops_that_only_python_has(target: str, tmp_path: Path) -> None:
    lines = [line for line in TEXT.splitlines() if "::print(" not in line]
    hook = 'wrapper_ir_inductor::intermediate_hook(%x, "x")'
    file = tmp_path / "own.wir"
    file.write_text("\n".join(lines).replace("HOOK", hook) + "\n")
    found = warm.run(LOADED, file, target, taken_down=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1] == "[('x', [1.0, 2.0])]"
