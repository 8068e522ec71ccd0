"""A model's file, and a program of it as a front end would have made it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import wrapper_ir as wir

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """\
import torch


def forward(x, w):
    h = x @ w  # the product
    h = h.relu()
    big = h.expand(64, 16, 16).contiguous()
    return big.sum(0) + torch.sigmoid(h)
"""

#: Logical; its peak is at %big, which one line alone makes large.
PROGRAM = """\
wir 2
program @sample inference logical

input %x : f32[16, 64] @cpu
constant %w : f32[64, 16] @cpu = parameter "net.weight"

kernel @relu(x: inout f32) cpp
  | #include <torch/csrc/inductor/cpp_prefix.h>
  | extern "C" void kernel(float* x)
  | {
  |     for (int64_t i = 0; i < 256; ++i) x[i] = x[i] > 0 ? x[i] : 0;
  | }
  |

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
extern aten::sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, \
ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)
extern aten::sigmoid.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)

  %h = allocate : f32[16, 16] @cpu loc(#0)
  aten::mm.out(%x, %w, out=out %h) loc(#0)
  call @relu(inout %h) loc(#1)
  %big = allocate : f32[64, 16, 16] @cpu loc(#2)
  aten::copy_(inout %big, %h, non_blocking=false) loc(#2)
  %total = allocate : f32[16, 16] @cpu loc(#3)
  aten::sum.IntList_out(%big, dim=[0], out=out %total) loc(#3)
  %gate = allocate : f32[16, 16] @cpu loc(#4)
  aten::sigmoid.out(%h, out=out %gate) loc(#4)
  %y = allocate : f32[16, 16] @cpu loc(#5)
  aten::add.out(%total, %gate, out=out %y) loc(#5)
return %y

#0 = loc nodes ["mm"] ops ["aten.mm"] module "net" at "FILE":5 in "forward" \
code "h = x @ w  # the product"
#1 = loc nodes ["relu"] ops ["aten.relu"] module "net" at "FILE":6 in "forward" code "h = h.relu()"
#2 = loc nodes ["expand", "clone"] ops ["aten.expand", "aten.clone"] at "FILE":7 in "forward" \
code "big = h.expand(64, 16, 16).contiguous()"
#3 = loc nodes ["sum_1"] ops ["aten.sum"] at "FILE":8 in "forward" \
code "return big.sum(0) + torch.sigmoid(h)"
#4 = loc nodes ["sigmoid"] ops ["aten.sigmoid"] at "FILE":8 in "forward" \
code "return big.sum(0) + torch.sigmoid(h)"
#5 = loc nodes ["add"] ops ["aten.add"] at "FILE":8 in "forward" \
code "return big.sum(0) + torch.sigmoid(h)"
"""


def sample(folder: Path, model: str = MODEL) -> wir.Program:
    """Return the program, and leave its model's file in a folder."""
    file = folder / "model.py"
    file.write_text(model, encoding="utf-8")
    return wir.parse(PROGRAM.replace('"FILE"', f'"{file}"'))


def log_of(folder: Path) -> Path:
    """Return the log that says most; processes that compile kernels write some, too."""
    return max(folder.glob("*.log"), key=lambda file: file.stat().st_size)


def rewritten(traced: Path, folder: Path, *pairs: tuple[str, str]) -> Path:
    """Leave a log with texts replaced in payloads, which have the right hashes nevertheless."""
    records: list[list[str]] = []
    for row in log_of(traced).read_text(encoding="utf-8").split("\n"):
        if row.startswith("\t"):
            records[-1].append(row[1:])
        else:
            records.append([row])
    out = []
    for head, *rows in records:
        payload = "\n".join(rows)
        for before, after in pairs:
            payload = payload.replace(before, after)
        digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        head = re.sub(r'"has_payload": "\w+"', f'"has_payload": "{digest}"', head)
        out += [head, *(f"\t{row}" for row in payload.split("\n") if rows)]
    folder.mkdir(exist_ok=True)
    (folder / "made.log").write_text("\n".join(out), encoding="utf-8")
    return folder
