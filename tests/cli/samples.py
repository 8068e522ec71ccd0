"""Texts that the tests of the command line use."""

from __future__ import annotations

#: a = relu(x) by a library op.
SMALL = """\
wir 2
program @small inference logical

input %x : f32[4] @cpu

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[4] @cpu
  aten::relu.out(%x, out=out %a)
return %a
"""

#: y = relu(x) by a kernel of ours, z = y @ w by a library op.
PROGRAM = """\
wir 2
program @small inference logical

input %x : f32[4, 8] @cpu
input %w : f32[8, 2] @cpu

kernel @relu(in_ptr0: in f32, out_ptr0: out f32) cpp
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
  | {
  |     for (int i = 0; i < 32; ++i) out_ptr0[i] = in_ptr0[i] > 0 ? in_ptr0[i] : 0;
  | }
  |

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)

  %y = allocate : f32[4, 8] @cpu
  call @relu(%x, out %y)
  %z = allocate : f32[4, 2] @cpu
  aten::mm.out(%y, %w, out=out %z)
return %y, %z
"""

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)

    def forward(self, x, scale=None):
        y = torch.softmax(self.up(x), -1)
        return y if scale is None else y * scale


torch.manual_seed(0)
net = Net().eval()
inputs = (torch.randn(4, 8),)


def make_inputs():
    return inputs


def make():
    return net, inputs


def make_with_kwargs():
    return net, inputs, {"scale": torch.tensor(2.0)}


def make_nothing():
    return 3


def make_bare():
    return net, inputs[0]


def make_too_much():
    return net, inputs, None, None, None


def fail():
    raise RuntimeError("no weather today")


def make_misfit():
    return net, (torch.randn(4, 9),)
"""

#: A result whose storage is gone: breaks a rule of the verifier.
FAULTY = PROGRAM.replace("return %y", "  free %y\nreturn %y")

#: Not a program: an unknown word in line 18, column 8.
MISSPELT = PROGRAM.replace("%z = allocate", "%z = alocate")
