"""Whole models on the OpenCL device, by name; the package has to be on the path."""

from __future__ import annotations

import copy
import sys

import device_opencl.memory  # noqa: F401
import torch
from device_opencl.kernels import lower
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.zoo import CASES

for case in CASES:
    if case.name in sys.argv:
        model, args = case.make()
        model.eval().requires_grad_(False)
        there = pytree.tree_map_only(torch.Tensor, lambda value: value.to("opencl"), args)
        exported = torch.export.export(copy.deepcopy(model).to("opencl"), there)
        program = lower(wir.from_fx(exported))
        torch.manual_seed(case.seed)
        results = wir.compile(program)(*pytree.tree_leaves(there))
        torch.manual_seed(case.seed)
        for result, expected in zip(results, pytree.tree_leaves(model(*args)), strict=True):
            if isinstance(expected, torch.Tensor):
                assert result.device.type == "opencl"
                torch.testing.assert_close(result.cpu(), expected)
            else:
                assert result == expected
        print(case.name, flush=True)
