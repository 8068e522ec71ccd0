"""The canonical form: the same bytes for the same program, whatever it is called and wherever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wrapper_ir as wir
from tests.diffing.renaming import renamed
from tests.emitters.corpus import FILES
from wrapper_ir import lines as ir
from wrapper_ir.diffing.canonical_form import canonical_source

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", FILES)
def test_it_is_a_program_with_names_of_its_own(name: str) -> None:
    program = wir.parse(FILES[name].read_text(encoding="utf-8"))
    found = program.canonical()
    assert wir.parse(str(found)) == found
    assert bool(wir.diagnose(found)) == bool(wir.diagnose(program))
    assert found.canonical() == found
    assert str(found.canonical()) == str(found)
    assert str(renamed(program).canonical()) == str(found)
    assert wir.canonical(program) == found


KERNEL = """\
#include "/home/somebody/.cache/torchinductor/ab/cab12.h"
// cpp_fused_add_0 and cpp_fused_add_0_helper
extern "C" void cpp_fused_add_0(const float* x) { helper("a/b"); }
"""


def test_what_the_machine_decides_is_left_out() -> None:
    source = ir.CppKernel(KERNEL, "cpp_fused_add_0", "avx512", ("-mavx2", "-march=native", "-O2"))
    assert canonical_source(source) == ir.CppKernel(
        '#include "cab12.h"\n'
        "// kernel and cpp_fused_add_0_helper\n"
        'extern "C" void kernel(const float* x) { helper("a/b"); }\n',
        "kernel",
        flags=("-O2",),
    )


def test_a_kernel_gets_a_name_that_its_text_does_not_have() -> None:
    source = ir.CppKernel("void kernel(); void mine() { kernel(); }", "mine")
    found = canonical_source(source)
    assert isinstance(found, ir.CppKernel)
    assert found.code == "void kernel(); void kernel_() { kernel(); }"
    assert found.entry == "kernel_"


def test_hashes_of_triton_are_left_out() -> None:
    source = ir.TritonKernel("meta={'kernel_name': 'tri_0', 'backend_hash': 'A1B2'}", "tri_0")
    found = canonical_source(source)
    assert isinstance(found, ir.TritonKernel)
    assert found.code == "meta={'kernel_name': 'kernel', 'backend_hash': ''}"


def test_origins_are_those_of_lines_in_their_order_without_directories() -> None:
    here = ir.Frame("/home/a/model.py", 3, "forward", "x + y")
    torchs = ir.Frame("/opt/lib/python3/site-packages/torch/nn/modules/linear.py", 134)
    unused = ir.Origin(nodes=("mul",))
    program = wir.parse("wir 2\nprogram @p inference logical\n\n  // one\n  // two\nreturn\n")
    one, two = program.body
    program = program.replace(
        body=(ir.Comment(one.text, origin=2), ir.Comment(two.text, origin=1)),
        origins=(unused, ir.Origin(frames=(torchs, here)), ir.Origin(nodes=("add",))),
    )
    found = program.canonical()
    assert [line.origin for line in found.body] == [0, 1]
    frame = ir.Frame("model.py", 3, "forward", "x + y")
    assert found.origins == (ir.Origin(nodes=("add",)), ir.Origin(frames=(frame,)))


CAPTURE = """\
import sys
import torch
import wrapper_ir as wir
from model import Block

torch.manual_seed(0)
sizes = ({1: torch.export.Dim.AUTO},)
program = wir.capture(Block(), (torch.randn(2, 3, 32),), dynamic_shapes=sizes)
sys.stdout.write(wir.print_program(wir.plan_memory(program).canonical(), origins=True))
"""

MODEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.scale = nn.Buffer(torch.ones(32))

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0] * self.scale.sigmoid()
"""


@pytest.mark.long
def test_two_processes_two_hash_seeds_two_folders(tmp_path: Path) -> None:
    running = []
    for seed in ("1", "2"):
        folder = tmp_path / ("of number " + seed)
        folder.mkdir()
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        (folder / "capture.py").write_text(CAPTURE, encoding="utf-8")
        places = {"PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        running.append(
            subprocess.Popen(
                [sys.executable, "capture.py"],
                cwd=folder,
                env={**os.environ, **places, "PYTHONHASHSEED": seed},
                stdout=subprocess.PIPE,
            )
        )
    texts = [process.communicate()[0].decode() for process in running]
    assert texts[0] == texts[1]
    assert [process.returncode for process in running] == [0, 0]
    assert 'at "model.py":' in texts[0]
    assert str(tmp_path) not in texts[0]
    assert "isa" not in texts[0]
    wir.parse(texts[0])
