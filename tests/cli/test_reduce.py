"""A program that fails, made small from the command line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.debugging import reduce
from wrapper_ir.lines import KernelCall

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Invoke

#: Has a kernel that writes one element too many.
WRONG = """\
wir 2
program @wrong inference logical

input %x : f32[4] @cpu
input %unused : f32[2] @cpu

kernel @copy(x: in f32, y: out f32) cpp
  | extern "C" void kernel(const float* x, float* y)
  | {
  |     for (int i = 0; i < 4; ++i) y[i] = x[i];
  | }
  |
kernel @wild(x: in f32, y: out f32) cpp
  | extern "C" void kernel(const float* x, float* y)
  | {
  |     for (int i = 0; i < 5; ++i) y[i] = 1;
  | }
  |

  // before
  %a = allocate : f32[4] @cpu
  call @copy(%x, out %a)
  %b = allocate : f32[4] @cpu
  call @wild(%a, out %b)
  %c = allocate : f32[4] @cpu
  call @copy(%b, out %c)
return %c, %a
"""


def test_a_kernel_that_writes_too_far_is_what_is_left(room: Path, invoke: Invoke) -> None:
    (room / "wrong.wir").write_text(WRONG)
    result = invoke("reduce", "wrong.wir", "--differs", "python", "--random", "0")
    assert result.exit_code == 0, result.output
    told = "interpreter: WIR2407: 7 lines -> 4 lines, wrong.small.wir"
    assert result.stdout == f"{told}\ninputs: wrong.small.inputs.pt\n"
    assert "4 lines, " in result.stderr
    small = wir.load(room / "wrong.small.wir")
    assert (len(small.inputs), small.results) == (1, ())
    assert [line.kernel for line in small.body if isinstance(line, KernelCall)] == ["copy", "wild"]
    assert [tensor.shape for tensor in torch.load(room / "wrong.small.inputs.pt")] == [(4,)]


@pytest.mark.parametrize("kernel", ["@copy(%x", "@wild", "@copy(%b", "return %c", "return %a"])
def test_nothing_that_is_left_reads_what_nobody_wrote(kernel: str) -> None:
    """A program of which that is true may fail for that reason."""
    text = WRONG.replace("return %c, %a", "return %c" if "c" in kernel else "return %a")
    small = reduce(wir.parse(text), lambda program: kernel in str(program))
    assert kernel in str(small)
    assert not wir.diagnose(small, warnings=True)


def test_what_reads_unwritten_memory_from_the_start_is_reduced_too() -> None:
    text = WRONG.replace("  call @copy(%x, out %a)\n", "")
    small = reduce(wir.parse(text), lambda program: "call @wild" in str(program))
    assert len(small.body) == len(wir.parse(text).kernels) - 1 + 3


def test_a_command_judges(room: Path, invoke: Invoke) -> None:
    (room / "judge.py").write_text(
        "import sys\ntext = open(sys.argv[1]).read()\n"
        "print('a product') if 'call @relu(%' in text else None\n"
        "sys.exit('call @relu(%' in text)\n"
    )
    judge = f"{sys.executable} judge.py"
    result = invoke("reduce", "small.wir", "--fails", judge, "-o", "out.wir", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["failure"], found["before"], found["after"]) == ("status 1", "4 lines", "2 lines")
    text = (room / "out.wir").read_text()
    assert "call @relu(%" in text
    assert "aten::mm" not in text
    # The place of the file is {}, and what the command says counts.
    words = ("reduce", "small.wir", "--fails", f"{judge} {{}} more", "-o", "-", "--says")
    assert "call @relu(%" in invoke(*words, "a product").stdout
    none = invoke(*words, "something else")
    assert none.exit_code == 2
    assert "WIR1514" in none.stderr


def test_mistakes(room: Path, invoke: Invoke) -> None:
    program = ("reduce", "small.wir")
    assert invoke(*program).exit_code == 2
    assert invoke(*program, "--fails", "true", "--differs", "fx").exit_code == 2
    assert "--inputs PATH or --random" in invoke(*program, "--differs", "fx").stderr
    assert "no command" in invoke(*program, "--fails", " ").stderr
    assert "No closing quotation" in invoke(*program, "--fails", "'").stderr
    assert "WIR1515" in invoke(*program, "--fails", "./no_such_command").stderr
    result = invoke(*program, "--differs", "pyhton", "--random", "0")
    assert result.exit_code == 2
    assert "pyhton" in result.stderr
    assert invoke(*program, "--differs", "python", "--random", "0").exit_code == 2
    assert not list(room.glob("*.small.wir"))


ENDLESS = """\
wir 2
program @endless inference logical

symbol u0 : int
symbol u1 : int
symbol u2 : int unbacked
input %x : f32[4] @cpu

  u2 = while (0) : symbol
    condition (u0) {
      yield u0 < 1
    }
    body (u1) {
      yield u1
    }
return %x
"""


def test_what_never_ends_is_no_difference(room: Path, invoke: Invoke) -> None:
    (room / "endless.wir").write_text(ENDLESS)
    words = ("--differs", "python", "--random", "0", "--timeout", "1")
    result = invoke("reduce", "endless.wir", *words)
    assert result.exit_code == 2
    assert "does not fail" in result.stderr
