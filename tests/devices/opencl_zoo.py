"""Whole models on the OpenCL device, by name, in Python and C++; the package is on the path."""

from __future__ import annotations

import copy
import sys

import device_opencl.memory  # noqa: F401
import torch
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.zoo import CASES

for case in CASES:
    if case.name in sys.argv:
        model, args = case.make()
        model.eval().requires_grad_(False)
        there, again = (
            pytree.tree_map_only(torch.Tensor, lambda value: value.to("opencl"), args)
            for _ in range(2)
        )
        exported = torch.export.export(copy.deepcopy(model).to("opencl"), there)
        program = wir.from_fx(exported)
        torch.manual_seed(case.seed)
        results = wir.compile(program)(*pytree.tree_leaves(there))
        torch.manual_seed(case.seed)
        for result, expected in zip(results, pytree.tree_leaves(model(*args)), strict=True):
            if isinstance(expected, torch.Tensor):
                assert result.device.type == "opencl"
                torch.testing.assert_close(result.cpu(), expected)
            else:
                assert result == expected
        torch.manual_seed(case.seed)
        in_cpp = wir.compile(program, "cpp")(*pytree.tree_leaves(again))
        for result, same in zip(results, in_cpp, strict=True):
            if isinstance(result, torch.Tensor):
                assert same.device == result.device
                assert torch.equal(same.cpu(), result.cpu())
            else:
                assert same == result
        print(case.name, flush=True)
