"""Texts that the tests of snapshots use."""

from __future__ import annotations

#: Calls of a kernel, whose ``size``, ``op`` and ``calls`` are to be filled in.
TEXT = """
wir 2
program @p inference planned
input %x : f32[{size}] @cpu
kernel @k(in_ptr0: in f32, out_ptr0: out f32) cpp
  | extern "C" void kernel(const float* in_ptr0, float* out_ptr0) { {op}(tmp{size}, 0.5); }
  |
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  %a = allocate : f32[{size}] @cpu
{calls}
return %a
"""
